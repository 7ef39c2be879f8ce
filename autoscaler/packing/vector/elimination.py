"""Empty one consumer after the other by pushing partitions around: a local search on two demands at once, part of *pack*.

Source: Nagata and Braysy 2009, "A powerful route minimization heuristic for the vehicle routing problem with time windows"
(ejection pool, least sum of failure counts, random exchanges in between), here for vector packing. "Random" is a fixed sequence:
equal input gives equal output.
"""

import numpy as np

from autoscaler.packing.kernels.jit import borrowing, compiled
from autoscaler.packing.vector.bins import UNASSIGNED, Holdings, fits, holdings_of, put, swap, take
from autoscaler.packing.vector.fill import ROUNDING, Demand, Ints, Room

_BY_SIZE = 0.1  # of one failure: among partitions that failed equally often the smaller one is pushed out


@borrowing
def _chance(state: Ints, below: int) -> int:
    """Return the next number of a fixed sequence, from 0 to ``below`` - 1."""
    state[0] = (state[0] * 1103515245 + 12345) & 0x7FFFFFFF
    return int((state[0] >> 8) % below)


@borrowing
def _tightest(held: Holdings, demand: Demand, j: int) -> int:
    """Return the used consumer that j leaves the least room on, -1 if it fits nowhere."""
    best, at = np.inf, UNASSIGNED
    for c in range(held.many.shape[0]):
        room = held.left_rate[c] + held.left_lag[c]
        if room < best and held.many[c] and fits(held, c, demand.rate[j], demand.lag[j]):
            best, at = room, c
    return at


@borrowing
def _cheapest_ejection(held: Holdings, demand: Demand, failures: Ints, j: int) -> tuple[int, int]:
    """Return the one or two partitions of a consumer that failed least and make room for j; (-1, -1) if none do."""
    best, out = np.inf, (UNASSIGNED, UNASSIGNED)
    for c in range(held.many.shape[0]):
        need_rate = demand.rate[j] - held.left_rate[c] - ROUNDING
        need_lag = demand.lag[j] - held.left_lag[c] - ROUNDING
        x = held.first[c]
        while x >= 0:
            lacks_rate, lacks_lag = need_rate - demand.rate[x], need_lag - demand.lag[x]
            cost = failures[x] + _BY_SIZE * (demand.rate[x] + demand.lag[x])
            if cost < best and lacks_rate <= 0 and lacks_lag <= 0:
                best, out = cost, (x, UNASSIGNED)
            y = held.after[x]
            while y >= 0:
                both = cost + failures[y] + _BY_SIZE * (demand.rate[y] + demand.lag[y])
                if both < best and lacks_rate <= demand.rate[y] and lacks_lag <= demand.lag[y]:
                    best, out = both, (x, y)
                y = held.after[y]
            x = held.after[x]
    return out


@borrowing
def _shuffle(held: Holdings, demand: Demand, chance: Ints, times: int) -> None:
    """Exchange partitions of different consumers picked by a fixed sequence, where that fits."""
    n = held.owner.shape[0]
    for _ in range(times):
        a, b = _chance(chance, n), _chance(chance, n)
        if held.owner[a] >= 0 and held.owner[b] >= 0 and held.owner[a] != held.owner[b]:
            swap(held, demand, a, b)


@compiled
def _find_places(held: Holdings, demand: Demand, pool: Ints, waiting: int, tries: int) -> int:
    """Place the first ``waiting`` partitions of the pool, pushing others out; return the tries left, -1 if they ran out."""
    failures, chance = np.ones(pool.shape[0], np.int64), np.ones(1, np.int64)
    while waiting:
        j = pool[waiting - 1]
        consumer = _tightest(held, demand, j)
        if consumer >= 0:
            waiting -= 1
            put(held, demand, j, consumer)
            continue
        tries -= 1
        failures[j] += 1
        x, y = _cheapest_ejection(held, demand, failures, j)
        if tries < 0 or x < 0:
            return -1
        consumer = held.owner[x]
        pool[waiting - 1] = x
        take(held, demand, x)
        if y >= 0:
            pool[waiting] = y
            take(held, demand, y)
            waiting += 1
        put(held, demand, j, consumer)
        _shuffle(held, demand, chance, pool.shape[0] // 2)
    return tries


@compiled
def _empty(held: Holdings, demand: Demand, consumer: int, tries: int) -> int:
    """Find places elsewhere for all that a consumer holds; return the tries left, -1 if they ran out."""
    pool = np.empty(held.owner.shape[0], np.int64)
    waiting = 0
    while held.first[consumer] >= 0:
        pool[waiting] = held.first[consumer]
        take(held, demand, pool[waiting])
        waiting += 1
    return _find_places(held, demand, pool, waiting, tries)


@compiled
def _emptiest(held: Holdings, demand: Demand) -> int:
    """Return the used consumer that holds the least of both together."""
    content = np.zeros(held.many.shape[0])
    for j in range(held.owner.shape[0]):
        content[held.owner[j]] += demand.rate[j] + demand.lag[j]
    best, at = np.inf, UNASSIGNED
    for c in range(content.shape[0]):
        if held.many[c] and content[c] < best:
            best, at = content[c], c
    return at


@compiled
def eliminate(demand: Demand, room: Room, owner: Ints, fewest: int, tries: int) -> Ints:
    """Return the place of each partition with consumers emptied, the least filled first, until the tries are spent.

    It stops at ``fewest``, which every placement needs. A try is one ejection, some 15 microseconds at 200 partitions;
    ``owner`` is not changed.
    """
    best = owner.copy()
    held = holdings_of(demand, room, best)
    used = (held.many > 0).sum()
    while used > fewest:
        tries = _empty(held, demand, _emptiest(held, demand), tries)
        if tries < 0:
            break
        best, used = held.owner.copy(), used - 1
    return best
