"""What is worth saying whatever a cycle's reason is: advice, partitions that do not advance, what is not measured, capacity."""

from collections.abc import Collection, Iterator

from autoscaler.core.cycle.context import Cycle, error_of
from autoscaler.core.cycle.utilisation import of_each, own_findings
from autoscaler.core.group.history import moved
from autoscaler.core.load.partition_progress import Progress
from autoscaler.core.load.record_ages import EMPTIEST
from autoscaler.core.rules import native
from autoscaler.core.rules.catch_up import risk_findings
from autoscaler.core.rules.offset_reset import found
from autoscaler.model import CapacitySource, Finding, ResetOffset
from autoscaler.model.findings import What

_UNREAD = frozenset({What.STALE, What.NO_RATES})


def beside(cycle: Cycle, resets_now: tuple[ResetOffset, ...], said: Collection[What] = ()) -> Iterator[Finding]:
    """Yield what is worth saying whatever the reason of this cycle.

    Args:
        cycle: What is observed.
        resets_now: Offsets that this cycle's actions reset.
        said: What this cycle's reason says already.
    """
    if cycle.policy.mode == "advise":
        yield from _advice(cycle)
    yield from not_advancing(cycle)
    yield from found(cycle.present.out_of_range, resets_now, cycle.policy.reset_policy)
    if cycle.load.partitions:
        if _UNREAD.isdisjoint(said):
            yield from _nothing_measured(cycle)
        if absent := cycle.load.absent:
            yield Finding.of(What.TOPICS_NOT_MEASURED, topics=absent, error=cycle.load.error)
        yield from unmatched(cycle)
    yield from risk_findings(cycle)
    yield from native.doubt(cycle)
    yield from _promise(cycle)
    yield from _capacity(cycle)
    yield from own_findings(cycle)


def _nothing_measured(cycle: Cycle) -> Iterator[Finding]:
    """Yield why not one partition could be read: rates are of an earlier measurement then, and look as if nothing was wrong."""
    loads = cycle.observation.snapshot.loads
    if all(x.error and not x.known for x in loads):
        yield Finding.of(What.NOTHING_MEASURED, listed=len(loads), error=error_of(cycle))


def _advice(cycle: Cycle) -> Iterator[Finding]:
    """Yield what a load-aware placement would give."""
    planned, present, size = cycle.size.planned, cycle.present, cycle.size
    if planned is None or not (cycle.load.fresh or cycle.observation.consumers_known):
        return
    after = max(cycle.planner.gauge.levels(cycle.load.rates, planned.owner).values(), default=0.0)
    if not cycle.observation.consumers_known:
        yield Finding.of(What.CONSUMERS_NOT_KNOWN, error=cycle.observation.why_unread, state=cycle.kind.phase or None)
    elif cycle.kind.nowhere and not cycle.kind.native:
        yield Finding.of(What.GROUP_NOT_THERE_YET, group=cycle.policy.group)
    else:
        yield Finding.of(What.NOW, live=len(present.live), load_bytes_per_s=size.hottest[1])
    yield Finding.of(
        What.PLACED_BY_LOAD,
        planned=planned.consumers,
        load_bytes_per_s=after,
        moved=len(moved(present.owner, planned.owner)),
        numbers=of_each(cycle, "usable", cycle.policy.usable_bytes_per_s),
    )


_SAID = {
    Progress.STALL: What.STALLED,
    Progress.STOP: What.STOPPED,
    Progress.REWIND: What.SET_BACK,
    Progress.OPEN_TRANSACTION: What.OPEN_TRANSACTION,
}


def not_advancing(cycle: Cycle) -> Iterator[Finding]:
    """Yield which partitions are parked, since what, and which others do not get on, and how each of them does not."""
    if parked := cycle.present.parked:
        first = min(parked)
        yield Finding.of(What.PARKED, partitions=sorted(parked), offset=parked[first].offset, owners=parked[first].owners)
    for kind, what in _SAID.items():
        which = sorted(p for p, x in cycle.progress.items() if x is kind)
        if which and (kind is not Progress.STALL or not cycle.load.halted):
            yield Finding.of(what, partitions=which)


def _promise(cycle: Cycle) -> Iterator[Finding]:
    """Yield what is done for the promise that a share of the records is processed within a time, and whether it is kept."""
    policy, ages = cycle.policy, cycle.history.ages
    if policy.promise_within_s is None:
        return
    figures = {"within_s": policy.promise_within_s, "target_ratio": policy.target_utilisation}
    if not cycle.kind.by_plan or not ages.known:
        why = "its workers have told of too few records" if cycle.kind.by_plan else "only workers of a managed group tell that"
        yield Finding.of(What.PROMISE_UNSEEN, why=why, behind_s=policy.backlog_s, numbers=figures)
        return
    late, allowed = ages.late_share, 1 - policy.promise_share
    if late <= allowed:
        yield Finding.of(What.PROMISED, share=f"{100 * policy.promise_share:.4g} %", late=_percent(late), numbers=figures)
    elif policy.target_utilisation <= EMPTIEST:
        yield Finding.of(What.PROMISE_HOPELESS, late=_percent(late), numbers=figures)
    else:
        yield Finding.of(What.PROMISE_BROKEN, late=_percent(late), allowed=_percent(allowed), numbers=figures)


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _capacity(cycle: Cycle) -> Iterator[Finding]:
    """Yield what a consumer is taken for where that is not configured."""
    capacity = cycle.capacity
    if capacity.source is CapacitySource.CONFIGURED:
        return
    if capacity.at is None or capacity.measured_bytes_per_s is None:
        known = capacity.source is CapacitySource.MEASURED
        yield Finding.of(What.CAPACITY_KEPT if known else What.CAPACITY_ASSUMED, capacity_bytes_per_s=capacity.bytes_per_s)
        return
    yield Finding.of(
        What.CAPACITY_BOUND if capacity.bounded else What.CAPACITY_MEASURED,
        capacity_bytes_per_s=capacity.bytes_per_s,
        measured_bytes_per_s=capacity.measured_bytes_per_s,
        samples=capacity.samples,
        ago_s=max(0.0, cycle.now - capacity.at),
    )


def unmatched(cycle: Cycle) -> Iterator[Finding]:
    """Yield which patterns mean nothing yet: a misspelt one looks the same."""
    if unmatched := cycle.load.unmatched:
        yield Finding.of(What.TOPICS_UNMATCHED, patterns=unmatched)
