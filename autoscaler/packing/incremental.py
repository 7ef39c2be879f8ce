"""Placements that keep what can be kept: unowned partitions, a bounded number of consumers, fewer consumers. Part of *pack*."""

from bisect import bisect_right, insort
from collections.abc import Collection, Mapping
from itertools import count

from autoscaler.model import TopicPartition
from autoscaler.packing.problem.assignment import consumer_loads, decreasing
from autoscaler.packing.problem.rounding import limit_of
from autoscaler.packing.problem.validation import checked_capacity, checked_loads, checked_previous


def place_unowned(
    loads: Mapping[TopicPartition, float],
    capacity: float,
    owner: Mapping[TopicPartition, int],
    consumers: Collection[int] | None = None,
) -> dict[TopicPartition, int]:
    """Return the owner of every partition, those without one placed; no other partition moves.

    By decreasing rate, best fit over consumers that hold something; if none fits, the lowest free index. Where only certain
    ``consumers`` may receive, a free one among them, and if there is none the least loaded of them: an overloaded owner is
    better than none.

    Raises:
        ValueError: A rate, the capacity or an owner makes no sense, or ``consumers`` is empty and something must be placed.
    """
    loads, capacity, owner = checked_loads(loads), checked_capacity(capacity), checked_previous(owner)
    placed = {p: owner[p] for p in sorted(loads) if p in owner}
    rest = decreasing((p for p in loads if p not in owner), loads)
    if rest and consumers is not None and not consumers:
        raise ValueError(f"no consumer may receive {rest[0]} and {len(rest) - 1} others")
    receivers = _Receivers(consumer_loads(loads, placed), limit_of(capacity), consumers)
    for p in rest:
        placed[p] = receivers.take(loads[p])
    return {p: placed[p] for p in sorted(placed)}


class _Receivers:
    """Who gets the next partition: the fullest that has room, else one that holds nothing, else the least loaded."""

    def __init__(self, held: Mapping[int, float], limit: float, consumers: Collection[int] | None) -> None:
        self._limit = limit
        self._by_load = sorted((load, -c) for c, load in held.items() if consumers is None or c in consumers)
        self._free = (c for c in (count() if consumers is None else sorted(consumers)) if c not in held)

    def take(self, rate: float) -> int:
        """Return the receiver of a partition of this rate, which holds it from now on."""
        at = bisect_right(self._by_load, self._limit, key=lambda entry: entry[0] + rate)
        if at == 0 and (free := next(self._free, None)) is not None:
            insort(self._by_load, (rate, -free))
            return free
        if at == 0:  # an overloaded owner is better than none
            at = bisect_right(self._by_load, self._by_load[0][0], key=lambda entry: entry[0])
        load, negative = self._by_load.pop(at - 1)
        insort(self._by_load, (load + rate, negative))
        return -negative


def drain(
    loads: Mapping[TopicPartition, float],
    capacity: float,
    owner: Mapping[TopicPartition, int],
    consumers: Collection[int],
    keep: int,
) -> dict[TopicPartition, int] | None:
    """Empty the least loaded consumers until ``keep``, at least one, are left; only what they held moves.

    ``consumers`` are all present indices, those that hold nothing included. ``None`` if what must move does not fit on those
    that stay.

    Raises:
        ValueError: As ``place_unowned``.
    """
    loads, capacity, owner = checked_loads(loads), checked_capacity(capacity), checked_previous(owner)
    held = consumer_loads(loads, owner, consumers)
    stay = sorted(held, key=lambda c: (-held[c], c))[:keep]
    kept = {p: c for p, c in owner.items() if c in stay}
    placed = place_unowned(loads, capacity, kept, stay)
    before, after = consumer_loads(loads, kept, stay), consumer_loads(loads, placed, stay)
    fits = all(after[c] <= max(limit_of(capacity), before[c]) for c in stay)
    return placed if fits else None
