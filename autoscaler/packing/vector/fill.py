"""Fill consumers with partitions that need two things at once, rate and backlog: kernels on arrays, part of *pack*.

Everything is in units of one consumer's capacity in that dimension. The consumers come in the order in which they are to be
filled, each with its own room; a kernel answers with the place in that order. What fits, fits up to the rounding of sums.

Source: Panigrahy, Talwar, Uyeda, Wieder 2011, "Heuristics for Vector Bin Packing" (dot product, L2 norm, weights from the mean
demand); the form by angle classes is this project's.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autoscaler.packing.kernels.jit import borrowing, compiled

ROUNDING = 1e-9  # of the capacity: sums of the same rates in another order must not disagree about fitting
_LOOKS = 2  # slots tried before the first that fits at any angle of its class: some of these fit at their own
DOT, L2 = 0, 1  # how well a partition goes with what is left of a consumer

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Demand(NamedTuple):
    """What each partition needs: float64[n] twice."""

    rate: Floats
    lag: Floats


class Room(NamedTuple):
    """What each consumer offers, in the order of filling: float64[m] twice.

    The last ones, from ``spare`` on, are not there yet: there are as many as may ever be needed, all alike.
    """

    rate: Floats
    lag: Floats
    spare: int


@borrowing
def _score(rule: int, weights: tuple[float, float], left: tuple[float, float], need: tuple[float, float]) -> float:
    """Return how well a need goes with what is left: more is better."""
    if rule == DOT:
        return weights[0] * left[0] * need[0] + weights[1] * left[1] * need[1]
    return -(weights[0] * (left[0] - need[0]) ** 2 + weights[1] * (left[1] - need[1]) ** 2)


@borrowing
def _best_of(demand: Demand, rest: Ints, rule: int, weights: tuple[float, float], left: tuple[float, float]) -> int:
    """Return the place in ``rest`` of the fitting partition with the greatest score, the first on ties; -1 if none fits."""
    best, at = -np.inf, -1
    for k in range(rest.shape[0]):
        rate, lag = demand.rate[rest[k]], demand.lag[rest[k]]
        if rate <= left[0] + ROUNDING and lag <= left[1] + ROUNDING:
            score = _score(rule, weights, left, (rate, lag))
            if score > best:
                best, at = score, k
    return at


@compiled
def fill(demand: Demand, room: Room, rule: int) -> Ints:
    """Return each partition's consumer; one is filled at a time with the partition that goes best with what is left; O(n²).

    The weight of a dimension is the mean demand of what remains in it, taken anew for each consumer. A consumer that none of
    the rest fits stays unused if it is there; a spare one takes the first alone, whatever its size. The order of the demand
    settles ties, and there are spare consumers enough for all. ``rule`` is ``DOT`` or ``L2``.
    """
    rest = np.arange(demand.rate.shape[0])
    owner = np.empty(rest.shape[0], np.int64)
    remaining, consumer = rest.shape[0], 0
    total_rate, total_lag = demand.rate.sum(), demand.lag.sum()
    while remaining:
        left = (room.rate[consumer], room.lag[consumer])
        weights = (total_rate / remaining, total_lag / remaining)
        at = _best_of(demand, rest[:remaining], rule, weights, left)
        if at < 0 and consumer >= room.spare:
            at = 0
        while at >= 0:
            j = rest[at]
            owner[j] = consumer
            left = (left[0] - demand.rate[j], left[1] - demand.lag[j])
            total_rate, total_lag = total_rate - demand.rate[j], total_lag - demand.lag[j]
            remaining -= 1
            rest[at:remaining] = rest[at + 1 : remaining + 1]
            at = _best_of(demand, rest[:remaining], rule, weights, left)
        consumer += 1
    return owner


@compiled
def first_fit(demand: Demand, room: Room, order: Ints) -> Ints:
    """Return the place of each partition's consumer: in an order, the first that fits, else the first unused spare one."""
    left_rate, left_lag = room.rate.copy(), room.lag.copy()
    owner = np.empty(order.shape[0], np.int64)
    used = room.spare
    for j in order:
        at = 0
        while at < used and (demand.rate[j] > left_rate[at] + ROUNDING or demand.lag[j] > left_lag[at] + ROUNDING):
            at += 1
        used = max(used, at + 1)
        left_rate[at] -= demand.rate[j]
        left_lag[at] -= demand.lag[j]
        owner[j] = at
    return owner


@borrowing
def _next_alive(after: Ints, slot: int) -> int:
    """Return the first slot from here on whose partition is not placed yet (union-find with path compression)."""
    root = slot
    while after[root] != root:
        root = after[root]
    while after[slot] != root:
        after[slot], slot = root, after[slot]
    return root


class _Classes(NamedTuple):
    """Partitions by the angle of their need, in each class by decreasing size; a class ends in a slot that is always alive."""

    items: Ints  # int64[n + classes]: the partition of a slot
    sizes: Floats  # float64[n + classes]: its rate + lag, -1 in the slot that ends a class
    start: Ints  # int64[classes + 1]: the first slot of each class
    after: Ints  # int64[n + classes]: union-find over slots


@compiled
def _classify(demand: Demand, classes: int) -> _Classes:
    n = demand.rate.shape[0]
    size = demand.rate + demand.lag
    angle = np.empty(n, np.int64)
    start = np.zeros(classes + 1, np.int64)
    for j in range(n):
        share = demand.rate[j] / size[j] if size[j] > 0 else 0.5
        angle[j] = min(int(share * classes), classes - 1)
        start[angle[j] + 1] += 1
    for k in range(classes):
        start[k + 1] += start[k] + 1
    items = np.full(n + classes, -1, np.int64)
    sizes = np.full(n + classes, -1.0)
    free = start[:classes].copy()
    for j in np.argsort(-size, kind="mergesort"):
        slot = free[angle[j]]
        items[slot], sizes[slot] = j, size[j]
        free[angle[j]] += 1
    return _Classes(items, sizes, start, np.arange(n + classes))


@borrowing
def _first_small(sizes: Floats, low: int, high: int, most: float) -> int:
    """Return the first slot in [low, high) whose size is at most ``most``: sizes decrease."""
    while low < high:
        middle = (low + high) >> 1
        if sizes[middle] > most:
            low = middle + 1
        else:
            high = middle
    return low


@borrowing
def _candidate(demand: Demand, by_angle: _Classes, angle: int, left: tuple[float, float]) -> int:
    """Return the slot of about the largest partition of a class that fits, -1 if none does."""
    classes, end = by_angle.start.shape[0] - 1, by_angle.start[angle + 1] - 1
    first = _next_alive(by_angle.after, by_angle.start[angle])
    surely = min(
        left[0] * classes / (angle + 1), left[1] * classes / (classes - angle)
    )  # at this size any angle of the class fits
    slot = _first_small(by_angle.sizes, first, end, surely + ROUNDING)
    slot = _next_alive(by_angle.after, max(first, slot - _LOOKS))
    while slot < end:
        j = by_angle.items[slot]
        if demand.rate[j] <= left[0] + ROUNDING and demand.lag[j] <= left[1] + ROUNDING:
            return slot
        slot = _next_alive(by_angle.after, slot + 1)
    return -1


@borrowing
def _best_slot(demand: Demand, by_angle: _Classes, weights: tuple[float, float], left: tuple[float, float]) -> int:
    """Return the slot with the greatest dot product among one candidate of each class; -1 if nothing fits."""
    best, at = -np.inf, -1
    for angle in range(by_angle.start.shape[0] - 1):
        slot = _candidate(demand, by_angle, angle, left)
        if slot >= 0:
            j = by_angle.items[slot]
            score = _score(DOT, weights, left, (demand.rate[j], demand.lag[j]))
            if score > best:
                best, at = score, slot
    return at


@borrowing
def _first_slot(by_angle: _Classes) -> int:
    """Return the slot of the largest partition that is left."""
    best, at = -1.0, -1
    for angle in range(by_angle.start.shape[0] - 1):
        slot = _next_alive(by_angle.after, by_angle.start[angle])
        if by_angle.sizes[slot] > best:
            best, at = by_angle.sizes[slot], slot
    return at


@compiled
def fill_by_angle(demand: Demand, room: Room, classes: int) -> Ints:
    """Do about what ``fill`` by dot product does, in O(n classes log n): one candidate per class of angles.

    Among partitions of about the same angle the largest that fits has the greatest product, so that each class, sorted by
    size, offers one.
    """
    by_angle = _classify(demand, classes)
    owner = np.empty(demand.rate.shape[0], np.int64)
    remaining, consumer = owner.shape[0], 0
    total_rate, total_lag = demand.rate.sum(), demand.lag.sum()
    while remaining:
        left = (room.rate[consumer], room.lag[consumer])
        weights = (total_rate / remaining, total_lag / remaining)
        at = _best_slot(demand, by_angle, weights, left)
        if at < 0 and consumer >= room.spare:
            at = _first_slot(by_angle)
        while at >= 0:
            j = by_angle.items[at]
            owner[j] = consumer
            by_angle.after[at] = at + 1
            left = (left[0] - demand.rate[j], left[1] - demand.lag[j])
            total_rate, total_lag = total_rate - demand.rate[j], total_lag - demand.lag[j]
            remaining -= 1
            at = _best_slot(demand, by_angle, weights, left)
        consumer += 1
    return owner
