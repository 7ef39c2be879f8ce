"""EXACT by rate and backlog: the fewest consumers, and then the least moved. Part of *pack*."""

import numpy as np

from autoscaler.packing.exact.exact import plan_exactly, with_idle
from autoscaler.packing.exact.solver import new_model
from autoscaler.packing.exact.task import Task
from autoscaler.packing.exact.whole_units import whole_costs, whole_sizes
from autoscaler.packing.problem.options import Labels, Planned
from autoscaler.packing.vector.dot import fewest_consumers
from autoscaler.packing.vector.fill import ROUNDING, Demand, Room

_MORE_THAN_ALL = 2.0  # of a consumer, in both dimensions: nothing goes beside a partition that is above one of them


def exact_2d(demand: Demand, known: Labels, home: Labels, seconds: float) -> Planned:
    """Place every partition on the fewest consumers, all alike, and of such placements take one that moves least.

    Demands are in units of a consumer. ``known`` is a placement to start from, by which ``home`` (-1 for none) is numbered too;
    it stays unless a better one is found. The placement comes with whether it is proven to be the best.

    Raises:
        PermanentError: OR-Tools is not installed.
    """
    new_model()  # says at once where the solver is missing
    busy = (demand.rate > 0) | (demand.lag > 0)
    alone = (demand.rate > 1 + ROUNDING) | (demand.lag > 1 + ROUNDING)
    names = np.unique(home[home >= 0])
    others = np.setdiff1d(np.arange(names.shape[0] + home.shape[0] + 1), names)  # of consumers without a partition now
    names = np.append(names, others)
    label = np.full(int(names.max()) + 1, -1)
    label[names] = np.arange(names.shape[0])
    at_home = np.where(home >= 0, label[home], -1)
    if not busy.any():
        return Planned(known, proven=True)
    task = Task(
        [whole_sizes(np.where(alone, _MORE_THAN_ALL, need)[busy]) for need in demand],
        whole_costs(demand.rate[busy]),
        at_home[busy],
        int((home >= 0).any()) and int(at_home.max()) + 1,
    )
    least = fewest_consumers(Demand(demand.rate[busy], demand.lag[busy]), Room(np.ones(1), np.ones(1), 0))
    planned = plan_exactly(task, label[known[busy]], least, seconds)
    return Planned(names[with_idle(planned.labels, busy, alone, at_home)], planned.proven)
