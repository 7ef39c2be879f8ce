"""Placement of partitions on consumers: pure functions of rates, capacity and present owners."""

from autoscaler.packing.algorithms import ALGORITHMS, assign, assign_arrays
from autoscaler.packing.bounded import BEYOND_PRICE, Fitted, fewest_by_size, fit_count
from autoscaler.packing.drift import DriftEstimator
from autoscaler.packing.lower_bounds import lower_bound
from autoscaler.packing.options import KNOWS_PAID_FOR, PRESETS, TAKES, Given
from autoscaler.packing.placement import Assignment, r_score
from autoscaler.packing.repair import consumer_loads, drain, place_unowned
from autoscaler.packing.two_dimensional import ALGORITHMS_2D, assign_2d

__all__ = [
    "ALGORITHMS",
    "ALGORITHMS_2D",
    "BEYOND_PRICE",
    "KNOWS_PAID_FOR",
    "PRESETS",
    "TAKES",
    "Assignment",
    "DriftEstimator",
    "Fitted",
    "Given",
    "assign",
    "assign_2d",
    "assign_arrays",
    "consumer_loads",
    "drain",
    "fewest_by_size",
    "fit_count",
    "lower_bound",
    "place_unowned",
    "r_score",
]
