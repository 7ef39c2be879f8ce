"""MMR, minimal moves: repair what is crowded, then empty consumers that can be emptied. Part of *pack*.

Each crowded consumer gives up what costs least; what waits is placed by best fit decreasing; the lightest consumers are
emptied as long as everything they hold fits elsewhere.
"""

from collections.abc import Iterable

import numpy as np

from autoscaler.packing.kernels.bins import LIMIT, Bins, Floats, Ints, bins_of, move, tightest
from autoscaler.packing.kernels.jit import compiled
from autoscaler.packing.kernels.knapsack import new_trial, relieve
from autoscaler.packing.pace.arrivals import arrivals_placed, fit_waiting
from autoscaler.packing.pace.ejection_chains import by_load
from autoscaler.packing.pace.fixed_point import demand_of, settle
from autoscaler.packing.problem.options import Options, Planned

_FAILURES = 8  # in a row: heavier consumers are not emptied either


def mmr(e: Floats, cost: Floats, home: Ints, options: Options) -> Planned:
    """Repair and drain; see ``ArrayPlanner`` for the arrays."""
    demand = demand_of(e, cost, home)
    limit = LIMIT * options.fill_ratio

    def improve(present: Ints) -> Ints:
        return repair_and_drain(demand.share, demand.cost, present, limit, options.drain_limit)

    def gentle(present: Ints) -> Iterable[Ints]:
        return (bins.owner for bins in arrivals_placed(demand, present))

    return settle(demand, improve, gentle)


@compiled
def repair_and_drain(share: Floats, cost: Floats, home: Ints, limit: float, drain_limit: float) -> Ints:
    """Return the owner of every partition, of decreasing shares, after one repair and one drain.

    What moves fills consumers up to ``limit``; emptying one may cost ``drain_limit``.
    """
    bins = bins_of(share, cost, home, home)
    relieve(bins, 0.0, 0.0, new_trial())
    fit_waiting(bins, limit)
    failures = 0
    for c in by_load(bins):
        failures = 0 if _drain(bins, c, limit, drain_limit) else failures + 1
        if failures == _FAILURES:
            break
    return bins.owner


@compiled
def _drain(bins: Bins, c: int, limit: float, drain_limit: float) -> bool:
    """Empty a consumer if all of it fits elsewhere and costs little enough; else leave it as it is."""
    held = np.empty(bins.held[c], np.int64)
    count, j, price = 0, bins.first[c], 0.0
    while j >= 0:
        held[count] = j
        count += 1
        price += bins.cost[j] if bins.home[j] == c else 0.0
        j = bins.after[j]
    if price > drain_limit:
        return False
    for i in range(count):
        target = tightest(bins, held[i], c, limit)
        if target < 0:
            for k in range(i):
                move(bins, held[k], c)
            return False
        move(bins, held[i], target)
    return True
