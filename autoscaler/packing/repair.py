"""Placements that keep what can be kept: unowned partitions, a bounded number of consumers, fewer consumers. Part of *pack*."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Unpack

from autoscaler.model import TopicPartition
from autoscaler.packing.algorithms import assign
from autoscaler.packing.fits import limit_of
from autoscaler.packing.options import Given
from autoscaler.packing.placement import Assignment, assignment, check_loads, decreasing

_STEPS = 12  # of bisection between a capacity and its double: found to 1 part in 4,000, finer than any measured rate
_SMALLEST = 1e-9  # bytes/s: below this a capacity is not halved again (as many consumers as partitions never go above the bound)
_IDLE_SHARE = 0.01  # of the mean rate: what a silent partition counts for when partitions are to be spread


def consumer_loads(
    loads: Mapping[TopicPartition, float], owner: Mapping[TopicPartition, int], consumers: Collection[int] = ()
) -> dict[int, float]:
    """Return bytes per second of every consumer that holds a partition, and of those named, by index.

    Partitions without a rate count nothing.
    """
    rates: dict[int, list[float]] = {c: [] for c in sorted({*consumers, *owner.values()})}
    for p, consumer in owner.items():
        rates[consumer].append(loads.get(p, 0.0))
    return {c: math.fsum(values) for c, values in rates.items()}  # exact sums: the order of the mapping must not matter


def place_unowned(
    loads: Mapping[TopicPartition, float],
    capacity: float,
    owner: Mapping[TopicPartition, int],
    consumers: Collection[int] | None = None,
) -> dict[TopicPartition, int]:
    """Place the partitions without an owner; nobody else moves.

    By decreasing rate, best fit over consumers that hold something; if none fits, the lowest free index. Where only certain
    consumers are there, a free one among them, and if there is none the least loaded of them: better late than nobody.

    Args:
        loads: Bytes per second of every partition.
        capacity: Bytes per second that one consumer may be given.
        owner: Consumer index of the partitions that have one.
        consumers: The only indices that may receive; ``None`` for any.

    Returns:
        The owner of every partition in ``loads``.

    Raises:
        ValueError: A rate or the capacity makes no sense, or ``consumers`` is empty and something must be placed.
    """
    check_loads(loads, capacity)
    placed = {p: owner[p] for p in sorted(loads) if p in owner}
    rest = decreasing((p for p in loads if p not in owner), loads)
    if rest and consumers is not None and not consumers:
        msg = f"no consumer may receive {rest[0]} and {len(rest) - 1} others"
        raise ValueError(msg)
    held = consumer_loads(loads, placed)
    for p in rest:
        target = _receiver(loads[p], limit_of(capacity), held, consumers)
        held[target] = held.get(target, 0.0) + loads[p]
        placed[p] = target
    return {p: placed[p] for p in sorted(placed)}


def _receiver(rate: float, limit: float, held: Mapping[int, float], consumers: Collection[int] | None) -> int:
    fitting = [c for c in held if held[c] + rate <= limit and (consumers is None or c in consumers)]
    if fitting:
        return min(fitting, key=lambda c: (-held[c], c))
    if consumers is None:
        return next(c for c in range(len(held) + 1) if c not in held)
    free = [c for c in consumers if c not in held]
    return min(free) if free else min(consumers, key=lambda c: (held[c], c))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A placement whose number of consumers was bounded.

    Attributes:
        plan: Its figures are those of the capacity asked for, not of the scaled one.
        wanted: Consumers the algorithm takes when nothing bounds it.
        capacity: Scaled capacity at which the plan came out; above what was asked for if consumers are lacking.
    """

    plan: Assignment
    wanted: int
    capacity: float

    @property
    def limited(self) -> bool:
        """Say whether the bounds changed the number of consumers."""
        return self.plan.consumers != self.wanted


def fit_count(
    loads: Mapping[TopicPartition, float],
    capacity: float,
    previous: Mapping[TopicPartition, int],
    algorithm: str,
    *,
    at_least: int,
    at_most: int,
    **options: Unpack[Given],
) -> Fitted:
    """Place by the same algorithm so that the number of consumers lies within bounds.

    The capacity is scaled, equally for everybody, to the smallest at which the bounded number suffices, found by bisection:
    above what was asked for where consumers are lacking, so that the overload is shared instead of falling on the last one;
    below it where more are asked for than needed, so that load is spread. Counts jump where rates are alike: consumers that
    no capacity gives are made by splitting the most loaded ones. Never more than one consumer per partition. ``options`` are
    those that the algorithm takes.

    Raises:
        ValueError: As ``assign``, or ``at_most`` below 1 or below ``at_least``.
    """
    if at_most < 1 or at_least > at_most:
        msg = f"at_least {at_least} and at_most {at_most} leave no number of consumers"
        raise ValueError(msg)
    free = assign(loads, capacity, previous, algorithm, **options)
    at_least = min(at_least, len(loads))
    if at_least <= free.consumers <= at_most:
        return Fitted(plan=free, wanted=free.consumers, capacity=capacity)
    bound = min(max(free.consumers, at_least), at_most)
    rates = _with_idle_share(loads) if free.consumers < at_least else loads
    tried = _smallest(lambda c: assign(rates, c, previous, algorithm, **options), capacity, bound)
    scaled, best = max((x for x in tried if x[1].consumers <= bound), key=lambda x: x[1].consumers)  # the first of equals
    owner = _split(rates, best.owner, bound)
    return Fitted(plan=assignment(owner, loads, capacity, previous, algorithm), wanted=free.consumers, capacity=scaled)


def _split(loads: Mapping[TopicPartition, float], owner: Mapping[TopicPartition, int], count: int) -> dict[TopicPartition, int]:
    """Split the most loaded consumer that holds several partitions between itself and a free one, until there are enough."""
    split = dict(owner)
    while len(held := consumer_loads(loads, split)) < count:
        shared = [c for c in held if sum(1 for o in split.values() if o == c) > 1]
        old = min(shared, key=lambda c: (-held[c], c))
        new = next(c for c in range(len(held) + 1) if c not in held)
        halves = {old: 0.0, new: 0.0}
        for p in decreasing((p for p, o in split.items() if o == old), loads):
            split[p] = old if halves[old] <= halves[new] else new
            halves[split[p]] += loads[p]
    return split


def _with_idle_share(loads: Mapping[TopicPartition, float]) -> dict[TopicPartition, float]:
    mean = math.fsum(loads.values()) / len(loads)
    return {p: max(rate, _IDLE_SHARE * mean, 1e-6) for p, rate in loads.items()}


def _smallest(
    plan_at: Callable[[float], Assignment], capacity: float, bound: int
) -> tuple[tuple[float, Assignment], tuple[float, Assignment]]:
    """Return the smallest capacity, with its plan, that takes ``bound`` consumers at most, and the next smaller one tried."""
    low = high = (capacity, plan_at(capacity))
    while high[1].consumers > bound:
        low, high = high, (high[0] * 2, plan_at(high[0] * 2))
    while low[1].consumers <= bound and low[0] > _SMALLEST:
        low, high = (low[0] / 2, plan_at(low[0] / 2)), low
    for _ in range(_STEPS):
        middle = math.sqrt(low[0] * high[0])
        plan = plan_at(middle)
        low, high = (low, (middle, plan)) if plan.consumers <= bound else ((middle, plan), high)
    return high, low


def drain(
    loads: Mapping[TopicPartition, float],
    capacity: float,
    owner: Mapping[TopicPartition, int],
    consumers: Collection[int],
    keep: int,
) -> dict[TopicPartition, int] | None:
    """Empty the least loaded consumers until ``keep`` are left; only what they held moves.

    Args:
        loads: Bytes per second of every partition.
        capacity: Bytes per second that one consumer may be given.
        owner: Consumer index of every partition.
        consumers: All present indices, those that hold nothing included.
        keep: How many stay, at least one.

    Returns:
        The new owner of every partition, or ``None`` if what must move does not fit on those that stay.
    """
    held = consumer_loads(loads, owner, consumers)
    stay = sorted(held, key=lambda c: (-held[c], c))[:keep]
    kept = {p: c for p, c in owner.items() if c in stay}
    placed = place_unowned(loads, capacity, kept, stay)
    before, after = consumer_loads(loads, kept, stay), consumer_loads(loads, placed, stay)
    fits = all(after[c] <= max(limit_of(capacity), before[c]) for c in stay)
    return placed if fits else None
