"""What a placement is and what it costs: the values that every algorithm of *pack* takes and gives.

A consumer is an index; an index stands for the same consumer before and after. A partition is any key that can be hashed and
ordered, a ``TopicPartition`` unless a caller plans something else.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from typing_extensions import TypeVar

from autoscaler.model import TopicPartition
from autoscaler.packing.problem.lower_bounds import lower_bound
from autoscaler.packing.problem.rounding import limit_of

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparison

P = TypeVar("P", bound="SupportsRichComparison", default=TopicPartition)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A placement whose number of consumers was bounded.

    Attributes:
        plan: Its figures are those of the capacity asked for, not of the scaled one; ``algorithm`` is the one that placed.
        wanted: Consumers that the load takes when nothing bounds them.
        capacity: Scaled capacity at which the plan came out; above what was asked for if consumers are lacking.
    """

    plan: Assignment
    wanted: int
    capacity: float


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


def consumer_loads(
    loads: Mapping[TopicPartition, float], owner: Mapping[TopicPartition, int], consumers: Collection[int] = ()
) -> dict[int, float]:
    """Return bytes per second of every consumer that holds a partition, and of those named, by index.

    Partitions without a rate count nothing.
    """
    rates: dict[int, list[float]] = {c: [] for c in sorted({*consumers, *owner.values()})}
    for p, consumer in owner.items():
        rates[consumer].append(loads.get(p, 0.0))
    return {c: math.fsum(values) for c, values in rates.items()}  # exact sums: the order of the mapping must not matter
