"""DOT: fill by dot product, empty consumers, and give contents to who holds most of them: two demands at once. Part of *pack*."""

import numpy as np

from autoscaler.packing.problem.lower_bounds import fewest_of, martello_toth
from autoscaler.packing.vector.elimination import eliminate
from autoscaler.packing.vector.fill import DOT, L2, ROUNDING, Demand, Floats, Ints, Room, fill, fill_by_angle, first_fit
from autoscaler.packing.vector.fleet import Fleet, hand_out
from autoscaler.packing.vector.homing import bring_home
from autoscaler.packing.vector.overlap import match

_ALL_PAIRS_UP_TO = 2000  # partitions: above, one candidate per class of angles instead of a look at each partition each time
_CLASSES = 32  # 64 take twice the time for no fewer consumers
_MATCHED_UP_TO = 300  # consumers of different size: the matching takes some 20 ms there and grows with the cube


def fewest_consumers(demand: Demand, room: Room) -> int:
    """Return the number of consumers that no placement can go below, from each dimension on its own."""
    if not room.spare:
        return max(martello_toth(demand.rate, 1.0), martello_toth(demand.lag, 1.0))
    return max(fewest_of(demand.rate, room.rate), fewest_of(demand.lag, room.lag))


def dot(demand: Demand, fleet: Fleet, home: Ints, tries: int) -> Ints:
    """Return the place in the fleet of each partition's consumer; see ``assign_2d``.

    Demands are in units of the largest consumer; ``home`` is a place in the fleet, -1 for none. ``tries`` says how long to look
    for ways to empty a consumer.
    """
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
    """Give each content to the consumer that holds most of it, else to the lowest index that is free."""
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
    """Return a consumer, by its place in ``room``, for each partition: those that fit no consumer first, each alone.

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
    packings = (fill(demand, room, DOT), fill(demand, room, L2), first_fit(demand, room, by_sum), first_fit(demand, room, by_max))
    best = min(packings, key=lambda place: np.unique(place).shape[0])
    return eliminate(demand, room, best, fewest_consumers(demand, room), tries)
