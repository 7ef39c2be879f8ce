"""A local search on J itself, after placements that know only what is moved now. Part of *pack*.

Everything in J belongs to one consumer: its price, the moves into it and what it is expected to give away. A change is therefore
judged by the two or three consumers that it touches: a partition goes elsewhere, takes the place of another one that goes
elsewhere, or changes places with it.
"""

from typing import NamedTuple

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
    take,
)
from autoscaler.packing.kernels.drift import drift_if, drift_of
from autoscaler.packing.kernels.jit import borrowing, compiled
from autoscaler.packing.pace.ejection_chains import Prices

_GAIN = 5e-3  # of a capacity: what is less is not worth a change, nor looking for it
_SWEEPS = 3
_PROMISING = 16  # consumers at which exchanges are tried
_NEAR = 16  # consumers that are looked at for a place, the loosest first


class Search(NamedTuple):
    """A placement and what its consumers cost as they are."""

    bins: Bins  # the placement
    prices: Prices  # what J counts
    drift: Floats  # what each consumer is expected to give away, at its weight
    # What is saved at most when a partition leaves each, drift apart: its cost if it is away from home, nothing if it is new, and
    # minus its cost if it is at home
    exit: Floats
    promising: Ints  # consumers at which an exchange may gain most
    place: Ints  # where else each partition would cost least
    price: Floats  # what it would cost there
    looked: Ints  # after how many changes that was looked up, -1 if not yet
    changes: Ints  # one number: how many changes were made


class Change(NamedTuple):
    """What may become of one partition."""

    gain: float  # by how much J falls
    target: int  # consumer that takes it
    other: int  # partition that leaves the target, ``UNASSIGNED`` for none
    third: int  # consumer that takes the other partition


@compiled
def refine(bins: Bins, prices: Prices) -> None:
    """Lower J of a complete placement by one change after the other, until none gains."""
    search = _begin(bins, prices)
    for c in range(len(bins.load)):
        _assess(search, c)
    for _ in range(_SWEEPS):
        changes = search.changes[0]
        search.promising[:] = ascending(-search.drift - search.exit)[: len(search.promising)]
        for j in range(len(bins.owner)):
            if bins.share[j] > 0.0:
                _change(search, j)
        if search.changes[0] == changes:
            return


@compiled
def _begin(bins: Bins, prices: Prices) -> Search:
    slots, n = len(bins.load), len(bins.owner)
    promising = np.empty(min(slots, _PROMISING), np.int64)
    drift, exits, price = np.zeros(slots), np.zeros(slots), np.zeros(n)
    return Search(bins, prices, drift, exits, promising, np.full(n, UNASSIGNED), price, np.full(n, -1), np.zeros(1, np.int64))


@borrowing
def _assess(search: Search, c: int) -> None:
    bins, prices = search.bins, search.prices
    search.drift[c] = prices.drift * drift_of(bins, c, prices.sigma) if prices.drift > 0.0 else 0.0
    most, j = -np.inf, bins.first[c]
    while j >= 0:
        most = max(most, _exit(bins, j))
        j = bins.after[j]
    search.exit[c] = most


@borrowing
def _exit(bins: Bins, j: int) -> float:
    """Return what is saved at most, drift apart, when a partition leaves its consumer."""
    if bins.home[j] < 0:
        return 0.0
    return float(-bins.cost[j] if bins.home[j] == bins.owner[j] else bins.cost[j])


@borrowing
def _move_cost(bins: Bins, j: int, c: int) -> float:
    """Return what it costs that a partition is with a consumer."""
    return float(bins.cost[j]) if bins.home[j] >= 0 and bins.home[j] != c else 0.0


@borrowing
def _drift_if(search: Search, c: int, added: int, removed: int) -> float:
    prices = search.prices
    return prices.drift * drift_if(search.bins, c, added, removed, prices.sigma) if prices.drift > 0.0 else 0.0


@borrowing
def _change(search: Search, j: int) -> None:
    """Make the best change for a partition, if one gains."""
    bins, old = search.bins, search.bins.owner[j]
    released = _released(search, j)
    if released <= _GAIN:
        return
    _look(search, j)
    best = Change(released - search.price[j], search.place[j], UNASSIGNED, UNASSIGNED)
    vacated = _move_cost(bins, j, old) + float(search.drift[old])
    hope = max(released, vacated)
    for i in range(len(search.promising)):
        c = search.promising[i]
        most = hope - _move_cost(bins, j, c) + search.drift[c] + search.exit[c]
        if c != old and bins.held[c] > 0 and most > max(best.gain, _GAIN):
            best = _best_exchange(search, j, c, released, best)
    if best.gain <= _GAIN:
        return
    _apply(bins, j, best)
    search.changes[0] += 1
    _assess(search, old)
    _assess(search, best.target)
    if best.other >= 0:
        _assess(search, best.third)


@borrowing
def _look(search: Search, j: int) -> None:
    """Look up where else a partition would cost least, unless that is known."""
    if search.looked[j] != search.changes[0]:
        old = search.bins.owner[j]
        search.place[j], search.price[j] = _cheapest_place(search, j, old, old)
        search.looked[j] = search.changes[0]


@borrowing
def _released(search: Search, j: int) -> float:
    """Return what is saved where a partition is, if it leaves."""
    bins, old = search.bins, search.bins.owner[j]
    saved = _move_cost(bins, j, old) + float(search.drift[old]) - _drift_if(search, old, UNASSIGNED, j)
    if bins.held[old] == 1 and bins.opened[0] > search.prices.paid_for:
        saved += search.prices.consumer
    return saved


@borrowing
def _cheapest_place(search: Search, j: int, but: int, nor: int) -> tuple[int, float]:
    """Return where a partition costs least: its home, a loose consumer, or one to be opened; but two are left out."""
    bins, prices, home = search.bins, search.prices, search.bins.home[j]
    best = closed_slot(bins, home)
    best_price = _move_cost(bins, j, best) + (prices.consumer if bins.opened[0] >= prices.paid_for else 0.0)
    cost = bins.cost[j] if home >= 0 else 0.0
    if home >= 0 and _may_take(bins, j, home, but, nor):
        price = _drift_if(search, home, j, UNASSIGNED) - search.drift[home]
        if price < best_price:
            best, best_price = home, price
    bucket, tightest, seen = loosest_bucket(bins), bucket_of(bins, bins.share[j] - 1e-9), 0
    while bucket >= tightest and seen < _NEAR and best_price > cost:
        c = bins.bucket_first[bucket]
        while c >= 0:
            if c != home and _may_take(bins, j, c, but, nor):
                seen += 1
                price = cost + _drift_if(search, c, j, UNASSIGNED) - search.drift[c]
                if price < best_price or (price == best_price and c < best):
                    best, best_price = c, price
            c = bins.bucket_after[c]
        bucket -= 1
    return best, best_price


@borrowing
def _may_take(bins: Bins, j: int, c: int, but: int, nor: int) -> bool:
    return bool(c != but and c != nor and fits(bins, j, c))  # noqa: PLR1714  a tuple would take longer than the question


@borrowing
def _best_exchange(search: Search, j: int, c: int, released: float, best: Change) -> Change:
    """Return the best of a change and those in which a partition takes the place of another one at a consumer."""
    bins, old = search.bins, search.bins.owner[j]
    vacated = _move_cost(bins, j, old) + search.drift[old]
    entered = search.drift[c] - _move_cost(bins, j, c)
    k = bins.first[c]
    while k >= 0 and bins.share[k] > 0.0:
        if bins.load[c] - bins.share[k] + bins.share[j] <= LIMIT or bins.held[c] == 1:
            saved, floor = entered + _move_cost(bins, k, c), max(best.gain, _GAIN)
            ejected = released + saved - _price_elsewhere(search, k, released + saved - floor)
            swapped = vacated + saved - _move_cost(bins, k, old)
            if ejected > floor or (swapped > floor and _may_swap(bins, j, k)):
                drift = _drift_if(search, c, j, k)
                best = _ejected(search, j, k, ejected - drift, best)
                best = _swapped(search, j, k, swapped - drift, best)
        k = bins.after[k]
    return best


@borrowing
def _price_elsewhere(search: Search, k: int, worth: float) -> float:
    """Return what a partition would cost elsewhere; nothing if so little is at stake that looking does not pay."""
    if worth <= 0.0:
        return 0.0
    _look(search, k)
    return float(search.price[k])


@borrowing
def _ejected(search: Search, j: int, k: int, gain: float, best: Change) -> Change:
    """Return the better of a change and the one in which ``k``, ejected by ``j``, goes to a third consumer."""
    bins = search.bins
    if gain <= max(best.gain, _GAIN):
        return best
    third = search.place[k]
    if third == bins.owner[j]:
        third, price = _cheapest_place(search, k, bins.owner[j], bins.owner[k])
        gain += search.price[k] - price
    return Change(gain, bins.owner[k], k, third) if gain > best.gain else best


@borrowing
def _may_swap(bins: Bins, j: int, k: int) -> bool:
    old = bins.owner[j]
    return bool(bins.load[old] - bins.share[j] + bins.share[k] <= LIMIT or bins.held[old] == 1)


@borrowing
def _swapped(search: Search, j: int, k: int, gain: float, best: Change) -> Change:
    """Return the better of a change and the one in which ``j`` and ``k`` change places."""
    bins, old = search.bins, search.bins.owner[j]
    if gain <= max(best.gain, _GAIN) or not _may_swap(bins, j, k):
        return best
    gain -= _drift_if(search, old, k, j)
    return Change(gain, bins.owner[k], k, old) if gain > best.gain else best


@borrowing
def _apply(bins: Bins, j: int, change: Change) -> None:
    take(bins, j)
    if change.other >= 0:
        take(bins, change.other)
        put(bins, change.other, change.third)
    put(bins, j, change.target)
