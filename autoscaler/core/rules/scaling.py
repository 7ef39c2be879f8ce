"""Rules that change a group although every partition has a consumer: too much load, too many or too few consumers."""

from dataclasses import replace

from autoscaler.core.cycle.context import Cycle, Step
from autoscaler.core.cycle.utilisation import carries, in_all, one_of_the_group
from autoscaler.core.group.limits import Steps
from autoscaler.core.group.observed_group import pad
from autoscaler.core.guards.conditions import Change, steps_in_vain
from autoscaler.core.guards.table import Bound, first_objection, least_consumers, most_consumers, to_give_back
from autoscaler.core.rules.catch_up import as_backlog, as_urgent, for_backlog, reading_in_time, working_off
from autoscaler.core.rules.scale_out import approach, limit_of_fit, worthwhile
from autoscaler.core.sizing.size import relabel
from autoscaler.model import Finding, Reason, TopicPartition
from autoscaler.model.findings import What
from autoscaler.packing import Fitted, drain, r_score


def relieve(cycle: Cycle) -> Step | None:
    """Place anew when a consumer is overloaded and moving a partition can help; consumers never become fewer here.

    Overloaded is also who holds more than it reads in time, while records are about to be deleted or a backlog is worked off.
    """
    if cycle.risks and (step := _relieved(reading_in_time(cycle))) is not None:
        return as_urgent(cycle, step)
    if cycle.late and (step := _relieved(working_off(cycle))) is not None:
        return for_backlog(cycle, step)
    return _relieved(cycle)


def _relieved(cycle: Cycle) -> Step | None:
    size, present, policy = cycle.size, cycle.present, cycle.policy
    if not size.overloaded:
        return None
    bound = most_consumers(cycle)
    at_most = max(bound.count, min(len(present.slots), len(cycle.load.partitions)))
    fitted = cycle.planner.relieving(
        cycle.load.rates,
        policy.usable_bytes_per_s,
        present.owner,
        paid_for=min(max(cycle.floor, len(present.slots)), at_most),
        at_most=at_most,
    )
    plan, limit = fitted.plan, limit_of_fit(cycle, fitted, bound)
    why = Step(reason=Reason.RATE_ABOVE_CAPACITY, findings=_overload(cycle, fitted, bound), limited_by=limit, hot=size.hot)
    more = plan.consumers > len(present.holders)  # relieves a consumer, if not yet the one that carries most
    if fitted.capacity > policy.usable_bytes_per_s and not more and not worthwhile(cycle, plan.owner):
        return why.saying(Finding.of(What.NO_BETTER, most=at_most, tolerance_ratio=policy.tolerance_ratio))
    return approach(cycle, plan.owner, why)


def _overload(cycle: Cycle, fitted: Fitted, limit: Bound) -> tuple[Finding, ...]:
    size, policy = cycle.size, cycle.policy
    first = size.overloaded[0]
    finding = Finding.of(
        What.OVERLOADED,
        consumers=size.overloaded,
        member=cycle.kind.called(first),
        needed=fitted.plan.consumers,
        numbers=carries(cycle, first, "load", size.loads[first])
        | carries(cycle, first, "limit", policy.overload_bytes_per_s)
        | in_all(cycle, first)
        | one_of_the_group(cycle, first, "usable", policy.usable_bytes_per_s),
    )
    if fitted.wanted <= limit.count:
        return (finding,)
    more = Finding.of(What.TAKES_MORE, wanted=fitted.wanted, setting=limit.guard.setting)
    return (finding, more) if limit.found is None else (finding, more, limit.finding)


def wait_for_handover(cycle: Cycle) -> Step | None:
    """Let partitions that are changing hands arrive before others move; consumers may be asked for meanwhile."""
    pending = cycle.present.pending
    if not pending or cycle.advised:
        return None
    finding = Finding.of(What.HANDOVER, partitions=pending)
    step = relieve(cycle) if cycle.policy.sizing == "rates" else None
    if step is None:
        awaits = cycle.history.waiting_since is not None
        return Step(reason=Reason.HANDOVER_IN_PROGRESS, findings=(finding,), waiting=awaits)
    return replace(step.saying(finding), target=None, limited_by=Reason.HANDOVER_IN_PROGRESS)


def grow(cycle: Cycle) -> Step | None:
    """Ask for more consumers, and fill them, when a consumer is overloaded; moving anything at the same number does not count.

    What may be done by rates that are partly old: carried rates are no lower than what was known to flow, so a group that grows
    by them can only be too large, which passes, and not too small.
    """
    present = cycle.present
    step = wait_for_handover(cycle) or relieve(cycle)
    if step is None or not (step.requested or frozenset()) - present.holders:
        return None
    onto_new = step.target is not None and set(step.target.values()) - present.holders
    return step if onto_new else replace(step, target=None)


def fill_minimum(cycle: Cycle) -> Step | None:
    """Spread over as many consumers as are asked for at least."""
    present, policy, floor, limits = cycle.present, cycle.policy, cycle.floor, cycle.limits
    if len(present.holders) >= floor and len(present.slots) >= floor:
        return None
    most = min(limits.most, max(floor, len(present.slots), most_consumers(cycle).count))
    fitted = cycle.planner.within(cycle.load.rates, policy.usable_bytes_per_s, present.owner, at_least=floor, at_most=most)
    finding = Finding.of(
        What.BELOW_MINIMUM, setting=limits.least_setting, least=floor, holders=len(present.holders), now=len(present.slots)
    )
    why = Step(reason=limits.at_least, findings=(finding,), ordered=True, to_limit=not limits.fallback)
    if fitted.plan.consumers > len(present.holders):
        return approach(cycle, fitted.plan.owner, why)
    return replace(why, requested=pad(present.slots, floor)) if len(present.slots) < floor else None


def keep_maximum(cycle: Cycle) -> Step | None:
    """Come down to the maximum at once when more run, as after the setting was lowered or a window has begun."""
    count, limits = len(cycle.present.slots), cycle.limits
    if count <= limits.most:
        return None
    finding = Finding.of(What.ABOVE_MAXIMUM, now=count, setting=limits.most_setting, most=limits.most)
    why = Step(reason=limits.at_most, findings=(finding,), ordered=True, to_limit=not limits.fallback)
    return _shrink_to(cycle, limits.most, why)


def give_back(cycle: Cycle) -> Step | None:
    """Come down to the number before the steps up that were in vain, where the operator asks for that."""
    count = to_give_back(cycle)
    if count is None:
        return None
    findings = (steps_in_vain(cycle), Finding.of(What.DRAINED_AS_MUCH, count=count))
    return _shrink_to(cycle, count, Step(reason=Reason.SCALING_DID_NOT_HELP, findings=findings, ordered=True))


def shrink(cycle: Cycle) -> Step | None:
    """Take consumers away when fewer have done for the whole stabilisation window and no guard objects, nor a backlog."""
    present, policy, calm = cycle.present, cycle.policy, cycle.size.calm
    if calm is None or calm >= len(present.slots):
        return None
    finding = Finding.of(
        What.UNDERUSED,
        total_bytes_per_s=cycle.load.total_bytes_per_s,
        enough=calm,
        now=len(present.slots),
        tolerance_ratio=policy.tolerance_ratio,
    )
    why = Step(reason=Reason.UNDERUSED, findings=(finding,), spares=True)
    if cycle.late:
        return as_backlog(cycle, why)
    least = least_consumers(cycle)
    needed = cycle.history.peak()
    count = max(needed, least.count)
    objection = first_objection(cycle, Change(kind=Steps.SHRINK, consumers=count, target=None))
    if objection is not None:
        guard, found = objection
        return replace(why.saying(found), limited_by=guard.reason)
    step = _shrink_to(cycle, count, why)
    if needed >= least.count or least.count <= cycle.floor:
        return step
    return replace(step.saying(least.finding), limited_by=step.limited_by or least.guard.reason)


def _shrink_to(cycle: Cycle, count: int, why: Step) -> Step:
    """Keep ``count`` consumers: of emptying the least loaded and placing anew, whichever moves less."""
    present = cycle.present
    there = present.holders | (present.slots & present.ready)
    if len(there) <= count:
        absent = sorted(present.slots - there)
        kept = frozenset([*there, *absent[: count - len(there)]])
        return replace(why.saying(_down(What.NEVER_STARTED, cycle, kept)), requested=kept)
    target = _fewest_moved(cycle, there, count)
    used = frozenset(target.values())
    idle = sorted(there - used, key=lambda c: (c not in present.holders, c))
    kept = used | set(idle[: max(0, count - len(used))])
    return replace(why.saying(_down(What.SCALE_DOWN, cycle, kept)), target=target, requested=kept)


def _down(what: What, cycle: Cycle, kept: frozenset[int]) -> Finding:
    before = cycle.present.slots
    return Finding.of(what, consumers=sorted(before - kept), before=len(before), after=len(kept))


def _fewest_moved(cycle: Cycle, there: frozenset[int], count: int) -> dict[TopicPartition, int]:
    present, policy, rates = cycle.present, cycle.policy, cycle.load.rates
    calm = policy.calm_bytes_per_s
    if cycle.planner.gauge:
        return dict(cycle.planner.fewer(rates, calm, present.owner, there, count).plan.owner)
    emptied = drain(rates, calm, present.owner, there, count)
    fitted = cycle.planner.reducing(rates, calm, present.owner, keep=count)
    anew = relabel(fitted.plan.owner, present.holders, sorted(there))
    if emptied is None or r_score(rates, calm, present.owner, anew) < r_score(rates, calm, present.owner, emptied):
        return anew
    return emptied
