"""Placement of partitions on consumers: pure functions of rates, capacity and present owners."""

from autoscaler.packing.algorithms import ALGORITHMS, assign, assign_arrays
from autoscaler.packing.bounded import BEYOND_PRICE, Fitted, fewest_by_size, fit_count
from autoscaler.packing.drift import DriftEstimator
from autoscaler.packing.gauge import Gauge
from autoscaler.packing.lower_bounds import lower_bound
from autoscaler.packing.options import KNOWS_PAID_FOR, PRESETS, TAKES, Given
from autoscaler.packing.placement import Assignment, r_score
from autoscaler.packing.repair import consumer_loads, drain, place_unowned
from autoscaler.packing.two_dimensional import ALGORITHMS_2D, assign_2d
from autoscaler.packing.uneven import UNEVEN, Uneven, best_uneven, fewer_uneven, fit_uneven, place_unowned_uneven

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
