"""Large groups in parts: consumers are dealt into groups, each planned by itself, and the plans put together. Part of *pack*.

Partitioned optimisation (POP, Narayanan et al. 2021): a random part of a large problem looks like the whole. Here a hash of its
number deals each consumer, so that equal input gives equal output. Numbers follow the rates, so that each change of the rates
deals anew, and no two consumers stay apart for long.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from autoscaler.packing.kernels.bins import Floats, Ints, ascending, bins_of
from autoscaler.packing.kernels.jit import borrowing, compiled
from autoscaler.packing.pace.ejection_chains import Prices, objective, price_of
from autoscaler.packing.pace.portfolio import home_fit, improve, is_settled, least_consumers

LARGE = 500  # consumers: up to here they are planned as one group
_GROUP = 100  # consumers of a group, about
_WORTH = 0.002  # of J: what planning in other groups gains almost always, so that less is no reason to move
_SAMPLE = 8  # groups that tell whether planning the others is worth it, when no consumer is crowded
_TOO_MANY = 0.1  # of everything may be moved at once where that buys enough consumers
_PRIME = 2147483647


class Parts(NamedTuple):
    """What is dealt: partitions by decreasing share, as in ``Bins``, and the number of consumers that hold something now."""

    share: Floats
    cost: Floats
    home: Ints
    consumers: int


class Dealt(NamedTuple):
    """Partitions by group."""

    members: Ints  # the partitions, those of a group together, each group's in the order of the whole
    start: Ints  # where each group begins in ``members``; one more than groups


class Group(NamedTuple):
    """What is planned by itself."""

    members: Ints  # the partitions' numbers in the whole
    share: Floats  # of each
    cost: Floats  # of moving it
    home: Ints  # its consumer, numbered by first appearance in the group; ``UNASSIGNED`` for none
    known: Ints  # the consumers' numbers in the whole
    prices: Prices  # what is minimised


def improve_parts(share: Floats, cost: Floats, home: Ints, prices: Prices) -> Ints:
    """Return a better placement, each part of it the best that was found; or the present one where little is gained.

    Shares are decreasing; homes are numbered by first appearance, ``UNASSIGNED`` for none.
    """
    parts = Parts(share, cost, home, int(home.max()) + 1)
    present = price_if_settled(share, cost, home, home, prices)
    settled, best, least = present < np.inf, home, present - _WORTH * present if present < np.inf else np.inf
    groups = _deal_groups(parts, prices)
    sample = list(islice(groups, _SAMPLE))
    plans = _plan_groups(sample)
    if not settled or _gained(sample, plans) > _WORTH:
        others = list(groups)
        owner = _put_together(parts, sample + others, plans + _plan_groups(others))
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


def _deal_groups(parts: Parts, prices: Prices) -> Iterator[Group]:
    """Give what is in each group."""
    dealt = _deal(parts.home, parts.consumers, _groups(parts.share, parts.consumers))
    number = np.full(parts.consumers, -1)
    for begin, end in pairwise(dealt.start.tolist()):
        members = dealt.members[begin:end]
        home, known = _number(parts.home[members], number)
        paid_for = prices.paid_for * len(known) / max(1, parts.consumers)
        part = Prices(prices.consumer, paid_for, prices.drift, prices.sigma)
        yield Group(members, parts.share[members], parts.cost[members], home, known, part)


def _plan_groups(groups: Iterable[Group]) -> list[Ints]:
    """Return the best labels found for each group, planned side by side: a kernel holds no lock and shares nothing."""
    groups = list(groups)
    try:
        with ThreadPoolExecutor() as cores:
            return list(cores.map(_plan_group, groups))
    except RuntimeError:  # no thread is to be had: the process ends, or may have no more of them
        return [_plan_group(g) for g in groups]


def _plan_group(group: Group) -> Ints:
    return improve(group.share, group.cost, group.home, group.prices)


def _gained(groups: Sequence[Group], plans: Sequence[Ints]) -> float:
    """Return what plans gain, as a share of what the present placement costs there; nothing if that is incomplete."""
    before = sum(price_if_settled(g.share, g.cost, g.home, g.home, g.prices) for g in groups)
    after = sum(price_if_settled(g.share, g.cost, g.home, plan, g.prices) for g, plan in zip(groups, plans, strict=True))
    return 1.0 - after / before if 0.0 < before < np.inf else 0.0


def _put_together(parts: Parts, groups: Sequence[Group], plans: Sequence[Ints]) -> Ints:
    """Return the owners in the whole."""
    owner, opened = np.empty_like(parts.home), parts.consumers
    for group, planned in zip(groups, plans, strict=True):
        opened = _put_back(planned, group.members, group.known, opened, owner)
    return owner


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
def _number(home: Ints, number: Ints) -> tuple[Ints, Ints]:
    """Number the consumers of a group by first appearance; return the partitions' homes so, and the numbers in the whole.

    ``number`` has room for each consumer of the whole, made once because it is long; it holds -1 before and after.
    """
    own, known, count = np.full(len(home), -1), np.empty(len(home), np.int64), 0
    for i in range(len(home)):
        if home[i] >= 0:
            if number[home[i]] < 0:
                number[home[i]] = count
                known[count] = home[i]
                count += 1
            own[i] = number[home[i]]
    for i in range(count):
        number[known[i]] = -1
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
