"""Whether another controller acts on a group, on a real broker: before this one takes over from it."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.control_log import others
from autoscaler.adapters.control_log.placement_publisher import KafkaPlacements
from autoscaler.adapters.control_log.watch import ControlLogs, KafkaWatch
from autoscaler.config.settings import Settings
from autoscaler.devtools.broker import Broker
from autoscaler.model import TopicPartition
from tests.contracts.publishers import KafkaWorld
from tests.until import until

MakeTopic = Callable[..., str]
ME = "this job"


@pytest.fixture
def world(broker: Broker, make_topic: MakeTopic, group: str) -> Iterator[KafkaWorld]:
    made = KafkaWorld(broker, make_topic(partitions=4), group)
    yield made
    made.close()


def settings(connection: Mapping[str, object], topic: str, place: Path, *, assignment: str = "managed", **modes: str) -> Settings:
    workers = {"command": ["{python}", "consumer.py"]}
    return Settings.model_validate({
        "clusters": [{"connection": connection}],
        "state_dir": str(place),
        "groups": [
            {
                "group": g.replace("_", "-"),
                "topics": [topic],
                "mode": mode,
                "assignment": assignment,
                "capacity_bytes_per_s": 1e6,
                "workers": workers,
            }
            for g, mode in modes.items()
        ],
    })  # fmt: skip


def test_a_controller_is_heard_while_it_is_there_and_not_when_it_has_ended(world: KafkaWorld) -> None:
    connection = world.broker.connection()
    assert others.ticking(connection, [world.group, "another"]) == {world.group}
    world.publisher.close()
    assert others.ticking(connection, [world.group]) == frozenset(), "what it wrote before does not count"


def test_who_only_watches_a_group_is_no_controller_of_it(world: KafkaWorld) -> None:
    world.publisher.close()
    logs = ControlLogs(world.broker.connection())
    watch = KafkaWatch(
        logs=logs, group=world.group, topics=(world.topic,), lease_s=3.0, slot_of=world.slot_of, clock=SystemClock()
    )  # fmt: skip
    try:
        watch.observe()
        assert others.ticking(world.broker.connection(), [world.group]) == frozenset()
    finally:
        watch.close()
        logs.close()


def test_a_cluster_without_a_control_log_has_no_controller(own_broker: Broker) -> None:
    assert others.ticking(own_broker.connection(), ["g"]) == frozenset()


def test_a_cluster_that_is_away_holds_no_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    away = settings({"bootstrap.servers": "127.0.0.1:1"}, "orders", tmp_path, g="act")
    with caplog.at_level(logging.INFO):
        assert others.acted_on(away.served, ME) == ()
    assert "cluster kafka: whether another controller acts on its groups is not known" in caplog.text


def test_a_job_waits_until_the_other_controller_has_ended_and_fences_it_not(
    world: KafkaWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(others, "_AGAIN_S", 0.1)
    ours = settings(world.broker.connection(), world.topic, tmp_path, **{world.group.replace("-", "_"): "act"})
    stop = threading.Event()
    found = others.acted_on(ours.served, ME)
    assert found == (world.group,)
    with caplog.at_level(logging.INFO):
        waiting = threading.Thread(target=others.wait_for_end, args=(ours.served, ME, found, stop))
        waiting.start()
        said = f"another controller acts on {world.group}: this job does nothing until that one has ended"
        until("it says so", lambda: said in caplog.text)
        world.publisher.observe()
        assert waiting.is_alive()
        world.publisher.close()
        waiting.join(60)
    assert f"the other controller of {world.group} has ended: going on" in caplog.text
    assert caplog.text.count("this job does nothing until") == 1, "said once"


def test_a_job_that_is_told_to_end_waits_no_longer(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    others.wait_for_end(settings({"bootstrap.servers": "127.0.0.1:1"}, "orders", tmp_path, g="act").served, ME, ("g",), stop)


def test_groups_that_are_only_advised_wait_for_no_controller(world: KafkaWorld, tmp_path: Path) -> None:
    ours = settings(world.broker.connection(), world.topic, tmp_path, **{world.group.replace("-", "_"): "advise"})
    assert others.acted_on(ours.served, ME) == ()


def test_a_placed_group_is_acted_on_by_the_job_that_wrote_its_latest_placement_lately(
    broker: Broker, make_topic: MakeTopic, group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(partitions=4)
    name = group.replace("-", "_")
    ours = settings(broker.connection(), topic, tmp_path, assignment="native", **{name: "act"}).served
    assert others.acted_on(ours, ME) == (), "none was ever written"
    mine = KafkaPlacements(broker.connection(), group, writer=ME)
    other = mine
    try:
        mine.publish({TopicPartition(topic=topic, partition=0): "a"})
        assert others.acted_on(ours, ME) == (), "it was this job's former life"
        assert others.acted_on(ours, "another job") == (group,)
        other = KafkaPlacements(broker.connection(), group, writer="another job")
        other.publish({TopicPartition(topic=topic, partition=0): "b"})
        assert others.acted_on(ours, ME) == (group,), "the latest counts"
        advised = settings(broker.connection(), topic, tmp_path, assignment="native", **{name: "advise"}).served
        assert others.acted_on(advised, ME) == ()
        monkeypatch.setattr(others, "_WRITTEN_S", 0.0)
        assert others.acted_on(ours, ME) == (), "it has not been written again"
    finally:
        other.close()
        mine.close()
