"""One round of PACE: the best of several placements, each brought home. Part of *pack*."""

import numpy as np

from autoscaler.packing.kernels.bins import Bins, Floats, Ints, bins_of, crowded, empty_bins
from autoscaler.packing.kernels.jit import borrowing, compiled
from autoscaler.packing.kernels.knapsack import new_trial
from autoscaler.packing.pace.ejection_chains import Prices, objective, plan, price_of
from autoscaler.packing.pace.home_fit import fit_anew, fit_home, name_anew
from autoscaler.packing.pace.local_search import refine
from autoscaler.packing.pace.return_home import bring_home

BEST_FIT, HOME_FIT, HOME_BEST_FIT = 0, 1, 2  # placements from scratch
SWEEPS = 5
_MANY = 5  # partitions of a consumer, about: above, little is expected to move, and the search on J would take long
_HOPE = 0.3  # of the moves, now and expected, stay after homing, at best: what is then still too dear is not brought home
_LEAST_MOVED = 0.2  # of everything: what moves cost, now and expected, in a placement from scratch that wins
_BETTER = 1e-9  # in units of the R-score: what is less is rounding, and no partition moves for it


@borrowing
def least_consumers(share: Floats) -> int:
    """Return a number of consumers that no placement goes below: by the sum, and by partitions above half a capacity."""
    total, halves = 0.0, 0
    for x in share:
        total += min(x, 1.0)
        halves += x > 0.5 + 1e-9
    return max(1, halves, int(np.ceil(total - 1e-9 * len(share))))


@borrowing
def is_settled(bins: Bins) -> bool:
    """Say whether everything has an owner and no consumer is crowded."""
    missing = 0
    for c in range(len(bins.load)):
        missing += crowded(bins, c)
    for j in range(len(bins.owner)):
        missing += bins.owner[j] < 0
    return missing == 0


@compiled
def improve(share: Floats, cost: Floats, home: Ints, prices: Prices) -> Ints:
    """Return the best placement found, and the present one unless another is really better; shares are decreasing."""
    bound, trial = least_consumers(share), new_trial()
    best = bins_of(share, cost, home, home)
    least = np.inf
    if is_settled(best):
        least = objective(best, prices) - _BETTER
        if least <= price_of(bound, prices):
            return home
    stay, settled = least, least < np.inf
    bins = bins_of(share, cost, home, home)
    if plan(bins, bound, prices, trial) < least:
        bring_home(bins, SWEEPS, trial)
        best, least = bins, objective(bins, prices)
    if least - price_of(bound, prices) >= _LEAST_MOVED * cost.sum():
        for kind in (BEST_FIT, HOME_FIT, HOME_BEST_FIT):
            bins = from_scratch(share, cost, home, kind)
            price = price_of(bins.opened[0], prices)
            if price + _HOPE * (objective(bins, prices) - price) >= least:
                continue
            bring_home(bins, SWEEPS, trial)
            price = objective(bins, prices)
            if price < least:
                best, least = bins, price
    if len(share) <= _MANY * best.opened[0]:
        refine(best, prices)
    return best.owner if objective(best, prices) < stay or not settled else home


@compiled
def from_scratch(share: Floats, cost: Floats, home: Ints, kind: int) -> Bins:
    """Return a placement made without regard to where things are, its consumers named after the old ones."""
    bins = empty_bins(share, cost, home)
    if kind == BEST_FIT:
        fit_anew(bins)
    else:
        fit_home(bins, 1.0 if kind == HOME_FIT else 0.0)
    return bins_of(share, cost, home, name_anew(cost, home, bins.owner, len(bins.load)))


@compiled
def fewest(share: Floats, cost: Floats, home: Ints) -> int:
    """Return how many consumers best-fit decreasing takes."""
    bins = empty_bins(share, cost, home)
    fit_anew(bins)
    return int(bins.opened[0])


@compiled
def home_fit(share: Floats, cost: Floats, home: Ints) -> Ints:
    """Return the placement of home-fit decreasing, brought home."""
    bins = from_scratch(share, cost, home, HOME_FIT)
    bring_home(bins, SWEEPS, new_trial())
    return bins.owner
