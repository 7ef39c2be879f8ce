"""HFD: home-fit decreasing with homing, from scratch at each measurement. Part of *pack*.

The present placement stays where HFD finds none with fewer consumers, or with as many and fewer moves to come: a constant load
moves nothing at the second call.
"""

from collections.abc import Iterable

from autoscaler.packing.bins import Floats, Ints, bins_of
from autoscaler.packing.compiled import compiled
from autoscaler.packing.fixed_point import demand_of, settle
from autoscaler.packing.homing import bring_home
from autoscaler.packing.options import Options, Planned
from autoscaler.packing.portfolio import HOME_FIT, SWEEPS, from_scratch, is_settled
from autoscaler.packing.subsets import new_trial


def hfd(e: Floats, cost: Floats, home: Ints, _options: Options) -> Planned:
    """Place every partition by home-fit decreasing and bring home what can; see ``Planner`` for the arrays."""
    demand = demand_of(e, cost, home)

    def improve(present: Ints) -> Ints:
        return fewer_or_same(demand.share, demand.cost, present)

    def gentle(_present: Ints) -> Iterable[Ints]:
        return ()

    return settle(demand, improve, gentle)


@compiled
def fewer_or_same(share: Floats, cost: Floats, home: Ints) -> Ints:
    """Return the placement of HFD with homing, or the present one where that is possible on no more consumers."""
    present = bins_of(share, cost, home, home)
    planned = from_scratch(share, cost, home, HOME_FIT)
    bring_home(planned, SWEEPS, new_trial())
    return home if is_settled(present) and present.opened[0] <= planned.opened[0] else planned.owner
