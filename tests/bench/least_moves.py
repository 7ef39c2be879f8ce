"""The least R-score of one step at a number of consumers: what no planner can go below from where it stands.

For judging planners, not for planning.
"""

import math
from typing import NamedTuple

import numpy as np

from autoscaler.packing.exact.exact import least_moved_model
from autoscaler.packing.exact.fill_prices import Steps, best_bound
from autoscaler.packing.exact.solver import solve
from autoscaler.packing.exact.task import Task, by_home
from autoscaler.packing.exact.whole_units import whole_costs, whole_sizes
from autoscaler.packing.kernels.bins import Floats
from autoscaler.packing.problem.lower_bounds import martello_toth
from autoscaler.packing.problem.options import Labels

ROUNDS = 20_000  # some seconds at 200 partitions: twice as many raise the bound by less than 0.1 %

_ROUNDING = 1e-6
_FLOAT_DUST = 1e-12


class LeastR(NamedTuple):
    """What one step costs at least."""

    bound: float  # no placement on so many consumers has a lower R-score; infinite if there is none at all
    proven: bool  # a placement with this R-score is known: the bound is the least


def least_r(
    e: Floats, cost: Floats, home: Labels, consumers: int, *, known: float = math.inf, rounds: int = ROUNDS, seconds: float = 0.0
) -> LeastR:
    """Return what a step from here costs at least, if so many consumers may be used.

    First a relaxation that is fast and hardly ever more than a few per cent too low, improved for so many ``rounds``; where it
    does not reach the ``known`` R-score and ``seconds`` are given, CP-SAT (of OR-Tools) searches for the least itself. ``e`` is
    what a partition takes of a consumer, at most 1, and ``cost`` its rate over the capacity; ``home`` is label 0 to k-1, -1 for
    none.
    """
    busy = e > 0
    if martello_toth(e[busy], 1.0) > consumers:
        return LeastR(math.inf, proven=True)
    homes, label = np.unique(home[busy], return_inverse=True)
    label = label - int(homes.size > 0 and homes[0] < 0)
    task = Task([whole_sizes(cost[busy])], whole_costs(cost[busy]), label, int(label.max(initial=-1)) + 1)
    relaxation = by_home(task, cost[busy]).relaxation(task, consumers, optimistic=True)
    bound = _up(best_bound(relaxation, known, rounds, Steps())[0], cost[busy][label >= 0])
    if bound >= known - _ROUNDING:
        return LeastR(known, proven=True)
    if seconds <= 0:
        return LeastR(bound, proven=False)
    return _search(task, consumers, bound, seconds)


def _up(bound: float, costs: Floats) -> float:
    """Return a bound rounded up to what a sum of costs can be, where the costs are multiples of something."""
    whole = whole_costs(costs)
    exact = np.abs(whole.multiples * whole.unit - costs).max(initial=0.0) < _FLOAT_DUST
    return max(0.0, math.ceil(bound / whole.unit - _ROUNDING) * whole.unit if exact else bound)


def _search(task: Task, consumers: int, bound: float, seconds: float) -> LeastR:
    choice = least_moved_model(task, consumers)
    solved = solve(choice.model, {}, seconds)
    if solved.true is None:
        return LeastR(math.inf if solved.proven else bound, solved.proven)
    found = max(bound, solved.bound * task.cost.unit)
    return LeastR(found, solved.proven)
