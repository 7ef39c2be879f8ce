"""Memberships of real groups, read in the background."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.kafka import membership
from autoscaler.adapters.kafka.membership import KafkaGroupReader, _classic, _understood
from autoscaler.devtools.broker import Broker, Cluster
from autoscaler.model import GroupMembers, TopicPartition
from tests.conftest import create_topic
from tests.fakes import FakeClock
from tests.until import until

PATIENCE_S = 150.0


@contextmanager
def reading(broker: Broker, *groups: str) -> Iterator[KafkaGroupReader]:
    reader = KafkaGroupReader(broker.connection(), groups, SystemClock(), 0.1)
    try:
        yield reader
    finally:
        reader.close()


def described(
    reader: KafkaGroupReader,
    group: str,
    wanted: Callable[[GroupMembers], bool],
    *,
    meanwhile: Callable[[], object] = lambda: None,
) -> GroupMembers:
    def as_wanted(found: GroupMembers | None) -> bool:
        if found is not None and wanted(found):
            return True
        meanwhile()
        return False

    found = until(f"members of {group} as wanted", lambda: reader.members(group), as_wanted)
    assert found is not None
    return found


def test_the_members_of_a_native_group_are_told_with_what_they_hold(broker: Broker, topic: str, group: str) -> None:
    settings = {"group.id": group, "client.id": "app", "partition.assignment.strategy": "cooperative-sticky"}
    consumers = [Consumer({**broker.connection(), **settings}) for _ in range(2)]
    for consumer in consumers:
        consumer.subscribe([topic])
    try:
        with reading(broker, group) as reader:
            found = described(
                reader, group, lambda m: [len(x.assigned) for x in m.members] == [2, 2],
                meanwhile=lambda: [c.poll(0.05) for c in consumers],
            )  # fmt: skip
        assert (found.state, found.kind, found.assignor) == ("STABLE", "CLASSIC", "cooperative-sticky")
        assert {m.client_id for m in found.members} == {"app"}
        held = {p for m in found.members for p in m.assigned}
        assert held == {TopicPartition(topic=topic, partition=n) for n in range(4)}
    finally:
        for consumer in consumers:
            consumer.close()


def test_the_members_of_a_group_on_the_new_protocol_are_told_alike(broker: Broker, topic: str, group: str) -> None:
    settings = {"group.id": group, "client.id": "app", "group.protocol": "consumer", "group.remote.assignor": "range"}
    consumers = [Consumer({**broker.connection(), **settings}) for _ in range(2)]
    for consumer in consumers:
        consumer.subscribe([topic])
    try:
        with reading(broker, group) as reader:
            found = described(
                reader, group, lambda m: m.state == "STABLE" and [len(x.assigned) for x in m.members] == [2, 2],
                meanwhile=lambda: [c.poll(0.05) for c in consumers],
            )  # fmt: skip
        assert (found.kind, found.assignor) == ("CONSUMER", "range")
        assert {m.client_id for m in found.members} == {"app"}
        held = {p for m in found.members for p in m.assigned}
        assert held == {TopicPartition(topic=topic, partition=n) for n in range(4)}
    finally:
        for consumer in consumers:
            consumer.close()


def test_a_group_that_does_not_exist_is_dead_and_holds_up_no_other(broker: Broker, topic: str, group: str) -> None:
    consumer = Consumer({**broker.connection(), "group.id": group})
    consumer.subscribe([topic])
    try:
        with reading(broker, "no-such-group", group) as reader:
            described(reader, group, lambda m: len(m.members) == 1, meanwhile=lambda: consumer.poll(0.05))
            found = described(reader, "no-such-group", lambda m: m.state == "DEAD")
        assert found.members == ()
        assert reader.members("never-asked-for") is None
    finally:
        consumer.close()


def test_nothing_is_told_when_reads_have_failed_for_long(broker: Broker, group: str) -> None:
    clock = FakeClock()
    reader = KafkaGroupReader(broker.connection(), (group,), clock, 0.1)
    try:
        described(reader, group, lambda m: m.state == "DEAD")
    finally:
        reader.close()
    assert reader.members(group) is not None
    clock.advance(60)
    assert reader.members(group) is None


def test_nothing_is_told_of_a_cluster_that_does_not_answer(group: str) -> None:
    reader = KafkaGroupReader({"bootstrap.servers": "127.0.0.1:1"}, (group,), SystemClock(), 0.1)
    assert reader.members(group) is None
    reader.close()
    assert reader.members(group) is None


def test_a_group_of_which_nothing_can_be_made_is_unknown_and_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    bad, good = SimpleNamespace(error_code=0), ("CLASSIC", "STABLE", "range", ())
    why = _understood(_classic, bad)
    assert "group_state" in why
    reader = KafkaGroupReader({"bootstrap.servers": "127.0.0.1:1"}, ("bad", "good"), SystemClock(), 60.0)
    reader.close()
    reader._take({"bad": good, "good": good})
    assert reader.members("bad") is not None
    for found in (why, why, good, why):
        reader._take({"bad": found, "good": good})
        assert (reader.members("bad") is None) == (found is why)
        assert reader.members("good") is not None
    said = [r.getMessage() for r in caplog.records if "group bad is unknown" in r.getMessage()]
    assert len(said) == 2, "once each time that it begins"
    assert all("group_state" in x for x in said)


def test_no_defect_ends_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = threading.Semaphore(0)

    def fails(*_: object) -> None:
        tried.release()
        raise KeyError

    monkeypatch.setattr(membership, "connect", fails)
    reader = KafkaGroupReader({"bootstrap.servers": "127.0.0.1:1"}, ("g",), SystemClock(), 0.01)
    try:
        assert all(tried.acquire(timeout=PATIENCE_S) for _ in range(3))
    finally:
        reader.close()


@pytest.mark.timeout(400)  # three brokers start anew
def test_memberships_are_read_again_after_the_broker_that_knows_them_is_gone(three_brokers: Cluster, group: str) -> None:
    topic = create_topic(three_brokers, f"topic-{group}", 2)
    consumer = Consumer({**three_brokers.connection(), "group.id": group, "log_level": 0})
    consumer.subscribe([topic])
    reader = KafkaGroupReader(three_brokers.connection(), (group,), SystemClock(), 0.05)

    def read_after(at: float, members: int) -> None:
        wanted = lambda m: m.at > at and len(m.members) >= members  # noqa: E731
        described(reader, group, wanted, meanwhile=lambda: consumer.poll(0.05))

    try:
        read_after(0, 1)
        for node in three_brokers.nodes:  # one of them is the coordinator
            node.kill()
            read_after(time.time() + 1, 0)
            node.start()
        read_after(time.time(), 1)
    finally:
        reader.close()
        consumer.close()
        three_brokers.start()
