"""GOALS: consumers balanced as brokers are, by best fit on the goal of bytes in. Part of *pack*.

Three steps: what is above the capacity, or waits, goes to the emptiest consumer with room, else to a new one; consumers that all
the load can do without are emptied, the lightest first; then ``autoscaler.goals`` brings loads to within a tenth of their mean.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from autoscaler.goals.best_fit import improve
from autoscaler.goals.goal import Goal, Name
from autoscaler.goals.problem import model_of, problem_of
from autoscaler.goals.settings import Settings
from autoscaler.goals.snapshot import of_owners
from autoscaler.packing.kernels.bins import LIMIT, UNASSIGNED, Bins, Floats, Ints, bins_of, closed_slot, move, put
from autoscaler.packing.kernels.jit import borrowing, compiled
from autoscaler.packing.kernels.knapsack import new_trial, relieve
from autoscaler.packing.pace.arrivals import arrivals_placed
from autoscaler.packing.pace.fixed_point import canonical, demand_of, settle
from autoscaler.packing.problem.options import Options, Planned

THRESHOLD = 0.9  # of all capacities: consumers without which the load is below it are to spare
_BY_LOAD = Settings(goals=(Goal(name=Name.BYTES_IN, width=1.0),))
_IDLE = 1e-9  # of a capacity: with less traffic in all there is nothing to balance
_FULL = 1.0 + 0.9e-9  # below ``LIMIT``: nothing that was balanced is crowded in another order of sums


def goals(e: Floats, cost: Floats, home: Ints, _options: Options) -> Planned:
    """Place so that every consumer has nearly the same load; see ``ArrayPlanner`` for the arrays."""
    demand = demand_of(e, cost, home)

    def plan(present: Ints) -> Ints:
        return evened(demand.share, canonical(fitted(demand.share, demand.cost, present)))

    def gentle(present: Ints) -> Iterable[Ints]:
        return (bins.owner for bins in arrivals_placed(demand, present))

    return settle(demand, plan, gentle)


def evened(share: Floats, owner: Ints) -> Ints:
    """Return the owners after balancing: no consumer comes or goes, and none gets above its capacity."""
    count = int(owner.max()) + 1
    if count == 1 or share.sum() < _IDLE:
        return owner
    snapshot = replace(of_owners(owner, count, bytes_in=share), capacity={Name.BYTES_IN: np.full(count, _FULL)})
    model = model_of(problem_of(snapshot, _BY_LOAD), None, _BY_LOAD.inner)
    improve(model, 4 * len(owner) + 16, False)
    return model.broker


@compiled
def fitted(share: Floats, cost: Floats, home: Ints) -> Ints:
    """Return the owner of every partition, of decreasing shares, on as many consumers as there should be."""
    bins = bins_of(share, cost, home, home)
    relieve(bins, 0.0, 0.0, new_trial())
    for j in range(len(share)):
        if bins.owner[j] < 0:
            c = _emptiest(bins, j, UNASSIGNED)
            put(bins, j, c if c >= 0 else closed_slot(bins, UNASSIGNED))
    while bins.opened[0] > 1 and share.sum() <= THRESHOLD * (bins.opened[0] - 1):
        if not _emptied(bins):
            break
    return bins.owner


@borrowing
def _emptiest(bins: Bins, j: int, but: int) -> int:
    """Return the open consumer with the least load that has room for a partition, -1 if none has."""
    best = UNASSIGNED
    for c in range(len(bins.load)):
        if c != but and bins.held[c] > 0 and (best < 0 or bins.load[c] < bins.load[best]):
            best = c
    return best if best >= 0 and bins.load[best] + bins.share[j] <= LIMIT else UNASSIGNED


@compiled
def _emptied(bins: Bins) -> bool:
    """Empty the lightest consumer if all of it fits elsewhere; else leave it as it is."""
    lightest = UNASSIGNED
    for c in range(len(bins.load)):
        if bins.held[c] > 0 and (lightest < 0 or bins.load[c] < bins.load[lightest]):
            lightest = c
    held, count, j = np.empty(bins.held[lightest], np.int64), 0, bins.first[lightest]
    while j >= 0:
        held[count] = j
        count += 1
        j = bins.after[j]
    for i in range(count):
        target = _emptiest(bins, held[i], lightest)
        if target < 0:
            for k in range(i):
                move(bins, held[k], lightest)
            return False
        move(bins, held[i], target)
    return True
