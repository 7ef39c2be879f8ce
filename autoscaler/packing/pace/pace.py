"""PACE: consumers, moves now and moves to come, weighed against each other. Part of *pack*.

J = lambda * consumers + R-score + gamma * sum of phi, where phi is what a consumer is expected to give away at the next
measurement. The best of several placements is taken, and the planner is asked again from its own result until it stays:
a constant load moves nothing at the second call. R obeys the triangle inequality, so J falls at each round, as seen from where
it began too.
"""

import math
from collections.abc import Iterable

import numpy as np

from autoscaler.packing.kernels.bins import Floats, Ints
from autoscaler.packing.pace.arrivals import arrivals_placed
from autoscaler.packing.pace.decompose import LARGE, improve_parts
from autoscaler.packing.pace.ejection_chains import Prices, objective
from autoscaler.packing.pace.fixed_point import demand_of, settle
from autoscaler.packing.pace.portfolio import improve
from autoscaler.packing.problem.options import Options, Planned

_CALMEST = 0.16  # of the mean partition: how far rates are taken to go at least, also when nothing is known
_USUAL = 0.23  # of the mean partition: drift at which the weight of the expected moves is as given


def pace(e: Floats, cost: Floats, home: Ints, options: Options) -> Planned:
    """Place every partition at the least J found; see ``ArrayPlanner`` for the arrays."""
    demand = demand_of(e, cost, home)
    prices = _prices(demand.share, options)

    def round_from(present: Ints) -> Ints:
        expected = max(float(present.max() + 1), float(np.minimum(demand.share, 1.0).sum()))
        planner = improve_parts if expected > LARGE else improve
        return planner(demand.share, demand.cost, present, prices)

    def gentle(present: Ints) -> Iterable[Ints]:
        offered = [(objective(bins, prices), bins.owner) for bins in arrivals_placed(demand, present)]
        return [owner for _, owner in sorted(offered, key=lambda offer: offer[0])]

    return settle(demand, round_from, gentle)


def _prices(share: Floats, options: Options) -> Prices:
    """Return the prices for a group.

    A placement lasts until its consumers are next touched, which is longer in a calm group: what it costs later then weighs
    more. One price of a consumer so gives about as many consumers, compared to other planners, at any drift.
    """
    mean = float(np.minimum(share, 1.0).sum()) / max(1, int(np.count_nonzero(share)))
    sigma = max(options.sigma * math.sqrt(options.horizon), _CALMEST * mean)
    weight = options.drift_weight * math.sqrt(_USUAL * mean / sigma) if sigma > 0.0 else 0.0
    return Prices(options.consumer_price, options.paid_for, weight, sigma)
