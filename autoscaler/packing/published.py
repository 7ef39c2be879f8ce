"""The twelve published placements, as published: *pack* without knowledge of time, guards or workers.

Source: Landau et al. 2024, "Multi-Objective Optimization of Consumer Group Autoscaling in Message Broker Systems"
(arXiv 2402.06085), algorithm 1 for the modified any-fit ones. A consumer is an index; an index stands for the same consumer
before and after.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from autoscaler.model import TopicPartition
from autoscaler.packing.fits import BestFit, FirstFit, Fit, NextFit, WorstFit, limit_of
from autoscaler.packing.lower_bounds import lower_bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A placement and its figures.

    Attributes:
        owner: Consumer index of every partition, ordered by partition.
        consumers: How many consumers hold something.
        r_score: Moved rate over one consumer's capacity (equation 11); arrivals and departures cost nothing.
        oversized: Partitions above one consumer's capacity; each sits alone.
        lower_bound: No placement uses fewer consumers.
    """

    owner: Mapping[TopicPartition, int]
    consumers: int
    r_score: float
    oversized: tuple[TopicPartition, ...]
    lower_bound: int
    algorithm: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _AnyFit:
    """Partitions one after the other onto whatever the fit says."""

    fit: Callable[[float], Fit]
    decreasing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _ModifiedAnyFit:
    """Algorithm 1: consumers one after the other keep, lose or hand over what they hold."""

    fit: Callable[[float], Fit]
    key: Callable[[Iterable[float]], float]  # of a consumer's rates, largest first: their sum or their maximum


_RULES: Mapping[str, _AnyFit | _ModifiedAnyFit] = {
    "NF": _AnyFit(fit=NextFit, decreasing=False),
    "FF": _AnyFit(fit=FirstFit, decreasing=False),
    "WF": _AnyFit(fit=WorstFit, decreasing=False),
    "BF": _AnyFit(fit=BestFit, decreasing=False),
    "NFD": _AnyFit(fit=NextFit, decreasing=True),
    "FFD": _AnyFit(fit=FirstFit, decreasing=True),
    "WFD": _AnyFit(fit=WorstFit, decreasing=True),
    "BFD": _AnyFit(fit=BestFit, decreasing=True),
    "MWF": _ModifiedAnyFit(fit=WorstFit, key=math.fsum),
    "MBF": _ModifiedAnyFit(fit=BestFit, key=math.fsum),
    "MWFP": _ModifiedAnyFit(fit=WorstFit, key=max),
    "MBFP": _ModifiedAnyFit(fit=BestFit, key=max),
}
ALGORITHMS: tuple[str, ...] = tuple(_RULES)


class _Group:
    """The placement in the making: open consumers under one fit, and the opening rule (equation 14)."""

    def __init__(self, fit: Fit, loads: Mapping[TopicPartition, float], previous: Mapping[TopicPartition, int]) -> None:
        self.fit = fit
        self.owner: dict[TopicPartition, int] = {}
        self._loads = loads
        self._previous = previous
        self._opened: set[int] = set()
        self._lowest = 0

    def place_open(self, partition: TopicPartition) -> bool:
        """Place a partition on an open consumer; say whether one fitted."""
        consumer = self.fit.place(self._loads[partition])
        if consumer is None:
            return False
        self.owner[partition] = consumer
        return True

    def place(self, partition: TopicPartition) -> None:
        """Place a partition, opening a consumer if it fits nowhere."""
        if not self.place_open(partition):
            consumer = self._to_open(partition)
            self.open(consumer, (partition,))

    def open(self, consumer: int, partitions: Iterable[TopicPartition]) -> None:
        """Open a consumer that holds these partitions."""
        load = 0.0
        for partition in partitions:
            self.owner[partition] = consumer
            load += self._loads[partition]
        self._opened.add(consumer)
        self.fit.open(consumer, load)

    def _to_open(self, partition: TopicPartition) -> int:
        home = self._previous.get(partition)
        if home is not None and home not in self._opened:
            return home
        while self._lowest in self._opened:
            self._lowest += 1
        return self._lowest


def decreasing(partitions: Iterable[TopicPartition], loads: Mapping[TopicPartition, float]) -> list[TopicPartition]:
    """Return the partitions by decreasing rate, ties by topic and number: equal input gives equal output."""
    return sorted(partitions, key=lambda p: (-loads[p], p.topic, p.partition))


def _modified(
    rule: _ModifiedAnyFit, loads: Mapping[TopicPartition, float], limit: float, previous: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    group = _Group(rule.fit(limit), loads, previous)
    held: dict[int, list[TopicPartition]] = {}
    rest: list[TopicPartition] = []
    for p in decreasing(loads, loads):
        if p in previous:
            held.setdefault(previous[p], []).append(p)
        else:
            rest.append(p)
    keys = {consumer: rule.key(loads[p] for p in ps) for consumer, ps in held.items()}
    for consumer in sorted(held, key=lambda c: (-keys[c], c)):
        partitions = held[consumer]
        while partitions and group.place_open(partitions[-1]):
            partitions.pop()
        kept = _keep(partitions, loads, limit)
        if kept:
            group.open(consumer, partitions[:kept])
            rest += partitions[kept:]
    for p in decreasing(rest, loads):
        group.place(p)
    return group.owner


def _keep(partitions: list[TopicPartition], loads: Mapping[TopicPartition, float], limit: float) -> int:
    """Return how many of these, biggest first, a consumer keeps: up to the first that does not fit, but always one."""
    load = 0.0
    for count, p in enumerate(partitions):
        if count and load + loads[p] > limit:
            return count
        load += loads[p]
    return len(partitions)


def _any_fit(
    rule: _AnyFit, loads: Mapping[TopicPartition, float], limit: float, previous: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    group = _Group(rule.fit(limit), loads, previous)
    for p in decreasing(loads, loads) if rule.decreasing else loads:
        group.place(p)
    return group.owner


def r_score(
    loads: Mapping[TopicPartition, float],
    capacity: float,
    previous: Mapping[TopicPartition, int],
    owner: Mapping[TopicPartition, int],
) -> float:
    """Return the rate of the partitions whose owner changes over one consumer's capacity (equation 11).

    Partitions without a previous or without a new owner cost nothing.
    """
    moved = (loads[p] for p, consumer in owner.items() if previous.get(p, consumer) != consumer and p in loads)
    return math.fsum(moved) / capacity


def check_loads(loads: Mapping[TopicPartition, float], capacity: float) -> None:
    """Refuse what cannot be packed.

    Raises:
        ValueError: A rate is negative, infinite or not a number (named with its partition), or the capacity is not positive.
    """
    if not (capacity > 0 and math.isfinite(capacity)):
        msg = f"capacity must be a positive number of bytes per second, not {capacity!r}"
        raise ValueError(msg)
    bad = [p for p, rate in loads.items() if not (rate >= 0 and math.isfinite(rate))]
    if bad:
        p = min(bad)
        msg = f"rate of partition {p} must be a finite number of bytes per second that is not negative, not {loads[p]!r}"
        raise ValueError(msg)
    if not math.isfinite(sum(loads.values())):
        msg = f"the rates of {len(loads)} partitions add up to more than can be counted"
        raise ValueError(msg)


def _by_name(p: TopicPartition) -> tuple[str, int]:
    """Return what partitions are ordered by; comparing the tuples is several times faster than comparing the values."""
    return p.topic, p.partition


def assignment(
    owner: Mapping[TopicPartition, int],
    loads: Mapping[TopicPartition, float],
    capacity: float,
    previous: Mapping[TopicPartition, int],
    algorithm: str,
) -> Assignment:
    """Return a placement with its figures, ordered by partition."""
    return Assignment(
        owner={p: owner[p] for p in sorted(owner, key=_by_name)},
        consumers=len(set(owner.values())),
        r_score=r_score(loads, capacity, previous, owner),
        oversized=tuple(sorted(p for p, rate in loads.items() if rate > limit_of(capacity))),
        lower_bound=lower_bound(loads.values(), capacity),
        algorithm=algorithm,
    )


def assign(
    loads: Mapping[TopicPartition, float],
    capacity: float,
    previous: Mapping[TopicPartition, int],
    algorithm: str = "MWF",
) -> Assignment:
    """Place every partition on a consumer by one of the published algorithms.

    Nobody is above the capacity unless it holds one partition alone. The order of ``loads`` matters for NF, FF, WF and BF only,
    which take partitions as given.

    Args:
        loads: Bytes per second of every partition, measured now.
        capacity: Bytes per second that one consumer may be given.
        previous: Consumer index that holds a partition now; partitions that are gone are ignored.
        algorithm: One of ``ALGORITHMS``.

    Raises:
        ValueError: A rate, the capacity, a previous owner or the algorithm's name makes no sense; the message says which.
    """
    check_loads(loads, capacity)
    if algorithm not in _RULES:
        msg = f"algorithm {algorithm!r} is unknown; choose one of {', '.join(ALGORITHMS)}"
        raise ValueError(msg)
    if below := [p for p, consumer in previous.items() if consumer < 0]:
        p = min(below)
        msg = f"previous owner of partition {p} must be an index from 0, not {previous[p]!r}"
        raise ValueError(msg)
    rule = _RULES[algorithm]
    place = (
        _modified(rule, loads, limit_of(capacity), previous)
        if isinstance(rule, _ModifiedAnyFit)
        else _any_fit(rule, loads, limit_of(capacity), previous)
    )
    return assignment(place, loads, capacity, previous, algorithm)
