"""Homing: bring what was moved back to where it came from, never on more consumers. Part of *pack*.

Local search after any placement: a partition away from home goes back where it fits; where it does not, up to three partitions
make room for it, if in sum less is moved.
"""

import numpy as np

from autoscaler.packing.kernels.bins import LIMIT, UNASSIGNED, Bins, Ints, fits, move, put, take, tightest
from autoscaler.packing.kernels.jit import borrowing, compiled
from autoscaler.packing.kernels.knapsack import Trial, tabulate

_GAIN = 1e-9  # what is less is rounding
_LOOKED_AT = 8  # partitions of a home that may make room
_TOGETHER = 3  # partitions that make room at once


@compiled
def bring_home(bins: Bins, sweeps: int, trial: Trial) -> None:
    """Lower the cost of a complete placement's moves by returns, swaps and ejections; the number of consumers never rises.

    The partitions away from home are gone through ``sweeps`` times at most.
    """
    goes_to = np.full(_TOGETHER, UNASSIGNED)
    for _ in range(sweeps):
        found = False
        for j in range(len(bins.owner)):
            if _is_away(bins, j) and _return(bins, j, trial, goes_to):
                found = True
        if not found:
            return


@borrowing
def _is_away(bins: Bins, j: int) -> bool:
    home = bins.home[j]
    return bool(home >= 0 and bins.owner[j] != home and bins.share[j] > 0.0 and bins.held[home] > 0)


@borrowing
def _return(bins: Bins, j: int, trial: Trial, goes_to: Ints) -> bool:
    """Bring a partition home if that gains; say whether it did."""
    home = bins.home[j]
    if fits(bins, j, home):
        move(bins, j, home)
        return True
    mask = _find_room(bins, j, trial, goes_to)
    if mask == 0:
        return False
    _settle(bins, j, mask, trial, goes_to)
    take(bins, j)
    for i in range(_TOGETHER):
        if goes_to[i] >= 0:
            take(bins, trial.chosen[i])
    for i in range(_TOGETHER):
        if goes_to[i] >= 0:
            put(bins, trial.chosen[i], goes_to[i])
    put(bins, j, home)
    return True


@borrowing
def _find_room(bins: Bins, j: int, trial: Trial, goes_to: Ints) -> int:
    """Return the subset of the home's partitions whose leaving lets ``j`` come home at the greatest gain; 0 if none gains."""
    home = bins.home[j]
    need = bins.load[home] + bins.share[j] - LIMIT
    best, best_gain = 0, _GAIN
    for mask in range(1, 1 << _tabulate_losses(bins, home, trial)):
        if trial.covered[mask] < need or bins.cost[j] - trial.price[mask] <= best_gain:
            continue
        gain = bins.cost[j] + _settle(bins, j, mask, trial, goes_to)
        if gain > best_gain:
            best, best_gain = mask, gain
    return best


@borrowing
def _tabulate_losses(bins: Bins, home: int, trial: Trial) -> int:
    """Enter the smallest partitions with traffic at the least loss that their leaving can mean; return how many they are."""
    count, y = 0, bins.first[home]
    while y >= 0 and bins.share[y] > 0.0:
        trial.among[count % _LOOKED_AT] = y
        count += 1
        y = bins.after[y]
    count = min(count, _LOOKED_AT)
    for i in range(count):
        y = trial.among[i]
        loss = bins.cost[y] if bins.home[y] == home else -bins.cost[y] if bins.home[y] >= 0 else 0.0
        tabulate(trial, i, bins.share[y], loss)
    return count


@borrowing
def _among(goes_to: Ints, c: int) -> bool:
    found = 0
    for i in range(_TOGETHER):
        found += goes_to[i] == c
    return found > 0


@borrowing
def _settle(bins: Bins, j: int, mask: int, trial: Trial, goes_to: Ints) -> float:
    """Find a place for each partition of the subset that makes room for ``j`` at its home, each third consumer used once.

    Its own home comes first, then the place that ``j`` leaves, then the tightest third consumer. The subset (``mask``) is
    written to ``trial.chosen`` and the places to ``goes_to``; ``bins`` is not changed. What is gained is negative for a loss,
    and minus infinity if one fits nowhere or there are too many.
    """
    home, left = bins.home[j], bins.owner[j]
    room = LIMIT - bins.load[left] + bins.share[j]
    gain, count = 0.0, 0
    for i in range(_TOGETHER):
        goes_to[i] = UNASSIGNED
    for i in range(len(trial.among)):
        if not (mask >> i) & 1:
            continue
        if count == _TOGETHER:
            return -np.inf
        y = trial.among[i]
        own = bins.home[y]
        gain -= bins.cost[y] if own == home else 0.0
        if own >= 0 and own != home and own != left and not _among(goes_to, own) and fits(bins, y, own):  # noqa: PLR1714  no tuples here
            target = own
        elif bins.share[y] <= room:
            room -= bins.share[y]
            target = left
        else:
            target = tightest(bins, y, home, LIMIT)
            if target < 0 or _among(goes_to, target):
                return -np.inf
        gain += bins.cost[y] if own == target else 0.0
        trial.chosen[count], goes_to[count] = y, target
        count += 1
    return gain
