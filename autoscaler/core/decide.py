"""*decide*: one cycle's answer for one group, as a pure function of what was observed, what is remembered, and the policy.

The rules stand in one ordered table; the first that has something to say is the decision, as far as the guards (a table too)
let it pass. Equal input gives equal output: no
clock, randomness, logging or I/O, and the order of mappings does not matter.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from autoscaler.config.policy import Policy
from autoscaler.core.capacity.busy_throughput import Busy
from autoscaler.core.cycle.context import Cycle, Step, many, names, rate_text, time_text
from autoscaler.core.cycle.evaluate import read_cycle
from autoscaler.core.cycle.utilisation import carries, of_each, own_capacities, own_text, partition_text
from autoscaler.core.diff import count_steps, steps
from autoscaler.core.group.history import History, Intent, moved
from autoscaler.core.group.observed_group import follows_placement
from autoscaler.core.guards.table import guarded
from autoscaler.core.load.partition_progress import Progress
from autoscaler.core.moment import Moment
from autoscaler.core.rules import native, placed
from autoscaler.core.rules.catch_up import as_urgent, risk_text
from autoscaler.core.rules.fallback import or_fallback
from autoscaler.core.rules.offset_reset import resets, said
from autoscaler.core.rules.scaling import fill_minimum, give_back, grow, keep_maximum, relieve, shrink, wait_for_handover
from autoscaler.core.rules.unassigned import place_added, place_first, replace_lost
from autoscaler.model import CapacitySource, Decision, Observation, Reason, TopicPartition
from autoscaler.packing import UNEVEN, r_score

__all__ = ["RULES", "History", "decide", "hold"]

_LIMITS = (Reason.AT_MINIMUM, Reason.AT_MAXIMUM, Reason.PINNED)
_REBALANCING = ("PREPARING_REBALANCING", "COMPLETING_REBALANCING", "ASSIGNING", "RECONCILING")


def decide(observation: Observation, history: History, policy: Policy, moment: Moment) -> tuple[Decision, History]:
    """Return what to do now and what to remember.

    Args:
        observation: What the measurement, the control log and the group's membership say.
        history: What the previous call returned; ``History()`` or ``History.from_plan`` at the start.
        policy: What the user asks of this group.
        moment: When that is, not before the previous call's.
    """
    cycle = read_cycle(observation, history, policy, moment)
    step = _choose(cycle)
    decision = _answer(cycle, step)
    return decision, _remember(cycle, step, decision)


def _choose(cycle: Cycle) -> Step:
    """Return the first answer. One to a limit of the operator's that is held keeps no later rule from acting."""
    held = None
    for step in (s for rule in _rules(cycle) if (s := rule(cycle)) is not None):
        left = guarded(cycle, step)
        idle = left.target is None and left.requested is None
        if left is not step and idle and step.reason in _LIMITS:
            held = held or left
        else:
            return held if held is not None and idle else left
    msg = "the last rule always answers"
    raise AssertionError(msg)


def _as_published(cycle: Cycle) -> Step | None:
    """Do as a published policy says; its module is loaded only where the configuration names one."""
    from autoscaler.core.rules.published import as_published  # noqa: PLC0415

    return as_published(cycle)


def _rules(cycle: Cycle) -> tuple[Callable[[Cycle], Step | None], ...]:
    policy = cycle.policy
    if policy.assignment == "native":
        return PLACED_RULES if follows_placement(cycle.observation) else NATIVE_RULES
    return RULES if policy.sizing == "rates" else PUBLISHED_RULES


def hold(  # noqa: PLR0917  what ``decide`` takes, and why it is not called
    observation: Observation, history: History, policy: Policy, moment: Moment, reason: Reason, detail: str
) -> Decision:
    """Return a decision that does nothing, with the figures of the cycle, for when something outside failed."""
    known = History(capacity=history.capacity, busy=Busy(speeds=history.busy.speeds), advice=history.advice)
    return _answer(read_cycle(observation, known, policy, moment), Step(reason=reason, detail=detail, inert=True))


def _refuse_foreign(cycle: Cycle) -> Step | None:
    members = cycle.observation.members
    if cycle.observation.state is None or members is None or not members.members:
        return None
    who = names(tuple(f"{m.client_id} at {m.host}" for m in sorted(members.members, key=lambda m: m.member_id)))
    detail = f"{len(members.members)} members subscribe with this group's id ({who}): stop them, or set assignment to native"
    return Step(reason=Reason.PAUSED, detail=detail, inert=True)


def _need_members(cycle: Cycle) -> Step | None:
    if cycle.observation.state is not None:
        return None
    members = cycle.observation.members
    rebalancing = members is not None and members.state.upper() in _REBALANCING
    if cycle.policy.assignment == "managed" and not rebalancing:
        outage = bool(cycle.load.rates) and not cycle.load.fresh and not cycle.observation.consumers_known
        return Step(reason=Reason.NOT_READY, detail=_unseen(cycle.observation)) if outage else None
    if members is None:
        return Step(reason=Reason.NOT_READY, detail=_unseen(cycle.observation))
    if _is_nowhere(cycle.observation) and cycle.observation.started is None:  # where we start them, the first one makes it
        detail = f"no group {cycle.policy.group!r} exists on this cluster: nobody subscribes with that id; check groups.*.group"
        return Step(reason=Reason.NOT_READY, detail=detail)
    if rebalancing:
        return Step(reason=Reason.NOT_READY, detail=f"the group is rebalancing ({members.state})")
    return None


def _unseen(observation: Observation) -> str:
    """Say why it is not known who consumes."""
    why = observation.unread_members or observation.unread
    return f"the group's members could not be read: {why}" if why else "the group's members have not been read yet"


def _is_nowhere(observation: Observation) -> bool:
    """Say whether neither Kafka nor the control log knows a group of this id."""
    members = observation.members
    return observation.state is None and members is not None and members.state.upper() == "DEAD" and not members.members


def _need_partitions(cycle: Cycle) -> Step | None:
    if cycle.load.partitions:
        return None
    if parked := cycle.present.parked:
        kept = frozenset(sorted(cycle.present.slots)[: cycle.floor])
        return Step(reason=Reason.STUCK_PARTITION, detail="nothing else is left to consume", requested=kept, hot=_first(parked))
    if not cycle.load.absent and cycle.load.unmatched:
        return Step(reason=Reason.NOT_READY, detail=_unmatched(cycle))
    why = cycle.observation.snapshot.error or "the measurement lists none yet"
    return Step(reason=Reason.NOT_READY, detail=f"topics {names(cycle.policy.topics)} have no known partitions: {why}")


def _need_rates(cycle: Cycle) -> Step | None:
    if cycle.load.rates:
        return None
    count = len(cycle.load.partitions)
    return Step(reason=Reason.NOT_READY, detail=f"none of {count} partitions has a rate yet: {_error(cycle)}")


def _need_fresh(cycle: Cycle) -> Step | None:
    stale = cycle.load.stale
    if not stale:
        return None
    detail = (
        f"{len(stale)} of {len(cycle.load.partitions)} partitions ({names(stale)}) were measured {cycle.load.oldest_s:.0f} s "
        f"ago, more than {cycle.policy.stale_after_s:g} s: {_error(cycle)}"
    )
    growing = grow(cycle) if cycle.policy.sizing == "rates" else None
    return replace(growing, detail=f"{growing.detail}; {detail}") if growing else Step(reason=Reason.STALE_INPUT, detail=detail)


def _need_fresh_count(cycle: Cycle) -> Step | None:
    """Let a native group grow by rates that are partly old, and do nothing else by them."""
    step = _need_fresh(cycle)
    if step is None:
        return None
    growing = native.grow(cycle)
    return growing if growing is not None and growing.requested else replace(step, target=None, requested=None, counted=True)


def _error(cycle: Cycle) -> str:
    errors = sorted({x.error for x in cycle.observation.snapshot.loads if x.error})
    return errors[0] if errors else cycle.observation.snapshot.error or "no read has failed"


def _wait_for_application(cycle: Cycle) -> Step | None:
    """Change nothing while most of what there is to do stands still: more consumers would stand still too."""
    load, patience = cycle.load, cycle.policy.stuck_after_s
    if not load.halted:
        return None
    detail = (
        f"{len(load.stalled)} partitions ({names(load.stalled)}) are held by live consumers and have not advanced for "
        f"{patience:g} s: the application, or what it writes to, stands still"
    )
    return Step(reason=Reason.STUCK_PARTITION, detail=detail, hot=load.stalled[:5])


def _wait_for_application_counted(cycle: Cycle) -> Step | None:
    step = _wait_for_application(cycle)
    return replace(step, counted=True) if step is not None else None


def _end_idle(cycle: Cycle) -> Step | None:
    idle = sorted(_removable(cycle) - (cycle.present.requested or frozenset()))
    if not idle:
        return None
    return Step(reason=Reason.UNDERUSED, detail=f"consumers {names(idle)} hold nothing and are not requested: they end")


def _removable(cycle: Cycle) -> frozenset[int]:
    """Return live consumers that hold nothing and are owed nothing; none while anything is still changing hands."""
    if not _places(cycle.observation) or cycle.present.pending:
        return frozenset()
    return cycle.present.live - cycle.present.occupied


def _places(observation: Observation) -> bool:
    """Say whether who holds what is decided here, and carried out."""
    return observation.state is not None or (observation.started is not None and follows_placement(observation))


def _first(partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(partitions)[:5])


def _rest(cycle: Cycle) -> Step:
    step, present = _settled(cycle), cycle.present
    if cycle.risks:
        return as_urgent(cycle, step)
    if stuck := (*_first(present.parked), *cycle.load.stalled):
        return replace(step, reason=Reason.STUCK_PARTITION, hot=stuck[:5])
    return replace(step, reason=Reason.OFFSET_OUT_OF_RANGE, hot=_first(present.astray)) if present.astray else step


def _rest_counted(cycle: Cycle) -> Step:
    step = replace(_rest(cycle), counted=True)
    unheld = tuple(p for p in cycle.present.unplaced if cycle.load.rates.get(p, 0.0) > 0)
    if not unheld or step.reason is Reason.RETENTION_AT_RISK:
        return step
    detail = (
        f"{many(len(unheld), 'partition')} ({names(unheld)}) with {rate_text(sum(cycle.load.rates[p] for p in unheld))} "
        "are held by no member: consumers find new ones when they refresh their metadata (metadata.max.age.ms)"
    )
    return replace(step, reason=Reason.PARTITIONS_CHANGED, detail=f"{step.detail}; {detail}", hot=unheld[:5])


def _settled(cycle: Cycle) -> Step:
    size, usable = cycle.size, cycle.policy.usable_bytes_per_s
    if size.oversized:
        first = size.oversized[0]
        most, has = partition_text(cycle, first, usable)
        ceiling = len(cycle.present.holders) == len(cycle.load.partitions)
        detail = (
            f"{len(size.oversized)} partitions ({names(size.oversized)}) are above the {most} of one consumer: "
            f"{first} has {has}, and no number of consumers helps it"
        )
        limit = Reason.AT_PARTITION_CEILING if ceiling else None
        return Step(reason=Reason.PARTITION_EXCEEDS_CAPACITY, limited_by=limit, detail=detail, hot=size.oversized[:5])
    hottest, load = size.hottest
    detail = (
        f"{rate_text(cycle.load.total_bytes_per_s)} on {many(len(cycle.present.live), 'consumer')}, the hottest ({hottest}) with "
        f"{carries(cycle, hottest, load)} of {carries(cycle, hottest, usable)} usable"
    )
    return Step(reason=Reason.WITHIN_TARGET, detail=detail)


RULES: tuple[Callable[[Cycle], Step | None], ...] = (
    _refuse_foreign,
    _need_partitions,
    _need_members,
    replace_lost,
    or_fallback(place_first),
    place_added,
    or_fallback(_need_rates),
    _wait_for_application,
    or_fallback(_need_fresh),
    wait_for_handover,
    keep_maximum,
    give_back,
    relieve,
    fill_minimum,
    shrink,
    _end_idle,
    _rest,
)

NATIVE_RULES: tuple[Callable[[Cycle], Step | None], ...] = (
    native.refuse_managed,
    _need_partitions,
    native.settle,
    _need_members,
    native.start_first,
    native.refuse_unpredictable,
    or_fallback(_need_rates),
    _wait_for_application_counted,
    native.keep_bounds,
    or_fallback(_need_fresh_count),
    native.give_back,
    native.grow,
    native.shrink,
    _rest_counted,
)

PLACED_RULES: tuple[Callable[[Cycle], Step | None], ...] = (
    native.refuse_managed,
    _need_partitions,
    placed.settle_members,
    native.refuse_unpredictable,
    placed.follow,
    replace_lost,
    or_fallback(place_first),
    place_added,
    or_fallback(_need_rates),
    _wait_for_application,
    or_fallback(_need_fresh),
    keep_maximum,
    give_back,
    relieve,
    fill_minimum,
    shrink,
    _end_idle,
    _rest,
)


# Who sizes by a published policy leaves these to it.
_SIZING = {give_back, relieve, fill_minimum, shrink}
PUBLISHED_RULES = tuple(r for r in (*RULES[:-2], _as_published, *RULES[-2:]) if r not in _SIZING)


def _answer(cycle: Cycle, step: Step) -> Decision:
    observation, load, present, size, policy = cycle.observation, cycle.load, cycle.present, cycle.size, cycle.policy
    step = _unless_oversized(cycle, step)
    astray = resets(cycle)
    detail = (
        step.detail,
        _advice(cycle) if policy.mode == "advise" else "",
        _parked(cycle),
        _standing(cycle),
        said(present.astray, astray, policy.reset_policy),
        _absent(cycle),
        _unmatched(cycle) if load.partitions else "",
        risk_text(cycle) if cycle.risks and step.reason is not Reason.RETENTION_AT_RISK else "",
        native.doubt(cycle),
        _capacity(cycle),
        own_text(cycle),
    )
    observed = observation.state.owner if observation.state is not None else present.owner
    target = dict(sorted((observed if step.target is None else step.target).items()))
    wanted = step.requested if step.requested is not None else _requested(cycle)
    if not step.inert and not step.counted:
        wanted |= set(target.values())
    requested = _requested(cycle)
    first_moves = observation.state is None and bool(moved(present.owner, target))  # a member that ends is a rebalance of its own
    actions = (
        ()
        if step.inert
        else count_steps(requested=requested, wanted=wanted)
        if step.counted
        else steps(
            observed if step.target is None else present.owner,
            target,
            requested=requested,
            wanted=wanted,
            removable=frozenset() if first_moves else _removable(cycle),
            parked=present.parked,
            resets=astray,
        )
    )
    advised, advice = policy.mode == "advise", cycle.history.advice
    return Decision(
        decision_id=f"{observation.group}/{int(observation.snapshot.sample_ts * 1000)}",
        group=observation.group,
        at=cycle.at,
        mode=policy.mode,
        reason=step.reason,
        limited_by=Reason.ADVISORY if advised else step.limited_by,
        actions=actions,
        target=target,
        requested=wanted,
        consumers_now=len(present.live) if observation.consumers_known else None,
        consumers=len(wanted) if observation.consumers_known or step.requested is not None or step.target is not None else 0,
        recommended=None if advice is None else advice.consumers,
        recommended_age_s=None if advice is None else max(0.0, cycle.now - advice.at),
        lower_bound=size.lower_bound if load.rates else None,
        r_score=r_score(load.rates, policy.usable_bytes_per_s, present.owner, target),
        imbalance=size.imbalance,
        oversized=size.oversized,
        usable_bytes_per_s=policy.usable_bytes_per_s,
        capacity_bytes_per_s=policy.able_bytes_per_s,
        total_bytes_per_s=load.total_bytes_per_s if load.measured else None,
        total_lag_records=load.lag_records,
        algorithm=UNEVEN if cycle.planner.gauge else policy.planner,
        policy_fingerprint=policy.fingerprint,
        epoch=present.epoch,
        detail="; ".join(filter(None, detail)),
        hot=step.hot,
        parked=tuple(sorted(present.parked)),
        capacity_source=cycle.capacity.source,
        capacity_samples=cycle.capacity.samples,
        capacity_age_s=None if cycle.capacity.at is None else max(0.0, cycle.now - cycle.capacity.at),
        capacity_records_per_s=policy.capacity_records_per_s,
        own_bytes_per_s=own_capacities(cycle),
    )


def _requested(cycle: Cycle) -> frozenset[int]:
    """Return the consumers asked for so far: who is there, where nobody is asked for by this controller."""
    started = cycle.observation.started
    return (cycle.present.requested if started is None else started.requested) or frozenset()


def _unless_oversized(cycle: Cycle, step: Step) -> Step:
    """Report a partition above capacity rather than a shrinking that is held: it is what the operator can act on."""
    idle = step.target is None and step.requested is None
    return _rest(cycle) if idle and step.reason is Reason.UNDERUSED and step.limited_by and cycle.size.oversized else step


def _advice(cycle: Cycle) -> str:
    """Say what a load-aware placement would give, whatever the reason of this cycle."""
    planned, present, size = cycle.size.planned, cycle.present, cycle.size
    if planned is None or not (cycle.load.fresh or cycle.observation.consumers_known):
        return ""
    after = max(cycle.planner.gauge.levels(cycle.load.rates, planned.owner).values(), default=0.0)
    now = f"now {many(len(present.live), 'consumer')}, the hottest with {rate_text(size.hottest[1])}"
    if not cycle.observation.consumers_known:
        why = cycle.observation.unread_members or cycle.observation.unread
        seen = cycle.observation.members is not None
        now = f"its consumers are not known: {why or ('they join anew' if seen else 'they have not been read yet')}"
    elif _is_nowhere(cycle.observation) and cycle.policy.assignment == "managed":
        now = f"no group {cycle.policy.group!r} exists on this cluster yet"
    return (
        f"{now}; placed by load: {many(planned.consumers, 'consumer')} of {of_each(cycle, cycle.policy.usable_bytes_per_s)}, "
        f"the hottest with {rate_text(after)}, {many(len(moved(present.owner, planned.owner)), 'partition')} moved"
    )


def _parked(cycle: Cycle) -> str:
    """Say which partitions stand still, since what, and what ends it."""
    parked = cycle.present.parked
    if not parked:
        return ""
    first, why = min(parked.items())
    return (
        f"{many(len(parked), 'partition')} ({names(tuple(sorted(parked)))}) parked, {first} at offset {why.offset} "
        f"after {why.owners} consumers in a row were lost there: see autoscaler release"
    )


_SAID = {
    Progress.STALL: "at a standstill although held, counting as no load",
    Progress.STOP: "at a standstill, held by nobody",
    Progress.REWIND: "set back",
    Progress.OPEN_TRANSACTION: "read up to a transaction that stays open",
}


def _standing(cycle: Cycle) -> str:
    """Say which partitions do not get on, and how each of them does not."""
    found = {
        kind: tuple(sorted(p for p, x in cycle.progress.items() if x is kind))
        for kind in _SAID
        if kind is not Progress.STALL or not cycle.load.halted
    }
    return "; ".join(f"{_SAID[kind]}: {names(ps)}" for kind, ps in found.items() if ps)


def _absent(cycle: Cycle) -> str:
    """Say which topics the figures leave out, so that nobody takes them for idle."""
    absent = cycle.load.absent if cycle.load.partitions else ()
    return f"topics {names(absent)} are not measured: {cycle.load.error or 'nothing is known of them yet'}" if absent else ""


def _capacity(cycle: Cycle) -> str:
    """Say what a consumer is taken for where nobody has configured it."""
    capacity = cycle.capacity
    taken = f"a consumer is taken for {rate_text(capacity.bytes_per_s)}"
    if capacity.source is CapacitySource.CONFIGURED:
        return ""
    if capacity.at is None or capacity.measured_bytes_per_s is None:
        known = capacity.source is CapacitySource.MEASURED
        return f"{taken}, {'as measured before the restart' if known else 'not measured yet'}"
    ago = f"{many(capacity.samples, 'window')}, the last {time_text(max(0.0, cycle.now - capacity.at))} ago"
    if capacity.bounded:
        return f"{taken}, the bound: measured {rate_text(capacity.measured_bytes_per_s)} ({ago}); see capacity_prior_bytes_per_s"
    return f"{taken}, measured ({ago})"


def _unmatched(cycle: Cycle) -> str:
    """Say which patterns mean nothing yet: a misspelt one looks the same."""
    found = cycle.load.unmatched
    return f"no topic that this user may describe matches {names(found)} yet" if found else ""


def _remember(cycle: Cycle, step: Step, decision: Decision) -> History:
    history, started = cycle.history, cycle.observation.started
    since = (cycle.now if history.waiting_since is None else history.waiting_since) if step.waiting else None
    requested = _requested(cycle)
    scales = decision.requested != requested
    moves = bool(moved(cycle.present.owner, decision.target))
    acting = (
        bool(decision.actions) and cycle.policy.mode == "act" and (started is not None or cycle.observation.state is not None)
    )
    if not acting or not (scales or moves):
        return replace(history, waiting_since=since, intent=None)
    intent = Intent(
        epoch=cycle.present.epoch, scales=scales, moves=moves, consumers=len(requested),
        by=len(decision.requested) - len(requested), at=cycle.now,
    )  # fmt: skip
    if started is None:
        return replace(history, waiting_since=since, intent=intent)
    intent = replace(intent, requested=decision.requested, placement=decision.target if moves else None)
    return replace(history, waiting_since=cycle.now if scales else since, intent=intent)
