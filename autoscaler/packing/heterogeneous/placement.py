"""Placements for consumers that are not alike, or that two limits hold for, within bounds. Part of *pack*.

What is there is mended: who is above its limit gives up what does not fit, and that goes where it leaves most room. Only where
mending does not do is the group packed anew, by DOT; and where nothing fits, the limit is raised for all alike. A constant
load moves nothing at the second call: what fits stays.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice

import numpy as np

from autoscaler.model import TopicPartition
from autoscaler.packing.heterogeneous.capacity_model import Gauge
from autoscaler.packing.problem.assignment import Assignment, Fitted, decreasing, r_score
from autoscaler.packing.problem.rounding import limit_of
from autoscaler.packing.vector.dot import dot, fewest_consumers, pack
from autoscaler.packing.vector.fill import Demand, Ints, Room
from autoscaler.packing.vector.fleet import Fleet

UNEVEN = "UNEVEN"  # as the audit names it
_TRIES = 500  # to empty a consumer: it is asked three times in a cycle
_STEPS = 12  # of bisection between a limit and its double, as in ``bounded``
_MOST = 1e9  # limits that one partition counts for at most: sums stay finite
_FINEST = 1e-9  # of a rate: a limit is not below it, so that quotients stay finite

Rates = Mapping[TopicPartition, float]
Owners = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Uneven:
    """What is to be placed, and on whom."""

    rates: Rates  # bytes per second of every partition
    gauge: Gauge  # makes levels of them
    previous: Owners  # who holds what now
    consumers: Sequence[int]  # those that are there, best first: they are used before new ones, which are like the group's

    def first(self, number: int) -> tuple[int, ...]:
        """Return so many consumers, new ones at the end; none that is known to be slow or fast is new."""
        known = {*self.consumers, *self.gauge.speeds}
        return (*self.consumers[:number], *islice((c for c in count() if c not in known), max(0, number - len(self.consumers))))

    def fewest(self, limit: float) -> int:
        """Return how many consumers would do, those that are there first, whatever they hold now."""
        demand, fleet = self._fleet(limit)
        return len(np.unique(pack(demand, fleet.room, _TRIES)))

    def least(self, limit: float) -> int:
        """Return the number of consumers that no placement can go below."""
        demand, fleet = self._fleet(limit)
        return fewest_consumers(demand, fleet.room) if self.rates else 0

    def packed(self, limit: float) -> dict[TopicPartition, int]:
        """Return a placement on few consumers, of such the one that is there if it fits."""
        demand, fleet = self._fleet(limit)
        at = {c: i for i, c in enumerate(fleet.index)}
        home: Ints = np.array([at.get(self._home(p, limit), -1) for p in sorted(self.rates)], np.int64)
        chosen = dot(demand, fleet, home, _TRIES) if self.rates else home
        return {p: fleet.index[c] for p, c in zip(sorted(self.rates), chosen.tolist(), strict=True)}

    def _home(self, p: TopicPartition, limit: float) -> int:
        """Return who holds a partition, -1 for none, or for one that is too slow for it where others are not.

        DOT leaves what is alone where it is.
        """
        home, rate = self.previous.get(p, -1), self.rates[p]
        slow = rate / self.gauge.speed(home) > limit_of(limit) >= rate
        return -1 if slow else home

    def _fleet(self, limit: float) -> tuple[Demand, Fleet]:
        """Return demands in units of the limit, and consumers in the order of filling: the fastest that is there first."""
        gauge, partitions = self.gauge, sorted(self.rates)
        there = sorted(set(self.consumers), key=lambda c: (-gauge.speed(c), c))
        new = Uneven(rates={}, gauge=gauge, previous={}, consumers=there).first(len(there) + len(partitions))[len(there) :]
        index = (*there, *new)
        room = Room(np.array([gauge.speed(c) for c in index], np.float64), np.ones(len(index)), len(there))
        demand = Demand(
            np.array([min(self.rates[p] / limit, _MOST) for p in partitions], np.float64),
            np.array([min(gauge.counts.get(p, 0.0) / limit, _MOST) for p in partitions], np.float64),
        )
        return demand, Fleet(index=index, room=room, capacity=limit, lag_capacity=limit)

    def plan(self, owner: Owners, limit: float) -> Assignment:
        """Return a placement with its figures."""
        sizes = self.gauge.sizes(self.rates)
        return Assignment(
            owner={p: owner[p] for p in sorted(owner)},
            consumers=len(set(owner.values())),
            r_score=r_score(self.rates, limit, self.previous, owner),
            oversized=tuple(p for p in sorted(sizes) if sizes[p] > limit_of(limit)),
            lower_bound=self.least(limit),
            algorithm=UNEVEN,
        )


def fit_uneven(ask: Uneven, limit: float, *, at_least: int, at_most: int) -> Fitted:
    """Place so that no consumer is above the limit (bytes/s) and their number lies within bounds, ``at_most`` being at least 1.

    Those that are there are paid for: all of them are used before another is asked for. Where packing anew would do with them
    and move more than a consumer's worth of load, another consumer is taken instead, as many as that is worth. More than
    ``at_most`` are never used, and fewer than ``at_least`` only where there are fewer partitions, or a consumer is too slow for
    any that it could be given.
    """
    at_least = min(at_least, len(ask.rates))
    wanted = ask.fewest(limit)
    there = max(1, at_least, min(len(ask.consumers), at_most))
    holding = {c for p, c in ask.previous.items() if p in ask.rates}
    if wanted < at_least > len(holding):
        owner, used = _levelled(ask, limit, ask.first(there))
        return Fitted(plan=ask.plan(_spread(ask, owner, ask.first(there), at_least), limit), wanted=wanted, capacity=used)
    needed = max(there, min(wanted, at_most))
    for number in sorted({there, needed}):
        if (kept := mended(ask, limit, ask.first(number))) is not None:
            return Fitted(plan=ask.plan(kept, limit), wanted=wanted, capacity=limit)
    anew = ask.plan(ask.packed(limit), limit)
    if not set(anew.owner.values()) <= set(ask.first(at_most)):
        owner, used = _levelled(ask, limit, ask.first(at_most))
        return Fitted(plan=ask.plan(owner, limit), wanted=max(wanted, at_most + 1), capacity=used)
    more = 1
    while more < anew.r_score and needed + more <= at_most:
        if (kept := mended(ask, limit, ask.first(needed + more))) is not None:
            return Fitted(plan=ask.plan(kept, limit), wanted=wanted, capacity=limit)
        more *= 2
    return Fitted(plan=anew, wanted=wanted, capacity=limit)


def best_uneven(ask: Uneven, limit: float) -> Assignment:
    """Return the placement on the fewest consumers, new ones as many as it takes."""
    return ask.plan(ask.packed(limit), limit)


def fewer_uneven(ask: Uneven, limit: float, keep: int) -> Fitted:
    """Return a placement on ``keep`` of the consumers that are there: those that hold most, or the fastest; what moves less."""
    held = {c: math.fsum(ask.rates[p] for p, o in ask.previous.items() if o == c and p in ask.rates) for c in ask.consumers}
    by_load = sorted(held, key=lambda c: (-held[c], c))[:keep]
    by_speed = sorted(held, key=lambda c: (-ask.gauge.speed(c), -held[c], c))[:keep]
    tried = [
        fit_uneven(
            Uneven(rates=ask.rates, gauge=ask.gauge, previous=ask.previous, consumers=stay), limit, at_least=1, at_most=keep
        )
        for stay in (by_load, by_speed)
    ]
    return min(tried, key=lambda fitted: (fitted.capacity, fitted.plan.r_score))


def place_unowned_uneven(ask: Uneven, limit: float) -> dict[TopicPartition, int]:
    """Place the partitions without an owner on the consumers of ``ask``, however full they are; no other partition moves."""
    filling = _Filling(ask, limit, ask.consumers)
    placed = {p: ask.previous[p] for p in sorted(ask.rates) if p in ask.previous}
    for p in sorted(placed):
        filling.put(p, placed[p])
    for p in decreasing((p for p in ask.rates if p not in placed), filling.sizes):
        placed[p] = filling.roomiest(p)
        filling.put(p, placed[p])
    return {p: placed[p] for p in sorted(placed)}


def mended(ask: Uneven, limit: float, consumers: Sequence[int]) -> dict[TopicPartition, int] | None:
    """Return the placement on these consumers that keeps what it can; ``None`` if something fits nowhere.

    The largest partitions stay first. A partition that fits no consumer is alone, at home if it is the largest there.
    """
    filling = _Filling(ask, limit, consumers)
    owner: dict[TopicPartition, int] = {}
    waiting = []
    for p in decreasing(ask.rates, filling.sizes):
        home = ask.previous.get(p, -1)
        if home in filling.at and filling.takes(p, home):
            owner[p] = home
            filling.put(p, home)
        else:
            waiting.append(p)
    for p in waiting:
        found = filling.roomiest(p)
        if not filling.takes(p, found) and (alone := filling.empty(p)) is not None:
            found = alone
        if not filling.takes(p, found):
            return None
        owner[p] = found
        filling.put(p, found)
    return owner


class _Filling:
    """How full consumers become as partitions are put on them."""

    def __init__(self, ask: Uneven, limit: float, consumers: Collection[int]) -> None:
        self.sizes = ask.gauge.sizes(ask.rates)
        self.at = {c: i for i, c in enumerate(consumers)}
        self._ask, self._limit, self._consumers = ask, limit_of(limit), tuple(consumers)
        self._speed = np.array([ask.gauge.speed(c) for c in consumers], np.float64)
        self._rate, self._count = np.zeros(len(consumers)), np.zeros(len(consumers))
        self._fastest = float(self._speed.max(initial=0.0))

    def _need(self, p: TopicPartition) -> tuple[float, float]:
        return self._ask.rates[p], self._ask.gauge.counts.get(p, 0.0)

    def put(self, p: TopicPartition, consumer: int) -> None:
        """Put a partition on a consumer, which may be none of those that receive."""
        if (i := self.at.get(consumer)) is not None:
            rate, counts = self._need(p)
            self._rate[i] += rate
            self._count[i] += counts

    def takes(self, p: TopicPartition, consumer: int) -> bool:
        """Say whether a consumer has room, or nothing to do yet where no consumer has room for this one."""
        (rate, counts), i = self._need(p), self.at[consumer]
        level = max((self._rate[i] + rate) / self._speed[i], self._count[i] + counts)
        if level <= self._limit or rate == counts == 0:
            return True
        return not self._busy(i) and max(rate / self._fastest, counts) > self._limit

    def roomiest(self, p: TopicPartition) -> int:
        """Return the consumer that is least full with this partition, the first of such."""
        rate, counts = self._need(p)
        return self._consumers[int(np.argmin(np.maximum((self._rate + rate) / self._speed, self._count + counts)))]

    def empty(self, p: TopicPartition) -> int | None:
        """Return the fastest consumer without anything to do for a partition that fits no consumer; ``None`` if there is none."""
        free = [c for i, c in enumerate(self._consumers) if not self._busy(i) and self.takes(p, c)]
        return min(free, key=lambda c: (-self._speed[self.at[c]], self.at[c]), default=None)

    def _busy(self, i: int) -> bool:
        return bool(self._rate[i] > 0 or self._count[i] > 0)


def _levelled(ask: Uneven, limit: float, consumers: Sequence[int]) -> tuple[dict[TopicPartition, int], float]:
    """Return a placement on these consumers at the smallest limit that lets them hold everything, and that limit."""
    high = max(limit, _FINEST)
    while (found := mended(ask, high, consumers)) is None:
        high *= 2
    low = high / 2
    while low > _FINEST and (better := mended(ask, low, consumers)) is not None:
        found, high, low = better, low, low / 2
    for _ in range(_STEPS):
        middle = math.sqrt(low) * math.sqrt(high)
        if (better := mended(ask, middle, consumers)) is None:
            low = middle
        else:
            found, high = better, middle
    return found, high


def _spread(ask: Uneven, owner: dict[TopicPartition, int], consumers: Sequence[int], number: int) -> dict[TopicPartition, int]:
    """Let the fullest consumer that can share with one that holds nothing, until so many hold something."""
    spread = dict(owner)
    free = [c for c in consumers if c not in set(owner.values())]
    while free and len(set(spread.values())) < number:
        levels = ask.gauge.levels(ask.rates, spread)
        halves = (_halved(ask, spread, c, free[0]) for c in sorted(levels, key=lambda c: (-levels[c], c)))
        spread |= next((h for h in halves if h), {})
        free = free[1:]
    return spread


def _halved(ask: Uneven, owner: Owners, old: int, new: int) -> dict[TopicPartition, int] | None:
    """Return who holds what if one consumer shares what it holds with another; ``None`` where that empties one of them."""
    held = decreasing((p for p, c in owner.items() if c == old), ask.gauge.sizes(ask.rates))
    filling = _Filling(ask, math.inf, (old, new))
    shared: dict[TopicPartition, int] = {}
    for p in held:
        silent = not any((ask.rates[p], ask.gauge.counts.get(p, 0.0)))
        shared[p] = [old, new][len(shared) % 2] if silent else filling.roomiest(p)
        filling.put(p, shared[p])
    return shared if len(set(shared.values())) > 1 else None
