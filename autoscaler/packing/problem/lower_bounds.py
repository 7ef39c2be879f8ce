"""How few consumers any placement needs: pure arithmetic on rates, part of *pack*."""

import math
from collections.abc import Iterable

import numpy as np

from autoscaler.packing.problem.rounding import ROUNDING


def lower_bound(rates: Iterable[float], capacity: float) -> int:
    """Return the number of consumers of a capacity that no placement of these rates can go below.

    The greater of the summed rates over the capacity, rounded up (a partition above the capacity fills exactly one consumer),
    and the number of partitions above half a capacity (no two of them share a consumer). Zero without partitions.
    """
    shares = [min(rate / capacity, 1.0) for rate in rates]
    if not shares:
        return 0
    most = 1.0 + 2 * ROUNDING  # that one consumer may hold: what fits is above it by one at most, what stays there by two
    return max(1, math.ceil(math.fsum(shares) / most - ROUNDING), sum(1 for share in shares if share > 0.5 + ROUNDING))


def martello_toth(rates: Iterable[float], capacity: float) -> int:
    """Return the bound L2 on the number of consumers: never below ``lower_bound``, in O(n log n).

    For every threshold t up to half a capacity: partitions above capacity - t share a consumer with none from t up, partitions
    above half a capacity have one each, and what of those from t up to half does not fit into their remaining room needs more.
    Source: Martello and Toth 1990, "Knapsack Problems", section 8.3.2.
    """
    shares = np.sort(np.minimum(np.fromiter(rates, np.float64) / capacity, 1.0))
    if not shares.size:
        return 0
    sums = np.concatenate(([0.0], np.cumsum(shares)))
    half = int(np.searchsorted(shares, 0.5 + ROUNDING, side="right"))  # partitions from here on have a consumer each
    best = lower_bound(shares.tolist(), 1.0)
    for t in np.unique(shares[:half]):
        small = int(np.searchsorted(shares, t, side="left"))
        alone = 1.0 - t + 2 * ROUNDING  # surely above what fits, whatever the rounding
        full = max(half, int(np.searchsorted(shares, alone, side="right")))  # nothing from t up goes beside these
        room = (full - half) - (sums[full] - sums[half])
        over = sums[half] - sums[small] - room
        best = max(best, shares.shape[0] - half + max(0, math.ceil(over - ROUNDING * shares.shape[0])))
    return best


def fewest_of(shares: Iterable[float], sizes: Iterable[float]) -> int:
    """Return how many of these consumers are needed at least: so many of the largest ones can hold the sum of the shares.

    A partition larger than the smallest consumer may sit alone on a consumer that is too small for it; the least over how many of
    the largest partitions do. ``sizes`` has enough consumers in all.
    """
    offered = np.sort(np.fromiter(sizes, np.float64))[::-1]
    needed = np.sort(np.fromiter(shares, np.float64))[::-1]
    if not needed.size:
        return 0
    may_be_alone = int((needed > offered[-1]).sum())
    rest = np.concatenate((needed[::-1].cumsum()[::-1], [0.0]))[: may_be_alone + 1]
    reached = np.searchsorted(np.cumsum(offered), rest * (1 - ROUNDING) - ROUNDING * needed.size) + (rest > ROUNDING)
    return max(1, int((np.arange(may_be_alone + 1) + reached).min()))
