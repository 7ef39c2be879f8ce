"""The model that a plan is made on: who holds and leads what, and what an action does to every goal. Part of *goals*.

Nodes, partitions and replicas are positions in arrays. A load has one column per goal. Compiled by ``packing/kernels/jit.py``.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autoscaler.packing.kernels.jit import borrowing, compiled

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NONE = -1
LEAD, MOVE, SWAP = 0, 1, 2  # kinds of actions
_ALIGNED = (
    2  # power of the squared cosine between what is shifted and what is too much: goals shall come into their bands together
)
_TINY = 1e-12  # of what a goal's deviation can be: less is rounding


class Model(NamedTuple):
    """A cluster in the making; ``broker``, ``leader``, ``load`` and the lists are changed in place."""

    follow: Floats  # float64[partitions, goals]: what every replica puts on its broker
    lead: Floats  # float64[partitions, goals]: what the leader puts on its broker besides
    copied: Floats  # float64[partitions]: what moving a replica costs, in mean replicas
    partition: Ints  # int64[replicas], ascending
    first: Ints  # int64[partitions + 1]: where each partition's replicas begin
    broker: Ints  # int64[replicas]
    leader: Ints  # int64[partitions]: the replica that leads
    load: Floats  # float64[brokers, goals]
    low: Floats  # float64[brokers, goals]: where loads shall be, ends included
    high: Floats  # float64[brokers, goals]
    centre: Floats  # float64[brokers, goals]: the middle between both, the same for all whose limits do not matter
    limit: Floats  # float64[brokers, goals]: what no action may go beyond
    unit: Floats  # float64[goals]: a goal's weight over its squared mean
    rack: Ints  # int64[brokers]; all different where racks do not matter
    gives: Bools  # bool[brokers]
    receives: Bools  # bool[brokers]
    movable: Bools  # bool[partitions]
    head: Ints  # int64[brokers]: each broker's list of replicas
    after: Ints  # int64[replicas]
    before: Ints  # int64[replicas]
    held: Ints  # int64[brokers]: how many replicas


@compiled
def link(model: Model) -> None:
    """Put every replica into its broker's list, and add up the loads."""
    model.head[:] = NONE
    model.held[:] = 0
    model.load[:] = 0.0
    for r in range(len(model.broker) - 1, -1, -1):
        _enter(model, r, model.broker[r])
    for r in range(len(model.broker)):
        p, b = model.partition[r], model.broker[r]
        for g in range(len(model.unit)):
            model.load[b, g] += share(model, r, p, g)


@borrowing
def _enter(model: Model, r: int, b: int) -> None:
    model.after[r], model.before[r] = model.head[b], NONE
    if model.head[b] >= 0:
        model.before[model.head[b]] = r
    model.head[b] = r
    model.held[b] += 1


@borrowing
def share(model: Model, r: int, p: int, g: int) -> float:
    """Return what a replica of partition ``p`` puts on its broker."""
    return float(model.follow[p, g] + (model.lead[p, g] if model.leader[p] == r else 0.0))


@borrowing
def move(model: Model, r: int, b: int) -> None:
    """Put a replica on another broker; the leader stays the leader."""
    p, a = model.partition[r], model.broker[r]
    before, after = model.before[r], model.after[r]
    if before >= 0:
        model.after[before] = after
    else:
        model.head[a] = after
    if after >= 0:
        model.before[after] = before
    model.held[a] -= 1
    for g in range(len(model.unit)):
        x = share(model, r, p, g)
        model.load[a, g] -= x
        model.load[b, g] += x
    model.broker[r] = b
    _enter(model, r, b)


@borrowing
def hand_over(model: Model, p: int, r: int) -> None:
    """Let another replica lead a partition."""
    a, b = model.broker[model.leader[p]], model.broker[r]
    for g in range(len(model.unit)):
        model.load[a, g] -= model.lead[p, g]
        model.load[b, g] += model.lead[p, g]
    model.leader[p] = r


@borrowing
def excess(model: Model, b: int, g: int, load: float) -> float:
    """Return how far outside its band a load is; 0 inside."""
    return float(max(0.0, model.low[b, g] - load, load - model.high[b, g]))


@borrowing
def off(model: Model, b: int, g: int) -> float:
    """Return how far above the middle of its band a broker is; below it is negative."""
    return float(model.load[b, g] - model.centre[b, g])


@borrowing
def in_rack(model: Model, r: int, rack: int) -> int:
    """Return how many other replicas of the same partition are in a rack."""
    p, count = model.partition[r], 0
    for s in range(model.first[p], model.first[p + 1]):
        count += s != r and model.rack[model.broker[s]] == rack
    return count


@borrowing
def may_hold(model: Model, r: int, b: int) -> bool:
    """Say whether a broker takes replicas, has none of this partition, and its rack has no more of it than the present one."""
    if not model.receives[b]:
        return False
    p = model.partition[r]
    for s in range(model.first[p], model.first[p + 1]):
        if model.broker[s] == b:
            return False
    there = in_rack(model, r, model.rack[b])
    return bool(there == 0 or there <= in_rack(model, r, model.rack[model.broker[r]]))


@borrowing
def gain(model: Model, a: int, b: int, x: Floats) -> float:
    """Return what shifting ``x`` from one broker to another is worth; 0 if it makes any goal worse, or none better.

    A goal that has a broker outside its band counts x·(gap − x): the fall of the sum of squares, greatest for half the gap. It
    must not leave the two brokers further outside, neither the worse one nor both together, and none that was inside.
    """
    worth, better, along, squared, whole = 0.0, 0.0, 0.0, 0.0, 0.0
    for g in range(len(model.unit)):
        la, lb = model.load[a, g], model.load[b, g]
        na, nb = la - x[g], lb + x[g]
        if (x[g] > 0 and nb > model.limit[b, g]) or (x[g] < 0 and na > model.limit[a, g]):
            return 0.0
        old_a, old_b = excess(model, a, g, la), excess(model, b, g, lb)
        new_a, new_b = excess(model, a, g, na), excess(model, b, g, nb)
        old, new = old_a * old_a + old_b * old_b, new_a * new_a + new_b * new_b
        if old == 0.0 and new == 0.0:
            continue
        if (old_a == 0.0 and new_a > 0.0) or (old_b == 0.0 and new_b > 0.0):
            return 0.0
        unit, gap = model.unit[g], off(model, a, g) - off(model, b, g)
        if unit * (new - old) > _TINY or max(new_a, new_b) > max(old_a, old_b) + 1e-9 * (abs(la) + abs(lb)):
            return 0.0
        better += unit * (old - new)
        worth += unit * x[g] * (gap - x[g])
        along += unit * x[g] * gap
        squared += unit * x[g] * x[g]
        whole += unit * gap * gap
    if better <= _TINY or worth <= 0.0:
        return 0.0
    return worth * (along * along / (squared * whole)) ** _ALIGNED
