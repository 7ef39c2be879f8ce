"""*decide*: one cycle's answer for one group, as a pure function of what was observed, what is remembered, and the policy.

The rules stand in one ordered table; the first that has something to say is the decision, as far as the guards (a table too)
let it pass. Equal input gives equal output: no
clock, randomness, logging or I/O, and the order of mappings does not matter.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from autoscaler.config.policy import Policy
from autoscaler.core.capacity.busy_throughput import Busy
from autoscaler.core.cycle.context import Cycle, Step, error_of
from autoscaler.core.cycle.evaluate import read_cycle
from autoscaler.core.cycle.utilisation import carries, of_each, of_partition, own_capacities, own_findings
from autoscaler.core.diff import count_steps, steps
from autoscaler.core.group.history import History, Intent, moved
from autoscaler.core.group.observed_group import follows_placement
from autoscaler.core.guards.table import guarded
from autoscaler.core.load.partition_progress import Progress
from autoscaler.core.messages import text_of
from autoscaler.core.moment import Moment
from autoscaler.core.rules import native, placed
from autoscaler.core.rules.catch_up import as_urgent, risk_findings
from autoscaler.core.rules.fallback import or_fallback
from autoscaler.core.rules.offset_reset import found, resets
from autoscaler.core.rules.scaling import fill_minimum, give_back, grow, keep_maximum, relieve, shrink, wait_for_handover
from autoscaler.core.rules.unassigned import no_rates, place_added, place_first, replace_lost
from autoscaler.model import CapacitySource, Decision, Finding, Observation, Reason, ResetOffset, TopicPartition
from autoscaler.model.findings import What
from autoscaler.packing import UNEVEN, r_score

__all__ = ["RULES", "History", "decide", "hold"]

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
        if left is not step and left.idle and step.to_limit:
            held = held or left
        else:
            return held if held is not None and left.idle else left
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
    observation: Observation, history: History, policy: Policy, moment: Moment, reason: Reason, error: str
) -> Decision:
    """Return a decision that does nothing, with the figures of the cycle, for when something outside failed."""
    known = History(capacity=history.capacity, busy=Busy(speeds=history.busy.speeds), advice=history.advice)
    return _answer(
        read_cycle(observation, known, policy, moment),
        Step(reason=reason, findings=(Finding.of(What.FAILED, error=error),), inert=True),
    )


def _refuse_foreign(cycle: Cycle) -> Step | None:
    members = cycle.observation.members
    if cycle.observation.state is None or members is None or not members.members:
        return None
    who = [f"{m.client_id} at {m.host}" for m in sorted(members.members, key=lambda m: m.member_id)]
    finding = Finding.of(What.FOREIGN_MEMBERS, members=len(who), who=_named(who))
    return Step(reason=Reason.PAUSED, findings=(finding,), inert=True)


def _need_members(cycle: Cycle) -> Step | None:
    if cycle.observation.state is not None:
        return None
    members = cycle.observation.members
    rebalancing = members is not None and members.state.upper() in _REBALANCING
    if cycle.policy.assignment == "managed" and not rebalancing:
        outage = bool(cycle.load.rates) and not cycle.load.fresh and not cycle.observation.consumers_known
        return _unseen(cycle.observation) if outage else None
    if members is None:
        return _unseen(cycle.observation)
    if _is_nowhere(cycle.observation) and cycle.observation.started is None:  # where we start them, the first one makes it
        return Step(reason=Reason.NOT_READY, findings=(Finding.of(What.NO_SUCH_GROUP, group=cycle.policy.group),))
    if rebalancing:
        return Step(reason=Reason.NOT_READY, findings=(Finding.of(What.REBALANCING, state=members.state),))
    return None


def _unseen(observation: Observation) -> Step:
    """Wait until it is known who consumes, and say why it is not."""
    why = observation.unread_members or observation.unread
    finding = Finding.of(What.MEMBERS_UNREADABLE, error=why) if why else Finding.of(What.MEMBERS_NOT_READ)
    return Step(reason=Reason.NOT_READY, findings=(finding,))


def _is_nowhere(observation: Observation) -> bool:
    """Say whether neither Kafka nor the control log knows a group of this id."""
    members = observation.members
    return observation.state is None and members is not None and members.state.upper() == "DEAD" and not members.members


def _need_partitions(cycle: Cycle) -> Step | None:
    if cycle.load.partitions:
        return None
    if parked := cycle.present.parked:
        kept = frozenset(sorted(cycle.present.slots)[: cycle.floor])
        why = (Finding.of(What.NOTHING_TO_CONSUME),)
        return Step(reason=Reason.STUCK_PARTITION, findings=why, requested=kept, hot=_first(parked), ordered=True)
    if not cycle.load.absent and cycle.load.unmatched:
        return Step(reason=Reason.NOT_READY, findings=tuple(_unmatched(cycle)))
    error = cycle.observation.snapshot.error or "the measurement lists none yet"
    finding = Finding.of(What.NO_PARTITIONS, topics=_named(cycle.policy.topics), error=error)
    return Step(reason=Reason.NOT_READY, findings=(finding,))


def _need_rates(cycle: Cycle) -> Step | None:
    return None if cycle.load.rates else no_rates(cycle)


def _need_fresh(cycle: Cycle) -> Step | None:
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


def _need_fresh_count(cycle: Cycle) -> Step | None:
    """Let a native group grow by rates that are partly old, and do nothing else by them."""
    step = _need_fresh(cycle)
    if step is None:
        return None
    growing = native.grow(cycle)
    return growing if growing is not None and growing.requested else replace(step, target=None, requested=None, counted=True)


def _wait_for_application(cycle: Cycle) -> Step | None:
    """Change nothing while most of what there is to do stands still: more consumers would stand still too."""
    load, patience = cycle.load, cycle.policy.stuck_after_s
    if not load.halted:
        return None
    finding = Finding.of(What.APPLICATION_STILL, partitions=load.stalled, patience_s=patience)
    return Step(reason=Reason.STUCK_PARTITION, findings=(finding,), hot=load.stalled[:5])


def _wait_for_application_counted(cycle: Cycle) -> Step | None:
    step = _wait_for_application(cycle)
    return replace(step, counted=True) if step is not None else None


def _end_idle(cycle: Cycle) -> Step | None:
    idle = sorted(_removable(cycle) - (cycle.present.requested or frozenset()))
    if not idle:
        return None
    return Step(reason=Reason.UNDERUSED, findings=(Finding.of(What.END_IDLE, consumers=idle),))


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
        findings = (*_not_advancing(cycle), *step.findings)
        return replace(step, reason=Reason.STUCK_PARTITION, findings=findings, hot=stuck[:5])
    if not present.astray:
        return step
    findings = (*found(present.astray, resets(cycle), cycle.policy.reset_policy), *step.findings)
    return replace(step, reason=Reason.OFFSET_OUT_OF_RANGE, findings=findings, hot=_first(present.astray))


def _rest_counted(cycle: Cycle) -> Step:
    step = replace(_rest(cycle), counted=True)
    unheld = tuple(p for p in cycle.present.unplaced if cycle.load.rates.get(p, 0.0) > 0)
    if not unheld or cycle.risks:
        return step
    finding = Finding.of(What.UNHELD, partitions=unheld, rate_bytes_per_s=sum(cycle.load.rates[p] for p in unheld))
    return replace(step, reason=Reason.PARTITIONS_CHANGED, findings=(finding, *step.findings), hot=unheld[:5])


def _settled(cycle: Cycle) -> Step:
    size, usable = cycle.size, cycle.policy.usable_bytes_per_s
    if size.oversized:
        first = size.oversized[0]
        ceiling = len(cycle.present.holders) == len(cycle.load.partitions)
        limit = Reason.AT_PARTITION_CEILING if ceiling else None
        finding = Finding.of(What.OVERSIZED, partitions=size.oversized, numbers=of_partition(cycle, first, usable))
        return Step(reason=Reason.PARTITION_EXCEEDS_CAPACITY, limited_by=limit, findings=(finding,), hot=size.oversized[:5])
    hottest, load = size.hottest
    finding = Finding.of(
        What.WITHIN_TARGET,
        total_bytes_per_s=cycle.load.total_bytes_per_s,
        live=len(cycle.present.live),
        hottest=hottest,
        numbers=carries(cycle, hottest, "load", load) | carries(cycle, hottest, "usable", usable),
    )
    return Step(reason=Reason.WITHIN_TARGET, findings=(finding,))


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
    advised = policy.mode == "advise"
    limited_by = Reason.ADVISORY if advised else step.limited_by
    findings = (
        replace(step.findings[0], reason=step.reason, limit=limited_by),
        *step.findings[1:],
        *(f for f in _beside(cycle, astray) if f not in step.findings),
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
    advice = cycle.history.advice
    return Decision(
        decision_id=f"{observation.group}/{int(observation.snapshot.sample_ts * 1000)}",
        group=observation.group,
        at=cycle.at,
        mode=policy.mode,
        reason=step.reason,
        limited_by=limited_by,
        actions=actions,
        target=target,
        requested=wanted,
        consumers_now=len(present.live) if observation.consumers_known else None,
        consumers=len(wanted),
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
        detail=text_of(findings),
        hot=step.hot,
        parked=tuple(sorted(present.parked)),
        capacity_source=cycle.capacity.source,
        capacity_samples=cycle.capacity.samples,
        capacity_age_s=None if cycle.capacity.at is None else max(0.0, cycle.now - cycle.capacity.at),
        capacity_records_per_s=policy.capacity_records_per_s,
        own_bytes_per_s=own_capacities(cycle),
        findings=findings,
    )


def _requested(cycle: Cycle) -> frozenset[int]:
    """Return the consumers asked for so far: those that run, where this controller starts none; none where they are not known."""
    started = cycle.observation.started
    if started is not None:
        return started.requested or frozenset()
    return (cycle.present.requested or frozenset()) if cycle.observation.consumers_known else frozenset()


def _unless_oversized(cycle: Cycle, step: Step) -> Step:
    """Report a partition above capacity rather than a shrinking that is held: it is what the operator can act on."""
    return _rest(cycle) if step.spares and step.idle and cycle.size.oversized else step


def _beside(cycle: Cycle, resets_now: tuple[ResetOffset, ...]) -> Iterator[Finding]:
    """Yield what is worth saying whatever the reason of this cycle."""
    if cycle.policy.mode == "advise":
        yield from _advice(cycle)
    yield from _not_advancing(cycle)
    yield from found(cycle.present.astray, resets_now, cycle.policy.reset_policy)
    if cycle.load.partitions:
        if absent := cycle.load.absent:
            error = cycle.load.error or "nothing is known of them yet"
            yield Finding.of(What.TOPICS_NOT_MEASURED, topics=_named(absent), error=error)
        yield from _unmatched(cycle)
    yield from risk_findings(cycle)
    yield from native.doubt(cycle)
    yield from _capacity(cycle)
    yield from own_findings(cycle)


def _advice(cycle: Cycle) -> Iterator[Finding]:
    """Yield what a load-aware placement would give."""
    planned, present, size = cycle.size.planned, cycle.present, cycle.size
    if planned is None or not (cycle.load.fresh or cycle.observation.consumers_known):
        return
    after = max(cycle.planner.gauge.levels(cycle.load.rates, planned.owner).values(), default=0.0)
    if not cycle.observation.consumers_known:
        seen = "they join anew" if cycle.observation.members is not None else "they have not been read yet"
        why = cycle.observation.unread_members or cycle.observation.unread or seen
        yield Finding.of(What.CONSUMERS_NOT_KNOWN, error=why)
    elif _is_nowhere(cycle.observation) and cycle.policy.assignment == "managed":
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


def _not_advancing(cycle: Cycle) -> Iterator[Finding]:
    """Yield which partitions are parked, since what, and which others do not get on, and how each of them does not."""
    if parked := cycle.present.parked:
        first = min(parked)
        yield Finding.of(What.PARKED, partitions=sorted(parked), offset=parked[first].offset, owners=parked[first].owners)
    for kind, what in _SAID.items():
        which = sorted(p for p, x in cycle.progress.items() if x is kind)
        if which and (kind is not Progress.STALL or not cycle.load.halted):
            yield Finding.of(what, partitions=which)


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


def _unmatched(cycle: Cycle) -> Iterator[Finding]:
    """Yield which patterns mean nothing yet: a misspelt one looks the same."""
    if unmatched := cycle.load.unmatched:
        yield Finding.of(What.TOPICS_UNMATCHED, patterns=_named(unmatched))


def _named(values: Sequence[str], most: int = 4) -> str:
    """Return the first few of many names."""
    more = f" and {len(values) - most} more" if len(values) > most else ""
    return ", ".join(values[:most]) + more


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
