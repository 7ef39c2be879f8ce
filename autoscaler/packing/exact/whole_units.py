"""Shares of a consumer as whole numbers, for solvers that know no others: never over capacity by rounding. Part of *pack*."""

from typing import NamedTuple

import numpy as np

from autoscaler.packing.kernels.bins import LIMIT, Floats, Ints

UNITS = 10**12  # of one capacity
_GRACE = 10**9  # what rounding up may cost all partitions of a consumer is given to it: one part in twice this
_FLOAT_DUST = 1e-3  # of a unit: 0.07 is seven whole percent, not a little more
_COST_UNITS = 10**6  # of one capacity's move
_DEAREST = 1e9  # capacities: sums stay within 64 bits


class Whole(NamedTuple):
    """Sizes and the capacity in a common unit, as coarse as is exact."""

    sizes: Ints  # int64[n]
    capacity: int


def whole_sizes(shares: Floats) -> Whole:
    """Return shares of a consumer's capacity rounded up, and a capacity with a little grace for that.

    What fits by these numbers is above the capacity by a billionth at most, as everywhere in *pack*. What fits exactly fits by
    these numbers too, unless some 500 partitions fill one consumer to the brim. A positive share counts for one unit at least,
    one above 1 fills a consumer.
    """
    units = np.maximum(np.ceil(np.minimum(shares, 1.0) * UNITS - _FLOAT_DUST), shares > 0).astype(np.int64)
    common = max(1, int(np.gcd.reduce(units, initial=0)))
    capacity = (UNITS + UNITS // (2 * _GRACE)) // common
    return Whole(np.where(shares > LIMIT, capacity, units // common), capacity)


class WholeCosts(NamedTuple):
    """Costs as multiples of a unit."""

    multiples: Ints  # int64[n]
    unit: float  # in moves of one capacity


def whole_costs(costs: Floats) -> WholeCosts:
    """Return costs to a millionth of moving one capacity, in the coarsest unit that all of them are multiples of."""
    millionths = np.rint(np.minimum(costs, _DEAREST) * _COST_UNITS).astype(np.int64)
    common = max(1, int(np.gcd.reduce(millionths, initial=0)))
    return WholeCosts(millionths // common, common / _COST_UNITS)
