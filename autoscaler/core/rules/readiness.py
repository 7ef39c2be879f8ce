"""What must be known before a group is sized: who consumes, which partitions there are, their rates, and that they are fresh."""

from collections.abc import Collection
from dataclasses import replace

from autoscaler.core.cycle.context import Cycle, Step, error_of
from autoscaler.core.rules import native
from autoscaler.core.rules.beside import unmatched
from autoscaler.core.rules.scaling import grow
from autoscaler.core.rules.unassigned import no_rates
from autoscaler.model import Finding, Member, Reason
from autoscaler.model.findings import What

_REBALANCING = ("PREPARING_REBALANCING", "COMPLETING_REBALANCING", "ASSIGNING", "RECONCILING")


def refuse_foreign(cycle: Cycle) -> Step | None:
    """Touch nothing while members subscribe under the group id of a managed group: they follow no plan."""
    listed = cycle.kind.listed
    return Step(reason=Reason.PAUSED, findings=(foreign(listed),), inert=True) if listed else None


def foreign(members: Collection[Member]) -> Finding:
    """Return what is said of members that subscribe under the group id of a managed group."""
    clients, hosts = sorted({m.client_id for m in members}), sorted({m.host for m in members})
    return Finding.of(What.FOREIGN_MEMBERS, members=len(members), clients=clients, hosts=hosts)


def need_joined(cycle: Cycle) -> Step | None:
    """Wait while the members of a group that is not managed yet join anew, and while neither they nor the load can be read."""
    if cycle.kind.phase in _REBALANCING:
        return _rebalancing(cycle)
    outage = bool(cycle.load.rates) and not cycle.load.fresh and not cycle.observation.consumers_known
    return need_members(cycle) if outage else None


def need_stable(cycle: Cycle) -> Step | None:
    """Wait until Kafka knows a native group, and its members have what the group's assignor gives them."""
    kind = cycle.kind
    if kind.nowhere and not kind.acting:  # where we start them, the first one makes it
        return Step(reason=Reason.NOT_READY, findings=(Finding.of(What.NO_SUCH_GROUP, group=cycle.policy.group),))
    return _rebalancing(cycle) if kind.phase in _REBALANCING else None


def need_members(cycle: Cycle) -> Step:
    """Wait until it is known who consumes, and say why it is not."""
    why = cycle.observation.why_unread
    finding = Finding.of(What.MEMBERS_UNREADABLE, error=why) if why else Finding.of(What.MEMBERS_NOT_READ)
    return Step(reason=Reason.NOT_READY, findings=(finding,))


def _rebalancing(cycle: Cycle) -> Step:
    return Step(reason=Reason.NOT_READY, findings=(Finding.of(What.REBALANCING, state=cycle.kind.phase),))


def need_partitions(cycle: Cycle) -> Step | None:
    """Wait until a partition is measured; of parked ones alone keep the minimum of consumers."""
    if cycle.load.partitions:
        return None
    if parked := cycle.present.parked:
        kept = frozenset(sorted(cycle.present.slots)[: cycle.floor])
        why = (Finding.of(What.NOTHING_TO_CONSUME),)
        return Step(reason=Reason.STUCK_PARTITION, findings=why, requested=kept, hot=tuple(sorted(parked)), ordered=True)
    if not cycle.load.absent and cycle.load.unmatched:
        return Step(reason=Reason.NOT_READY, findings=tuple(unmatched(cycle)))
    finding = Finding.of(What.NO_PARTITIONS, topics=cycle.policy.topics, error=cycle.observation.snapshot.error)
    return Step(reason=Reason.NOT_READY, findings=(finding,))


def need_rates(cycle: Cycle) -> Step | None:
    """Wait until the rate of some partition is known."""
    return None if cycle.load.rates else no_rates(cycle)


def need_fresh(cycle: Cycle) -> Step | None:
    """Do nothing by old measurements but grow, where what is fresh is enough to ask for more."""
    stale = cycle.load.stale
    if not stale:
        return None
    finding = Finding.of(
        What.STALE,
        partitions=stale,
        stale=len(stale),
        listed=len(cycle.load.partitions),
        oldest_s=cycle.load.oldest_s,
        limit_s=cycle.policy.stale_after_s,
        error=error_of(cycle),
    )
    growing = grow(cycle) if cycle.policy.sizing == "rates" else None
    return growing.saying(finding) if growing else Step(reason=Reason.STALE_INPUT, findings=(finding,), unmeasured=True)


def need_fresh_count(cycle: Cycle) -> Step | None:
    """Let a native group grow by rates that are partly old, and do nothing else by them."""
    step = need_fresh(cycle)
    if step is None:
        return None
    growing = native.grow(cycle)
    return growing if growing is not None and growing.requested else replace(step, target=None, requested=None, counted=True)


def wait_for_application(cycle: Cycle) -> Step | None:
    """Change nothing while most of what there is to do stands still: more consumers would stand still too."""
    load, patience = cycle.load, cycle.policy.stuck_after_s
    if not load.halted:
        return None
    finding = Finding.of(What.APPLICATION_STILL, partitions=load.stalled, patience_s=patience)
    return Step(reason=Reason.STUCK_PARTITION, findings=(finding,), hot=load.stalled)


def wait_for_application_counted(cycle: Cycle) -> Step | None:
    """The same for a group of which only the number of consumers is set."""
    step = wait_for_application(cycle)
    return replace(step, counted=True) if step is not None else None
