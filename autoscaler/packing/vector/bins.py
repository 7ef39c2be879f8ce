"""Who holds what while partitions with two demands are pushed around: linked lists per consumer on arrays. Part of *pack*."""

from typing import NamedTuple

import numpy as np

from autoscaler.packing.kernels.jit import borrowing, compiled
from autoscaler.packing.vector.fill import ROUNDING, Demand, Floats, Ints, Room

UNASSIGNED = -1


class Holdings(NamedTuple):
    """Who holds what; the partitions of a consumer are a linked list. ``put`` and ``take`` change it in place."""

    owner: Ints  # int64[n]
    left_rate: Floats  # float64[m]
    left_lag: Floats
    many: Ints  # int64[m]: how many partitions each consumer holds
    first: Ints  # int64[m]: the first partition of a consumer
    after: Ints  # int64[n]
    before: Ints  # int64[n]


@borrowing
def put(held: Holdings, demand: Demand, j: int, consumer: int) -> None:
    """Give a waiting partition to a consumer, whatever room that has."""
    head = held.first[consumer]
    held.owner[j] = consumer
    held.after[j], held.before[j] = head, UNASSIGNED
    if head >= 0:
        held.before[head] = j
    held.first[consumer] = j
    held.many[consumer] += 1
    held.left_rate[consumer] -= demand.rate[j]
    held.left_lag[consumer] -= demand.lag[j]


@borrowing
def take(held: Holdings, demand: Demand, j: int) -> None:
    """Take a partition from its consumer and let it wait."""
    consumer, earlier, later = held.owner[j], held.before[j], held.after[j]
    if earlier >= 0:
        held.after[earlier] = later
    else:
        held.first[consumer] = later
    if later >= 0:
        held.before[later] = earlier
    held.owner[j] = UNASSIGNED
    held.many[consumer] -= 1
    held.left_rate[consumer] += demand.rate[j]
    held.left_lag[consumer] += demand.lag[j]


@compiled
def holdings_of(demand: Demand, room: Room, owner: Ints) -> Holdings:
    """Return the holdings in which every partition is with its owner."""
    n, m = owner.shape[0], room.rate.shape[0]
    held = Holdings(
        np.full(n, UNASSIGNED),
        room.rate.copy(),
        room.lag.copy(),
        np.zeros(m, np.int64),
        np.full(m, UNASSIGNED),
        np.full(n, UNASSIGNED),
        np.full(n, UNASSIGNED),
    )
    for j in range(n):
        put(held, demand, j, owner[j])
    return held


@borrowing
def fits(held: Holdings, consumer: int, rate: float, lag: float) -> bool:
    """Say whether a consumer has room for a rate and a backlog more."""
    return bool(held.left_rate[consumer] >= rate - ROUNDING and held.left_lag[consumer] >= lag - ROUNDING)


@borrowing
def swap(held: Holdings, demand: Demand, a: int, b: int) -> bool:
    """Let two partitions of two consumers change places if that fits; say whether it did."""
    here, there = held.owner[a], held.owner[b]
    rate, lag = demand.rate[a] - demand.rate[b], demand.lag[a] - demand.lag[b]
    if not (fits(held, there, rate, lag) and fits(held, here, -rate, -lag)):
        return False
    take(held, demand, a)
    take(held, demand, b)
    put(held, demand, a, there)
    put(held, demand, b, here)
    return True
