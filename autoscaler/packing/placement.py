"""What a placement is and what it costs: the values that every algorithm of *pack* takes and gives.

A consumer is an index; an index stands for the same consumer before and after. A partition is any key that can be hashed and
ordered, a ``TopicPartition`` unless somebody plans something else.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

import numpy as np
from typing_extensions import TypeVar

from autoscaler.model import TopicPartition
from autoscaler.packing.fits import limit_of
from autoscaler.packing.lower_bounds import lower_bound

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparison

P = TypeVar("P", bound="SupportsRichComparison", default=TopicPartition)


_HIGHEST = 2**63 - 1  # index of a consumer


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment(Generic[P]):
    """A placement and its figures.

    Attributes:
        owner: Consumer index of every partition, ordered by partition.
        consumers: How many consumers hold something.
        r_score: Moved rate over one consumer's capacity (equation 11); arrivals and departures cost nothing.
        oversized: Partitions above one consumer's capacity; nothing else with traffic shares its consumer.
        lower_bound: No placement uses fewer consumers.
        algorithm: Its name in ``ALGORITHMS``.
        proven: Whether nothing better exists, by its own measure; ``None`` from algorithms that do not know.
    """

    owner: Mapping[P, int]
    consumers: int
    r_score: float
    oversized: tuple[P, ...]
    lower_bound: int
    algorithm: str
    proven: bool | None = None


def decreasing(partitions: Iterable[P], loads: Mapping[P, float]) -> list[P]:
    """Return the partitions by decreasing rate, ties by key: equal input gives equal output."""
    return sorted(partitions, key=lambda p: (-loads[p], p))


def r_score(loads: Mapping[P, float], capacity: float, previous: Mapping[P, int], owner: Mapping[P, int]) -> float:
    """Return the rate of the partitions whose owner changes over one consumer's capacity (equation 11).

    Partitions without a previous or without a new owner cost nothing.
    """
    moved = [loads[p] for p, consumer in owner.items() if previous.get(p, consumer) != consumer and p in loads]
    return math.fsum(moved) / capacity


def assignment(
    owner: Mapping[P, int],
    loads: Mapping[P, float],
    capacity: float,
    previous: Mapping[P, int],
    algorithm: str,
    *,
    proven: bool | None = None,
) -> Assignment[P]:
    """Return a placement with its figures, ordered by partition."""
    limit = limit_of(capacity)
    return Assignment(
        owner={p: owner[p] for p in sorted(owner)},
        consumers=len(set(owner.values())),
        r_score=r_score(loads, capacity, previous, owner),
        oversized=tuple(sorted(p for p, rate in loads.items() if rate > limit)),
        lower_bound=lower_bound(loads.values(), capacity),
        algorithm=algorithm,
        proven=proven,
    )


def check_capacity(capacity: float) -> None:
    """Refuse a capacity that is not a positive, finite number of bytes per second.

    Raises:
        ValueError: It is not; the message says what it is.
    """
    if not (capacity > 0 and math.isfinite(capacity)):
        msg = f"capacity must be a positive number of bytes per second, not {capacity!r}"
        raise ValueError(msg)


def check_loads(loads: Mapping[P, float], capacity: float) -> None:
    """Refuse what cannot be packed.

    Raises:
        ValueError: A rate is negative, infinite or not a number (named with its partition), or the capacity is not positive.
    """
    check_capacity(capacity)
    if math.isfinite(sum(loads.values())) and min(loads.values(), default=0.0) >= 0:
        return  # one that is no number or infinite makes the sum so
    bad = [p for p, rate in loads.items() if not (rate >= 0 and math.isfinite(rate))]
    if bad:
        p = min(bad)
        msg = f"rate of partition {p} must be a finite number of bytes per second that is not negative, not {loads[p]!r}"
        raise ValueError(msg)
    msg = f"the rates of {len(loads)} partitions add up to more than can be counted"
    raise ValueError(msg)


def check_previous(previous: Mapping[P, int]) -> None:
    """Refuse owners that are no consumer index.

    Raises:
        ValueError: An owner is negative, not a whole number or none that 64 bits hold; the message says whose.
    """
    bad = [
        p
        for p, consumer in previous.items()
        if not (type(consumer) is int and 0 <= consumer <= _HIGHEST) and not _is_index(consumer)
    ]
    if bad:
        p = min(bad)
        msg = f"previous owner of partition {p} must be an index from 0, not {previous[p]!r}"
        raise ValueError(msg)


def _is_index(value: object) -> bool:
    return isinstance(value, int | np.integer) and 0 <= int(value) <= _HIGHEST
