"""Why replicas stay on brokers that shall be emptied, and what leaves nothing to choose. Part of *goals*."""

from collections.abc import Mapping
from enum import StrEnum

import numpy as np

from autoscaler.goals.problem import Problem
from autoscaler.goals.snapshot import Bools, Ints, State


class Why(StrEnum):
    """What keeps a replica on its broker, the first that is true."""

    OFFLINE = "offline"  # the broker itself
    STAYS = "stays"  # its topic is excluded, or the partition has moved a short time ago
    HELD = "held"  # every broker that stays has one
    AWAY = "away"  # those that could hold it take no part
    FULL = "full"  # none of them has room


def cannot_leave(problem: Problem, state: State, replicas: Ints) -> Mapping[tuple[int, Why], tuple[int, ...]]:
    """Return partitions of replicas that could not leave, by the id of the broker that they are on and what keeps them.

    Args:
        problem: Of which cluster.
        state: After all that could leave has left.
        replicas: Those that could not.
    """
    snapshot, found = problem.snapshot, dict[tuple[int, Why], list[int]]()
    stay, receive = staying(problem), problem.counted & ~snapshot.slow
    for r in np.sort(replicas).tolist():
        p, b = int(snapshot.partition[r]), int(state.broker[r])
        free = np.ones(len(snapshot.brokers), np.bool_)
        free[state.broker[snapshot.first[p] : snapshot.first[p + 1]]] = False
        if snapshot.offline[b]:
            why = Why.OFFLINE
        elif not problem.movable[p]:
            why = Why.STAYS
        elif not (stay & free).any():
            why = Why.HELD
        else:
            why = Why.FULL if (receive & free).any() else Why.AWAY
        found.setdefault((int(snapshot.brokers[b]), why), []).append(int(snapshot.partitions[p]))
    return {key: tuple(partitions) for key, partitions in found.items()}


def staying(problem: Problem) -> Bools:
    """Return the brokers that answer and shall not be emptied: bool[brokers]."""
    return ~problem.snapshot.leaving & ~problem.snapshot.offline


def held_everywhere(problem: Problem) -> bool:
    """Say whether every partition has a replica on every broker that stays: only leaderships can move then."""
    replication = problem.snapshot.replication
    return bool(len(replication)) and int(replication.min()) >= int(staying(problem).sum())


def racks_emptied(problem: Problem) -> tuple[Bools, Bools]:
    """Return the brokers that leave with all others of their rack, and partitions with more replicas than racks are left."""
    snapshot, racks = problem.snapshot, problem.racks
    left = np.unique(racks[staying(problem)])
    leave = snapshot.leaving & ~np.isin(racks, left) & problem.spread_racks
    before = len(left) + len(np.unique(racks[leave]))
    return leave, (snapshot.replication > len(left)) & (snapshot.replication <= before) & leave.any()
