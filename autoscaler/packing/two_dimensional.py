"""Placement by rate and backlog together: nobody is too busy or holds more backlog than it can. Part of *pack*.

A partition takes a part of its consumer's rate and a part of the backlog that this may hold (capacity times the wanted latency).
Here are names, checks and what is done with a packing: who gets which content. The kernels stand beside this module.
"""

import math
from collections.abc import Mapping

import numpy as np

from autoscaler.packing.elimination import eliminate
from autoscaler.packing.ll_ffd import ll_ffd
from autoscaler.packing.lower_bounds import fewest_of, martello_toth
from autoscaler.packing.overlap import match
from autoscaler.packing.placement import Assignment, P, check_previous, r_score
from autoscaler.packing.unequal import Capacity, Fleet, fleet_of, hand_out
from autoscaler.packing.vector_fill import DOT, L2, ROUNDING, Demand, Floats, Ints, Room, fill, fill_by_angle, first_fit
from autoscaler.packing.vector_homing import bring_home

ALGORITHMS_2D = ("DOT", "LL-FFD")
TRIES = 2000  # 25 ms at 200 partitions; four times as many save 0.3 % of the consumers

_ALL_PAIRS_UP_TO = 2000  # partitions: above, one candidate per class of angles instead of a look at each partition each time
_CLASSES = 32  # 64 take twice the time for no fewer consumers
_MATCHED_UP_TO = 300  # consumers of different size: the matching takes some 20 ms there and grows with the cube
_MOST = 1e9  # capacities that one partition counts for at most: sums stay finite


def assign_2d(  # noqa: PLR0917  what is to be placed, onto what, by what: the order of ``assign``
    rates: Mapping[P, float],
    lags: Mapping[P, float],
    capacity: Capacity,
    lag_capacity: Capacity,
    previous: Mapping[P, int],
    algorithm: str = "DOT",
    *,
    tries: int = TRIES,
) -> Assignment[P]:
    """Place every partition on a consumer that has room for its rate and for its backlog.

    ``DOT`` fills one consumer at a time with what goes best with the room left in both dimensions, takes the best of several such
    packings, tries to empty consumers, and gives the contents to the consumers that hold most of them already. If what is there
    fits and uses no more consumers, it stays. ``LL-FFD`` is as published: partitions above a capacity are clipped to it, and
    contents are numbered as created, whoever held them.

    Args:
        rates: Rate of every partition, in the unit of ``capacity``.
        lags: Backlog of every partition, in the unit of ``lag_capacity``.
        capacity: Rate that one consumer may be given; or that of each consumer, by index. One that is not named is taken to be as
            small as the smallest.
        lag_capacity: Backlog that one consumer may hold, in the same way.
        previous: Consumer index that holds a partition now; may be empty or partial.
        algorithm: One of ``ALGORITHMS_2D``.
        tries: How long DOT looks for ways to empty a consumer.

    Returns:
        The placement. ``oversized`` are the partitions above a capacity in either dimension: with DOT each sits alone.
        ``r_score`` counts rates in units of
        the largest consumer's.

    Raises:
        ValueError: A rate, backlog, capacity, previous owner or the algorithm's name makes no sense; the message says which.
    """
    if algorithm not in ALGORITHMS_2D:
        msg = f"algorithm {algorithm!r} is unknown; choose one of {', '.join(ALGORITHMS_2D)}"
        raise ValueError(msg)
    _check(rates, "rate")
    _check(lags, "backlog")
    if lone := sorted(rates.keys() ^ lags.keys()):
        msg = f"partition {lone[0]} has a {'rate but no backlog' if lone[0] in rates else 'backlog but no rate'}"
        raise ValueError(msg)
    check_previous(previous)
    partitions = sorted(rates)
    fleet = fleet_of(capacity, lag_capacity, (previous[p] for p in partitions if p in previous), len(partitions))
    demand = Demand(
        np.array([min(rates[p] / fleet.capacity, _MOST) for p in partitions], np.float64),
        np.array([min(lags[p] / fleet.lag_capacity, _MOST) for p in partitions], np.float64),
    )
    at = {index: k for k, index in enumerate(fleet.index)}
    home = np.array([at[previous[p]] if p in previous else -1 for p in partitions], np.int64)
    if not partitions:
        chosen = home
    elif algorithm == "LL-FFD":
        chosen = _as_published(demand, fleet)
    else:
        chosen = _dot(demand, fleet, home, tries)
    owner = {p: fleet.index[c] for p, c in zip(partitions, chosen.tolist(), strict=True)}
    above = (demand.rate > fleet.room.rate[chosen] + ROUNDING) | (demand.lag > fleet.room.lag[chosen] + ROUNDING)
    return Assignment(
        owner=owner,
        consumers=len(set(owner.values())),
        r_score=r_score(rates, fleet.capacity, previous, owner),
        oversized=tuple(p for p, over in zip(partitions, above.tolist(), strict=True) if over),
        lower_bound=_fewest(demand, fleet.room),
        algorithm=algorithm,
    )


def _check(amounts: Mapping[P, float], name: str) -> None:
    bad = [p for p, amount in amounts.items() if not (amount >= 0 and math.isfinite(amount))]
    if bad:
        p = min(bad)
        msg = f"{name} of partition {p} must be a finite number that is not negative, not {amounts[p]!r}"
        raise ValueError(msg)


def _fewest(demand: Demand, room: Room) -> int:
    """Return the number of consumers that no placement can go below, from each dimension on its own."""
    if not room.spare:
        return max(martello_toth(demand.rate, 1.0), martello_toth(demand.lag, 1.0))
    return max(fewest_of(demand.rate, room.rate), fewest_of(demand.lag, room.lag))


def _as_published(demand: Demand, fleet: Fleet) -> Ints:
    if fleet.room.spare:
        msg = "LL-FFD is for consumers of one size"
        raise ValueError(msg)
    clipped = Demand(np.minimum(demand.rate, 1.0), np.minimum(demand.lag, 1.0))
    created = ll_ffd(clipped, np.argsort(-clipped.rate, kind="stable"))
    by_index: Ints = np.argsort(np.array(fleet.index), kind="stable")
    return np.asarray(by_index[created], np.int64)  # consumer 0 is the one created first


def _dot(demand: Demand, fleet: Fleet, home: Ints, tries: int) -> Ints:
    place = pack(demand, fleet.room, tries)
    used = np.unique(place).shape[0]
    if _may_stay(demand, fleet.room, home) and np.unique(home).shape[0] <= used:
        return home
    cost = demand.rate + ROUNDING  # without traffic it shall stay too
    if not fleet.room.spare:
        place = _relabel(place, home, cost, fleet)
    elif used <= _MATCHED_UP_TO:
        place = hand_out(demand, fleet.room, place, home)
    return bring_home(demand, fleet.room, place, home, cost)


def _relabel(place: Ints, home: Ints, cost: Floats, fleet: Fleet) -> Ints:
    """Give each content to the consumer that holds most of it, else to the lowest index that nobody has."""
    content = np.unique(place, return_inverse=True)[1]
    chosen = match(content, home, cost)
    free = np.setdiff1d(np.arange(len(fleet.index)), chosen)
    free = free[np.argsort(np.array(fleet.index)[free], kind="stable")]
    chosen[chosen < 0] = free[: (chosen < 0).sum()]
    return np.asarray(chosen[content], np.int64)


def _may_stay(demand: Demand, room: Room, home: Ints) -> bool:
    """Say whether every partition has a consumer, and every consumer room for what it holds or one partition with demand."""
    if (home < 0).any():
        return False
    rate, lag = np.bincount(home, demand.rate), np.bincount(home, demand.lag)
    busy = np.bincount(home, (demand.rate > 0) | (demand.lag > 0))
    there = slice(rate.shape[0])
    fits = (rate <= room.rate[there] + ROUNDING) & (lag <= room.lag[there] + ROUNDING)
    return bool((fits | (busy <= 1)).all())


def pack(demand: Demand, room: Room, tries: int) -> Ints:
    """Return a consumer, by its place in ``room``, for each partition: those that fit nobody first, each alone.

    The rest goes into the best of several packings, improved by emptying consumers; above a few thousand partitions into one.
    """
    fits = np.zeros(demand.rate.shape[0], np.bool_)
    for rate, lag in np.unique(np.stack((room.rate, room.lag), axis=1), axis=0):
        fits |= (demand.rate <= rate + ROUNDING) & (demand.lag <= lag + ROUNDING)
    alone, rest = np.flatnonzero(~fits), np.flatnonzero(fits)
    place = np.empty(fits.shape[0], np.int64)
    place[alone] = np.arange(alone.shape[0])
    if rest.size:
        left = Room(room.rate[alone.size :].copy(), room.lag[alone.size :].copy(), max(0, room.spare - alone.size))
        place[rest] = alone.size + _pack_fitting(Demand(demand.rate[rest], demand.lag[rest]), left, tries)
    return place


def _pack_fitting(demand: Demand, room: Room, tries: int) -> Ints:
    if demand.rate.shape[0] > _ALL_PAIRS_UP_TO:
        return fill_by_angle(demand, room, _CLASSES)
    by_sum = np.argsort(-(demand.rate + demand.lag), kind="stable")
    by_max = np.argsort(-np.maximum(demand.rate, demand.lag), kind="stable")
    packings = (
        fill(demand, room, DOT),
        fill(demand, room, L2),
        first_fit(demand, room, by_sum),
        first_fit(demand, room, by_max),
    )
    best = min(packings, key=lambda place: np.unique(place).shape[0])
    return eliminate(demand, room, best, _fewest(demand, room), tries)
