"""Bring partitions with two demands back to where they came from, on no more consumers: a kernel on arrays, part of *pack*."""

import numpy as np

from autoscaler.packing.kernels.jit import borrowing, compiled
from autoscaler.packing.vector.bins import UNASSIGNED, Holdings, fits, holdings_of, put, swap, take
from autoscaler.packing.vector.fill import Demand, Floats, Ints, Room

_SWEEPS = 5
_GAIN = 1e-9  # what is less is rounding


@borrowing
def _best_exchange(held: Holdings, demand: Demand, cost: Floats, home: Ints, j: int) -> int:
    """Return the partition of j's home that changes places with j at the greatest gain, -1 if none gains."""
    here, there = held.owner[j], home[j]
    best, at = _GAIN, UNASSIGNED
    y = held.first[there]
    while y >= 0:
        gain = cost[j] + (cost[y] if home[y] == here else 0.0) - (cost[y] if home[y] == there else 0.0)
        rate, lag = demand.rate[j] - demand.rate[y], demand.lag[j] - demand.lag[y]
        if gain > best and fits(held, there, rate, lag) and fits(held, here, -rate, -lag):
            best, at = gain, y
        y = held.after[y]
    return at


@compiled
def bring_home(demand: Demand, room: Room, owner: Ints, home: Ints, cost: Floats) -> Ints:
    """Return where partitions are to go after returns and exchanges, at the same or a lower cost, on consumers of ``owner``.

    ``home`` is where it is now, by the same numbers; -1 if nowhere. ``owner`` is not changed.
    """
    held = holdings_of(demand, room, owner)
    order = np.argsort(-cost, kind="mergesort")
    for _ in range(_SWEEPS):
        found = False
        for j in order:
            if home[j] < 0 or held.owner[j] == home[j] or not held.many[home[j]]:
                continue
            if fits(held, home[j], demand.rate[j], demand.lag[j]):
                take(held, demand, j)
                put(held, demand, j, home[j])
                found = True
                continue
            y = _best_exchange(held, demand, cost, home, j)
            if y >= 0:
                found = swap(held, demand, j, y) or found
        if not found:
            break
    return held.owner
