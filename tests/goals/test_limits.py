"""Limits of loads that are not to be made alike: no plan goes beyond them, and what is above them is relieved."""

import numpy as np
import pytest

from autoscaler.core.messages import in_words
from autoscaler.goals import Memory, Name, Outcome, Plan, Snapshot, balance, decide, explained, provision
from autoscaler.goals.snapshot import Floats
from autoscaler.model import TopicPartition
from tests.goals.clusters import BYTES_IN, MIB, of_replicas


def stored(plan: Plan) -> list[float]:
    sizes = plan.problem.snapshot.size_bytes
    assert sizes is not None
    return [float(x) for x in np.bincount(plan.after.broker, sizes[plan.problem.snapshot.partition]) / MIB]


def limited(*most: float) -> dict[str, Floats]:
    return {Name.STORAGE: np.array(most) * MIB}


def uneven(*most: float, leaving: tuple[int, ...] = ()) -> Snapshot:
    """Return broker 0 with six of eight partitions of 10 MiB/s, and 5 MiB each."""
    return of_replicas(
        [[0]] * 6 + [[1], [2]], bytes_in=[10.0] * 8, size=[5.0] * 8, capacity=limited(*most), leaving=leaving
    )  # fmt: skip


def test_a_limit_of_a_load_that_is_no_goal_is_not_exceeded() -> None:
    assert stored(balance(uneven(np.inf, np.inf, np.inf), BYTES_IN)) == [15.0, 15.0, 10.0]
    assert stored(balance(uneven(np.inf, 5.0, np.inf), BYTES_IN))[1] == 5.0


def test_a_broker_that_is_emptied_fills_no_other_beyond_such_a_limit() -> None:
    plan = balance(uneven(np.inf, 20.0, 10.0, leaving=(0,)), BYTES_IN)
    assert stored(plan) == [10.0, 20.0, 10.0]
    assert [(b, len(p)) for (b, _), p in plan.cannot_leave.items()] == [(0, 2)]


@pytest.mark.parametrize("others", [np.inf, 100.0])
def test_what_is_above_such_a_limit_is_relieved_without_making_a_goal_worse(others: float) -> None:
    even = of_replicas(
        [[0]] * 3 + [[1]] * 3 + [[2]] * 3, bytes_in=[10.0] * 9, size=[10.0] * 3 + [1.0] * 6, capacity=limited(25, others, others)
    )  # fmt: skip
    plan = balance(even, BYTES_IN)
    assert stored(plan)[0] == 21.0
    assert len(plan.actions) == 2, "two that change places"
    assert (plan.becomes.over_capacity, plan.becomes.balanced, plan.was.balanced) == (0.0, True, False)


def test_a_limit_that_nothing_reaches_changes_no_plan() -> None:
    assert balance(uneven(100.0, 100.0, 100.0), BYTES_IN).actions == balance(uneven(np.inf, np.inf, np.inf), BYTES_IN).actions


def test_a_cycle_acts_on_it_says_it_and_counts_it_in_no_score() -> None:
    full = of_replicas([[0]] * 3 + [[1]] * 3, bytes_in=[10.0] * 6, size=[5.0] * 6, brokers=3, capacity=limited(10.0, 30.0, 30.0))
    cycles, memory = [], Memory()
    idle = [Outcome.NOT_LONG, Outcome.NOT_LONG, Outcome.ACT]
    for n in range(3):
        cycles.append(decide(full, memory, BYTES_IN, 60.0 * n))
        memory = cycles[-1].memory
    assert [c.outcome for c in cycles] == idle
    assert (0, Name.STORAGE) in cycles[0].outside
    assert list(cycles[-1].problem.goals) == list(BYTES_IN.goals)
    said = [in_words(f) for f in explained(cycles[-1], lambda n: TopicPartition(topic="orders", partition=n))]
    assert any(s.startswith("broker 0 has no room for replicas") for s in said), said
    assert any("because of storage: " in s for s in said), said
    assert not [s for s in said if "storage " in s.partition(" (")[2]]


def test_brokers_to_spare_are_counted_by_limits_of_other_loads_too() -> None:
    found = provision(balance(uneven(10.0, 10.0, 10.0), BYTES_IN).problem, 0.5)
    assert found.missing == 5


def test_where_no_broker_has_any_room_no_number_of_such_brokers_is_missing() -> None:
    full = of_replicas([[0], [1]], capacity={"storage": np.zeros(2)})
    assert provision(balance(full, BYTES_IN).problem).missing == 0
