"""Which partitions a consumer gives up at the least cost, so that it is not crowded or something else fits. Part of *pack*."""

from typing import NamedTuple

import numpy as np

from autoscaler.packing.kernels.bins import LIMIT, UNASSIGNED, Bins, Floats, Ints, crowded, take
from autoscaler.packing.kernels.drift import expected_eviction
from autoscaler.packing.kernels.jit import borrowing, compiled

_MOST = 12  # partitions among which every subset is tried, to relieve a crowded consumer
_MOST_EJECTED = 10  # the same to make room for another partition, which is asked for more often
_AWAY = 0.25  # share of its cost that a partition away from home counts for when it is moved once more


class Trial(NamedTuple):
    """Room for the partitions among which subsets are tried, made once per plan."""

    among: Ints  # the partitions, at most ``_MOST``
    covered: Floats  # share of every subset, by its bits; bit ``i`` stands for ``among[i]``
    price: Floats  # price of every subset, likewise
    chosen: Ints  # the subset found, ``UNASSIGNED`` after its end


@compiled
def new_trial() -> Trial:
    """Return empty room."""
    return Trial(np.empty(_MOST, np.int64), np.zeros(1 << _MOST), np.zeros(1 << _MOST), np.full(_MOST, UNASSIGNED))


@borrowing
def cheapest_subset(bins: Bins, c: int, need: float, after: int, trial: Trial) -> float:
    """Put the cheapest partitions of a consumer that free the capacity needed into ``trial.chosen``; return their cost.

    Only partitions behind ``after``, that is smaller ones, may go, and the smallest are looked at. Infinity if there is no such
    set.
    """
    count = _gather(bins, c, after, _MOST_EJECTED, trial)
    if count == 0 or trial.covered[(1 << count) - 1] < need:
        return np.inf
    best, best_mask = np.inf, 0
    for mask in range(1, 1 << count):
        if trial.covered[mask] >= need and trial.price[mask] < best:
            best, best_mask = trial.price[mask], mask
    _choose(trial, best_mask)
    return best


@borrowing
def relieve(bins: Bins, weight: float, sigma: float, trial: Trial) -> None:
    """Let every crowded consumer give up what costs least, the drift price of what stays included; what is given up waits.

    Every subset is tried among up to twelve partitions with traffic. Of more the smallest that covers the overflow alone goes,
    or else the largest, and so on.
    """
    for c in range(len(bins.load)):
        while crowded(bins, c):
            if bins.busy[c] > _MOST:
                take(bins, _covering(bins, c))
                continue
            _find_relief(bins, c, weight, sigma, trial)
            for j in trial.chosen:
                if j >= 0:
                    take(bins, j)


@borrowing
def _covering(bins: Bins, c: int) -> int:
    """Return the smallest partition that is enough to go, else the largest."""
    best = j = bins.first[c]
    while j >= 0 and bins.load[c] - bins.share[j] <= LIMIT:
        best, j = j, bins.after[j]
    return int(best)


@borrowing
def _find_relief(bins: Bins, c: int, weight: float, sigma: float, trial: Trial) -> None:
    count = _gather(bins, c, UNASSIGNED, _MOST, trial)
    best, best_mask = np.inf, 0
    for mask in range(1, 1 << count):
        if trial.price[mask] >= best or not _relieves(bins, c, trial.covered[mask], mask):
            continue
        price = trial.price[mask]
        if weight > 0.0:
            price += weight * _drift_without(bins, c, trial, mask, sigma)
        if price < best:
            best, best_mask = price, mask
    _choose(trial, best_mask)


@borrowing
def _relieves(bins: Bins, c: int, freed: float, mask: int) -> bool:
    if bins.load[c] - freed <= LIMIT:
        return True
    gone = 0
    while mask > 0:
        gone += mask & 1
        mask >>= 1
    return bool(bins.busy[c] - gone <= 1)


@borrowing
def _gather(bins: Bins, c: int, after: int, most: int, trial: Trial) -> int:
    """Collect the smallest partitions with traffic and what their subsets cover and cost; return how many."""
    count, j = 0, bins.first[c]
    while j >= 0 and bins.share[j] > 0.0:
        if j > after and bins.share[j] < (np.inf if after < 0 else bins.share[after]):
            trial.among[count % most] = j
            count += 1
        j = bins.after[j]
    count = min(count, most)
    for i in range(count):
        j = trial.among[i]
        tabulate(trial, i, bins.share[j], bins.cost[j] if bins.home[j] == c else _AWAY * bins.cost[j])
    return count


@borrowing
def tabulate(trial: Trial, i: int, share: float, price: float) -> None:
    """Enter the next partition into the tables: all subsets so far, with it."""
    bit = 1 << i
    for mask in range(bit):
        trial.covered[mask | bit] = trial.covered[mask] + share
        trial.price[mask | bit] = trial.price[mask] + price


@borrowing
def _drift_without(bins: Bins, c: int, trial: Trial, mask: int, sigma: float) -> float:
    """Return phi of a consumer without a subset of its partitions."""
    count, j = 0, bins.first[c]
    while j >= 0 and bins.share[j] > 0.0:
        gone = False
        for i in range(len(trial.among)):
            if (mask >> i) & 1 and trial.among[i] == j:
                gone = True
        if not gone:
            bins.scratch[count] = bins.share[j]
            count += 1
        j = bins.after[j]
    return expected_eviction(bins.scratch, count, 1.0 - bins.load[c] + trial.covered[mask], sigma)


@borrowing
def _choose(trial: Trial, mask: int) -> None:
    count = 0
    for i in range(len(trial.among)):
        trial.chosen[i] = UNASSIGNED
        if (mask >> i) & 1:
            trial.chosen[count] = trial.among[i]
            count += 1
