"""What a plan can do without, on models that can be checked by hand."""

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.goals import Settings, Snapshot, State, problem_of, statistics, worse
from autoscaler.goals.best_fit import improve
from autoscaler.goals.kernels import NONE, Model, move
from autoscaler.goals.problem import model_of
from autoscaler.goals.snapshot import Ints
from autoscaler.goals.trim import trim
from tests.goals.clusters import BYTES_IN, drawn, of_rates, of_replicas


def moved_of(snapshot: Snapshot, moved: Mapping[int, int]) -> tuple[Model, Ints]:
    """Return a model by bytes in after these replicas have moved, and where each was."""
    model = model_of(problem_of(snapshot, BYTES_IN), None, 1.0)
    home = model.broker.copy()
    for r, b in moved.items():
        move(model, r, b)
    return model, home


def test_a_move_that_others_have_made_superfluous_is_taken_back() -> None:
    model, home = moved_of(of_rates([40, 40, 10], [80], [60, 30]), {2: 1})
    assert trim(model, home).tolist() == [NONE] * 6
    assert model.broker.tolist() == home.tolist()


def test_a_smaller_replica_moves_in_place_of_a_larger_one_that_does_the_same() -> None:
    snapshot = of_replicas([[0], [0], [0], [1]], bytes_in=[10] * 4, size=[900, 5, 900, 900], brokers=2)
    model, home = moved_of(snapshot, {0: 1})
    assert trim(model, home).tolist() == [1, NONE, NONE, NONE]
    assert model.broker.tolist() == [0, 1, 0, 1]


def test_a_smaller_replica_of_a_third_broker_moves_where_that_serves_all_three() -> None:
    snapshot = of_replicas([[0], [0], [1], [2], [2]], bytes_in=[80, 20, 80, 100, 20], size=[9, 9, 9, 9, 2])
    model, home = moved_of(snapshot, {1: 1})
    assert trim(model, home).tolist() == [NONE, 4, NONE, NONE, NONE]
    assert model.broker.tolist() == [0, 0, 1, 2, 1]


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_trimming_copies_no_more_and_makes_nothing_worse(seed: int) -> None:
    snapshot = drawn(seed, brokers=6, partitions=40, replication=2, racks=3)
    problem = problem_of(snapshot, Settings())
    model = model_of(problem, None, 0.9)
    improve(model, 1000, False)
    improved = State(broker=model.broker.copy(), leader=model.leader.copy())
    trim(model, snapshot.state.broker)
    trimmed = State(broker=model.broker, leader=model.leader)
    assert not worse(statistics(problem, improved), statistics(problem, trimmed))
    assert _copied(model, snapshot, trimmed) <= _copied(model, snapshot, improved) + 1e-9


def _copied(model: Model, snapshot: Snapshot, state: State) -> float:
    return float(model.copied[snapshot.partition[state.broker != snapshot.state.broker]].sum())
