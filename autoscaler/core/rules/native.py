"""Rules for a group that keeps Kafka's own membership: only the number of its consumers is set, and only when it is settled."""

from collections.abc import Iterator
from dataclasses import replace

from autoscaler.core.assignors.consumer_count import Count, Remedy, choose
from autoscaler.core.assignors.forecast import Forecast, Roof, fits, forecast
from autoscaler.core.assignors.group_model import Assignor, NativeGroup
from autoscaler.core.assignors.group_reader import Unpredictable
from autoscaler.core.cycle.context import Cycle, Step
from autoscaler.core.group.limits import Steps
from autoscaler.core.group.observed_group import numbered
from autoscaler.core.guards.conditions import Change, steps_in_vain
from autoscaler.core.guards.table import first_objection, least_consumers, most_consumers, to_give_back
from autoscaler.core.rules.catch_up import as_backlog, as_urgent, for_backlog, reading_in_time, working_off
from autoscaler.core.sizing.native_outlook import roofs
from autoscaler.model import Finding, Reason
from autoscaler.model.findings import What


def refuse_managed(cycle: Cycle) -> Step:
    """Touch nothing where workers of a plan live under the same group id."""
    finding = Finding.of(What.MANAGED_WORKERS, workers=len(cycle.kind.workers), epoch=cycle.present.epoch)
    return Step(reason=Reason.PAUSED, findings=(finding,), inert=True, counted=True)


def settle(cycle: Cycle) -> Step | None:
    """Wait until Kafka counts as many members as run; say so when that takes longer than a consumer needs to start."""
    kind = cycle.kind
    if kind.started is None:
        return None
    if kind.started.requested is None:
        return _strangers(cycle) if kind.listed else None
    if kind.complete or not (kind.started.requested or kind.listed):
        return None
    return hold(cycle, Finding.of(What.UNTIL_COUNT))


def waited(cycle: Cycle) -> float:
    """Return for how long members have been awaited, in seconds."""
    return 0.0 if cycle.history.waiting_since is None else cycle.now - cycle.history.waiting_since


def hold(cycle: Cycle, until: Finding) -> Step:
    """Do nothing else until members and consumers agree; say so when that takes longer than a consumer needs to start."""
    started = cycle.kind.started
    requested, running = (started.requested or frozenset(), started.running) if started else (frozenset(), frozenset())
    lasted, limit_s = waited(cycle), cycle.policy.worker_start_timeout_s
    differ = Finding.of(
        What.MEMBERS_DIFFER,
        requested=len(requested),
        running=len(running),
        members=_now(cycle),
        state=cycle.kind.phase,
        lasted_s=lasted,
    )
    reason = Reason.NOT_READY
    if lasted > limit_s:
        reason, until = Reason.GROUP_DIFFERS, Finding.of(What.DIFFER_TOO_LONG, limit_s=limit_s)
    return Step(reason=reason, findings=(differ, until), requested=requested, waiting=True, inert=True, counted=True)


def _strangers(cycle: Cycle) -> Step:
    finding = Finding.of(What.STRANGERS, members=_now(cycle))
    return Step(reason=Reason.GROUP_DIFFERS, findings=(finding,), requested=frozenset(), inert=True, counted=True)


def start_first(cycle: Cycle) -> Step | None:
    """Ask for as many as the load needs at least when no member consumes: who assigns, and how, shows only then."""
    if cycle.kind.listed or not cycle.load.rates:
        return None
    count = min(max(cycle.floor, cycle.size.lower_bound), max(cycle.floor, most_consumers(cycle, hard_only=True).count))
    finding = Finding.of(
        What.NOT_CONSUMED, listed=len(cycle.load.partitions), total_bytes_per_s=cycle.load.total_bytes_per_s, count=count
    )
    requested = numbered(cycle.kind.started, count)
    return Step(reason=Reason.PARTITIONS_CHANGED, findings=(finding,), requested=requested, counted=True, ordered=True)


def refuse_unpredictable(cycle: Cycle) -> Step | None:
    """Change nothing where it cannot be predicted what another number of consumers would get."""
    if cycle.outlook is None or not isinstance(cycle.outlook.group, Unpredictable):
        return None
    return Step(reason=Reason.ASSIGNOR_UNPREDICTABLE, findings=(cycle.outlook.group.why,), inert=True, counted=True)


def keep_bounds(cycle: Cycle) -> Step | None:
    """Come down to the most that may be, or up to the least, as after the settings were changed or a window has begun."""
    now, limits = _now(cycle), cycle.limits
    if now > limits.most:
        above = Finding.of(What.ABOVE_MAXIMUM, now=now, setting=limits.most_setting, most=limits.most)
        why = Step(reason=limits.at_most, findings=(above,), ordered=True, to_limit=True)
        return _ask(cycle, limits.most, why)
    if now < cycle.floor:
        below = Finding.of(What.BELOW_MINIMUM, setting=limits.least_setting, least=cycle.floor, now=now)
        return _ask(cycle, cycle.floor, Step(reason=limits.at_least, findings=(below,), ordered=True, to_limit=True))
    return None


def give_back(cycle: Cycle) -> Step | None:
    """Come down to the number before the steps up that were in vain, where the operator asks for that."""
    count = to_give_back(cycle)
    if count is None:
        return None
    findings = (steps_in_vain(cycle), Finding.of(What.DRAINED_AS_MUCH, count=count))
    return _ask(cycle, count, Step(reason=Reason.SCALING_DID_NOT_HELP, findings=findings, ordered=True))


def grow(cycle: Cycle) -> Step | None:
    """Ask for more when a consumer is overloaded, or holds more than it reads in time, and the assignor makes use of more."""
    if cycle.risks and (step := _grown(reading_in_time(cycle))) is not None:
        return as_urgent(cycle, step)
    if cycle.late and (step := _grown(working_off(cycle))) is not None:
        return for_backlog(cycle, step)
    return _grown(cycle)


def _grown(cycle: Cycle) -> Step | None:
    group, size, policy, now = _group(cycle), cycle.size, cycle.policy, _now(cycle)
    strains = _strains(cycle)
    if group is None or not strains:
        return None
    bound = most_consumers(cycle)
    most = max(now, bound.count)
    count = choose(group, cycle.load.rates, roofs(policy)[0], at_least=max(cycle.floor, now), at_most=most)
    hot = max(strains, key=lambda c: (strains[c], -c))
    strained = Finding.of(
        What.OVERLOADED, consumers=(hot,), member=cycle.kind.called(hot), load_bytes_per_s=size.loads[hot],
        limit_bytes_per_s=policy.overload_bytes_per_s,
    )  # fmt: skip
    why = Step(reason=Reason.RATE_ABOVE_CAPACITY, findings=(strained,), hot=size.hot, counted=True)
    limit = None if count.enough else _limit(cycle, count)
    worth = strains[hot] * (1 - policy.tolerance_ratio)  # at most so strained, or a step is not worth a rebalance
    gained = count.best is not None and count.best.consumers > now and count.strain < worth
    if count.best is None or not gained:
        looked_at = bound.count > now
        no_relief = Finding.of(What.NO_RELIEF, assignor=group.assignor) if looked_at else bound.finding
        return replace(why.saying(no_relief, *_remedies(cycle, count)), limited_by=limit or Reason.ASSIGNOR_LIMIT)
    remedies = () if count.enough else _remedies(cycle, count)
    wanted = numbered(cycle.kind.started, count.best.consumers)
    return replace(why.saying(*_foretold(group, count.best), *remedies), limited_by=limit, requested=wanted)


def _strains(cycle: Cycle) -> dict[int, float]:
    """Return the strain of every overloaded consumer that others could help: not of one whose largest partition is its load."""
    policy, present = cycle.policy, cycle.present
    roof = Roof(policy.overload_bytes_per_s, policy.overload_bytes_per_s, policy.tolerance_ratio)
    held = {c: [p for p, owner in present.owner.items() if owner == c] for c in cycle.size.overloaded}
    helped = [c for c, ps in held.items() if roof.strain([ps], cycle.load.rates) > 1]
    return {c: roofs(policy)[0].strain([held[c]], cycle.load.rates) for c in helped}


def shrink(cycle: Cycle) -> Step | None:
    """Ask for fewer when they would do under this assignor, and have done for as long as is remembered."""
    group, outlook, policy, now = _group(cycle), cycle.outlook, cycle.policy, _now(cycle)
    if group is None or outlook is None or outlook.calm is None or outlook.calm >= now:
        return None
    idle = sum(not c.owned for c in group.consumers)
    fits_on = Finding.of(
        What.UNDERUSED,
        total_bytes_per_s=cycle.load.total_bytes_per_s,
        enough=outlook.calm,
        now=now,
        tolerance_ratio=policy.tolerance_ratio,
        assignor=group.assignor,
    )
    findings = (fits_on, Finding.of(What.HOLD_NOTHING, count=idle)) if idle else (fits_on,)
    why = Step(reason=Reason.UNDERUSED, findings=findings, counted=True, spares=True)
    if cycle.late:
        return as_backlog(cycle, why)
    bound, needed = least_consumers(cycle), max(cycle.history.peak(), outlook.calm)
    least = max(needed, bound.count)
    objection = first_objection(cycle, Change(kind=Steps.SHRINK, consumers=least, target=None))
    if objection is not None:
        guard, found = objection
        return replace(why.saying(found), limited_by=guard.reason)
    for count in range(least, now):  # an assignor may serve a number worse than a smaller one
        if count >= len(cycle.load.partitions) or fits(group, cycle.load.rates, count, roofs(policy)[1]):
            step = _ask(cycle, count, why)
            if not max(needed, cycle.floor) < count == bound.count:
                return step
            return replace(step.saying(bound.finding), limited_by=bound.guard.reason)
    return replace(why.saying(Finding.of(What.NEEDED_LATELY, needed=least)), limited_by=Reason.STABILISING)


def _ask(cycle: Cycle, count: int, why: Step) -> Step:
    group = _group(cycle)
    told = forecast(group, cycle.load.rates, count) if group is not None and cycle.load.rates else None
    foretold = _foretold(group, told) if group is not None and told is not None else ()
    return replace(why.saying(*foretold), requested=numbered(cycle.kind.started, count), counted=True)


def _now(cycle: Cycle) -> int:
    return len(cycle.kind.listed)


def _group(cycle: Cycle) -> NativeGroup | None:
    outlook = cycle.outlook
    return outlook.group if outlook is not None and isinstance(outlook.group, NativeGroup) else None


def _limit(cycle: Cycle, count: Count) -> Reason:
    """Return what keeps the group from the number it needs."""
    group = _group(cycle)
    if count.oversized:
        return Reason.PARTITION_EXCEEDS_CAPACITY
    same = group is not None and any(r.assignor is group.assignor for r in count.remedies)
    return most_consumers(cycle).guard.reason if same else Reason.ASSIGNOR_LIMIT


def _foretold(group: NativeGroup, told: Forecast) -> tuple[Finding, ...]:
    finding = Finding.of(
        What.FORECAST,
        count=told.consumers,
        assignor=group.assignor,
        low_bytes_per_s=None if told.sure else told.low,
        high_bytes_per_s=told.high,
        idle=told.idle,
    )
    together = abs(told.consumers - len(group.consumers)) > 1 and group.assignor is Assignor.UNIFORM
    return (finding, Finding.of(What.NOT_FORETOLD)) if together else (finding,)


def _remedies(cycle: Cycle, count: Count) -> tuple[Finding, ...]:
    """Return what would be enough."""
    if count.oversized:
        return (Finding.of(What.ALONE_ABOVE, count=count.oversized),)
    return tuple(_remedy(r, cycle) for r in count.remedies)


def _remedy(remedy: Remedy, cycle: Cycle) -> Finding:
    group = _group(cycle)
    same = group is not None and remedy.assignor is group.assignor
    more_than = most_consumers(cycle).guard.setting if same else None
    return Finding.of(What.REMEDY, count=remedy.consumers, assignor=remedy.assignor, setting=more_than)


def doubt(cycle: Cycle) -> Iterator[Finding]:
    """Yield what the consumers of a native group show that speaks against the capacity that is configured for one."""
    capacity, drains = cycle.policy.capacity_bytes_per_s, cycle.history.consumer_drains
    if capacity is None:
        return  # what they show is what is gone by
    slow = drains.too_slow(capacity)
    what, seen = (What.CAPACITY_LOOKS_HIGH, slow) if slow else (What.CAPACITY_LOOKS_LOW, drains.too_fast(capacity))
    if seen:
        yield Finding.of(what, capacity_bytes_per_s=capacity, drained_bytes_per_s=seen[0], times=seen[1])
