"""Placement of partitions on consumers: pure functions of rates, capacity and present owners."""

from autoscaler.packing.lower_bounds import lower_bound
from autoscaler.packing.published import ALGORITHMS, Assignment, assign, r_score
from autoscaler.packing.repair import Fitted, consumer_loads, drain, fit_count, place_unowned

__all__ = [
    "ALGORITHMS",
    "Assignment",
    "Fitted",
    "assign",
    "consumer_loads",
    "drain",
    "fit_count",
    "lower_bound",
    "place_unowned",
    "r_score",
]
