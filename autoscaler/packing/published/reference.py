"""The twelve published placements, as published: *pack* without knowledge of time, guards or workers.

Source: Landau et al. 2024, "Multi-Objective Optimization of Consumer Group Autoscaling in Message Broker Systems"
(arXiv 2402.06085), algorithm 1 for the modified any-fit ones. A consumer is an index; an index stands for the same consumer
before and after.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic

from autoscaler.packing.problem.assignment import P, decreasing
from autoscaler.packing.problem.rounding import limit_of
from autoscaler.packing.published.fits import BestFit, FirstFit, Fit, NextFit, WorstFit


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


RULES: Mapping[str, _AnyFit | _ModifiedAnyFit] = {
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


class _Group(Generic[P]):
    """The placement in the making: open consumers under one fit, and the opening rule (equation 14)."""

    def __init__(self, fit: Fit, loads: Mapping[P, float], previous: Mapping[P, int]) -> None:
        self.fit = fit
        self.owner: dict[P, int] = {}
        self._loads = loads
        self._previous = previous
        self._opened: set[int] = set()
        self._lowest = 0

    def place_open(self, partition: P) -> bool:
        """Place a partition on an open consumer; say whether one fitted."""
        consumer = self.fit.place(self._loads[partition])
        if consumer is None:
            return False
        self.owner[partition] = consumer
        return True

    def place(self, partition: P) -> None:
        """Place a partition, opening a consumer if it fits nowhere."""
        if not self.place_open(partition):
            consumer = self._to_open(partition)
            self.open(consumer, (partition,))

    def open(self, consumer: int, partitions: Iterable[P]) -> None:
        """Open a consumer that holds these partitions."""
        load = 0.0
        for partition in partitions:
            self.owner[partition] = consumer
            load += self._loads[partition]
        self._opened.add(consumer)
        self.fit.open(consumer, load)

    def _to_open(self, partition: P) -> int:
        home = self._previous.get(partition)
        if home is not None and home not in self._opened:
            return home
        while self._lowest in self._opened:
            self._lowest += 1
        return self._lowest


def _modified(rule: _ModifiedAnyFit, group: _Group[P], loads: Mapping[P, float], limit: float, previous: Mapping[P, int]) -> None:
    held: dict[int, list[P]] = {}
    rest: list[P] = []
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


def _keep(partitions: list[P], loads: Mapping[P, float], limit: float) -> int:
    """Return how many of these, biggest first, a consumer keeps: up to the first that does not fit, but always one."""
    load = 0.0
    for count, p in enumerate(partitions):
        if count and load + loads[p] > limit:
            return count
        load += loads[p]
    return len(partitions)


def place(
    loads: Mapping[P, float], capacity: float, previous: Mapping[P, int], algorithm: str, *, open_first: bool = False
) -> dict[P, int]:
    """Return the owner of every partition by one of the twelve.

    The order of ``loads`` matters for NF, FF, WF and BF only, which take partitions as given. With ``open_first``, NF and NFD
    open consumer 0 before the first partition, as in the published runs: that one goes there, whatever its rate, because a
    consumer that holds nothing takes anything.
    """
    rule = RULES[algorithm]
    group = _Group(rule.fit(limit_of(capacity)), loads, previous)
    if isinstance(rule, _ModifiedAnyFit):
        _modified(rule, group, loads, limit_of(capacity), previous)
        return group.owner
    in_turn = decreasing(loads, loads) if rule.decreasing else list(loads)
    first = 1 if open_first and in_turn else 0
    if first:
        group.open(0, in_turn[:first])
    for p in in_turn[first:]:
        group.place(p)
    return group.owner
