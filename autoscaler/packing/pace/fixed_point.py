"""Ask a planner again from its own result until it stays, so that a constant load moves nothing. Part of *pack*.

Partitions are numbered by decreasing share, as in ``Bins``; planners here are blind to what consumers are called.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from autoscaler.packing.kernels.bins import LIMIT, OVERSIZED, UNASSIGNED, Floats, Ints
from autoscaler.packing.kernels.jit import compiled
from autoscaler.packing.pace.home_fit import name_anew
from autoscaler.packing.problem.options import Planned

_ROUNDS = 200  # far more than were ever seen: no rounding of sums shall keep a planner going
Improve = Callable[[Ints], Ints]  # from labels, numbered by first appearance, to other labels


class Demand(NamedTuple):
    """What is to be placed."""

    share: Floats  # float64[n], decreasing; ``OVERSIZED`` above the capacity
    cost: Floats  # float64[n], decreasing
    home: Ints  # int64[n], -1 for none
    order: Ints  # int64[n], where each stood in the caller's arrays


def demand_of(e: Floats, cost: Floats, home: Ints) -> Demand:
    """Return the partitions by decreasing cost, and so by decreasing share; ties stay in the caller's order."""
    order = np.argsort(-cost, kind="stable")
    share = np.where(cost > LIMIT, OVERSIZED, e)
    return Demand(share[order], cost[order], home[order], order)


def settle(demand: Demand, improve: Improve, gentle: Callable[[Ints], Iterable[Ints]]) -> Planned:
    """Place everything so that the planner, asked again, stays; return labels in the caller's order.

    Consumers are named after the old ones from which they keep most. ``improve`` is one round of the planner, which gives back
    what it was given if it stays. ``gentle`` gives, where some partitions wait, placements that move no other partition, the
    best first.
    """
    present = canonical(demand.home)
    gently = _gently(present, improve, gentle)
    settled = _repeated(present, improve) if gently is None else gently
    labels = np.empty_like(demand.home)
    labels[demand.order] = name_anew(demand.cost, demand.home, settled, 2 * len(labels) + 1)
    return Planned(labels)


def _repeated(present: Ints, improve: Improve) -> Ints:
    """Return where the planner stays; it gets there in a few rounds, because each lowers what the placement costs."""
    for _ in range(_ROUNDS):
        planned = canonical(improve(present))
        if np.array_equal(planned, present):
            break
        present = planned
    return present


def _gently(present: Ints, improve: Improve, gentle: Callable[[Ints], Iterable[Ints]]) -> Ints | None:
    """Return the first placement that moves no other partition and at which the planner stays."""
    if not np.any(present == UNASSIGNED) or not np.any(present != UNASSIGNED):
        return None
    for offered in gentle(present):
        labels = canonical(offered)
        if np.array_equal(canonical(improve(labels)), labels):
            return labels
    return None


@compiled
def canonical(labels: Ints) -> Ints:
    """Return labels numbered by first appearance, so that nothing depends on what consumers are called; -1 stays."""
    number = np.full(labels.max() + 1, UNASSIGNED)
    numbered, known = np.full(len(labels), UNASSIGNED), 0
    for j in range(len(labels)):
        if labels[j] >= 0:
            if number[labels[j]] < 0:
                number[labels[j]] = known
                known += 1
            numbered[j] = number[labels[j]]
    return numbered
