"""PACE: consumers, moves now and moves to come, weighed against each other. Part of *pack*.

J = lambda * consumers + R-score + gamma * sum of phi, where phi is what a consumer is expected to give away at the next
measurement. The best of several placements is taken, and the planner is asked again from its own result until it stays:
a constant load moves nothing at the second call. R obeys the triangle inequality, so J falls at each round, as seen from where
it began too.
"""

from collections.abc import Iterable

import numpy as np

from autoscaler.packing.arrivals import arrivals_placed
from autoscaler.packing.bins import Floats, Ints
from autoscaler.packing.decomposition import LARGE, improve_parts
from autoscaler.packing.fixed_point import demand_of, settle
from autoscaler.packing.options import Options, Planned
from autoscaler.packing.plan import Prices, objective
from autoscaler.packing.portfolio import improve


def pace(e: Floats, cost: Floats, home: Ints, options: Options) -> Planned:
    """Place every partition at the least J found; see ``Planner`` for the arrays."""
    demand = demand_of(e, cost, home)
    sigma = options.sigma * float(np.sqrt(options.horizon))
    prices = Prices(options.consumer_price, options.paid_for, options.drift_weight, sigma)

    def round_from(present: Ints) -> Ints:
        expected = max(float(present.max() + 1), float(np.minimum(demand.share, 1.0).sum()))
        planner = improve_parts if expected > LARGE else improve
        return planner(demand.share, demand.cost, present, prices)

    def gentle(present: Ints) -> Iterable[Ints]:
        offered = [(objective(bins, prices), bins.owner) for bins in arrivals_placed(demand, present)]
        return [owner for _, owner in sorted(offered, key=lambda offer: offer[0])]

    return settle(demand, round_from, gentle)
