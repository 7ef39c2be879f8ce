"""Rules for partitions that nobody holds: the first plan, a lost consumer, partitions added. None of them moves anything else."""

from autoscaler.core.cycle.context import Cycle, Step, names, rate_text
from autoscaler.core.cycle.utilisation import of_each
from autoscaler.core.guards.table import most_consumers
from autoscaler.core.load.group_load import assumed_rates
from autoscaler.core.rules.scale_out import approach, limit_of_fit
from autoscaler.model import Reason
from autoscaler.packing import Fitted


def place_first(cycle: Cycle) -> Step | None:
    """Place everything when nothing is placed yet: ask for the consumers, wait for all of them, then publish."""
    present, policy = cycle.present, cycle.policy
    if present.owner or present.orphans or not present.unplaced:
        return None
    if not cycle.load.rates:
        count = len(present.unplaced)
        return Step(reason=Reason.NOT_READY, detail=f"none of {count} partitions has a rate yet, so nothing can be sized")
    planned, usable = cycle.size.planned, policy.usable_bytes_per_s
    if planned is not None and cycle.floor <= planned.consumers <= cycle.orders.most:
        fitted = Fitted(plan=planned, wanted=planned.consumers, capacity=usable)  # what nothing bounds is within the bounds
    else:
        fitted = cycle.planner.within(cycle.load.rates, usable, {}, at_least=cycle.floor, at_most=cycle.orders.most)
    return approach(
        cycle,
        fitted.plan.owner,
        reason=Reason.PARTITIONS_CHANGED,
        detail=f"{len(present.unplaced)} partitions with {rate_text(cycle.load.total_bytes_per_s)} have no consumer yet and need "
        f"{fitted.plan.consumers} of {of_each(cycle, usable)} each",
        limited_by=limit_of_fit(cycle, fitted, most_consumers(cycle, hard_only=True)),
        hot=(),
    )


def replace_lost(cycle: Cycle) -> Step | None:
    """Place what a consumer that is gone has left, on those that live; a restarted one is not waited for."""
    present, policy = cycle.present, cycle.policy
    if not present.orphans:
        return None
    what = f"{len(present.orphans)} partitions ({names(present.orphans)}) lost their consumer"
    if not present.receivers:
        awaited = present.paid_for or frozenset({0})
        return Step(
            reason=Reason.WORKER_LOST,
            limited_by=Reason.NOT_READY,
            detail=f"{what} and no other one can take them; consumers {names(sorted(awaited))} are awaited",
            requested=awaited,
            waiting=True,
        )
    rates = cycle.load.rates or assumed_rates(cycle.load.partitions, policy.usable_bytes_per_s, len(present.receivers))
    target = cycle.planner.unowned(rates, policy.usable_bytes_per_s, present.owner, present.receivers)
    receivers = sorted({target[p] for p in present.orphans})
    return Step(
        reason=Reason.WORKER_LOST,
        detail=f"{what}; consumers {names(receivers)} take them, nothing else moves",
        target=target,
        hot=present.orphans[:5],
    )


def place_added(cycle: Cycle) -> Step | None:
    """Place partitions that appeared since the latest plan; the others stay."""
    present, policy = cycle.present, cycle.policy
    if not present.unplaced or not cycle.load.rates:
        return None
    what = f"{len(present.unplaced)} partitions ({names(present.unplaced)}) are new or released again"
    if not present.receivers:
        return Step(
            reason=Reason.PARTITIONS_CHANGED,
            limited_by=Reason.NOT_READY,
            detail=f"{what} and no consumer can take them yet",
            waiting=True,
        )
    target = cycle.planner.unowned(cycle.load.rates, policy.usable_bytes_per_s, present.owner, present.receivers)
    receivers = sorted({target[p] for p in present.unplaced})
    return Step(
        reason=Reason.PARTITIONS_CHANGED,
        detail=f"{what}; consumers {names(receivers)} take them, nothing else moves",
        target=target,
        hot=present.unplaced[:5],
    )
