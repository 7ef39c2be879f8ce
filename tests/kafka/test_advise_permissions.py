"""The permissions of docs/reference/permissions.md for a job that only advises: enough, none too many, and none to write with."""

from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.control_log.publisher import KafkaControl
from autoscaler.adapters.control_log.watch import ControlLogs, KafkaWatch
from autoscaler.adapters.kafka.membership import KafkaGroupReader
from autoscaler.adapters.kafka.retention import KafkaRetention
from autoscaler.adapters.kafka.transaction_markers import KafkaMarkers
from autoscaler.devtools.broker import Broker
from autoscaler.errors import SettingsError, TransientError
from autoscaler.handover.records import CONTROL_TOPIC, HEARTBEAT_TOPIC
from autoscaler.model import GroupState, LoadSnapshot, RateSource, Span
from autoscaler.model import TopicPartition as Partition
from autoscaler.streaming.lag import GroupRules
from tests.conftest import create_topic
from tests.kafka import broker_log
from tests.kafka.measuring import Measured
from tests.kafka.permissions import CLUSTER, DESCRIBE, GROUP, READ, TOPIC, Grant, Permissions
from tests.kafka.whole_step import controller, of_job, plan
from tests.until import throughout, until

USER = "limited"


def of_adviser(topic: str, group: str) -> dict[str, Grant]:
    """Return the table's rows for a job in mode advise. Read implies Describe, so that nothing says Describe of a topic."""
    return {
        "topic": (TOPIC, topic, READ), "group": (GROUP, group, DESCRIBE), "sizes": (CLUSTER, "kafka-cluster", DESCRIBE),
        "retention": (TOPIC, topic, AclOperation.DESCRIBE_CONFIGS),
        "control": (TOPIC, CONTROL_TOPIC, READ), "heartbeats": (TOPIC, HEARTBEAT_TOPIC, READ),
    }  # fmt: skip


NEEDED_BY = {  # what is unknown without a row: without the topic's, most
    **{name: frozenset({name}) for name in of_adviser("", "")},
    "topic": frozenset({"topic", "sizes", "group", "control", "heartbeats"}),
    "control": frozenset({"control", "heartbeats"}),
    "heartbeats": frozenset({"control", "heartbeats"}),
}


class Adviser:
    """All that a job in mode advise asks of a cluster."""

    def __init__(self, broker: Broker, topic: str, group: str) -> None:
        connection = broker.connection(USER)
        self.topic, self.group = topic, group
        self.logs = ControlLogs(connection)
        self.watch = KafkaWatch(
            logs=self.logs, group=group, topics=(topic,), lease_s=3.0, slot_of=lambda _: None, clock=SystemClock()
        )
        self.reader = KafkaGroupReader(connection, (group,), SystemClock(), 0.2)
        self.retention = KafkaRetention(connection, [(topic,)])
        self.markers = KafkaMarkers(connection, read_committed=False)
        self.measured = Measured(connection, (GroupRules(group=group, topics=(topic,)),))
        self.markers.ask(group, {Partition(topic, 0): Span(1, 2)})

    def watched(self) -> GroupState | str | None:
        """Return what the control log says, or why it cannot be read."""
        try:
            return self.watch.observe()
        except TransientError as e:
            return str(e)

    def unknown(self, broker: Broker) -> frozenset[str]:
        """Return the rows of which what they are for is not known now; a rate is measured where something arrives."""
        produce(broker, self.topic)
        seen, watched = self.measured.one(), self.watched()
        known = {
            "topic": topics_are_described(seen) and self.markers.empty(self.group) != {},
            "group": all(p.lag_records is not None for p in seen.loads) and self.reader.members(self.group) is not None,
            "sizes": {p.rate_source for p in seen.loads} == {RateSource.LOG_DIRS},
            "retention": self.topic in self.retention.retention(),
            "control": isinstance(watched, GroupState) and watched.epoch > 0,
            "heartbeats": isinstance(watched, GroupState) and watched.epoch > 0,
        }
        return frozenset(what for what, is_known in known.items() if not is_known)

    def close(self) -> None:
        self.measured.close()
        self.markers.close()
        self.retention.close()
        self.reader.close()
        self.watch.close()
        self.logs.close()


def produce(broker: Broker, topic: str) -> None:
    producer = Producer(broker.connection())
    for partition in range(2):
        producer.produce(topic, b"x" * 1000, partition=partition)
    assert producer.flush(30) == 0


def topics_are_described(seen: LoadSnapshot) -> bool:
    return bool(seen.loads) and not seen.lost


@pytest.fixture
def topic(secure_broker: Broker, group: str) -> str:
    """A topic that ends with a marker; its group has a plan."""
    made = create_topic(secure_broker, f"topic-{group}", 2)
    producer = Producer({**secure_broker.connection(), "transactional.id": f"tx-{group}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(made, b"x" * 1000, partition=0)
    producer.commit_transaction(30)
    permissions = Permissions(secure_broker)
    permissions.grant("job", *of_job(made, group))
    acting = controller(secure_broker, made, group)
    try:
        acting.publish(plan(made, 0, 0))
    finally:
        acting.close()
        permissions.revoke("job")
    return made


@pytest.fixture
def permissions(secure_broker: Broker, topic: str, group: str) -> Iterator[Permissions]:
    made = Permissions(secure_broker)
    made.grant(USER, *of_adviser(topic, group).values())
    yield made
    made.revoke(USER)


@pytest.fixture
def adviser(secure_broker: Broker, permissions: Permissions, topic: str, group: str) -> Iterator[Adviser]:
    made = Adviser(secure_broker, topic, group)
    yield made
    made.close()


def test_all_is_known_and_nothing_is_refused(secure_broker: Broker, adviser: Adviser, topic: str) -> None:
    """But the name of a group that a client must have to read the control log, as the page says."""
    with broker_log.logging(secure_broker, broker_log.REFUSALS, "INFO"):
        said = broker_log.now(secure_broker)
        until("nothing is unknown", lambda: not adviser.unknown(secure_broker), every_s=0.2)
        for _ in range(5):
            assert not adviser.unknown(secure_broker)
        assert {on for _, on in said.refusals(USER)} <= {"Group:LITERAL:__autoscaler_reader"}


@pytest.mark.parametrize("missing", list(of_adviser("", "")))
def test_without_one_of_them_what_the_page_says_is_unknown(
    secure_broker: Broker, permissions: Permissions, topic: str, group: str, missing: str
) -> None:
    permissions.revoke(USER, of_adviser(topic, group)[missing])
    adviser = Adviser(secure_broker, topic, group)
    others = frozenset(of_adviser(topic, group)) - NEEDED_BY[missing]
    try:
        unknown = partial(adviser.unknown, secure_broker)
        until(f"{missing} alone is unknown", unknown, lambda found: missing in found and not found & others, every_s=0.2)
        throughout("it stays unknown", unknown, lambda found: missing in found, for_s=2, every_s=0.2)
    finally:
        adviser.close()


def test_nothing_can_be_written_with_them(secure_broker: Broker, permissions: Permissions, topic: str, group: str) -> None:
    with broker_log.logging(secure_broker, broker_log.REFUSALS, "INFO"):
        said = broker_log.now(secure_broker)
        with pytest.raises(SettingsError, match="the cluster refuses"):
            KafkaControl(
                connection=secure_broker.connection(USER), group=group, topics=(topic,), reset_policy="earliest", lease_s=3.0,
                replication_factor=None, slot_of=lambda _: None, clock=SystemClock(),
            )  # fmt: skip
        assert said.refusals(USER)
