"""How the group gets from what is there to a placement that needs more consumers: first ask for them, then move."""

from collections.abc import Mapping
from dataclasses import replace

from autoscaler.core.cycle.context import Cycle, Step
from autoscaler.core.group.limits import Steps
from autoscaler.core.group.observed_group import pad
from autoscaler.core.guards.conditions import Cause, Change
from autoscaler.core.guards.table import Bound, first_objection
from autoscaler.core.sizing.size import peak_of_shared, relabel
from autoscaler.model import Finding, Reason, TopicPartition
from autoscaler.model.findings import What
from autoscaler.packing import Fitted


def approach(cycle: Cycle, owner: Mapping[TopicPartition, int], why: Step) -> Step:
    """Return the next step towards a placement; all else is as in ``why``.

    While a consumer that the placement uses is not there, it is requested and awaited and nothing moves, so that partitions
    move once. After ``worker_start_timeout_s`` the group goes on with those that are there, if that helps.
    """
    present, policy = cycle.present, cycle.policy
    target = owner if cycle.planner.gauge else relabel(owner, present.holders, present.welcome)
    wanted = pad(present.slots | set(target.values()), cycle.floor)
    missing = sorted(set(target.values()) - present.ready)
    if cycle.advised or not missing:
        return replace(why, target=target, requested=wanted)
    since = cycle.history.waiting_since
    waited = 0.0 if since is None else cycle.now - since
    late = waited >= policy.worker_start_timeout_s
    asked = not wanted <= (present.requested or frozenset())
    what = What.NOT_STARTED if late else What.AWAITED
    return replace(
        why.saying(Finding.of(what, consumers=missing, waited_s=waited, limit_s=policy.worker_start_timeout_s)),
        limited_by=why.limited_by if asked else Reason.NOT_READY,
        target=_without_the_late(cycle) if late or (cycle.late and present.ready - present.holders) else None,
        requested=wanted,
        waiting=True,
    )


def _without_the_late(cycle: Cycle) -> dict[TopicPartition, int] | None:
    """Return the best placement on the consumers that are there, if it is worth moving and not too soon."""
    present, policy = cycle.present, cycle.policy
    if not present.ready:
        return None
    owner = {p: c for p, c in present.owner.items() if c in present.ready}
    most = min(len(present.ready), cycle.limits.most)
    planner = cycle.planner.judging(cycle.planner.gauge, sorted(present.ready))
    fitted = planner.relieving(cycle.load.rates, policy.usable_bytes_per_s, owner, paid_for=1, at_most=most)
    placed = fitted.plan.owner
    target = dict(placed) if planner.gauge else relabel(placed, frozenset(owner.values()), sorted(present.ready))
    cause = Cause.LIMIT if cycle.urgent else Cause.LOAD
    moves = Change(kind=Steps.MOVE, consumers=len(present.slots), target=target, cause=cause)
    return target if not present.owner or (worthwhile(cycle, target) and first_objection(cycle, moves) is None) else None


def worthwhile(cycle: Cycle, owner: Mapping[TopicPartition, int]) -> bool:
    """Say whether a placement lowers the highest shared load by more than the tolerance."""
    rates, gauge = cycle.load.rates, cycle.planner.gauge
    before, after = peak_of_shared(rates, cycle.present.owner, gauge), peak_of_shared(rates, owner, gauge)
    return after < before * (1 - cycle.policy.tolerance_ratio)


def limit_of_fit(cycle: Cycle, fitted: Fitted, bound: Bound) -> Reason | None:
    """Return what kept a placement from having as many consumers as its load asks for."""
    if fitted.wanted > bound.count:
        return bound.guard.reason
    if fitted.plan.consumers == len(cycle.load.partitions) < cycle.size.demand:
        return Reason.AT_PARTITION_CEILING
    return None
