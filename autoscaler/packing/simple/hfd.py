"""HFD: home-fit decreasing with homing, from scratch at each measurement. Part of *pack*.

The present placement stays where HFD finds none with fewer consumers, or with as many and fewer moves to come: a constant load
moves nothing at the second call.
"""

from collections.abc import Iterable

import numpy as np

from autoscaler.packing.kernels.bins import Floats, Ints, bins_of
from autoscaler.packing.pace.fixed_point import demand_of, settle
from autoscaler.packing.pace.portfolio import home_fit, is_settled
from autoscaler.packing.problem.options import Options, Planned


def hfd(e: Floats, cost: Floats, home: Ints, _options: Options) -> Planned:
    """Place every partition by home-fit decreasing and bring home what can; see ``ArrayPlanner`` for the arrays."""
    demand = demand_of(e, cost, home)

    def improve(present: Ints) -> Ints:
        return fewer_or_same(demand.share, demand.cost, present)

    def gentle(_present: Ints) -> Iterable[Ints]:
        return ()

    return settle(demand, improve, gentle)


def fewer_or_same(share: Floats, cost: Floats, home: Ints) -> Ints:
    """Return the placement of HFD with homing, or the present one where that is possible on no more consumers."""
    planned = home_fit(share, cost, home)
    settled = is_settled(bins_of(share, cost, home, home))
    return home if settled and len(np.unique(home)) <= len(np.unique(planned)) else planned
