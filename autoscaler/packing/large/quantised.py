"""Best fit and home fit for a million partitions, in a fraction of the time in which they could be sorted. Part of *pack*.

Sizes are whole levels, rounded up (``levels.py``): no consumer is above the capacity, and one with q partitions may leave
q / 252,000 of it unused for that reason. Partitions are taken by decreasing level, in the order of the arrays within one, and
of equally full consumers the one that became so last. Without homes partitions of one level differ in nothing, so that they
are placed by rank alone and looked up in the end; this takes one random access less for each than sorting.
"""

from typing import NamedTuple

import numpy as np

from autoscaler.packing.kernels.jit import compiled
from autoscaler.packing.large.levels import LEVELS, UNASSIGNED, Int32s, empty_stacks, least_from, pop, push
from autoscaler.packing.problem.options import Floats, Labels

OVERSIZED = LEVELS + 1  # level of a partition above the capacity: nothing fits beside it, be it without traffic
_EXACT = 1e-9  # of a level: rounding of a product of floats, not a reason for one more level
_CLOSED = -2  # in place of free levels; -1 is what a partition above the capacity leaves


class Sizes(NamedTuple):
    """Partitions by level."""

    level: Int32s  # int32[n], of each partition
    counts: Int32s  # int32[LEVELS + 2], how many have each level
    first: Int32s  # int32[LEVELS + 2], the rank of the first of each level, by decreasing level


def place_quantised(rates: Floats, capacity: float, home: Labels, *, sticky: bool) -> Labels:
    """Place every partition by decreasing level; homes are not far above n, -1 for none.

    With ``sticky`` a partition stays at home if that is open and has room. Else, and without ``sticky`` always, it goes to the
    fullest with room; where there is none its home is opened, if closed, else the lowest that is (equation 14).
    """
    sizes = _by_level(rates, capacity)
    if not np.any(home != UNASSIGNED):
        return _at_rank(sizes, _fit_best(sizes)[0])
    slots = max(int(home.max()), rates.shape[0]) + 1
    if sticky:
        return _at_rank(sizes, _fit_home(sizes, _by_rank(sizes, home), slots))
    held_by, opener = _fit_best(sizes)
    return _at_rank(sizes, _named(_by_rank(sizes, home)[opener], slots)[held_by])


@compiled
def level_of(rate: float, capacity: float) -> int:
    """Return the whole levels of the capacity that a rate takes: rounded up, one at least if there is traffic."""
    exact = rate / capacity * LEVELS
    if exact > LEVELS + _EXACT:
        return OVERSIZED
    level = int(exact)
    return max(level + int(exact - level > _EXACT), int(rate > 0.0))


@compiled
def _by_level(rates: Floats, capacity: float) -> Sizes:
    level = np.empty(rates.shape[0], np.int32)
    counts = np.zeros(LEVELS + 2, np.int32)
    for j in range(rates.shape[0]):
        size = level_of(rates[j], capacity)
        level[j] = size
        counts[size] += 1
    first = np.empty(LEVELS + 2, np.int32)
    rank = 0
    for size in range(OVERSIZED, -1, -1):
        first[size] = rank
        rank += counts[size]
    return Sizes(level, counts, first)


@compiled
def _by_rank(sizes: Sizes, home: Labels) -> Int32s:
    """Return the home of the partition of each rank."""
    ranked, following = np.empty(home.shape[0], np.int32), sizes.first.copy()
    for j in range(home.shape[0]):
        size = sizes.level[j]
        ranked[following[size]] = home[j]
        following[size] += 1
    return ranked


@compiled
def _at_rank(sizes: Sizes, held_by: Int32s) -> Labels:
    """Return the consumer of each partition, given that of each rank."""
    owner, following = np.empty(held_by.shape[0], np.int64), sizes.first.copy()
    for j in range(held_by.shape[0]):
        size = sizes.level[j]
        owner[j] = held_by[following[size]]
        following[size] += 1
    return owner


@compiled
def _fit_best(sizes: Sizes) -> tuple[Int32s, Int32s]:
    """Return the consumer of each rank by best fit, numbered as they are opened, and the rank that opened each."""
    n = sizes.level.shape[0]
    held_by, opener, stacks = np.empty(n, np.int32), np.empty(n, np.int32), empty_stacks(n)
    opened = rank = int(sizes.counts[OVERSIZED])
    for t in range(rank):
        held_by[t] = opener[t] = t
    for size in range(LEVELS, -1, -1):
        for _ in range(sizes.counts[size]):
            free = least_from(stacks, size)
            if free == UNASSIGNED:
                consumer, free = opened, LEVELS
                opener[opened] = rank
                opened += 1
            else:
                consumer = stacks.top[free]
                pop(stacks, free)
            push(stacks, free - size, consumer)
            held_by[rank] = consumer
            rank += 1
    return held_by, opener[:opened]


@compiled
def _named(homes: Int32s, slots: int) -> Int32s:
    """Return the index of each consumer in the order of opening, given the home of the partition that opened it (equation 14)."""
    name, used, lowest = np.empty(homes.shape[0], np.int32), np.zeros(slots, np.bool_), 0
    for i, home in enumerate(homes):
        index = home
        if home == UNASSIGNED or used[home]:
            while used[lowest]:
                lowest += 1
            index = lowest
        used[index] = True
        name[i] = index
    return name


@compiled
def _fit_home(sizes: Sizes, homes: Int32s, slots: int) -> Int32s:
    """Return the consumer of each rank by home fit.

    Each placement puts its rank on the stack of what its consumer has free now. What stood for the consumer before is left where
    it is, and thrown away when it comes to the top: that costs less than taking it out from below.
    """
    n = homes.shape[0]
    held_by, free, stacks = np.empty(n, np.int32), np.full(slots, _CLOSED, np.int32), empty_stacks(n)
    rank = lowest = 0
    for size in range(OVERSIZED, -1, -1):
        for _ in range(sizes.counts[size]):
            home = consumer = homes[rank]
            before = _CLOSED if home == UNASSIGNED else free[home]
            if before < size:
                level = least_from(stacks, size)
                while level != UNASSIGNED and free[held_by[stacks.top[level]]] != level:
                    pop(stacks, level)
                    level = least_from(stacks, level)
                if level != UNASSIGNED:
                    consumer = held_by[stacks.top[level]]
                elif home == UNASSIGNED or before != _CLOSED:
                    while free[lowest] != _CLOSED:
                        lowest += 1
                    consumer = lowest
                before = level
            left = (before if before >= 0 else LEVELS) - size
            held_by[rank] = consumer
            free[consumer] = left
            if left != before and left >= 0:
                push(stacks, left, rank)
            rank += 1
    return held_by
