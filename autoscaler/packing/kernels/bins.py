"""Who holds what while a plan is made: linked lists of partitions per consumer, consumers in buckets by slack. Part of *pack*.

Everything is in units of one consumer's capacity. Partitions are numbered by decreasing share, so that a smaller index never
has less traffic; each list is kept in this order. A consumer is a slot; one that holds nothing is closed.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autoscaler.packing.kernels.jit import borrowing, compiled

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

UNASSIGNED = -1
LIMIT = 1.0 + 1e-9  # up to this load something fits
CROWDED = 1.0 + 2e-9  # above it something must go: what was found to fit is never too much when summed in another order
OVERSIZED = 1.0 + 4e-9  # share of a partition above the capacity: nothing is put beside it, be it without traffic
_MOST_BUCKETS = 1 << 15


class Bins(NamedTuple):
    """A placement in the making; the arrays are changed in place by ``put`` and ``take``."""

    share: Floats  # capacity that each partition takes, decreasing; ``OVERSIZED`` for those that need more than one consumer
    cost: Floats  # what a move of each partition costs: its rate over the capacity
    home: Ints  # consumer that holds each partition now, ``UNASSIGNED`` for a new one
    owner: Ints  # consumer that shall hold each partition, ``UNASSIGNED`` while it waits
    load: Floats  # sum of shares per consumer
    held: Ints  # partitions per consumer
    busy: Ints  # partitions with traffic per consumer
    first: Ints  # first partition of each consumer's list
    last: Ints  # last partition of each consumer's list
    after: Ints  # next partition in the same list
    before: Ints  # previous partition in the same list
    bucket: Ints  # bucket of each open consumer by its slack, ``UNASSIGNED`` for the closed
    bucket_first: Ints  # first consumer of each bucket
    bucket_after: Ints  # next consumer in the same bucket
    bucket_before: Ints  # previous consumer in the same bucket
    # Three numbers: how many consumers hold something, a slot below which none is closed, and a bucket above which none has a
    # consumer
    opened: Ints
    scratch: Floats  # room for the shares of one consumer and one more


@compiled
def empty_bins(share: Floats, cost: Floats, home: Ints) -> Bins:
    """Return bins of which every consumer is closed and every partition waits."""
    n = len(share)
    slots = n + 1
    needed = 0.0
    for x in share:
        needed += 2.0 * min(x, 1.0)
    buckets = 64
    while buckets < min(needed, _MOST_BUCKETS):
        buckets *= 2  # about two for each consumer: neither long lists nor many empty buckets
    return Bins(
        share,
        cost,
        home,
        np.full(n, UNASSIGNED),
        np.zeros(slots),
        np.zeros(slots, np.int64),
        np.zeros(slots, np.int64),
        np.full(slots, UNASSIGNED),
        np.full(slots, UNASSIGNED),
        np.full(n, UNASSIGNED),
        np.full(n, UNASSIGNED),
        np.full(slots, UNASSIGNED),
        np.full(buckets, UNASSIGNED),
        np.full(slots, UNASSIGNED),
        np.full(slots, UNASSIGNED),
        np.zeros(3, np.int64),
        np.empty(n + 1),
    )


@compiled
def bins_of(share: Floats, cost: Floats, home: Ints, owner: Ints) -> Bins:
    """Return bins in which every partition is with its owner."""
    bins = empty_bins(share, cost, home)
    for j in range(len(owner) - 1, -1, -1):  # the smallest first: each then goes to the front of its list
        if owner[j] >= 0:
            put(bins, j, owner[j])
    return bins


@compiled
def copy_into(bins: Bins, source: Bins) -> None:
    """Make the placement equal to another one of the same partitions."""
    bins.owner[:] = source.owner
    bins.load[:] = source.load
    bins.held[:] = source.held
    bins.busy[:] = source.busy
    bins.first[:] = source.first
    bins.last[:] = source.last
    bins.after[:] = source.after
    bins.before[:] = source.before
    bins.bucket[:] = source.bucket
    bins.bucket_first[:] = source.bucket_first
    bins.bucket_after[:] = source.bucket_after
    bins.bucket_before[:] = source.bucket_before
    bins.opened[:] = source.opened


@borrowing
def put(bins: Bins, j: int, c: int) -> None:
    """Give a waiting partition to a consumer."""
    before, after = bins.last[c], UNASSIGNED
    if before > j:
        before, after = UNASSIGNED, bins.first[c]
        while after < j:
            before, after = after, bins.after[after]
    bins.before[j], bins.after[j] = before, after
    if before >= 0:
        bins.after[before] = j
    else:
        bins.first[c] = j
    if after >= 0:
        bins.before[after] = j
    else:
        bins.last[c] = j
    bins.owner[j] = c
    bins.load[c] += bins.share[j]
    bins.opened[0] += bins.held[c] == 0
    bins.held[c] += 1
    bins.busy[c] += bins.share[j] > 0
    _file(bins, c)


@borrowing
def take(bins: Bins, j: int) -> None:
    """Take a partition from its owner and let it wait."""
    c, before, after = bins.owner[j], bins.before[j], bins.after[j]
    if before >= 0:
        bins.after[before] = after
    else:
        bins.first[c] = after
    if after >= 0:
        bins.before[after] = before
    else:
        bins.last[c] = before
    bins.owner[j] = UNASSIGNED
    bins.held[c] -= 1
    if bins.held[c] == 0:
        bins.opened[0] -= 1
        bins.opened[1] = min(bins.opened[1], c)
    bins.busy[c] -= bins.share[j] > 0
    bins.load[c] = bins.load[c] - bins.share[j] if bins.held[c] > 0 else 0.0  # nothing weighs exactly nothing
    _file(bins, c)


@borrowing
def move(bins: Bins, j: int, c: int) -> None:
    """Give a partition to another consumer."""
    take(bins, j)
    put(bins, j, c)


@borrowing
def bucket_of(bins: Bins, slack: float) -> int:
    """Return the bucket of a slack; a greater slack is never in a lower one."""
    buckets = len(bins.bucket_first)
    return min(buckets - 1, max(0, int(slack * buckets)))


@borrowing
def loosest_bucket(bins: Bins) -> int:
    """Return the highest bucket that has a consumer, the lowest of all if there is none."""
    while bins.opened[2] > 0 and bins.bucket_first[bins.opened[2]] < 0:
        bins.opened[2] -= 1
    return int(bins.opened[2])


@borrowing
def _file(bins: Bins, c: int) -> None:
    """Put a consumer into the bucket of its slack, or into none if it is closed."""
    old = bins.bucket[c]
    new = bucket_of(bins, 1.0 - bins.load[c]) if bins.held[c] > 0 else UNASSIGNED
    if old == new:
        return
    if old >= 0:
        before, after = bins.bucket_before[c], bins.bucket_after[c]
        if before >= 0:
            bins.bucket_after[before] = after
        else:
            bins.bucket_first[old] = after
        if after >= 0:
            bins.bucket_before[after] = before
    bins.bucket[c] = new
    if new >= 0:
        bins.opened[2] = max(bins.opened[2], new)
        after = bins.bucket_first[new]
        bins.bucket_before[c], bins.bucket_after[c] = UNASSIGNED, after
        if after >= 0:
            bins.bucket_before[after] = c
        bins.bucket_first[new] = c


@borrowing
def fits(bins: Bins, j: int, c: int) -> bool:
    """Say whether an open consumer has room for a partition."""
    return bool(bins.held[c] > 0 and bins.load[c] + bins.share[j] <= LIMIT)


@borrowing
def crowded(bins: Bins, c: int) -> bool:
    """Say whether a consumer is above its capacity with more than one partition with traffic."""
    return bool(bins.load[c] > CROWDED and bins.busy[c] > 1)


@borrowing
def tightest(bins: Bins, j: int, but: int, limit: float) -> int:
    """Return the fullest open consumer (not ``but``) with room for ``j`` up to ``limit``, lowest slot on ties; -1 if none."""
    for bucket in range(bucket_of(bins, 1.0 + bins.share[j] - limit), loosest_bucket(bins) + 1):
        best = UNASSIGNED
        c = bins.bucket_first[bucket]
        while c >= 0:
            if c != but and bins.load[c] + bins.share[j] <= limit and (best < 0 or _fuller(bins, c, best)):
                best = c
            c = bins.bucket_after[c]
        if best >= 0:
            return best
    return UNASSIGNED


@borrowing
def _fuller(bins: Bins, c: int, than: int) -> bool:
    return bool(bins.load[c] > bins.load[than] or (bins.load[c] == bins.load[than] and c < than))


@borrowing
def closed_slot(bins: Bins, home: int) -> int:
    """Return the consumer to open for a partition: its home if that is closed, else the lowest closed slot."""
    if home >= 0 and bins.held[home] == 0:
        return home
    while bins.held[bins.opened[1]] > 0:
        bins.opened[1] += 1
    return int(bins.opened[1])


@compiled
def ascending(keys: Floats) -> Ints:
    """Return the positions by ascending key, ties in order: the one place that sorts, because it takes long to compile."""
    positions: Ints = np.argsort(keys, kind="mergesort")
    return positions


@borrowing
def moved_cost(bins: Bins) -> float:
    """Return what the moves cost: the R-score (Landau et al. 2024, equation 11); arrivals cost nothing."""
    total = 0.0
    for j in range(len(bins.owner)):
        if bins.home[j] >= 0 and bins.owner[j] != bins.home[j]:
            total += bins.cost[j]
    return total
