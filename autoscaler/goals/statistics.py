"""How balanced a state is by each goal, and whether another one is worse: every plan is checked. Part of *goals*."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autoscaler.goals.goal import Name
from autoscaler.goals.problem import Problem
from autoscaler.goals.snapshot import Floats, Ints, State

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """One goal's loads over the brokers that count.

    Attributes:
        mean: Of all of them.
        lowest: The least load.
        highest: The greatest load.
        outside: How many are outside the band.
        worst_score: The lowest score.
        excess: Root of the summed squares of what is outside the band, over the mean.
    """

    mean: float
    lowest: float
    highest: float
    outside: int
    worst_score: float
    excess: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """A state's figures.

    Attributes:
        spreads: By goal.
        crowded_racks: Replicas that share a rack with another one of their partition although there are racks enough.
        over_capacity: By how much brokers are above what they may be given, each in parts of that, added up; of one that may be
            given nothing, in parts of the mean load.
        balancedness: From 0 to 100: the part of brokers in their bands, by weight.
    """

    spreads: Mapping[Name, Spread]
    crowded_racks: int
    over_capacity: float
    balancedness: float

    @property
    def balanced(self) -> bool:
        """Return whether every broker that counts is in every band and no hard goal is broken."""
        return not (any(s.outside for s in self.spreads.values()) or self.crowded_racks or self.over_capacity)


def loads_of(problem: Problem, state: State) -> Floats:
    """Return the load of each broker: float64[brokers, loads]."""
    brokers = len(problem.snapshot.brokers)
    of_leaders = state.broker[state.leader]
    columns = [
        np.bincount(state.broker, problem.follow[problem.snapshot.partition, g], brokers)
        + np.bincount(of_leaders, problem.lead[:, g], brokers)
        for g in range(len(problem.loads))
    ]
    return np.stack(columns, axis=1) if columns else np.zeros((brokers, 0))


def crowded(problem: Problem, state: State) -> Ints:
    """Return the replicas that share a rack with an earlier one of their partition although another rack has none."""
    if not problem.spread_racks:
        return np.empty(0, np.int64)
    rack, partition = problem.racks[state.broker], problem.snapshot.partition
    order = np.lexsort((np.arange(len(rack)) != state.leader[partition], rack, partition))  # the leader stays where it is
    again = np.zeros(len(rack), np.bool_)
    again[order[1:]] = (partition[order[1:]] == partition[order[:-1]]) & (rack[order[1:]] == rack[order[:-1]])
    used = problem.snapshot.replication - np.bincount(partition[again], minlength=len(problem.snapshot.partitions))
    racks = len(np.unique(problem.racks[~problem.snapshot.offline & ~problem.snapshot.leaving]))
    return np.flatnonzero(again & (used < racks)[partition])


def statistics(problem: Problem, state: State) -> Statistics:
    """Return a state's figures."""
    loads, counted = loads_of(problem, state), problem.counted
    spreads = {}
    for g, (goal, band) in enumerate(zip(problem.goals, problem.bands, strict=True)):
        load = loads[counted, g]
        if not len(load):
            continue
        low, high = band.limits()
        outside = ~band.holds(load)
        excess = np.where(outside, np.maximum(low - load, load - high), 0.0)
        spreads[goal.name] = Spread(
            mean=band.mean,
            lowest=float(load.min()),
            highest=float(load.max()),
            outside=int(outside.sum()),
            worst_score=float(band.score(load).min()),
            excess=float(np.sqrt((excess**2).sum()) / band.mean) if band.mean else 0.0,
        )
    over = np.zeros_like(loads)
    parts = np.where(problem.limit > 0, problem.limit, loads.mean(axis=0))  # a full disk leaves nothing to measure by
    np.divide(loads - problem.limit, parts, out=over, where=loads > problem.limit * (1 + _ROUNDING))
    weights = np.array([g.weight for g in problem.goals if g.name in spreads])
    inside = np.array([1.0 - s.outside / max(1, counted.sum()) for s in spreads.values()])
    return Statistics(
        spreads=spreads,
        crowded_racks=len(crowded(problem, state)),
        over_capacity=float(over.sum()),
        balancedness=float(100.0 * inside @ weights / weights.sum()) if len(weights) else 100.0,
    )


def worse(before: Statistics, after: Statistics) -> tuple[str, ...]:
    """Return what is worse afterwards, by name: hard goals, then each goal whose brokers are further outside or more of them."""
    found = [
        name
        for name in ("crowded_racks", "over_capacity")
        if getattr(after, name) > getattr(before, name) * (1 + _ROUNDING) + _ROUNDING
    ]
    for name, was in before.spreads.items():
        now = after.spreads[name]
        if now.excess > was.excess + 1e-6 or now.outside > was.outside or now.worst_score < was.worst_score - 1e-6:
            found.append(name)
    return tuple(found)
