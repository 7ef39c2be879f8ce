"""Large groups in parts: consumers are dealt into groups, each planned by itself, and the plans put together. Part of *pack*.

Partitioned optimisation (POP, Narayanan et al. 2021): a random part of a large problem looks like the whole. Here a hash of its
number deals each consumer, so that equal input gives equal output. Numbers follow the rates, so that each change of the rates
deals anew, and no two consumers stay apart for long.
"""

from typing import NamedTuple

import numpy as np

from autoscaler.packing.bins import Floats, Ints, ascending, bins_of
from autoscaler.packing.compiled import borrowing, compiled
from autoscaler.packing.plan import Prices, objective, price_of
from autoscaler.packing.portfolio import home_fit, improve, is_settled, least_consumers

LARGE = 500  # consumers: up to here they are planned as one group
_GROUP = 100  # consumers of a group, about
_WORTH = 0.002  # of J: what planning in other groups gains almost always, so that less is no reason to move
_SAMPLE = 8  # groups that tell whether planning the others is worth it, when nobody is crowded
_TOO_MANY = 0.1  # of everything may be moved at once where that buys enough consumers
_PRIME = 2147483647


class Parts(NamedTuple):
    """What is dealt: partitions by decreasing share, as in ``Bins``, and the number of consumers that hold something now."""

    share: Floats
    cost: Floats
    home: Ints
    consumers: int


class Dealt(NamedTuple):
    """Partitions by group.

    Attributes:
        members: The partitions, those of a group together, each group's in the order of the whole.
        start: Where each group begins in ``members``; one more than groups.
    """

    members: Ints
    start: Ints


def improve_parts(share: Floats, cost: Floats, home: Ints, prices: Prices) -> Ints:
    """Return a better placement, each part of it the best that was found; or the present one where little is gained.

    Args:
        share: Of every partition, decreasing.
        cost: Of moving it.
        home: Its consumer, numbered by first appearance; ``NOBODY`` for none.
        prices: What is minimised.
    """
    parts = Parts(share, cost, home, int(home.max()) + 1)
    present = price_if_settled(share, cost, home, home, prices)
    settled, best, least = present < np.inf, home, present - _WORTH * present if present < np.inf else np.inf
    dealt = _deal(home, parts.consumers, _groups(share, parts.consumers))
    owner = np.empty_like(home)
    gain = _plan_groups(parts, dealt, min(_SAMPLE, len(dealt.start) - 1), prices, owner)
    if not settled or gain > _WORTH:
        _plan_groups(parts, dealt, len(dealt.start) - 1, prices, owner)
        price = price_if_settled(share, cost, home, owner, prices)
        if price < least:
            best, least = owner, price
    too_dear = price_of(len(np.unique(best)), prices) - price_of(least_consumers(share), prices)
    if too_dear > _TOO_MANY * float(cost.sum()):
        owner = home_fit(share, cost, home)
        if price_if_settled(share, cost, home, owner, prices) < least:
            best = owner
    return best


@compiled
def price_if_settled(share: Floats, cost: Floats, home: Ints, owner: Ints, prices: Prices) -> float:
    """Return J of a placement; infinity if someone is crowded or something waits."""
    bins = bins_of(share, cost, home, owner)
    return objective(bins, prices) if is_settled(bins) else np.inf


def _groups(share: Floats, consumers: int) -> int:
    return max(1, int(max(float(np.minimum(share, 1.0).sum()), float(consumers)) / _GROUP))


def _plan_groups(parts: Parts, dealt: Dealt, groups: int, prices: Prices, owner: Ints) -> float:
    """Plan the first groups and write their owners.

    Returns:
        What is gained, as a share of what the present placement costs there; not a number if it is incomplete.
    """
    opened, before, after = parts.consumers, 0.0, 0.0
    for group in range(groups):
        members = dealt.members[dealt.start[group] : dealt.start[group + 1]]
        share, cost = parts.share[members], parts.cost[members]
        own, known = _number(parts.home[members], parts.consumers)
        paid_for = prices.paid_for * len(known) / max(1, parts.consumers)
        part = Prices(prices.consumer, paid_for, prices.drift, prices.sigma)
        planned = improve(share, cost, own, part)
        opened = _put_back(planned, members, known, opened, owner)
        if groups <= _SAMPLE:
            before += price_if_settled(share, cost, own, own, part)
            after += price_if_settled(share, cost, own, planned, part)
    return 1.0 - after / before if 0.0 < before < np.inf else 0.0


@compiled
def _deal(home: Ints, consumers: int, groups: int) -> Dealt:
    """Deal consumers, with what they hold, and partitions without a home to groups of equal size."""
    turn = ascending(_hashes(consumers))
    group_of = np.empty(consumers, np.int64)
    for i in range(consumers):
        group_of[turn[i]] = i % groups
    group = np.empty(len(home), np.int64)
    start = np.zeros(groups + 1, np.int64)
    for j in range(len(home)):
        group[j] = group_of[home[j]] if home[j] >= 0 else _hash(j) % groups
        start[group[j] + 1] += 1
    start = np.cumsum(start)
    members, at = np.empty(len(home), np.int64), start.copy()
    for j in range(len(home)):
        members[at[group[j]]] = j
        at[group[j]] += 1
    return Dealt(members, start)


@compiled
def _hashes(count: int) -> Floats:
    hashes = np.empty(count)
    for number in range(count):
        hashes[number] = _hash(number)
    return hashes


@borrowing
def _hash(number: int) -> int:
    """Return a number that looks random; products stay below 2 to the power of 63."""
    mixed = (number + 1) * 48271 % _PRIME
    return (mixed * mixed + number) % _PRIME


@compiled
def _number(home: Ints, consumers: int) -> tuple[Ints, Ints]:
    """Number the consumers of a group by first appearance; return the partitions' homes so, and the numbers in the whole."""
    number = np.full(consumers, -1)
    own, known, count = np.full(len(home), -1), np.empty(len(home), np.int64), 0
    for i in range(len(home)):
        if home[i] >= 0:
            if number[home[i]] < 0:
                number[home[i]] = count
                known[count] = home[i]
                count += 1
            own[i] = number[home[i]]
    return own, known[:count]


@compiled
def _put_back(planned: Ints, members: Ints, known: Ints, opened: int, owner: Ints) -> int:
    """Write a group's plan into the whole; consumers that are new get the next numbers, whose first one is returned."""
    new = np.full(max(planned.max() + 1 - len(known), 0), -1)
    for i in range(len(planned)):
        fresh = planned[i] - len(known)
        if fresh >= 0 and new[fresh] < 0:
            new[fresh] = opened
            opened += 1
        owner[members[i]] = known[planned[i]] if fresh < 0 else new[fresh]
    return opened
