"""How far rates go until the next measurement, and what that will cost: the drift price of a placement. Part of *pack*."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autoscaler.packing.kernels.bins import Bins, Floats
from autoscaler.packing.kernels.jit import borrowing
from autoscaler.packing.problem.validation import checked_amounts, number_of, shown

_KEPT = 0.9  # of the old estimate at each measurement: about ten measurements count
# Middles of the twelve equally probable parts of the standard normal distribution, the largest first.
MIDPOINTS = (1.7317, 1.1503, 0.8122, 0.5485, 0.3186, 0.1046, -0.1046, -0.3186, -0.5485, -0.8122, -1.1503, -1.7317)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftEstimator:
    """How much the rate of one partition changes from one measurement to the next, learned from the measurements.

    Raises:
        ValueError: ``sigma`` is negative or not finite, or there is not one rate for each partition.
    """

    # Root of the mean squared rate increment, in the unit of the rates; exponentially weighted 0.9 to 0.1 over the measurements.
    # 0 until two measurements have a partition in common: nothing is known to change.
    sigma: float = 0.0
    partitions: tuple[Hashable, ...] = field(default=(), repr=False)  # the partitions of the last measurement, in their order
    rates: tuple[float, ...] = field(default=(), repr=False)  # their rates, in the same order
    seeded: bool = False  # an increment has been seen; before, the first one replaces ``sigma``

    def __post_init__(self) -> None:
        """Refuse what no measurement can have left."""
        if not number_of(self.sigma) >= 0.0:
            raise ValueError(f"sigma must be a number from 0, not {shown(self.sigma)}")
        if len(self.partitions) != len(self.rates):
            msg = f"there must be a rate for each partition: {len(self.partitions)} partitions, {len(self.rates)} rates"
            raise ValueError(msg)

    def update(self, loads: Mapping[Any, float]) -> "DriftEstimator":
        """Return the estimate after one more measurement, in the same unit each time.

        Partitions that come or go do not count at the measurement at which they do.

        Raises:
            ValueError: A rate is negative, infinite or not a number; the message says which.
        """
        loads = checked_amounts(loads, "rate")
        partitions, rates = tuple(loads), tuple(loads.values())
        if partitions != self.partitions:  # else they are in their order
            partitions = tuple(sorted(partitions))
            rates = tuple(map(loads.__getitem__, partitions))
        increments = np.array(rates) - np.array(self.rates) if partitions == self.partitions else self._increments(loads)
        if not increments.size:
            return DriftEstimator(sigma=self.sigma, partitions=partitions, rates=rates, seeded=self.seeded)
        seen = _root_mean_square(increments)
        sigma = _KEPT * self.sigma + (1.0 - _KEPT) * seen if self.seeded else seen
        return DriftEstimator(sigma=sigma, partitions=partitions, rates=rates, seeded=True)

    def _increments(self, loads: Mapping[Any, float]) -> Floats:
        before = zip(self.partitions, self.rates, strict=True)
        return np.array([loads[p] - rate for p, rate in before if p in loads], np.float64)


def _root_mean_square(values: Floats) -> float:
    largest = float(np.abs(values).max())
    if largest == 0.0:
        return 0.0
    return largest * math.sqrt(math.fsum(((values / largest) ** 2).tolist()) / values.size)  # no square leaves the range


@borrowing
def min_evict(shares: Floats, count: int, overflow: float) -> float:
    """Return the size of the smallest partition or pair (of ``count``, decreasing) that covers an overflow; all if none does."""
    best, everything = math.inf, 0.0
    for i in range(count):
        everything += shares[i]
        if shares[i] >= overflow:
            best = shares[i]
    low, high = 0, count - 1
    while low < high:
        both = shares[low] + shares[high]
        if both < overflow:
            high -= 1
        else:
            best = min(best, both)
            low += 1
    return best if best < math.inf else everything


@borrowing
def expected_eviction(shares: Floats, count: int, slack: float, sigma: float) -> float:
    """Return phi: what a consumer with this slack is expected to give away at the next measurement, in capacities.

    Its load changes by a normal step of ``sigma`` (the spread of one partition's step over the horizon, in capacities) times
    the root of the number of its partitions with traffic, whose shares are decreasing. The expectation is the mean over twelve
    equally probable steps of the cheapest eviction that covers what is then too much.
    """
    spread = sigma * math.sqrt(count)
    if count <= 1 or slack >= MIDPOINTS[0] * spread:
        return 0.0
    total = 0.0
    for midpoint in MIDPOINTS:
        overflow = spread * midpoint - slack
        if overflow <= 0.0:
            break
        total += min_evict(shares, count, overflow)
    return total / len(MIDPOINTS)


@borrowing
def drift_of(bins: Bins, c: int, sigma: float) -> float:
    """Return phi of a consumer as it is."""
    slack = 1.0 - bins.load[c]
    if bins.busy[c] <= 1 or slack >= MIDPOINTS[0] * sigma * math.sqrt(bins.busy[c]):
        return 0.0
    count, j = 0, bins.first[c]
    while j >= 0 and bins.share[j] > 0.0:
        bins.scratch[count] = bins.share[j]
        count += 1
        j = bins.after[j]
    return expected_eviction(bins.scratch, count, slack, sigma)


@borrowing
def drift_if(bins: Bins, c: int, added: int, removed: int, sigma: float) -> float:
    """Return phi of a consumer if it held one partition more, one less, or both; ``UNASSIGNED`` stands for none."""
    slack, busy = 1.0 - bins.load[c], bins.busy[c]
    if added >= 0:
        slack -= bins.share[added]
        busy += bins.share[added] > 0.0
    if removed >= 0:
        slack += bins.share[removed]
        busy -= bins.share[removed] > 0.0
    if busy <= 1 or slack >= MIDPOINTS[0] * sigma * math.sqrt(busy):
        return 0.0
    waiting = added >= 0 and bins.share[added] > 0.0
    count, j = 0, bins.first[c]
    while j >= 0 and bins.share[j] > 0.0:
        if waiting and added < j:
            bins.scratch[count] = bins.share[added]
            count += 1
            waiting = False
        if j != removed:
            bins.scratch[count] = bins.share[j]
            count += 1
        j = bins.after[j]
    if waiting:
        bins.scratch[count] = bins.share[added]
        count += 1
    return expected_eviction(bins.scratch, count, slack, sigma)


@borrowing
def total_drift(bins: Bins, sigma: float) -> float:
    """Return the sum of phi over all consumers."""
    total = 0.0
    for c in range(len(bins.load)):
        if bins.busy[c] > 1:
            total += drift_of(bins, c, sigma)
    return total
