"""Placements from scratch that know where everything comes from: home-fit decreasing and best fit, named anew. Part of *pack*."""

import numpy as np

from autoscaler.packing.kernels.bins import (
    LIMIT,
    UNASSIGNED,
    Bins,
    Floats,
    Ints,
    ascending,
    bucket_of,
    closed_slot,
    fits,
    loosest_bucket,
    put,
    tightest,
)
from autoscaler.packing.kernels.jit import borrowing, compiled


@compiled
def fit_home(bins: Bins, look_ahead: float) -> None:
    """Place every partition by decreasing share: home if that is open and has room, else where it fits, else a consumer opens.

    ``look_ahead`` weighs the room that others want, whose home it is, and would lose; 0 is plain best fit.
    """
    wanted = np.zeros(len(bins.load))
    for j in range(len(bins.home)):
        if bins.home[j] >= 0:
            wanted[bins.home[j]] += bins.share[j]
    for j in range(len(bins.home)):
        home = bins.home[j]
        if home >= 0:
            wanted[home] -= bins.share[j]
        if home >= 0 and fits(bins, j, home):
            put(bins, j, home)
            continue
        c = _least_regret(bins, j, wanted, look_ahead)
        put(bins, j, c if c >= 0 else closed_slot(bins, home))


@borrowing
def _least_regret(bins: Bins, j: int, wanted: Floats, look_ahead: float) -> int:
    """Return the open consumer with the least leftover and displaced demand, lower slot first; -1 if none has room."""
    best, least = UNASSIGNED, np.inf
    buckets = len(bins.bucket_first)
    for bucket in range(bucket_of(bins, bins.share[j] - 1e-9), loosest_bucket(bins) + 1):
        if bucket / buckets - bins.share[j] > least:
            break  # the leftover alone is more
        c = bins.bucket_first[bucket]
        while c >= 0:
            if fits(bins, j, c):
                slack = 1.0 - bins.load[c]
                leftover = slack - bins.share[j]
                regret = leftover + look_ahead * max(0.0, min(wanted[c], slack) - leftover)
                if regret < least or (regret == least and c < best):
                    best, least = c, regret
            c = bins.bucket_after[c]
    return best


@borrowing
def fit_anew(bins: Bins) -> None:
    """Place every waiting partition by best fit decreasing, wherever it was; the slots are numbers without a meaning."""
    for j in range(len(bins.owner)):
        c = tightest(bins, j, UNASSIGNED, LIMIT)
        put(bins, j, c if c >= 0 else closed_slot(bins, UNASSIGNED))


@compiled
def name_anew(cost: Floats, home: Ints, owner: Ints, slots: int) -> Ints:
    """Return a placement whose consumers are named after the old ones from which they keep most.

    Pairs of new and old consumer are matched greedily by the cost they have in common, decreasing; what is left over gets
    the lowest slots that are free. There are ``slots`` names, at least one for each old and each new consumer.
    """
    pair, common = _overlaps(cost, home, owner, slots)
    name = np.full(slots, UNASSIGNED)
    used = np.zeros(slots, np.bool_)
    for i in ascending(-common):
        new, old = pair[i] // slots, pair[i] % slots
        if name[new] < 0 and not used[old]:
            name[new] = old
            used[old] = True
    named, free = np.empty_like(owner), 0
    for j in range(len(owner)):
        if name[owner[j]] < 0:
            while used[free]:
                free += 1
            name[owner[j]] = free
            used[free] = True
        named[j] = name[owner[j]]
    return named


@compiled
def _overlaps(cost: Floats, home: Ints, owner: Ints, slots: int) -> tuple[Ints, Floats]:
    """Return the pairs of new and old consumer that have something in common, as one number each, and its cost."""
    pair, common = np.empty(len(owner), np.int64), np.empty(len(owner))
    count = 0
    for j in range(len(owner)):
        if home[j] >= 0:
            pair[count], common[count] = owner[j] * slots + home[j], cost[j]
            count += 1
    last = -1
    merged, total = np.empty(count, np.int64), np.empty(count)
    for i in ascending(pair[:count].astype(np.float64)):
        if last >= 0 and merged[last] == pair[i]:
            total[last] += common[i]
        else:
            last += 1
            merged[last], total[last] = pair[i], common[i]
    return merged[: last + 1], total[: last + 1]
