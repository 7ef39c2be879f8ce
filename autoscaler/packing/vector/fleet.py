"""Consumers of different size: who is filled first, and who gets which content. Part of *pack*.

A consumer is known by its index, its capacity and the backlog that it may hold. Consumers that were not measured count as large
as the smallest that was.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from autoscaler.packing.problem.validation import is_index, number_of, shown
from autoscaler.packing.vector.fill import ROUNDING, Demand, Ints, Room
from autoscaler.packing.vector.overlap import least_cost

Capacity: TypeAlias = float | Sequence[float] | NDArray[np.float64] | Mapping[int, float]

_BY_SIZE = 1e-6  # of a consumer's rate: of consumers that hold equally much of a content the smallest that fits gets it
_BARRED = 1e12  # consumers' rates: worse than any move


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The consumers in the order in which they are filled."""

    index: tuple[int, ...]  # of each consumer; those that are there first, then enough new ones, all different
    room: Room  # of each consumer, in units of ``capacity`` and ``lag_capacity``
    capacity: float  # the largest consumer's
    lag_capacity: float  # the largest consumer's


def fleet_of(capacity: Capacity, lag_capacity: Capacity, present: Iterable[int], partitions: int) -> Fleet:
    """Return the consumers that may hold so many partitions: those ``present``, and new ones; capacities of all, or by index.

    Raises:
        ValueError: A capacity is no positive number or of no consumer, or none is given; the message says whose.
    """
    rate, lag = _sizes(capacity, "capacity"), _sizes(lag_capacity, "lag capacity")
    least_rate, least_lag = min(rate.values()), min(lag.values())
    named = sorted({c for c in (*rate, *lag) if c >= 0}, key=lambda c: (-rate.get(c, least_rate), -lag.get(c, least_lag), c))
    others = sorted({c for c in present if c not in rate and c not in lag})
    taken = {*named, *others}
    index = (*named, *others, *islice((c for c in count() if c not in taken), partitions))
    largest, most = max(rate.values()), max(lag.values())
    room = Room(
        np.array([rate.get(c, least_rate) / largest for c in index], np.float64),
        np.array([lag.get(c, least_lag) / most for c in index], np.float64),
        len(named),
    )
    return Fleet(index=index, room=room, capacity=largest, lag_capacity=most)


def _sizes(capacity: Capacity, name: str) -> dict[int, float]:
    """Return capacities by consumer index; one for all stands at -1."""
    given: object = capacity.tolist() if isinstance(capacity, np.ndarray) else capacity
    if isinstance(given, Mapping):
        by_index = dict(given)
    elif isinstance(given, Sequence) and not isinstance(given, str | bytes):
        by_index = dict(enumerate(given))
    else:
        return {-1: _size(given, name)}
    if not by_index:
        raise ValueError(f"{name} must be given for one consumer at least")
    if strange := [consumer for consumer in by_index if not is_index(consumer)]:
        raise ValueError(f"{name} is given for {shown(strange[0])}, which is no index of a consumer")
    return {int(consumer): _size(size, f"{name} of consumer {consumer}") for consumer, size in by_index.items()}


def _size(size: object, name: str) -> float:
    number = number_of(size)
    if not number > 0:
        raise ValueError(f"{name} must be a positive number, not {shown(size)}")
    return number


def hand_out(demand: Demand, room: Room, place: Ints, home: Ints) -> Ints:
    """Return the consumer of each partition: each content goes to the one that holds most of it already and has room for it.

    Of consumers that hold equally much of it the smallest one with room gets it. Partitions of one ``place`` are one content;
    consumers stand for their places in ``room``, and -1 in ``home`` for none.
    """
    used, content = np.unique(place, return_inverse=True)
    width = min(room.rate.shape[0], max(room.spare, int(place.max()) + 1, int(home.max()) + 1))
    rate, lag = np.bincount(content, demand.rate), np.bincount(content, demand.lag)
    cost = np.tile(_BY_SIZE * room.rate[:width], (used.shape[0], 1))
    held = home >= 0
    np.add.at(cost, (content[held], home[held]), -demand.rate[held])
    small = (rate[:, None] > room.rate[:width] + ROUNDING) | (lag[:, None] > room.lag[:width] + ROUNDING)
    small[np.arange(used.shape[0]), used] = False  # where the packing put it, be it too small for a partition that is alone
    cost[small] = _BARRED
    return np.asarray(least_cost(cost)[content], np.int64)
