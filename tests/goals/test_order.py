"""In which order the actions of a plan come."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.goals import MoveReplica, Problem, Settings, State, applied, balance, loads_of, problem_of, statistics
from autoscaler.goals.order import most_for_its_cost
from autoscaler.goals.snapshot import Snapshot
from tests.goals.clusters import BYTES_IN, drawn, of_replicas

SMALL_LAST = of_replicas([[0], [0], [0], [1]], bytes_in=[20, 20, 40, 20], size=[900, 9, 100, 100], brokers=4)


def moved(partition: int, target: int, source: int = 0) -> MoveReplica:
    assert SMALL_LAST.size_bytes is not None
    size = float(SMALL_LAST.size_bytes[partition])
    return MoveReplica(partition=partition, source=source, target=target, leads=True, size_bytes=size)


def ordered(snapshot: Snapshot, moves: list[MoveReplica]) -> list[int]:
    problem, end = problem_of(snapshot, BYTES_IN), applied(snapshot, snapshot.state, moves)
    found = most_for_its_cost(problem, loads_of(problem, snapshot.state), loads_of(problem, end), moves)
    return [a.partition for a in found]


def test_what_does_the_most_for_its_bytes_comes_first() -> None:
    assert ordered(SMALL_LAST, [moved(0, 2), moved(1, 3)]) == [1, 0]


def test_what_goes_beyond_a_limit_waits_for_what_makes_room() -> None:
    limits = {"bytes_in": np.array([np.inf, 45.0, np.inf, np.inf]) * 2**20}
    snapshot = of_replicas([[0], [1], [1]], bytes_in=[40, 20, 20], size=[1, 900, 900], brokers=4, capacity=limits)
    moves = [moved(1, 2, source=1), moved(2, 3, source=1), moved(0, 1)]
    assert ordered(snapshot, moves) == [1, 2, 0]


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_a_plan_comes_to_the_same_end_and_each_partition_keeps_the_order_of_its_actions(seed: int) -> None:
    snapshot = drawn(seed, brokers=6, partitions=60, replication=2, racks=3)
    plan = balance(snapshot, Settings())
    end = applied(snapshot, snapshot.state, plan.actions)  # refuses an order in which an action does not fit
    assert held(snapshot, end) == held(snapshot, plan.after)
    states = [applied(snapshot, snapshot.state, plan.actions[:n]) for n in range(len(plan.actions) + 1)]
    problem = plan.problem
    for before, after in pairwise(states):
        over = loads_of(problem, after) > problem.limit
        assert not np.any(over & ~(loads_of(problem, before) > problem.limit))


def held(snapshot: Snapshot, state: State) -> list[tuple[int, frozenset[int]]]:
    """Return each partition's leader and holders, by brokers."""
    rows = [state.broker[snapshot.partition == p].tolist() for p in range(len(snapshot.partitions))]
    return [(int(state.broker[state.leader[p]]), frozenset(row)) for p, row in enumerate(rows)]


def test_half_of_the_bytes_do_more_than_half_of_the_work() -> None:
    done = []
    for seed in range(4):
        snapshot = drawn(seed, brokers=12, partitions=600, skew=0.25)
        plan = balance(snapshot, Settings(inner=1.0))
        copied = np.cumsum([a.size_bytes if isinstance(a, MoveReplica) else 0.0 for a in plan.actions])
        half = applied(snapshot, snapshot.state, plan.actions[: int(np.searchsorted(copied, copied[-1] / 2))])
        was, now = (outside(plan.problem, s) for s in (snapshot.state, half))
        done.append(1.0 - now / was)
    assert min(done) > 0.7


def outside(problem: Problem, state: State) -> float:
    """Return how far brokers are outside their bands, by all goals."""
    found = statistics(problem, state).spreads
    return sum(g.weight * found[g.name].excess ** 2 for g in problem.goals)
