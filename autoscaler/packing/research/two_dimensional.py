"""Placement by rate and backlog together: no consumer is too busy or holds more backlog than it can. Part of *pack*.

A partition takes a part of its consumer's rate and a part of the backlog that this may hold (capacity times the wanted latency).
Here are names, checks and what is done with a packing: who gets which content. The kernels stand beside this module.
"""

from collections.abc import Mapping

import numpy as np

from autoscaler.packing.problem.assignment import Assignment, P, r_score
from autoscaler.packing.problem.options import checked_option
from autoscaler.packing.problem.validation import checked_amounts, checked_previous, is_index, shown
from autoscaler.packing.research.exact_two_dimensional import exact_2d
from autoscaler.packing.research.ll_ffd import ll_ffd
from autoscaler.packing.vector.dot import dot, fewest_consumers
from autoscaler.packing.vector.fill import ROUNDING, Demand, Floats, Ints
from autoscaler.packing.vector.fleet import Capacity, Fleet, fleet_of

ALGORITHMS_2D = ("DOT", "LL-FFD", "EXACT")
TRIES = 5000  # about 30 ms at 200 partitions, and 4 % fewer consumers than without; four times as many save 0.3 % more

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
    time_limit_s: float = 4.0,
) -> Assignment[P]:
    """Place every partition on a consumer that has room for its rate and for its backlog.

    ``DOT`` fills one consumer at a time with what goes best with the room left in both dimensions, takes the best of several such
    packings, tries to empty consumers, and gives the contents to the consumers that hold most of them already. If what is there
    fits and uses no more consumers, it stays. ``EXACT`` starts from there, searches for the fewest consumers, and of such
    placements for one that moves least, and says whether that is proven. ``LL-FFD`` is as published: partitions above a capacity
    are clipped to it, and contents are numbered as created, whatever their homes.

    Args:
        rates: Rate of every partition, in the unit of ``capacity``.
        lags: Backlog of every partition, in the unit of ``lag_capacity``.
        capacity: Rate that one consumer may be given; or that of each consumer, by index. One that is not named is taken to be as
            small as the smallest.
        lag_capacity: Backlog that one consumer may hold, in the same way.
        previous: Consumer index that holds a partition now; may be empty or partial.
        algorithm: One of ``ALGORITHMS_2D``.
        tries: How long DOT looks for ways to empty a consumer.
        time_limit_s: How long EXACT searches.

    Returns:
        The placement. ``oversized`` are the partitions above a capacity in either dimension: nothing else that needs either
        shares their consumer, but with LL-FFD.
        ``r_score`` counts rates in units of the largest consumer's.

    Raises:
        ValueError: A rate, backlog, capacity, previous owner, option or the algorithm's name makes no sense; the message says
            which.
        PermanentError: EXACT needs OR-Tools, which is not installed.
    """
    if algorithm not in ALGORITHMS_2D:
        raise ValueError(f"algorithm {algorithm!r} is unknown; choose one of {', '.join(ALGORITHMS_2D)}")
    if not is_index(tries):
        raise ValueError(f"tries must be a whole number from 0, not {shown(tries)}")
    time_limit_s = checked_option("time_limit_s", time_limit_s)
    rates, lags, previous = checked_amounts(rates, "rate"), checked_amounts(lags, "backlog"), checked_previous(previous)
    if lone := sorted(rates.keys() ^ lags.keys()):
        raise ValueError(f"partition {lone[0]} has a {'rate but no backlog' if lone[0] in rates else 'backlog but no rate'}")
    partitions = sorted(rates)
    fleet = fleet_of(capacity, lag_capacity, (previous[p] for p in partitions if p in previous), len(partitions))
    demand = Demand(
        np.array([min(rates[p] / fleet.capacity, _MOST) for p in partitions], np.float64),
        np.array([min(lags[p] / fleet.lag_capacity, _MOST) for p in partitions], np.float64),
    )
    at = {index: k for k, index in enumerate(fleet.index)}
    home = np.array([at[previous[p]] if p in previous else -1 for p in partitions], np.int64)
    proven = None
    if not partitions:
        chosen = home
    elif algorithm == "DOT":
        chosen = dot(demand, fleet, home, int(tries))
    elif fleet.room.spare:
        raise ValueError(f"{algorithm} is for consumers of one size")
    elif algorithm == "LL-FFD":
        chosen = _as_published(np.array([rates[p] for p in partitions]), np.array([lags[p] for p in partitions]), fleet)
    else:
        chosen, proven = exact_2d(demand, dot(demand, fleet, home, int(tries)), home, time_limit_s)
    owner = {p: fleet.index[c] for p, c in zip(partitions, chosen.tolist(), strict=True)}
    above = (demand.rate > fleet.room.rate[chosen] + ROUNDING) | (demand.lag > fleet.room.lag[chosen] + ROUNDING)
    return Assignment(
        owner=owner,
        consumers=len(set(owner.values())),
        r_score=r_score(rates, fleet.capacity, previous, owner),
        oversized=tuple(p for p, over in zip(partitions, above.tolist(), strict=True) if over),
        lower_bound=fewest_consumers(demand, fleet.room),
        algorithm=algorithm,
        proven=proven,
    )


def _as_published(rates: Floats, lags: Floats, fleet: Fleet) -> Ints:
    clipped = Demand(np.minimum(rates, fleet.capacity), np.minimum(lags, fleet.lag_capacity))
    created = ll_ffd(clipped, np.argsort(-clipped.rate, kind="stable"), fleet.capacity, fleet.lag_capacity)
    by_index: Ints = np.argsort(np.array(fleet.index), kind="stable")
    return np.asarray(by_index[created], np.int64)  # consumer 0 is the one created first
