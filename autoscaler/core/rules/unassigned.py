"""Rules for partitions without a live owner: the first plan, a lost consumer, partitions added. They move nothing else."""

from dataclasses import replace

from autoscaler.core.cycle.context import Cycle, Step, error_of
from autoscaler.core.cycle.utilisation import of_each
from autoscaler.core.guards.table import most_consumers
from autoscaler.core.load.group_load import assumed_rates
from autoscaler.core.rules.scale_out import approach, limit_of_fit
from autoscaler.core.sizing.planner import Rates
from autoscaler.model import Finding, Reason, TopicPartition
from autoscaler.model.findings import What
from autoscaler.packing import Fitted


def place_first(cycle: Cycle) -> Step | None:
    """Place everything when nothing is placed yet: ask for the consumers, wait for all of them, then publish."""
    present, policy = cycle.present, cycle.policy
    if present.owner or present.orphans or not present.unplaced:
        return None
    if not cycle.load.rates:
        return no_rates(cycle)
    planned, usable = cycle.size.planned, policy.usable_bytes_per_s
    if planned is not None and cycle.floor <= planned.consumers <= cycle.limits.most:
        fitted = Fitted(plan=planned, wanted=planned.consumers, capacity=usable)  # what nothing bounds is within the bounds
    else:
        fitted = cycle.planner.within(cycle.load.rates, usable, {}, at_least=cycle.floor, at_most=cycle.limits.most)
    finding = Finding.of(
        What.FIRST_PLACEMENT,
        partitions=present.unplaced,
        unplaced=len(present.unplaced),
        total_bytes_per_s=cycle.load.total_bytes_per_s,
        needed=fitted.plan.consumers,
        numbers=of_each(cycle, "usable", usable),
    )
    limit = limit_of_fit(cycle, fitted, most_consumers(cycle, hard_only=True))
    why = Step(reason=Reason.PARTITIONS_CHANGED, findings=(finding,), limited_by=limit, ordered=True)
    return approach(cycle, fitted.plan.owner, why)


def no_rates(cycle: Cycle) -> Step:
    """Wait until something is measured."""
    finding = Finding.of(What.NO_RATES, listed=len(cycle.load.partitions), error=error_of(cycle))
    return Step(reason=Reason.NOT_READY, findings=(finding,), unmeasured=True)


def replace_lost(cycle: Cycle) -> Step | None:
    """Place what a consumer that is gone has left, on those that live; a restarted one is not waited for."""
    present, policy = cycle.present, cycle.policy
    if not present.orphans:
        return None
    lost = Finding.of(What.CONSUMER_LOST, partitions=present.orphans)
    if not present.receivers:
        awaited = present.paid_for or frozenset({0})
        return Step(
            reason=Reason.WORKER_LOST,
            limited_by=Reason.NOT_READY,
            findings=(lost, Finding.of(What.NO_TAKER, consumers=sorted(awaited))),
            requested=awaited,
            waiting=True,
            mandatory=True,
        )
    rates = cycle.load.rates or assumed_rates(cycle.load.partitions, policy.usable_bytes_per_s, len(present.receivers))
    return _placed(cycle, rates, present.orphans, Step(reason=Reason.WORKER_LOST, findings=(lost,), mandatory=True))


def place_added(cycle: Cycle) -> Step | None:
    """Place partitions that appeared since the latest plan; the others stay."""
    present = cycle.present
    if not present.unplaced or not cycle.load.rates:
        return None
    added = Finding.of(What.PARTITIONS_ADDED, partitions=present.unplaced)
    if not present.receivers:
        return Step(
            reason=Reason.PARTITIONS_CHANGED,
            limited_by=Reason.NOT_READY,
            findings=(added, Finding.of(What.NO_TAKER)),
            waiting=True,
            ordered=True,
        )
    return _placed(
        cycle, cycle.load.rates, present.unplaced, Step(reason=Reason.PARTITIONS_CHANGED, findings=(added,), ordered=True)
    )


def _placed(cycle: Cycle, rates: Rates, partitions: tuple[TopicPartition, ...], why: Step) -> Step:
    """Return the step in which consumers that are there take partitions without an owner."""
    present = cycle.present
    target = cycle.planner.unowned(rates, cycle.policy.usable_bytes_per_s, present.owner, present.receivers)
    taken = Finding.of(What.TAKEN_OVER, consumers=sorted({target[p] for p in partitions}))
    return replace(why, findings=(*why.findings, taken), target=target, hot=partitions)
