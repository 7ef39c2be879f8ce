"""One contract for ``PlanPublisher``, kept by the fake and by the real control log with workers that speak the protocol."""

from collections import Counter
from collections.abc import Iterator

import pytest

from autoscaler.ports import PlanIntent
from tests.contracts.publishers import FakeWorld, KafkaWorld, World, partitions


@pytest.fixture(params=["fake", pytest.param("kafka", marks=pytest.mark.broker)])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made: World
    if request.param == "fake":
        made = FakeWorld()
    else:
        topic = request.getfixturevalue("make_topic")(partitions=4)
        made = KafkaWorld(request.getfixturevalue("broker"), topic, request.getfixturevalue("group"))
    yield made
    made.close()


def intent(world: World, *slots: int, summary: str = "why") -> PlanIntent:
    return PlanIntent(target=dict(zip(partitions(world), slots, strict=True)), requested=frozenset(slots), summary=summary)


def running(world: World, *slots: int, summary: str = "why") -> None:
    """Start the slots' workers and give them the partitions."""
    for slot in sorted(set(slots)):
        world.start(slot)
    world.publisher.publish(intent(world, *slots, summary=summary))
    world.until(lambda s: not s.pending and len(s.owner) == 4)


def test_a_new_group_has_no_plan_and_nobody(world: World) -> None:
    state = world.publisher.observe()
    assert (state.epoch, state.requested, state.plan_at, state.owner, state.workers) == (0, None, None, {}, ())
    assert world.publisher.last_summary() is None


def test_a_plan_without_workers_stands_and_gives_nobody_anything(world: World) -> None:
    assert world.publisher.publish(intent(world, 0, 0, 1, 1)) == 1
    state = world.publisher.observe()
    assert (state.epoch, state.requested, state.owner, state.pending) == (1, frozenset({0, 1}), {}, frozenset())
    assert state.plan_at is not None
    assert world.publisher.last_summary() == "why"


def test_workers_take_what_the_plan_gives_them_and_each_taking_is_told_once(world: World) -> None:
    running(world, 0, 0, 1, 1)
    state = world.publisher.observe()
    assert state.owner == dict(zip(partitions(world), (0, 0, 1, 1), strict=True))
    assert {w.slot: len(w.owned) for w in state.workers} == {0: 2, 1: 2}
    assert Counter(d.partition for d in world.seen) == Counter(partitions(world))
    assert {(d.from_worker, d.pause_s) for d in world.seen} == {(None, None)}


def test_only_what_changes_hands_is_told_with_both_workers_and_the_pause(world: World) -> None:
    running(world, 0, 0, 1, 1)
    world.seen.clear()
    assert world.publisher.publish(intent(world, 0, 1, 1, 1, summary="second")) == 2
    world.until(lambda s: not s.pending and s.owner[partitions(world)[1]] == 1)
    (done,) = world.seen
    assert (done.partition, done.from_worker, done.to_worker) == (partitions(world)[1], f"{world.group}-0", f"{world.group}-1")
    assert done.epoch == 2
    assert done.pause_s is not None
    assert done.pause_s >= 0
    assert world.publisher.last_summary() == "second"


def test_a_partition_stays_where_it_is_while_its_target_slot_has_no_worker(world: World) -> None:
    running(world, 0, 0, 0, 0)
    world.publisher.publish(intent(world, 0, 0, 0, 7))
    state = world.publisher.observe()
    assert set(state.owner.values()) == {0}
    assert not state.pending
    assert state.requested == frozenset({0, 7})


def test_the_same_plan_twice_moves_nothing(world: World) -> None:
    running(world, 0, 0, 1, 1)
    world.seen.clear()
    world.publisher.publish(intent(world, 0, 0, 1, 1))
    assert not world.publisher.observe().pending
    assert world.seen == []


def test_partitions_of_an_ended_instance_are_orphans_at_the_next_look(world: World) -> None:
    running(world, 0, 0, 0, 0)
    instance = world.start(1)
    world.publisher.publish(intent(world, 0, 0, 1, 1))
    world.until(lambda s: not s.pending and set(s.owner.values()) == {0, 1})
    world.die(1)
    world.publisher.ended(frozenset({instance}))
    state = world.publisher.observe()
    assert state.orphans == frozenset(partitions(world)[2:])
    assert [w.slot for w in state.workers] == [0]
    assert set(state.owner) == set(partitions(world)[:2])


def test_orphans_go_to_another_worker_without_waiting_for_the_dead(world: World) -> None:
    running(world, 0, 0, 0, 0)
    instance = world.start(1)
    world.publisher.publish(intent(world, 1, 1, 1, 1))
    world.until(lambda s: not s.pending and set(s.owner.values()) == {1})
    world.die(1)
    world.publisher.ended(frozenset({instance}))
    world.until(lambda s: len(s.orphans) == 4)
    world.seen.clear()
    world.publisher.publish(intent(world, 0, 0, 0, 0))
    world.until(lambda s: not s.pending and len(s.owner) == 4)
    assert {(d.from_worker, d.to_worker, d.pause_s) for d in world.seen} == {(f"{world.group}-1", f"{world.group}-0", None)}


def test_who_dies_without_a_word_holds_its_partitions_until_it_is_over(world: World) -> None:
    running(world, 0, 0, 0, 0)
    world.start(1)
    world.die(0)
    world.publisher.publish(intent(world, 1, 1, 1, 1))
    state = world.publisher.observe()
    assert state.pending == frozenset(partitions(world))


def test_who_leaves_is_not_listed_any_more(world: World) -> None:
    running(world, 0, 0, 0, 0)
    world.leave(0)
    state = world.until(lambda s: not s.workers)
    assert state.orphans == frozenset(partitions(world))


def test_a_new_life_in_a_slot_gets_the_partitions_of_the_old_one(world: World) -> None:
    running(world, 0, 0, 0, 0)
    first = next(w.instance for w in world.publisher.observe().workers)
    assert first is not None
    world.die(0)
    second = world.start(0)
    world.publisher.ended(frozenset({first}))
    world.until(lambda s: len(s.orphans) == 4)
    world.publisher.publish(intent(world, 0, 0, 0, 0))
    state = world.until(lambda s: not s.pending and len(s.owner) == 4)
    assert [(w.instance, w.slot, len(w.owned)) for w in state.workers] == [(second, 0, 4)]


def test_what_three_owners_in_a_row_were_lost_by_is_parked_and_nobody_gets_it(world: World) -> None:
    stuck, *others = partitions(world)
    world.lag(stuck)
    for number in range(3):
        instance = world.start(0)
        world.publisher.publish(intent(world, 0, 0, 0, 0))
        world.until(lambda s: not s.pending and len(s.owner) == 4)
        world.die(0)
        world.publisher.ended(frozenset({instance}))
        state = world.until(lambda s: not s.owner)
        assert list(state.parked) == ([stuck] if number == 2 else [])
    assert not state.parked[stuck].planned
    world.start(1)
    parked = PlanIntent(target=dict.fromkeys(others, 1), requested=frozenset({1}), summary="", parked=frozenset({stuck}))
    world.publisher.publish(parked)
    state = world.until(lambda s: not s.pending and len(s.owner) == 3)
    assert state.parked[stuck].planned
    world.publisher.publish(intent(world, 1, 1, 1, 1))
    state = world.publisher.observe()
    assert (list(state.parked), set(state.owner), state.orphans) == ([stuck], set(others), frozenset())


def test_a_rolling_deployment_parks_nothing(world: World) -> None:
    world.lag(partitions(world)[0])
    for _ in range(4):
        running(world, 0, 0, 0, 0)
        world.leave(0)
        state = world.until(lambda s: not s.workers)
        assert state.parked == {}
