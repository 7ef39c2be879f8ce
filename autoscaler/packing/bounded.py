"""Placements with a bounded number of consumers: the load shared by those that may be had, or spread over those asked for."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import NamedTuple, Unpack

import numpy as np

from autoscaler.model import TopicPartition
from autoscaler.packing.incremental import drain
from autoscaler.packing.kernels.bins import LIMIT, OVERSIZED, UNASSIGNED, Floats
from autoscaler.packing.pace.portfolio import fewest
from autoscaler.packing.problem.assignment import Assignment, Fitted, assignment, decreasing
from autoscaler.packing.problem.options import KNOWS_PAID_FOR, TAKES, Given
from autoscaler.packing.problem.validation import checked_capacity, checked_loads, checked_previous, is_index, shown
from autoscaler.packing.registry import assign

BEYOND_PRICE = 1e6  # of a consumer: more than any placement moves, and small enough that a move still shows beside it
_STEPS = 12  # of bisection between a capacity and its double: found to 1 part in 4,000, finer than any measured rate
_LARGEST = float(np.finfo(np.float64).max)  # bytes/s: rates that can be added up fit one consumer of that
_SMALLEST = 1e-9  # bytes/s: below this a capacity is not halved again (as many consumers as partitions never go above the bound)
_IDLE_SHARE = 0.01  # of the mean rate, oversized ones cut: what a silent partition counts for when partitions are to be spread

Loads = Mapping[TopicPartition, float]
Owners = Mapping[TopicPartition, int]


def fewest_by_size(rates: Collection[float], capacity: float) -> int:
    """Return how many consumers best-fit decreasing takes, wherever partitions are now."""
    return _fewest_by_size(tuple(rates), capacity)


@lru_cache(maxsize=64)  # a cycle asks several times, a search for a capacity some fifteen times
def _fewest_by_size(rates: tuple[float, ...], capacity: float) -> int:
    with np.errstate(over="ignore"):
        cost = _by_size(rates) / capacity
    share = np.where(cost > LIMIT, OVERSIZED, np.minimum(cost, 1.0))
    return fewest(share, cost, np.full(len(cost), UNASSIGNED))


@lru_cache(maxsize=4)
def _by_size(rates: tuple[float, ...]) -> Floats:
    """Return rates in the order in which they are placed: the same at any capacity."""
    decreasing = np.sort(np.array(rates, np.float64))[::-1].copy()
    decreasing.setflags(write=False)
    return decreasing


def fit_count(
    loads: Loads, capacity: float, previous: Owners, algorithm: str, *, at_least: int, at_most: int, **options: Unpack[Given]
) -> Fitted:
    """Place by the same algorithm so that the number of consumers lies within bounds.

    The capacity is scaled, equally for all consumers, to the smallest at which the bounded number suffices, found by bisection:
    above what was asked for where consumers are lacking, so that the overload is shared instead of falling on the last one;
    below it where more are asked for than needed, so that load is spread. Counts jump where rates are alike: consumers that
    no capacity gives are made by splitting the most loaded ones. Never more than one consumer per partition. ``options`` are
    those that the algorithm takes.

    For PACE and EXACT a number of consumers means that so many are paid for, and that another one is worth more than any move:
    where fewer than they prefer do at this capacity, it is not scaled. Where it must be, best-fit decreasing finds the capacity,
    which costs a fraction, and they place.

    Raises:
        ValueError: As ``assign``, or a bound is no whole number, or ``at_most`` below 1 or below ``at_least``.
    """
    for name, bound in (("at_least", at_least), ("at_most", at_most)):
        if not is_index(bound):
            raise ValueError(f"{name} must be a whole number of consumers, not {shown(bound)}")
    if at_most < 1 or at_least > at_most:
        raise ValueError(f"at_least {at_least} and at_most {at_most} leave no number of consumers")
    loads, capacity, previous = checked_loads(loads), checked_capacity(capacity), checked_previous(previous)
    at_least = min(at_least, len(loads))
    if algorithm in KNOWS_PAID_FOR:
        return _fit_paid_for(_Ask(loads, capacity, previous, algorithm, options), at_least, at_most)
    free = assign(loads, capacity, previous, algorithm, **options)
    if at_least <= free.consumers <= at_most:
        return Fitted(plan=free, wanted=free.consumers, capacity=capacity)
    bound = min(max(free.consumers, at_least), at_most)
    rates = _with_idle_share(loads, capacity) if free.consumers < at_least else loads
    scaled = _scaled(lambda c: assign(rates, c, previous, algorithm, **options).consumers, capacity, bound)
    owner = _split(rates, assign(rates, scaled, previous, algorithm, **options).owner, bound)
    return Fitted(plan=assignment(owner, loads, capacity, previous, algorithm), wanted=free.consumers, capacity=scaled)


class _Ask(NamedTuple):
    """What is asked of an algorithm that can be told how many consumers are paid for."""

    loads: Loads
    capacity: float
    previous: Owners
    algorithm: str
    options: Given

    def free(self) -> Assignment:
        """Return the placement that the algorithm prefers."""
        return assign(self.loads, self.capacity, self.previous, self.algorithm, **self.options)

    def answer(self, placed: Assignment, owner: Owners, wanted: int, capacity: float) -> Fitted:
        """Return a placement, made from another one, with its figures."""
        plan = assignment(owner, self.loads, self.capacity, self.previous, placed.algorithm)
        return Fitted(plan=plan, wanted=wanted, capacity=capacity)


def _fit_paid_for(ask: _Ask, at_least: int, at_most: int) -> Fitted:
    needed = fewest_by_size(ask.loads.values(), ask.capacity)
    if needed > at_most and ask.algorithm != "EXACT":
        return _share(ask, at_most, needed)
    free = ask.free()
    if free.consumers > at_most and needed > at_most:
        return _share(ask, at_most, free.consumers)
    if free.consumers > at_most:
        placed = _at_most(ask, ask.loads, ask.capacity, at_most, asked=free)
        return ask.answer(placed, placed.owner, needed, ask.capacity)
    if free.consumers >= at_least:
        return Fitted(plan=free, wanted=free.consumers, capacity=ask.capacity)
    rates = _with_idle_share(ask.loads, ask.capacity)
    scaled = _scaled(lambda c: fewest_by_size(rates.values(), c), ask.capacity, at_least)
    placed = _at_most(ask, rates, scaled, at_least)
    return ask.answer(placed, _split(rates, placed.owner, at_least), free.consumers, scaled)


def _share(ask: _Ask, at_most: int, wanted: int) -> Fitted:
    """Share among too few consumers what they cannot hold."""
    scaled = _scaled(lambda c: fewest_by_size(ask.loads.values(), c), ask.capacity, at_most)
    placed = _at_most(ask, ask.loads, scaled, at_most)
    return ask.answer(placed, _split(ask.loads, placed.owner, at_most), wanted, scaled)


def _at_most(ask: _Ask, rates: Loads, capacity: float, bound: int, *, asked: Assignment | None = None) -> Assignment:
    """Return a placement on at most so many consumers, which best-fit decreasing must be able to do with.

    It is that of the algorithm if it has one.
    """
    hard: Given = {**ask.options, "paid_for": bound}
    if "consumer_price" in TAKES[ask.algorithm]:
        hard["consumer_price"] = BEYOND_PRICE
    known = asked is not None and hard == ask.options
    plan = asked if asked is not None and known else assign(rates, capacity, ask.previous, ask.algorithm, **hard)
    if plan.consumers <= bound:
        return plan
    # A large group is placed in parts, each of which rounds its number of consumers up: the lightest give up what they hold.
    emptied = drain(rates, capacity, plan.owner, set(plan.owner.values()), bound)
    return assign(rates, capacity, ask.previous, "BFD") if emptied is None else replace(plan, owner=emptied)


def _scaled(count_at: Callable[[float], int], capacity: float, bound: int) -> float:
    """Return the smallest capacity that takes ``bound`` consumers at most, to one part in thousands."""
    low = high = capacity
    low_count = high_count = count_at(capacity)
    while high_count > bound:
        low, low_count, high = high, high_count, min(high * 2, _LARGEST)
        high_count = count_at(high)
    while low_count <= bound and low > _SMALLEST:
        high, high_count, low = low, low_count, low / 2
        low_count = count_at(low)
    if low_count <= bound:
        return high if high_count >= low_count else low
    for _ in range(_STEPS):
        middle = math.sqrt(low) * math.sqrt(high)
        if count_at(middle) <= bound:
            high = middle
        else:
            low = middle
    return high


def _split(loads: Loads, owner: Owners, count: int) -> dict[TopicPartition, int]:
    """Split the most loaded consumer that holds several partitions between itself and a free one, until there are enough."""
    split = dict(owner)
    held: dict[int, list[TopicPartition]] = {}
    for p in decreasing(split, loads):
        held.setdefault(split[p], []).append(p)
    heap = [(-math.fsum(loads[p] for p in ps), c) for c, ps in held.items() if len(ps) > 1]
    heapify(heap)
    free = (c for c in range(len(held) + count) if c not in held)
    for new in (next(free) for _ in range(count - len(held))):
        _, old = heappop(heap)
        halves: dict[int, list[TopicPartition]] = {old: [], new: []}
        sums = {old: 0.0, new: 0.0}
        for p in held[old]:
            half = old if sums[old] <= sums[new] else new
            halves[half].append(p)
            sums[half] += loads[p]
            split[p] = half
        for c, ps in halves.items():
            held[c] = ps
            if len(ps) > 1:
                heappush(heap, (-math.fsum(loads[p] for p in ps), c))
    return split


def _with_idle_share(loads: Loads, capacity: float) -> dict[TopicPartition, float]:
    """Return rates in which a silent partition counts a little; one that fills a consumer does not make that little much."""
    mean = math.fsum(min(rate, capacity) for rate in loads.values()) / len(loads)
    return {p: max(rate, _IDLE_SHARE * mean, 1e-6) for p, rate in loads.items()}
