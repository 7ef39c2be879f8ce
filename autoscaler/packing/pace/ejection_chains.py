"""PLAN: repair with ejection chains at a wanted number of consumers, the number found by hill climbing. Part of *pack*.

What must move is taken off crowded consumers, the lightest consumers are dissolved until the wanted number is left, and what
waits is placed by decreasing share. Something that fits nowhere takes the place of smaller ones, which then wait in turn: a
chain that ends, because each link is smaller.
"""

from typing import NamedTuple

import numpy as np

from autoscaler.packing.kernels.bins import (
    LIMIT,
    UNASSIGNED,
    Bins,
    Ints,
    ascending,
    bucket_of,
    closed_slot,
    copy_into,
    empty_bins,
    fits,
    loosest_bucket,
    moved_cost,
    put,
    take,
)
from autoscaler.packing.kernels.drift import drift_if, drift_of, total_drift
from autoscaler.packing.kernels.jit import borrowing, compiled
from autoscaler.packing.kernels.knapsack import Trial, cheapest_subset, relieve
from autoscaler.packing.pace.return_home import bring_home

_NEAR = 16  # consumers that are looked at from the tight end, and from the loose one
_LEFTOVER = 1e-3  # what room left over counts: it breaks ties among places that cost nothing
_SWEEPS = 3


class Prices(NamedTuple):
    """What a placement is judged by, besides what it moves."""

    consumer: float  # one consumer for one step (lambda)
    paid_for: float  # how many consumers cost nothing
    drift: float  # weight of the expected moves (gamma)
    sigma: float  # spread of one partition's rate over the horizon, in capacities


@borrowing
def price_of(consumers: int, prices: Prices) -> float:
    """Return what so many consumers cost."""
    return prices.consumer * max(0.0, consumers - prices.paid_for)


@borrowing
def objective(bins: Bins, prices: Prices) -> float:
    """Return J of a complete placement: consumers, moves and expected moves at their prices."""
    price = price_of(bins.opened[0], prices) + moved_cost(bins)
    if prices.drift > 0.0:
        price += prices.drift * total_drift(bins, prices.sigma)
    return price


@compiled
def by_load(bins: Bins) -> Ints:
    """Return the open consumers by ascending load, lower slot first on ties."""
    order = np.empty(bins.opened[0], np.int64)
    count = 0
    for c in range(len(bins.load)):
        if bins.held[c] > 0:
            order[count] = c
            count += 1
    keys = np.empty(count)
    for i in range(count):
        keys[i] = bins.load[order[i]]
    lightest: Ints = order[ascending(keys)]
    return lightest


@borrowing
def dissolve(bins: Bins, c: int) -> None:
    """Let everything that a consumer holds wait."""
    while bins.first[c] >= 0:
        take(bins, bins.first[c])


@borrowing
def place_waiting(bins: Bins, most: int, prices: Prices, trial: Trial) -> bool:
    """Place what waits on at most so many consumers; say whether that was possible."""
    for j in range(len(bins.owner)):
        waits = bins.owner[j] < 0
        if waits and not _place(bins, j, most, prices, trial):
            return False
    return True


@borrowing
def _place(bins: Bins, j: int, most: int, prices: Prices, trial: Trial) -> bool:
    home, may_open = bins.home[j], bins.opened[0] < most
    if home >= 0 and fits(bins, j, home):
        put(bins, j, home)
        return True
    c, price = _cheapest_place(bins, j, prices)
    if c < 0:
        c, price = _cheapest_ejection(bins, j, trial)
    opening = prices.consumer if bins.opened[0] >= prices.paid_for else 0.0
    if may_open and (c < 0 or price > opening):
        put(bins, j, closed_slot(bins, home))
        return True
    if c < 0:
        return False
    if not fits(bins, j, c):
        _eject(bins, c, j, trial)
    put(bins, j, c)
    return True


@borrowing
def _cheapest_place(bins: Bins, j: int, prices: Prices) -> tuple[int, float]:
    """Return where a partition fits at the least drift price and leftover, among the tightest and the loosest that fit."""
    best, best_price, seen = UNASSIGNED, np.inf, 0
    buckets = loosest_bucket(bins) + 1
    bucket = bucket_of(bins, bins.share[j] - 1e-9)
    while bucket < buckets and seen < _NEAR:
        c = bins.bucket_first[bucket]
        while c >= 0:
            if fits(bins, j, c):
                seen += 1
                price = _price_at(bins, j, c, prices)
                if price < best_price or (price == best_price and c < best):
                    best, best_price = c, price
            c = bins.bucket_after[c]
        bucket += 1
        if prices.drift <= 0.0 and best >= 0:
            return best, best_price
    seen, loosest = 0, buckets - 1
    while loosest >= bucket and seen < _NEAR:
        c = bins.bucket_first[loosest]
        while c >= 0:
            seen += 1
            price = _price_at(bins, j, c, prices)
            if price < best_price or (price == best_price and c < best):
                best, best_price = c, price
            c = bins.bucket_after[c]
        loosest -= 1
    return best, best_price


@borrowing
def _price_at(bins: Bins, j: int, c: int, prices: Prices) -> float:
    price = _LEFTOVER * float(1.0 - bins.load[c] - bins.share[j])
    if prices.drift > 0.0:
        price += prices.drift * (drift_if(bins, c, j, UNASSIGNED, prices.sigma) - drift_of(bins, c, prices.sigma))
    return price


@borrowing
def _cheapest_ejection(bins: Bins, j: int, trial: Trial) -> tuple[int, float]:
    """Return the consumer that makes room for a partition at the least cost, among its home and the loosest."""
    best, best_price, seen = UNASSIGNED, np.inf, 0
    home = bins.home[j]
    bucket = loosest_bucket(bins)
    while bucket >= 0 and seen < 2 * _NEAR:
        c = bins.bucket_first[bucket]
        while c >= 0:
            seen += 1
            if c != home:
                price = cheapest_subset(bins, c, bins.load[c] + bins.share[j] - LIMIT, j, trial)
                if price < best_price or (price == best_price and c < best):
                    best, best_price = c, price
            c = bins.bucket_after[c]
        bucket -= 1
    if home >= 0 and bins.held[home] > 0:
        price = cheapest_subset(bins, home, bins.load[home] + bins.share[j] - LIMIT, j, trial) - bins.cost[j]
        if price < best_price:
            best, best_price = home, price
    return best, best_price


@borrowing
def _eject(bins: Bins, c: int, j: int, trial: Trial) -> None:
    cheapest_subset(bins, c, bins.load[c] + bins.share[j] - LIMIT, j, trial)
    for y in trial.chosen:
        if y >= 0:
            take(bins, y)


@borrowing
def attempt(bins: Bins, most: int, lightest: Ints, prices: Prices, trial: Trial) -> bool:
    """Complete a relieved placement on at most so many consumers; say whether that was possible."""
    for i in range(len(lightest)):
        if bins.opened[0] > most:
            dissolve(bins, lightest[i])
    if not place_waiting(bins, most, prices, trial):
        return False
    bring_home(bins, _SWEEPS, trial)
    return True


@compiled
def plan(bins: Bins, bound: int, prices: Prices, trial: Trial) -> float:
    """Improve or complete a placement, and return its J; the number of consumers is found by hill climbing.

    ``bins`` has every partition at home, new ones waiting, and receives the best placement found; no placement has fewer than
    ``bound`` consumers. J is infinity if no placement was found, and ``bins`` is then left incomplete.
    """
    relieve(bins, prices.drift, prices.sigma, trial)
    lightest = by_load(bins)
    start, tried = empty_bins(bins.share, bins.cost, bins.home), empty_bins(bins.share, bins.cost, bins.home)
    copy_into(start, bins)
    done = np.zeros(len(bins.load), np.bool_)
    best, center, step = np.inf, max(bound, start.opened[0]), _first_step(start.opened[0])
    while step > 0:
        improved = False
        for most in (center, center - step, center + step):
            if most < bound or most >= len(done) or done[most]:
                continue
            done[most] = True
            copy_into(tried, start)
            if not attempt(tried, most, lightest, prices, trial):
                continue
            if start.opened[0] <= tried.opened[0] < most:
                done[most:] = True  # the wanted number did not bind: a greater one gives the same
            price = objective(tried, prices)
            if price < best - 1e-12:
                best, center, improved = price, tried.opened[0], True
                copy_into(bins, tried)
        if np.isinf(best):
            center += step
            if center >= len(done):
                return best
        elif not improved:
            step //= 2
    return best


@borrowing
def _first_step(count: int) -> int:
    step = 1
    while step * 8 < count // 8:
        step *= 2
    return step
