"""Homing: bring what was moved back to where it came from, never on more consumers. Part of *pack*.

Local search after any placement: a partition away from home goes back where it fits; where it does not, up to three partitions
make room for it, if in sum less is moved.
"""

import numpy as np

from autoscaler.packing.bins import LIMIT, NOBODY, Bins, Ints, fits, move, put, take, tightest
from autoscaler.packing.compiled import compiled

_GAIN = 1e-9  # what is less is rounding
_LOOKED_AT = 8  # partitions of a home that may make room
_TOGETHER = 3  # partitions that make room at once


@compiled
def bring_home(bins: Bins, sweeps: int) -> None:
    """Lower the cost of the moves by returns, swaps and ejections; the number of consumers never rises.

    Args:
        bins: A complete placement; changed in place.
        sweeps: How often the partitions away from home are gone through at most.
    """
    for _ in range(sweeps):
        found = False
        for j in range(len(bins.owner)):
            if _is_away(bins, j) and _return(bins, j):
                found = True
        if not found:
            return


@compiled
def _is_away(bins: Bins, j: int) -> bool:
    home = bins.home[j]
    return bool(home >= 0 and bins.owner[j] != home and bins.share[j] > 0.0 and bins.held[home] > 0)


@compiled
def _return(bins: Bins, j: int) -> bool:
    """Bring a partition home if that gains; say whether it did."""
    if fits(bins, j, bins.home[j]):
        move(bins, j, bins.home[j])
        return True
    room = np.full(_TOGETHER, NOBODY)
    target = np.full(_TOGETHER, NOBODY)
    if not _find_room(bins, j, room, target):
        return False
    home = bins.home[j]
    take(bins, j)
    for y in room:
        if y >= 0:
            take(bins, y)
    for i in range(_TOGETHER):
        if room[i] >= 0:
            put(bins, room[i], target[i])
    put(bins, j, home)
    return True


@compiled
def _find_room(bins: Bins, j: int, best: Ints, target: Ints) -> bool:
    """Find the partitions whose leaving lets ``j`` come home at the greatest gain, and where each of them goes."""
    home = bins.home[j]
    need = bins.load[home] + bins.share[j] - LIMIT
    candidates = np.empty(_LOOKED_AT, np.int64)
    count = _with_traffic(bins, home, candidates)
    subset = np.full(_TOGETHER, NOBODY)
    goes_to = np.full(_TOGETHER, NOBODY)
    best_gain = _GAIN
    for mask in range(1, 1 << count):
        size = _pick(candidates, mask, subset)
        if size > _TOGETHER or _freed(bins, subset) < need or bins.cost[j] + _hope(bins, subset, home) <= best_gain:
            continue
        gain = bins.cost[j] - _loss(bins, subset, home) + _settle(bins, j, subset, goes_to)
        if gain > best_gain:
            best_gain = gain
            best[:] = subset
            target[:] = goes_to
    return best_gain > _GAIN


@compiled
def _with_traffic(bins: Bins, c: int, found: Ints) -> int:
    """Collect the largest partitions of a consumer; return how many."""
    count, y = 0, bins.first[c]
    while y >= 0 and bins.share[y] > 0.0 and count < len(found):
        found[count] = y
        count += 1
        y = bins.after[y]
    return count


@compiled
def _pick(candidates: Ints, mask: int, subset: Ints) -> int:
    """Write the candidates whose bits are set; return how many there are, also if there are too many."""
    subset[:] = NOBODY
    size, i = 0, 0
    while mask >> i > 0:
        if (mask >> i) & 1:
            if size < len(subset):
                subset[size] = candidates[i]
            size += 1
        i += 1
    return size


@compiled
def _freed(bins: Bins, subset: Ints) -> float:
    total = 0.0
    for y in subset:
        if y >= 0:
            total += bins.share[y]
    return total


@compiled
def _loss(bins: Bins, subset: Ints, home: int) -> float:
    """Return what it costs that some of these leave home."""
    total = 0.0
    for y in subset:
        if y >= 0 and bins.home[y] == home:
            total += bins.cost[y]
    return total


@compiled
def _hope(bins: Bins, subset: Ints, home: int) -> float:
    """Return what it gains at most that these leave."""
    total = 0.0
    for y in subset:
        if y >= 0 and bins.home[y] >= 0:
            total += -bins.cost[y] if bins.home[y] == home else bins.cost[y]
    return total


@compiled
def _settle(bins: Bins, j: int, subset: Ints, goes_to: Ints) -> float:
    """Find a place for each partition that makes room for ``j``, the largest first, each third consumer used once.

    Its own home comes first, then the place that ``j`` leaves, then the tightest third consumer.

    Returns:
        What comes home with it; minus infinity if one of them fits nowhere.
    """
    home, left = bins.home[j], bins.owner[j]
    room = LIMIT - bins.load[left] + bins.share[j]
    gain = 0.0
    goes_to[:] = NOBODY
    for i in range(_TOGETHER):
        y = subset[i]
        if y < 0:
            break
        own = bins.home[y]
        if own not in (NOBODY, home, left) and own not in goes_to and fits(bins, y, own):
            goes_to[i] = own
            gain += bins.cost[y]
        elif bins.share[y] <= room:
            room -= bins.share[y]
            goes_to[i] = left
            gain += bins.cost[y] if own == left else 0.0
        else:
            third = tightest(bins, y, home)
            if third < 0 or third == left or third in goes_to:
                return -np.inf
            goes_to[i] = third
    return gain
