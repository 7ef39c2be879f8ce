"""How many moves are needed at least: prices on partitions, and the best filling of each consumer at these. Part of *pack*.

The Lagrangean relaxation of the placement. Each partition pays a price to be placed; each consumer takes the partitions that pay
most, less the cost of moving them, as if no other consumer took them. Whatever the prices, no placement costs less than their sum
minus what the consumers earn. Good prices are found by the volume algorithm.

Sources: Geoffrion 1974, "Lagrangean relaxation for integer programming"; Barahona and Anbil 2000, "The volume algorithm".
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autoscaler.packing.kernels.bins import Floats, Ints
from autoscaler.packing.kernels.jit import borrowing, compiled

_GAIN = 1e-9  # what is less is rounding
_FLAT = 1e-12  # a direction that is none
_DEEPEST = 64  # halvings of the consumers: more than there can be


class Relaxation(NamedTuple):
    """The partitions by home, those without one last."""

    size: Ints  # int64[n], what a partition takes of a consumer
    cost: Floats  # float64[n], of taking it away from home; 0 for those without one
    start: Ints  # int64[k + 2], where the partitions of each home begin, then those without one, then the end
    capacity: int  # of a consumer, in the unit of ``size``
    consumers: int  # how many may be used


class _Fillings(NamedTuple):
    """The best filling of each consumer; the last consumer is one that is no partition's home."""

    worth: Floats  # float64[k + 1], what it earns
    takes: NDArray[np.int8]  # int8[k + 1, n], 1 where it takes a partition
    best: Floats  # float64[n + 1, capacity + 1], of the first so many partitions of ``offered`` within each capacity
    offered: Ints  # int64[n], partitions in the order in which they were offered


@borrowing
def _offer(fillings: _Fillings, many: int, j: int, size: int, gain: float) -> int:
    """Offer one partition more; return how many that makes. One that earns nothing is not offered."""
    if gain <= 0:
        return many
    before, after = fillings.best[many], fillings.best[many + 1]
    for room in range(size):
        after[room] = before[room]
    for room in range(size, before.shape[0]):
        after[room] = max(before[room], before[room - size] + gain)
    fillings.offered[many] = j
    return many + 1


@borrowing
def _note(fillings: _Fillings, many: int, size: Ints, consumer: int) -> None:
    """Write down the best filling of a consumer from all that was offered."""
    room = fillings.best.shape[1] - 1
    fillings.worth[consumer] = fillings.best[many, room]
    for i in range(many, 0, -1):
        if fillings.best[i, room] != fillings.best[i - 1, room]:
            j = fillings.offered[i - 1]
            fillings.takes[consumer, j] = 1
            room -= size[j]


@compiled
def fill_each(given: Relaxation, price: Floats) -> _Fillings:
    """Return the best filling of each consumer.

    To a consumer all partitions are offered, its own at the full price. What is offered to many is offered once: consumers are
    halved, and the first half is offered the partitions at home in the second before it is halved again.
    """
    n, homes = given.size.shape[0], given.start.shape[0] - 2
    fillings = _Fillings(
        np.zeros(homes + 1), np.zeros((homes + 1, n), np.int8), np.zeros((n + 1, given.capacity + 1)), np.empty(n, np.int64)
    )
    many = 0
    for j in range(given.start[homes], n):
        many = _offer(fillings, many, j, given.size[j], price[j])
    begin = given.start.copy()
    begin[homes + 1] = begin[homes]  # the consumer that is no partition's home
    tasks = np.empty((_DEEPEST, 5), np.int64)  # consumers from, to; offered so far; homes from, to whose partitions come next
    tasks[0] = np.array([0, homes + 1, many, 0, 0])
    waiting = 1
    while waiting:
        waiting -= 1
        low, high, many, first, last = tasks[waiting]
        for j in range(begin[first], begin[last]):
            many = _offer(fillings, many, j, given.size[j], price[j] - given.cost[j])
        if high - low == 1:
            for j in range(begin[low], begin[high]):
                many = _offer(fillings, many, j, given.size[j], price[j])
            _note(fillings, many, given.size, low)
        else:
            middle = (low + high) // 2
            tasks[waiting] = np.array([middle, high, many, low, middle])
            tasks[waiting + 1] = np.array([low, middle, many, middle, high])
            waiting += 2
    return fillings


@compiled
def bound_at(given: Relaxation, price: Floats) -> tuple[float, Floats]:
    """Return the bound at these prices, and how much less than once each partition is taken: the way up."""
    fillings = fill_each(given, price)
    homes = fillings.worth.shape[0] - 1
    order = np.argsort(-fillings.worth[:homes], kind="mergesort")
    bound, missing = price.sum(), np.ones(price.shape[0])
    for c in order[: given.consumers]:
        bound -= fillings.worth[c]
        missing -= fillings.takes[c]
    new = max(0, given.consumers - homes)
    return bound - new * fillings.worth[homes], missing - new * fillings.takes[homes]


@borrowing
def chance(state: Ints) -> float:
    """Return the next number of a fixed sequence, from 0 to 1."""
    state[0] = (state[0] * 1103515245 + 12345) & 0x7FFFFFFF
    return float(state[0]) / 0x7FFFFFFF


class Steps(NamedTuple):
    """How the prices are changed: numbers that brought the bound within 0.1 % of its best at 200 partitions."""

    first: float = 0.5  # length of the first step, as a part of the way to the cost hoped for
    last: float = 1e-5  # the search ends when steps are shorter
    patience: int = 100  # so many steps without gain, and they are made shorter
    newest: float = 0.02  # the part of the newest direction in the average of all, at most
    hope: float = 0.1  # the cost hoped for where none is known is so much above the bound


@compiled
def _newest_part(average: Floats, newest: Floats, most: float) -> float:
    """Return the part of the newest direction that makes the average shortest, within limits."""
    apart = average - newest
    length = (apart * apart).sum()
    best = (average * apart).sum() / length if length > 0 else most
    return min(max(best, most / 10), most)


@compiled
def best_bound(given: Relaxation, known: float, rounds: int, steps: Steps) -> tuple[float, Floats]:
    """Return the greatest bound found, and the prices that show it: no placement on so many consumers costs less.

    The search ends after so many ``rounds``, or when the cost of a ``known`` placement (infinity: none is known) is reached.
    """
    price = 0.5 * given.cost + 0.5 * given.size / given.capacity
    best, average = bound_at(given, price)
    part, failed = steps.first, 0
    for _ in range(rounds):
        length = (average * average).sum()
        hoped = min(known, best + steps.hope * max(1.0, abs(best)))
        if best >= known - _GAIN or part < steps.last or length < _FLAT:
            break
        tried = np.maximum(price + part * (hoped - best) / length * average, 0.0)
        bound, missing = bound_at(given, tried)
        uphill = (missing * average).sum() > 0
        newest = _newest_part(average, missing, steps.newest)
        average = newest * missing + (1 - newest) * average
        if bound > best + _GAIN:
            best, price, failed = bound, tried, 0
            part = min(2.0, part * 1.1) if uphill else part
        else:
            failed += 1
            if failed == steps.patience:
                part, failed = part * 0.66, 0
    return best, price
