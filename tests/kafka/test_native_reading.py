"""What real descriptions of groups say of their members, as far as predictions depend on it."""

import contextlib
import struct
from collections.abc import Callable, Mapping
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer
from kafka import KafkaConsumer
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from autoscaler.adapters.kafka.membership import _classic, _library
from autoscaler.assignor import CooperativePlanAssignor, Placements, PlanAssignor
from autoscaler.core.assignors.group_model import NativeGroup
from autoscaler.core.assignors.group_reader import Unpredictable, read_group
from autoscaler.devtools.broker import Broker
from autoscaler.model import TopicPartition
from autoscaler.model.findings import What
from tests.kafka.java_assignors import java
from tests.kafka.test_reader import described, reading

MakeTopic = Callable[..., str]
NO_TOPICS = struct.pack(">hii", 0, -1, -1)  # version, null array, null user data
NO_PARTITIONS = struct.pack(">hih1sii", 0, 1, 1, b"a", -1, -1)
NO_NAME = struct.pack(">hihi", 0, 1, -1, -1)  # one topic, of no name


def test_how_a_member_joined_is_told(broker: Broker, topic: str, group: str) -> None:
    consumer = Consumer({**broker.connection(), "group.id": group, "group.instance.id": "one"})
    consumer.subscribe([topic])
    try:
        with reading(broker, group) as reader:
            found = described(reader, group, lambda m: m.state == "STABLE", meanwhile=lambda: consumer.poll(0.05))
    finally:
        consumer.close()
    assert [(m.topics, m.instance, m.library) for m in found.members] == [(frozenset({topic}), "one", "librdkafka")]


def test_a_member_that_names_its_rack_is_told_with_it(broker: Broker, topic: str, group: str) -> None:
    settings = {"group.id": group, "client.rack": "r1", "partition.assignment.strategy": "range"}
    consumer = Consumer({**broker.connection(), **settings})
    consumer.subscribe([topic])
    try:
        with reading(broker, group) as reader:
            found = described(reader, group, lambda m: m.state == "STABLE", meanwhile=lambda: consumer.poll(0.05))
    finally:
        consumer.close()
    assert [(m.topics, m.rack, m.library) for m in found.members] == [(frozenset({topic}), "r1", "")]
    refused = read_group(found, [TopicPartition(topic, n) for n in range(4)], {})
    assert isinstance(refused, Unpredictable)
    assert refused.why.what is What.RACKS


@pytest.mark.parametrize(("rack", "library"), [(None, "java"), ("", "librdkafka"), ("r1", "")])
def test_what_a_subscription_says_of_a_rack_tells_the_library_only_where_there_is_none(rack: str | None, library: str) -> None:
    said = ConsumerProtocolSubscription(
        version=3, topics=["orders"], user_data=None, owned_partitions=[], generation_id=1, rack_id=rack
    )
    assert _library(said) == library


@pytest.mark.parametrize(
    ("metadata", "assignment", "topics"),
    [
        (NO_TOPICS, b"", frozenset()),
        (b"", NO_TOPICS, None),
        (b"", NO_PARTITIONS, None),
        (NO_NAME, NO_NAME + b"    ", frozenset()),
        (b"\x00", b"\x00", None),
        (b"\xff" * 40, b"\xff" * 40, None),
        (b"\x7f" * 40, b"\x7f" * 40, None),
    ],
)
def test_a_member_that_says_nothing_readable_holds_nothing(
    metadata: bytes, assignment: bytes, topics: frozenset[str] | None
) -> None:
    member = SimpleNamespace(
        member_id="m",
        client_id="c",
        client_host="h",
        group_instance_id=None,
        member_metadata=metadata,
        member_assignment=assignment,
    )
    group = SimpleNamespace(group_state="Stable", protocol_type="consumer", protocol_data="range", members=[member])
    kind, _, _, (told,) = _classic(group)
    assert (kind, told.topics, told.assigned) == ("CLASSIC", topics, frozenset())


class _Nulls(RoundRobinPartitionAssignor):  # type: ignore[misc]  # the library has no types
    """Assigns null partitions of a topic, which no client of Kafka's own does."""

    @classmethod
    def assign(cls, cluster: object, members: list[SimpleNamespace]) -> Mapping[str, ConsumerProtocolAssignment]:
        del cluster
        return {m.member_id: ConsumerProtocolAssignment(0, [("a", None)], b"") for m in members}


def test_a_group_that_assigns_nulls_is_told_and_holds_up_no_other(broker: Broker, topic: str, group: str) -> None:
    other = f"{group}-other"
    strange = KafkaConsumer(topic, bootstrap_servers=broker.bootstrap, group_id=group, partition_assignment_strategy=[_Nulls])
    consumer = Consumer({**broker.connection(), "group.id": other})
    consumer.subscribe([topic])

    def poll() -> None:
        consumer.poll(0.05)
        with contextlib.suppress(TypeError):  # what it was assigned
            strange.poll(50)

    try:
        with reading(broker, group, other) as reader:
            found = described(reader, group, lambda m: m.state == "STABLE", meanwhile=poll)
            at = found.at
            described(reader, other, lambda m: m.state == "STABLE" and m.at > at, meanwhile=poll)
    finally:
        consumer.close()
        strange.close()
    assert [m.assigned for m in found.members] == [frozenset()]


def test_libraries_are_told_apart(broker: Broker, topic: str, group: str) -> None:
    consumer = KafkaConsumer(topic, bootstrap_servers=broker.bootstrap, group_id=group)
    try:
        with reading(broker, group) as reader:
            found = described(reader, group, lambda m: m.state == "STABLE", meanwhile=lambda: consumer.poll(50))
    finally:
        consumer.close()
    assert [(m.topics, m.instance, m.library) for m in found.members] == [(frozenset({topic}), None, "kafka-python")]


def test_what_a_member_that_follows_a_placement_calls_itself_is_told(broker: Broker, topic: str, group: str) -> None:
    placements = Placements(group, bootstrap_servers=broker.bootstrap)
    for kind in (PlanAssignor, CooperativePlanAssignor):
        assignor = kind("left", placements)
        consumer = assignor.attach(
            KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=group, partition_assignment_strategy=[assignor])
        )
        consumer.subscribe([topic])
        try:
            with reading(broker, group) as reader:
                found = described(reader, group, lambda m: m.state == "STABLE", meanwhile=lambda: consumer.poll(50))  # noqa: B023  called here
        finally:
            consumer.close()
        assert (found.assignor, [(m.name, m.topics) for m in found.members]) == (kind.name, [("left", frozenset({topic}))])
    placements.close()


def test_kafkas_own_client_is_told_too_and_a_share_group_is_what_it_is(broker: Broker, topic: str, group: str) -> None:
    share = f"{group}-share"
    with java() as gateway:
        client = gateway.jvm.org.apache.kafka.clients.consumer

        def settings(name: str) -> object:
            made = gateway.jvm.java.util.Properties()
            text = "org.apache.kafka.common.serialization.StringDeserializer"
            for key, value in {"key.deserializer": text, "value.deserializer": text, "group.id": name}.items():
                made.put(key, value)
            made.put("bootstrap.servers", broker.bootstrap)
            return made

        consumers = [client.KafkaConsumer(settings(group)), client.KafkaShareConsumer(settings(share))]
        wait = gateway.jvm.java.time.Duration.ofMillis(50)
        for consumer in consumers:
            consumer.subscribe([topic])

        def poll() -> None:
            for consumer in consumers:
                consumer.poll(wait)

        with reading(broker, group, share) as reader:
            found = described(reader, group, lambda m: m.state == "STABLE", meanwhile=poll)
            shared = described(reader, share, lambda m: m.kind == "SHARE", meanwhile=poll)
        for consumer in consumers:
            consumer.close()
    assert [(m.topics, m.instance, m.library) for m in found.members] == [(frozenset({topic}), None, "java")]
    refused = read_group(shared, [TopicPartition(topic, 0)], {})
    assert isinstance(refused, Unpredictable)
    assert refused.why.what is What.NOT_CONSUMERS


def test_members_with_different_subscriptions_are_found_out(broker: Broker, make_topic: MakeTopic, group: str) -> None:
    topics = [make_topic(partitions=2), make_topic(partitions=2)]
    consumers = [Consumer({**broker.connection(), "group.id": group}) for _ in range(2)]
    partitions = [TopicPartition(t, n) for t in topics for n in range(2)]
    consumers[0].subscribe(topics)
    consumers[1].subscribe(topics[:1])
    try:
        with reading(broker, group) as reader:
            found = described(
                reader, group, lambda m: m.state == "STABLE" and len(m.members) == 2,
                meanwhile=lambda: [c.poll(0.05) for c in consumers],
            )  # fmt: skip
        refused = read_group(found, partitions, {})
        assert isinstance(refused, Unpredictable)
        assert refused.why.what is What.SUBSCRIPTIONS_DIFFER
        consumers[1].subscribe(topics)
        with reading(broker, group) as reader:
            alike = described(
                reader, group, lambda m: m.state == "STABLE" and {x.topics for x in m.members} == {frozenset(topics)},
                meanwhile=lambda: [c.poll(0.05) for c in consumers],
            )  # fmt: skip
        assert isinstance(read_group(alike, partitions, {}), NativeGroup)
    finally:
        for consumer in consumers:
            consumer.close()
