"""Placement of partitions on consumers: pure functions of rates, capacity and present owners.

Lives here: ``registry`` (every algorithm under its name; a new one is a line there), ``bounded`` (within a number of consumers),
``incremental`` (only what has no owner), ``precompile``, and a folder for each family of algorithms. May not: know time, guards,
groups or Kafka. May import: ``goals``, ``model``, ``errors``, numpy, numba. The names below are the public interface.
"""

from typing import TYPE_CHECKING

from autoscaler.packing.bounded import BEYOND_PRICE, fewest_by_size, fit_count
from autoscaler.packing.heterogeneous.capacity_model import Gauge
from autoscaler.packing.heterogeneous.placement import UNEVEN, Uneven, best_uneven, fewer_uneven, fit_uneven, place_unowned_uneven
from autoscaler.packing.incremental import drain, place_unowned
from autoscaler.packing.kernels.drift import DriftEstimator
from autoscaler.packing.problem.assignment import Assignment, Fitted, consumer_loads, r_score
from autoscaler.packing.problem.lower_bounds import lower_bound
from autoscaler.packing.problem.options import KNOWS_PAID_FOR, PRESETS, TAKES, Given
from autoscaler.packing.registry import ALGORITHMS, assign, assign_arrays

if TYPE_CHECKING:
    from autoscaler.packing.research.two_dimensional import ALGORITHMS_2D, assign_2d

__all__ = [
    "ALGORITHMS",
    "ALGORITHMS_2D",
    "BEYOND_PRICE",
    "KNOWS_PAID_FOR",
    "PRESETS",
    "TAKES",
    "UNEVEN",
    "Assignment",
    "DriftEstimator",
    "Fitted",
    "Gauge",
    "Given",
    "Uneven",
    "assign",
    "assign_2d",
    "assign_arrays",
    "best_uneven",
    "consumer_loads",
    "drain",
    "fewer_uneven",
    "fewest_by_size",
    "fit_count",
    "fit_uneven",
    "lower_bound",
    "place_unowned",
    "place_unowned_uneven",
    "r_score",
]

_RESEARCH = ("ALGORITHMS_2D", "assign_2d")  # loaded when they are first asked for: no cycle of the job does


def __getattr__(name: str) -> object:
    """Return a name of ``research``."""
    if name not in _RESEARCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from autoscaler.packing.research import two_dimensional  # noqa: PLC0415

    return getattr(two_dimensional, name)
