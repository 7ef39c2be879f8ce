"""In which order a plan's replicas move: first what brings brokers nearest to their bands for what is copied. Part of *goals*.

Actions are chosen broker by broker, the one that is furthest outside first. A plan may take hours, or be stopped: until then it
shall have done the most for what it has copied. By how far brokers are outside, each state on the way shall lie between what was
found and the plan's end, goal by goal. Actions that help only together with another one, as two that change places, come when no
other one helps.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from autoscaler.goals.actions import Action, MoveReplica
from autoscaler.goals.kernels import NONE, Floats, Ints
from autoscaler.goals.problem import Problem
from autoscaler.packing.kernels.jit import borrowing, compiled

_LOOKS = 2_000_000  # at actions, all passes together; more of a great plan change nothing that matters
_SLICE = 0.7  # of what the best of a pass is worth: what is worth less waits for the next pass
_STILL_GOOD = 0.9  # of what an action was worth when its pass began: less waits, too
_LEAST = 0.01  # of a mean replica, what an action costs at least
_ROUNDING = 1e-9


class Actions(NamedTuple):
    """What is to be ordered, and by what."""

    source: Ints  # int64[actions], brokers by position
    target: Ints
    shift: Floats  # float64[actions, loads]
    cost: Floats  # float64[actions], in mean replicas
    earlier: Ints  # int64[actions], the action of the same partition before each; ``NONE``: there is none
    load: Floats  # float64[brokers, loads], now; it is changed
    low: Floats  # float64[brokers, loads]: where loads shall be
    high: Floats
    limit: Floats  # float64[brokers, loads]: what no action may go beyond
    unit: Floats  # float64[loads]: a weight over the squared mean
    out: Floats  # float64[loads], the squares of what is outside, now
    most: Floats  # float64[loads], those that were found
    least: Floats  # float64[loads], those at the end
    worst: Floats  # float64[loads], the greatest of them that was found


def most_for_its_cost(problem: Problem, loads: Floats, end: Floats, actions: Sequence[Action]) -> list[Action]:
    """Return actions in the order in which each does the most for what it copies; those of one partition keep theirs.

    Args:
        problem: What is balanced.
        loads: float64[brokers, loads], before the first of the actions.
        end: float64[brokers, loads], after the last one.
        actions: In the order in which they were chosen.
    """
    snapshot, counted = problem.snapshot, problem.counted
    p = np.searchsorted(snapshot.partitions, np.array([m.partition for m in actions], np.int64))
    ends = np.array([(m.source, m.target) for m in actions], np.int64).reshape(-1, 2)
    copies = np.array([isinstance(m, MoveReplica) for m in actions], np.bool_)
    leads = np.array([not isinstance(m, MoveReplica) or m.leads for m in actions], np.bool_)
    sizes = np.array([m.size_bytes if isinstance(m, MoveReplica) else 0.0 for m in actions])
    low, high = np.full(loads.shape, -np.inf), problem.limit.copy()
    for g, band in enumerate(problem.bands):
        low[counted, g], top = band.limits()
        high[:, g] = np.minimum(top, high[:, g])
    high[~counted] = np.inf
    squares, left = (np.maximum(0.0, np.maximum(low - x, x - high)) ** 2 for x in (loads, end))
    weights = np.array([*(g.weight for g in problem.goals), *[1.0] * (len(problem.loads) - len(problem.goals))])
    order = _ordered(
        Actions(
            source=np.searchsorted(snapshot.brokers, ends[:, 0]),
            target=np.searchsorted(snapshot.brokers, ends[:, 1]),
            shift=np.where(copies[:, None], problem.follow[p], 0.0) + np.where(leads[:, None], problem.lead[p], 0.0),
            cost=_LEAST + np.asarray(sizes / sizes[copies].mean() if sizes.any() else copies, np.float64),
            earlier=_earlier(p),
            load=loads.copy(),
            low=low,
            high=high,
            limit=problem.limit * (1.0 + _ROUNDING),
            unit=np.where(problem.means > 0, weights / np.where(problem.means > 0, problem.means, 1.0) ** 2, 0.0),
            out=squares.sum(axis=0),
            most=squares.sum(axis=0) * (1.0 + _ROUNDING),
            least=left.sum(axis=0) * (1.0 - _ROUNDING),
            worst=squares.max(axis=0, initial=0.0) * (1.0 + _ROUNDING),
        )
    )
    return [actions[i] for i in order.tolist()]


def _earlier(partition: Ints) -> Ints:
    by_partition = np.argsort(partition, kind="stable")
    again = partition[by_partition[1:]] == partition[by_partition[:-1]]
    earlier = np.full(len(partition), NONE)
    earlier[by_partition[1:][again]] = by_partition[:-1][again]
    return earlier


@compiled
def _ordered(m: Actions) -> Ints:
    count = len(m.source)
    order, used, done, worth = np.empty(count, np.int64), 0, np.zeros(count, np.bool_), np.empty(count)
    for _ in range(1 + _LOOKS // max(1, count)):
        begun, left = used, np.flatnonzero(~done)
        if used == count:
            break
        for i in left:
            worth[i] = _worth(m, int(i)) if m.earlier[i] < 0 or done[m.earlier[i]] else 0.0
        best = worth[left].max()
        for i in left[np.argsort(-worth[left], kind="mergesort")]:
            if worth[i] <= _SLICE * best:
                break
            if used > begun and _worth(m, int(i)) < _STILL_GOOD * worth[i]:
                continue
            _do(m, i)
            order[used], done[i] = i, True
            used += 1
        if used == begun:  # what is left helps together with another one only
            _do(m, left[0])
            order[used], done[left[0]] = left[0], True
            used += 1
    for i in np.flatnonzero(~done):
        order[used] = i
        used += 1
    return order


@borrowing
def _worth(m: Actions, i: int) -> float:
    """Return by how much squares of what is outside fall for what is copied; 0 where an action has to wait."""
    fall, a, b = 0.0, m.source[i], m.target[i]
    for g in range(len(m.unit)):
        x = m.shift[i, g]
        if x > 0.0 and m.load[b, g] + x > m.limit[b, g]:
            return 0.0
        now_a, now_b = _squared(m, a, g, -x), _squared(m, b, g, x)
        change = now_a + now_b - _squared(m, a, g, 0.0) - _squared(m, b, g, 0.0)
        out = m.out[g] + change
        if (change > 0.0 and (out > m.most[g] or max(now_a, now_b) > m.worst[g])) or (change < 0.0 and out < m.least[g]):
            return 0.0
        fall -= m.unit[g] * change
    return float(fall / m.cost[i]) if fall > 0.0 else 0.0


@borrowing
def _squared(m: Actions, b: int, g: int, more: float) -> float:
    load = m.load[b, g] + more
    return float(max(0.0, m.low[b, g] - load, load - m.high[b, g]) ** 2)


@borrowing
def _do(m: Actions, i: int) -> None:
    a, b = m.source[i], m.target[i]
    for g in range(len(m.unit)):
        x = m.shift[i, g]
        m.out[g] += _squared(m, a, g, -x) + _squared(m, b, g, x) - _squared(m, a, g, 0.0) - _squared(m, b, g, 0.0)
        m.load[a, g] -= x
        m.load[b, g] += x
