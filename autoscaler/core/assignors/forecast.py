"""How loaded the hottest consumer of a native group would be with another number of them.

Ids of consumers that do not run yet are random, and who ends is not always known: where that matters, a handful of possible
rebalances is simulated and the answer is a span. The possibilities are the same every time: equal input, equal answer.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, permutations
from typing import NamedTuple

from autoscaler.core.assignors.group_model import Assigned, Assignor, Client, Consumer, NativeGroup
from autoscaler.core.assignors.simulate import assign, following, ties
from autoscaler.model import TopicPartition

_WORK = 20_000  # partitions gone through for one number of consumers: a cycle has a second for all of them
_MOST, _LEAST = 12, 2  # memberships that are simulated for one number of consumers
_TURNS = 6  # orders in which members go one after the other that are followed: all those of three
_APART = 8  # so many that come or go may do so one after the other; more are taken to do it at once
_BY_PLACE = frozenset({Assignor.RANGE, Assignor.ROUND_ROBIN})  # what members hold does not count, only their places in the order
_ROUNDING = 1e-9
_SURE = 0.02  # of the load: a narrower span counts as one number

Rates = Mapping[TopicPartition, float]


class Roof(NamedTuple):
    """What one consumer may get, in bytes/s.

    A consumer with a partition that takes most of it, or more, may have a little besides: to leave that partition alone takes
    as many consumers as there are partitions where the assignor deals by count, and gains no more than ``tolerance`` of its load.

    Attributes:
        limit: For everybody else.
        usable: Partitions above it are too much for any consumer; who holds one below it stays below it.
        tolerance: Share of a partition's rate that may be beside it.
    """

    limit: float
    usable: float
    tolerance: float = 0.0

    def over(self, largest: float) -> float:
        """Return what a consumer may have whose largest partition has this rate."""
        beside = (1 + self.tolerance) * largest
        return max(self.limit, beside if largest > self.usable else min(beside, self.usable)) * (1 + _ROUNDING)

    def strain(self, held: Iterable[Iterable[TopicPartition]], rates: Rates) -> float:
        """Return the load of the worst off consumer over what it may have: at most 1 where everybody has enough room."""
        loads = ([rates.get(p, 0.0) for p in ps] for ps in held)
        return max((math.fsum(x) / self.over(max(x)) for x in loads if x), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The hottest consumer's load in bytes/s when so many consume.

    Attributes:
        low: In the best rebalance that was simulated.
        expected: The mean of them.
        high: In the worst.
        idle: Consumers that get nothing, in the worst.
    """

    consumers: int
    low: float
    expected: float
    high: float
    idle: int

    @property
    def sure(self) -> bool:
        """Say whether it hardly depends on what cannot be known."""
        return self.high - self.low <= _SURE * self.high


def forecast(group: NativeGroup, rates: Rates, consumers: int) -> Forecast | None:
    """Return what the group's assignor does with so many consumers; ``None`` if it is not followed for this group.

    Args:
        group: As it is now.
        rates: Bytes per second of every partition.
        consumers: How many, at least one.
    """
    loads, idle = [], 0
    for held in _rebalances(group, consumers):
        if held is None:
            return None
        loads.append(hottest(held, rates))
        idle = max(idle, sum(not ps for ps in held.values()))
    return Forecast(consumers=consumers, low=min(loads), expected=math.fsum(loads) / len(loads), high=max(loads), idle=idle)


def fits(group: NativeGroup, rates: Rates, consumers: int, roof: Roof) -> bool:
    """Say whether no consumer would get more than it may have in any of the simulated rebalances."""
    return all(held is not None and roof.strain(held.values(), rates) <= 1 for held in _rebalances(group, consumers))


def strained(group: NativeGroup, rates: Rates, consumers: int, roof: Roof) -> float:
    """Return the strain of the worst of the simulated rebalances; infinite if the assignor is not followed for this group."""
    found = [math.inf if held is None else roof.strain(held.values(), rates) for held in _rebalances(group, consumers)]
    return max(found)


def hottest(held: Assigned, rates: Rates) -> float:
    """Return the load of the consumer that has most, in bytes/s."""
    return max((math.fsum(rates.get(p, 0.0) for p in ps) for ps in held.values()), default=0.0)


def afresh(group: NativeGroup, assignor: Assignor) -> NativeGroup:
    """Return the group as if it started with another assignor: no member holds anything, any can be the first."""
    everybody = (Consumer(member_id="", topics=frozenset(group.partitions)),)
    return NativeGroup(assignor=assignor, consumers=everybody, partitions=group.partitions, topic_ids=group.topic_ids)


def _rebalances(group: NativeGroup, consumers: int) -> Iterator[Assigned | None]:
    if not group.alike and group.assignor not in _BY_PLACE:
        yield None
        return
    several = ties(group)
    each = sum(group.partitions.values()) * len(_clients(group)) * max(1, abs(consumers - len(group.consumers))) * len(several)
    cases = max(_LEAST, min(_MOST, _WORK // max(1, each)))
    for tied in several:
        yield from _rebalances_of(replace(group, ties=tied), consumers, cases)


def _rebalances_of(group: NativeGroup, consumers: int, cases: int) -> Iterator[Assigned | None]:
    sticks = group.assignor not in _BY_PLACE and any(c.owned for c in group.consumers)
    for members in islice(_memberships(group, consumers), cases):
        for client in _clients(group):
            yield assign(following(group, members), client)
            if sticks and 1 < abs(consumers - len(group.consumers)) <= _APART:
                yield from (
                    _one_by_one(group, members, client, changes) for changes in islice(_turns(group, members), min(_TURNS, cases))
                )


def _turns(group: NativeGroup, members: Sequence[Consumer]) -> Iterator[Sequence[str]]:
    """Yield orders in which members may come or go one after the other; those that come have other ids in every case anyway."""
    now, then = ({c.member_id for c in x} for x in (group.consumers, members))
    if gone := sorted(now - then):
        yield from permutations(gone)
    else:
        yield sorted(then - now)


def _one_by_one(group: NativeGroup, members: Sequence[Consumer], client: Client, changes: Sequence[str]) -> Assigned | None:
    """Return what they get when every one that comes or goes makes a rebalance of its own, in this order."""
    now = {c.member_id: c for c in group.consumers}
    then = {c.member_id: c for c in members}
    held: Assigned | None = None
    for member in changes:
        if member in now:
            del now[member]
        else:
            now[member] = then[member]
        held = assign(following(group, sorted(now.values(), key=lambda c: c.member_id)), client)
        if held is None:
            return None
        now = {m: replace(c, owned=frozenset(held[m])) for m, c in now.items()}
    return held


def _clients(group: NativeGroup) -> tuple[Client, ...]:
    sticky = group.assignor in {Assignor.STICKY, Assignor.COOPERATIVE_STICKY} and any(c.owned for c in group.consumers)
    return group.clients if sticky else group.clients[:1]


def _memberships(group: NativeGroup, consumers: int) -> Iterator[Sequence[Consumer]]:
    """Yield who may be there then; only one membership if who it is makes no difference to the hottest load."""
    there = group.consumers
    if consumers == len(there):
        yield there
    elif group.alike and (group.assignor in _BY_PLACE or not any(c.owned for c in there)):
        yield [*there, *_new(group, consumers - len(there), 0)][:consumers]  # only places in the order count
    elif consumers > len(there):
        for case in range(_MOST):
            yield [*there, *_new(group, consumers - len(there), case)]
    elif group.leaving:
        gone = frozenset(group.leaving[: len(there) - consumers])
        yield [c for c in there if c.member_id not in gone]
    else:
        yield from _smaller(there, consumers)


def _smaller(there: Sequence[Consumer], consumers: int) -> Iterator[Sequence[Consumer]]:
    if consumers == len(there) - 1:
        for i in range(len(there)):
            yield [*there[:i], *there[i + 1 :]]
        return
    for case in range(_MOST):
        stays = frozenset(sorted((c.member_id for c in there), key=lambda m: _random(f"{case}/{m}"))[:consumers])
        yield [c for c in there if c.member_id in stays]


def _new(group: NativeGroup, count: int, case: int) -> list[Consumer]:
    """Return consumers that join: ids made like those of the others, subscribed like the first of them."""
    like = group.consumers[0] if group.consumers else Consumer(member_id="", topics=frozenset(group.partitions))
    name = like.member_id[: max(0, len(like.member_id) - 36)]  # a classic id is the client's name and a UUID
    return [Consumer(member_id=f"{name}{_random(f'{case}/{n}')}", topics=like.topics) for n in range(count)]


def _random(seed: str) -> str:
    digits = hashlib.md5(seed.encode(), usedforsecurity=False).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
