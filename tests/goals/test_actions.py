"""The difference of two states, its order, its batches."""

from dataclasses import replace

import numpy as np
import pytest

from autoscaler.goals import Action, MoveLeadership, MoveReplica, Settings, State, applied, batches, difference, target_replicas
from tests.goals.clusters import of_rates, of_replicas


def after(replicas: list[list[int]]) -> State:
    return of_replicas(replicas, brokers=4).state


def test_no_difference_is_no_action() -> None:
    snapshot = of_replicas([[0, 1], [1, 2]], brokers=4)
    assert difference(snapshot, snapshot.state, snapshot.state) == ()


def test_leaderships_come_first_and_those_that_need_a_copy_last() -> None:
    snapshot = of_replicas([[0, 1], [1, 2], [0, 2]], brokers=4)
    wanted = after([[0, 1], [2, 1], [0, 2]])
    broker, leader = wanted.broker.copy(), wanted.leader.copy()
    broker[1] = 3  # partition 0: from 1 to 3, which leads then
    leader[0] = 1
    broker[4] = 1  # partition 2: the leader moves
    actions = difference(snapshot, snapshot.state, State(broker=broker, leader=leader), order=[2, 0])
    assert [(type(a), a.partition, a.source, a.target) for a in actions] == [
        (MoveLeadership, 1, 1, 2),
        (MoveReplica, 2, 0, 1),
        (MoveReplica, 0, 1, 3),
        (MoveLeadership, 0, 0, 3),
    ]
    assert [a.leads for a in actions if isinstance(a, MoveReplica)] == [True, False]
    assert target_replicas(snapshot, State(broker=broker, leader=leader), 0) == (3, 0)


def test_replicas_that_have_changed_places_among_themselves_are_no_copy() -> None:
    snapshot = of_replicas([[0, 1]], brokers=4)
    other = State(broker=np.array([1, 2]), leader=np.array([0]))
    actions = difference(snapshot, snapshot.state, other)
    assert [(type(a), a.source, a.target) for a in actions] == [(MoveLeadership, 0, 1), (MoveReplica, 0, 2)]


def test_an_action_that_does_not_fit_what_is_there_is_refused() -> None:
    snapshot = of_replicas([[0, 1]], brokers=4)
    for wrong in (
        MoveLeadership(partition=0, source=0, target=2),
        MoveReplica(partition=0, source=0, target=1, leads=True, size_bytes=0),
        MoveReplica(partition=0, source=3, target=2, leads=False, size_bytes=0),
    ):
        with pytest.raises(ValueError, match="does not fit"):
            applied(snapshot, snapshot.state, [wrong])


def test_a_batch_is_bounded_by_broker_topic_and_sources_and_keeps_the_order() -> None:
    snapshot = of_rates(*[[1.0] * 4] * 6)
    snapshot = replace(snapshot, topics=np.arange(24) % 2)
    moves = [
        MoveReplica(partition=p, source=int(snapshot.state.broker[p]), target=5, leads=True, size_bytes=1.0) for p in range(20)
    ]
    tight = Settings(actions_per_broker=7, topic_ratio=0.5, sources_per_target=2)
    found = list(batches(snapshot, moves, tight))
    assert [a for batch in found for a in batch if a.source == 0] == moves[:4]
    assert sorted(a.partition for batch in found for a in batch) == list(range(20))
    for batch in found:
        assert len(batch) <= 7
        assert len({a.source for a in batch}) <= 2
        assert max(np.bincount([a.partition % 2 for a in batch])) <= 6


def test_of_one_partition_a_batch_has_one_action() -> None:
    snapshot = of_replicas([[0, 1], [2, 3]], brokers=4)
    steps: list[Action] = [
        MoveReplica(partition=0, source=1, target=3, leads=False, size_bytes=0),
        MoveLeadership(partition=0, source=0, target=3),
        MoveLeadership(partition=1, source=2, target=3),
    ]
    wide = Settings(topic_ratio=1.0)
    assert [list(b) for b in batches(snapshot, steps, wide)] == [[steps[0], steps[2]], [steps[1]]]


def test_a_replica_goes_to_a_broker_of_its_rack_where_one_is_to_get_it_so_that_no_rack_is_shared_in_between() -> None:
    snapshot = of_replicas([[0, 1]], brokers=4, racks=[7, 8, 8, 7])
    wanted = after([[2, 3]])
    actions = difference(snapshot, snapshot.state, wanted)
    assert [(type(a), a.source, a.target) for a in actions] == [(MoveReplica, 0, 3), (MoveReplica, 1, 2), (MoveLeadership, 3, 2)]
    assert [a.leads for a in actions if isinstance(a, MoveReplica)] == [True, False]
    assert target_replicas(snapshot, applied(snapshot, snapshot.state, actions), 0) == (2, 3)
