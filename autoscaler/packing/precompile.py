"""Compile, or load from the cache, every kernel that the control loop calls, before it begins. Part of *pack*."""

from collections.abc import Collection

import numpy as np

from autoscaler.model import TopicPartition
from autoscaler.packing.bounded import fewest_by_size
from autoscaler.packing.heterogeneous.capacity_model import Gauge
from autoscaler.packing.heterogeneous.placement import Uneven
from autoscaler.packing.pace.decompose import improve_parts
from autoscaler.packing.pace.ejection_chains import Prices
from autoscaler.packing.pace.fixed_point import demand_of
from autoscaler.packing.problem.options import TAKES, Given
from autoscaler.packing.registry import assign_arrays


def warm(algorithms: Collection[str]) -> None:
    """Plan small groups in every way that a control loop may ask these algorithms for, so that no cycle imports or compiles.

    Takes half a minute of one processor when nothing is cached, else about a second. For EXACT it loads OR-Tools.

    Raises:
        ValueError: One of them is no name in ``registry.ALGORITHMS``.
    """
    rates = np.array([70.0, 60.0, 45.0, 40.0, 30.0, 20.0, 10.0, 0.0, 130.0])
    crowded = np.array([0, 0, 0, 1, 1, 2, 2, 1, 3], np.int64)
    waiting = np.array([0, 1, 2, 2, 1, -1, -1, 1, 3], np.int64)
    for algorithm in sorted(set(algorithms) - {"EXACT"}):
        options: Given = {"drift": 5.0} if "drift" in TAKES.get(algorithm, ()) else {}
        for previous in (crowded, waiting, np.full(9, -1, np.int64)):
            assign_arrays(rates, 100.0, previous, algorithm, **options)
    demand = demand_of(np.minimum(rates / 100.0, 1.0), rates / 100.0, crowded)
    improve_parts(demand.share, demand.cost, demand.home, Prices(0.7, 0.0, 1.0, 0.05))
    for count in (9, 2001):  # above two thousand partitions it is another kernel
        _warm_uneven(count)
    fewest_by_size((1.0,), 1.0)
    if "EXACT" in algorithms:
        _warm_exact()


def _warm_uneven(count: int) -> None:
    """Pack what is unequal anew, and bring it home."""
    loads = {TopicPartition(topic="", partition=n): 10.0 + 7 * (n % 9) for n in range(count)}
    gauge = Gauge(speeds={0: 0.5}, counts={p: 70.0 - rate for p, rate in loads.items()})
    Uneven(rates=loads, gauge=gauge, previous=dict.fromkeys(loads, 0), consumers=(0, 1)).packed(100.0)


def _warm_exact() -> None:
    """Let EXACT improve a placement by all that it has: there is one on a consumer less, and the first prices do not prove it."""
    from autoscaler.packing.exact.exact import plan_exactly  # noqa: PLC0415  loaded only where a group asks for EXACT
    from autoscaler.packing.exact.task import Task  # noqa: PLC0415
    from autoscaler.packing.exact.whole_units import whole_costs, whole_sizes  # noqa: PLC0415

    share, home = np.array([0.5, 0.8, 0.6, 0.2]), np.array([1, 1, 1, 0], np.int64)
    task = Task([whole_sizes(share)], whole_costs(share), home, 2)
    plan_exactly(task, np.array([3, 2, 1, 0], np.int64), 3, 1.0)
