"""What an exact planner is asked for: partitions with traffic in whole numbers. Part of *pack*."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from autoscaler.packing.exact.fill_prices import Relaxation
from autoscaler.packing.exact.whole_units import Whole, WholeCosts
from autoscaler.packing.kernels.bins import Floats, Ints
from autoscaler.packing.problem.options import Labels

_MOST_UNITS = 1000  # of one capacity: finer sizes are rounded to coarse ones, as the time grows with the units
_COARSE = 500


class Task(NamedTuple):
    """The partitions with traffic."""

    sizes: Sequence[Whole]  # in whole units of the capacity: one dimension or more, each with its own capacity
    cost: WholeCosts  # of moving each
    home: Ints  # int64[n], label 0 … k-1, -1 for none
    labels: int  # k

    def moved(self, owner: Labels) -> int:
        """Return what the moves of a placement cost, in units of the cost."""
        return int(self.cost.multiples[(self.home >= 0) & (self.home != owner)].sum())


class ByHome(NamedTuple):
    """The partitions of a task by home, those without one last."""

    order: Ints  # int64[n], places in the task
    moved: Floats  # float64[n], what taking each away from home costs
    start: Ints  # int64[k + 2], where those of each home begin, then those without one, then the end

    def relaxation(self, task: Task, consumers: int, *, optimistic: bool) -> Relaxation:
        """Return the task that this was made of as a relaxation in its first dimension, in coarse units.

        An optimistic one rounds sizes that are too fine down, so that nothing that fits is lost; the other rounds them up.
        """
        sizes, capacity = task.sizes[0]
        if capacity > _MOST_UNITS:
            sizes = sizes * _COARSE // capacity if optimistic else -(-sizes * _COARSE // capacity)
            capacity = _COARSE
        return Relaxation(sizes[self.order], self.moved, self.start, capacity, consumers)


def by_home(task: Task, cost: Floats) -> ByHome:
    """Return the partitions of a task by home; ``cost``, float64[n], is of moving each."""
    key = np.where(task.home < 0, task.labels, task.home)
    order = np.argsort(key, kind="stable")
    return ByHome(
        order=order,
        moved=np.where(task.home < 0, 0.0, cost)[order],
        start=np.searchsorted(key[order], np.arange(task.labels + 2)),
    )
