"""The twelve published placements on arrays: as ``reference.py``, which is the reference, for large groups. Part of *pack*.

Every sum and comparison is the one that ``reference.py`` makes, so that both give the same placement to the last bit.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from autoscaler.packing.kernels.jit import compiled
from autoscaler.packing.problem.labels import near
from autoscaler.packing.problem.options import AS_GIVEN, Floats, Labels
from autoscaler.packing.problem.rounding import limit_of
from autoscaler.packing.published.fit_arrays import (
    BEST,
    FIRST,
    NEXT,
    UNASSIGNED,
    WORST,
    Open,
    none_open,
    open_consumer,
    put_on_open,
    to_open,
)

_FITS: Mapping[str, int] = {"N": NEXT, "F": FIRST, "W": WORST, "B": BEST}  # by the initial in an algorithm's name
_PARTIALS = 64  # more than the floats that a sum of doubles can consist of without overlap


class _Held(NamedTuple):
    """What every consumer holds before: consumer c the partitions ``partitions[start[c]:start[c + 1]]``, by decreasing rate."""

    start: Labels
    partitions: Labels


def place_arrays(rates: Floats, capacity: float, previous: Labels, algorithm: str, *, open_first: bool = False) -> Labels:
    """Return the owner of every partition by one of the twelve; equal to ``reference.place`` for keys in the order of the arrays.

    There is at least one partition; -1 in ``previous`` is for none.
    """
    n = rates.shape[0]
    home, index = near(previous)
    slots = n + 1 if index is None else index.shape[0]
    consumers = none_open(_FITS[algorithm.removeprefix("M")[0]], limit_of(capacity), slots, 2 * n)
    owner = np.full(n, UNASSIGNED)
    in_turn = np.arange(n) if algorithm in AS_GIVEN else np.argsort(-rates, kind="stable")
    if open_first:
        owner[in_turn[0]] = 0
        open_consumer(consumers, 0, rates[in_turn[0]])
        in_turn = in_turn[1:]
    if algorithm.startswith("M"):
        held = _held(in_turn, home, slots)
        _hand_over(rates, held, _by_key(rates, held, largest=algorithm.endswith("P")), consumers, owner)
        in_turn = in_turn[owner[in_turn] == UNASSIGNED]
    _place(rates, in_turn, home, consumers, owner)
    return owner if index is None else index[owner]


@compiled
def _place(rates: Floats, in_turn: Labels, home: Labels, consumers: Open, owner: Labels) -> None:
    """Place partitions one after the other, opening a consumer for each that fits nowhere."""
    for j in in_turn:
        consumer = put_on_open(consumers, rates[j])
        if consumer == UNASSIGNED:
            consumer = to_open(consumers, home[j])
            open_consumer(consumers, consumer, rates[j])
        owner[j] = consumer


def _held(decreasing: Labels, home: Labels, slots: int) -> _Held:
    """Return what every consumer holds before, in the order of the partitions given."""
    with_home = decreasing[home[decreasing] != UNASSIGNED]
    counts = np.bincount(home[with_home], minlength=slots)
    return _Held(
        start=np.concatenate((np.zeros(1, np.int64), np.cumsum(counts))),
        partitions=with_home[np.argsort(home[with_home], kind="stable")],
    )


def _by_key(rates: Floats, held: _Held, *, largest: bool) -> Labels:
    """Return the consumers that hold something by their largest or their summed rate, decreasing; lower index first on ties."""
    holding = np.flatnonzero(np.diff(held.start))
    keys = rates[held.partitions[held.start[holding]]] if largest else _sums(rates, held, holding)
    return holding[np.argsort(-keys, kind="stable")]


@compiled
def _sums(rates: Floats, held: _Held, holding: Labels) -> Floats:
    """Return the sum of the rates of each of these consumers, rounded once, as ``math.fsum`` does."""
    sums, partials = np.empty(holding.shape[0]), np.empty(_PARTIALS)
    for i, consumer in enumerate(holding):
        count = 0
        for t in range(held.start[consumer], held.start[consumer + 1]):
            count = _add(partials, count, rates[held.partitions[t]])
        sums[i] = _rounded(partials, count)
    return sums


@compiled
def _add(partials: Floats, count: int, value: float) -> int:
    """Add a value to a sum kept as floats that do not overlap, least first; return how many those are (Shewchuk 1997)."""
    kept = 0
    for i in range(count):
        larger, smaller = value, float(partials[i])
        if abs(larger) < abs(smaller):
            larger, smaller = smaller, larger
        value = larger + smaller
        lost = smaller - (value - larger)
        if lost != 0.0:
            partials[kept] = lost
            kept += 1
    partials[kept] = value
    return kept + 1


@compiled
def _rounded(partials: Floats, count: int) -> float:
    """Return the sum of floats that do not overlap, least first, rounded to the nearest, half to even."""
    total, lost, i = float(partials[count - 1]), 0.0, count - 1
    while i > 0 and lost == 0.0:
        i -= 1
        before = total
        total = before + float(partials[i])
        lost = float(partials[i]) - (total - before)
    if i > 0 and lost * partials[i - 1] > 0.0:  # exactly half was lost, and what follows says which way it should have gone
        above = total + 2.0 * lost
        if above - total == 2.0 * lost:
            return above
    return total


@compiled
def _hand_over(rates: Floats, held: _Held, by_key: Labels, consumers: Open, owner: Labels) -> None:
    """Let consumers give away their smallest partitions and keep their biggest (algorithm 1, stages 1 and 2)."""
    for consumer in by_key:
        first, end = held.start[consumer], held.start[consumer + 1]
        end = first + _give_away(rates, held.partitions[first:end], consumers, owner)
        if first < end:
            load = _keep(rates, held.partitions[first:end], consumer, consumers.limit, owner)
            open_consumer(consumers, consumer, load)


@compiled
def _give_away(rates: Floats, partitions: Labels, consumers: Open, owner: Labels) -> int:
    """Place partitions on open consumers, smallest first, up to the first that does not fit; return how many are left."""
    left = int(partitions.shape[0])
    while left > 0:
        receiver = put_on_open(consumers, rates[partitions[left - 1]])
        if receiver == UNASSIGNED:
            return left
        left -= 1
        owner[partitions[left]] = receiver
    return left


@compiled
def _keep(rates: Floats, partitions: Labels, consumer: int, limit: float, owner: Labels) -> float:
    """Let a consumer keep partitions, biggest first, up to the first that does not fit, but always one; return its load."""
    load = 0.0
    for t, j in enumerate(partitions):
        if t > 0 and load + rates[j] > limit:
            return load
        owner[j] = consumer
        load += rates[j]
    return load
