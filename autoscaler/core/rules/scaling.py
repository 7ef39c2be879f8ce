"""Rules that change a group although every partition has a consumer: too much load, too many or too few consumers."""

from dataclasses import replace

from autoscaler.core.cycle.context import Cycle, Step, names, rate_text
from autoscaler.core.cycle.utilisation import carries, in_all, one_of_the_group
from autoscaler.core.group.limits import Steps
from autoscaler.core.group.observed_group import pad
from autoscaler.core.guards.conditions import Change, in_vain_text
from autoscaler.core.guards.table import Bound, first_objection, least_consumers, most_consumers, to_give_back
from autoscaler.core.rules.catch_up import as_urgent, catching_up
from autoscaler.core.rules.scale_out import approach, limit_of_fit, worthwhile
from autoscaler.core.sizing.size import relabel
from autoscaler.model import Reason, TopicPartition
from autoscaler.packing import Fitted, drain, r_score


def relieve(cycle: Cycle) -> Step | None:
    """Place anew when a consumer is overloaded and moving a partition can help; consumers never become fewer here.

    Overloaded is also who holds more than it reads in time, while records are about to be deleted.
    """
    if cycle.risks and (step := _relieved(catching_up(cycle))) is not None:
        return as_urgent(cycle, step)
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
    plan, detail, limit = fitted.plan, _overload_text(cycle, fitted, bound), limit_of_fit(cycle, fitted, bound)
    more = plan.consumers > len(present.holders)  # relieves somebody, if not yet who carries most
    if fitted.capacity > policy.usable_bytes_per_s and not more and not worthwhile(cycle, plan.owner):
        lower = f"no other placement lowers the highest load by {policy.tolerance_ratio:.0%} or more"
        said = f"{detail}; with {at_most} at most {lower}"
        return Step(reason=Reason.RATE_ABOVE_CAPACITY, detail=said, limited_by=limit, hot=size.hot)
    return approach(cycle, plan.owner, reason=Reason.RATE_ABOVE_CAPACITY, detail=detail, limited_by=limit, hot=size.hot)


def _overload_text(cycle: Cycle, fitted: Fitted, limit: Bound) -> str:
    size, usable, limit_of_one = cycle.size, cycle.policy.usable_bytes_per_s, cycle.policy.overload_bytes_per_s
    first = size.overloaded[0]
    others = f" and {len(size.overloaded) - 1} more are" if len(size.overloaded) > 1 else " is"
    bounded = fitted.wanted > limit.count
    bound = f" ({fitted.wanted} without {limit.guard.name})" if bounded else ""
    why = f": {limit.said}" if bounded and limit.said else ""
    return (
        f"consumer {first} with {carries(cycle, first, size.loads[first])}{others} above {carries(cycle, first, limit_of_one)}; "
        f"{in_all(cycle, first)} in all take {fitted.plan.consumers}{bound} of {one_of_the_group(cycle, first, usable)}{why}"
    )


def wait_for_handover(cycle: Cycle) -> Step | None:
    """Let partitions that are changing hands arrive before others move; consumers may be asked for meanwhile."""
    pending = cycle.present.pending
    if not pending or cycle.advised:
        return None
    said = f"{len(pending)} partitions ({names(pending)}) are changing hands"
    step = relieve(cycle) if cycle.policy.sizing == "rates" else None
    if step is None:
        return Step(reason=Reason.HANDOVER_IN_PROGRESS, detail=said, waiting=cycle.history.waiting_since is not None)
    return replace(step, target=None, limited_by=Reason.HANDOVER_IN_PROGRESS, detail=f"{step.detail}; {said}")


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
    present, policy, floor, orders = cycle.present, cycle.policy, cycle.floor, cycle.orders
    if len(present.holders) >= floor and len(present.slots) >= floor:
        return None
    most = min(orders.most, max(floor, len(present.slots), most_consumers(cycle).count))
    fitted = cycle.planner.within(cycle.load.rates, policy.usable_bytes_per_s, present.owner, at_least=floor, at_most=most)
    asks = f"{orders.least_setting} asks for {floor}"
    detail = f"{asks}, {len(present.holders)} hold partitions and {len(present.slots)} are requested"
    if fitted.plan.consumers > len(present.holders):
        return approach(cycle, fitted.plan.owner, reason=orders.at_least, detail=detail, limited_by=None, hot=())
    if len(present.slots) < floor:
        return Step(reason=orders.at_least, detail=detail, requested=pad(present.slots, floor))
    return None


def keep_maximum(cycle: Cycle) -> Step | None:
    """Come down to the maximum at once when more run, as after the setting was lowered or a window has begun."""
    count, orders = len(cycle.present.slots), cycle.orders
    if count <= orders.most:
        return None
    detail = f"{count} consumers are requested and {orders.most_setting} is {orders.most}"
    return _shrink_to(cycle, orders.most, orders.at_most, detail)


def give_back(cycle: Cycle) -> Step | None:
    """Come down to the number before the steps up that were in vain, where the operator asks for that."""
    count = to_give_back(cycle)
    if count is None:
        return None
    return _shrink_to(cycle, count, Reason.SCALING_DID_NOT_HELP, f"{in_vain_text(cycle)}; {count} drained as much")


def shrink(cycle: Cycle) -> Step | None:
    """Take consumers away when fewer have done for the whole stabilisation window and no guard objects."""
    present, policy, calm = cycle.present, cycle.policy, cycle.size.calm
    if calm is None or calm >= len(present.slots):
        return None
    detail = (
        f"{rate_text(cycle.load.total_bytes_per_s)} would fit on {calm} of {len(present.slots)} consumers "
        f"with {policy.tolerance_ratio:.0%} to spare"
    )
    least = least_consumers(cycle)
    needed = cycle.history.peak()
    count = max(needed, least.count)
    objection = first_objection(cycle, Change(kind=Steps.SHRINK, consumers=count, target=None, ordered=False))
    if objection is not None:
        guard, said = objection
        return Step(reason=Reason.UNDERUSED, limited_by=guard.reason, detail=f"{detail}; {said}")
    step = _shrink_to(cycle, count, Reason.UNDERUSED, detail)
    if needed >= least.count or least.count <= cycle.floor:
        return step
    return replace(
        step, limited_by=step.limited_by or least.guard.reason, detail=f"{step.detail}; {least.guard.name} allows {count}"
    )


def _shrink_to(cycle: Cycle, count: int, reason: Reason, detail: str) -> Step:
    """Keep ``count`` consumers: of emptying the least loaded and placing anew, whichever moves less."""
    present = cycle.present
    there = present.holders | (present.slots & present.ready)
    if len(there) <= count:
        absent = sorted(present.slots - there)
        kept = frozenset([*there, *absent[: count - len(there)]])
        return Step(reason=reason, detail=f"{detail}; consumers {names(absent)} never started", requested=kept)
    target = _fewest_moved(cycle, there, count)
    used = frozenset(target.values())
    idle = sorted(there - used, key=lambda c: (c not in present.holders, c))
    kept = used | set(idle[: max(0, count - len(used))])
    gone = sorted(present.slots - kept)
    return Step(reason=reason, detail=f"{detail}; {names(gone)} give up what they hold", target=target, requested=kept)


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
