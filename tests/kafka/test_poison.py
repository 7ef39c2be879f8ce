"""A partition that kills owner after owner, on a real broker: counted over restarts, parked, released by an operator."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from autoscaler.adapters.control_log.release import release
from autoscaler.devtools.broker import Broker
from autoscaler.errors import PermanentError
from autoscaler.model import GroupState, Parked, TopicPartition
from autoscaler.ports import PlanIntent
from tests.contracts.publishers import KafkaWorld, commit, partitions
from tests.kafka.conftest import Produce
from tests.kafka.workers import others_write

MakeTopic = Callable[..., str]


@pytest.fixture
def world(broker: Broker, make_topic: MakeTopic, group: str, produce: Produce) -> Iterator[KafkaWorld]:
    topic = make_topic(partitions=4)
    produce(topic, {0: 9, 1: 9})
    made = KafkaWorld(broker, topic, group)
    made.publisher.publish(PlanIntent(target={}, requested=frozenset(), summary="the first plan, before anything is committed"))
    yield made
    made.close()


def give(world: KafkaWorld, slot: int, state: GroupState) -> GroupState:
    """Give everything that may be given to a slot, as a decision does, and wait until it is taken."""
    target = {p: slot for p in partitions(world) if p not in state.parked}
    world.publisher.publish(PlanIntent(target=target, requested=frozenset({slot}), summary="", parked=frozenset(state.parked)))
    return world.until(lambda s: not s.pending and s.owner == target)


def lose(world: KafkaWorld, slot: int) -> GroupState:
    """Let the slot's worker take everything and be killed."""
    instance = world.start(slot)
    give(world, slot, world.publisher.observe())
    world.die(slot)
    world.publisher.ended(frozenset({instance}))
    return world.until(lambda s: not s.owner)


def test_three_owners_lost_at_one_offset_park_it_over_restarts_until_an_operator_releases_it(world: KafkaWorld) -> None:
    zero, one, two, three = partitions(world)
    commit(world.broker, world.group, world.topic, {0: 5, 1: 5})
    assert lose(world, 0).parked == {}
    world.publisher.close()
    world.publisher = world.control()  # what counts is in the log
    assert lose(world, 0).parked == {}
    commit(world.broker, world.group, world.topic, {1: 6})
    state = lose(world, 0)
    assert state.parked == {zero: Parked(owners=3, offset=5, planned=False)}, "1 has advanced, 2 and 3 have nothing to process"
    world.start(1)
    state = give(world, 1, state)
    assert state.parked == {zero: Parked(owners=3, offset=5, planned=True)}
    assert set(state.owner) == {one, two, three}
    world.publisher.close()
    world.publisher = world.control()
    assert set(world.publisher.observe().parked) == {zero}
    connection = world.broker.connection()
    with pytest.raises(PermanentError, match=f"{world.topic}-1 is not parked; parked are {world.topic}-0"):
        release(connection, world.group, topic=world.topic, partition=1)
    assert release(connection, world.group, topic=world.topic, partition=0) == (zero,)
    state = world.until(lambda s: not s.parked)
    state = give(world, 1, state)
    assert set(state.owner) == {zero, one, two, three}
    world.publisher.observe()  # deletes the operator's record, the plan has followed it
    with pytest.raises(PermanentError, match="nothing is parked"):
        release(connection, world.group)


def test_the_command_releases_while_no_controller_runs(world: KafkaWorld, tmp_path: Path) -> None:
    commit(world.broker, world.group, world.topic, {0: 5})
    for _ in range(3):
        state = lose(world, 0)
    parked = set(state.parked)
    assert parked == {TopicPartition(world.topic, n) for n in (0, 1)}, "nobody ever committed 1, which has records too"
    world.start(1)
    give(world, 1, state)
    world.publisher.close()
    config = tmp_path / "autoscaler.yaml"
    group = {"group": world.group, "topics": [world.topic]}
    clusters = [{"connection": world.broker.connection()}]
    config.write_text(yaml.safe_dump({"clusters": clusters, "state_dir": str(tmp_path), "groups": [group]}))
    command = [sys.executable, "-m", "autoscaler.cli", "release", "--config", str(config), world.group]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [f"{world.topic}-0", f"{world.topic}-1"]
    world.publisher = world.control()
    assert world.publisher.observe().parked == {}
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (again.returncode, again.stderr) == (1, f"group {world.group}: nothing is parked\n")


def test_what_is_parked_is_told_while_others_write_into_the_log_all_the_time(world: KafkaWorld) -> None:
    with others_write(world.broker.bootstrap, world.group), pytest.raises(PermanentError, match="nothing is parked"):
        release(world.broker.connection(), world.group)
