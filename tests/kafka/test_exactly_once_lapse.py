"""A lapsed process that is exactly once takes its own transactional id before it says that it has left, or says nothing."""

import threading
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from autoscaler.adapters.kafka.control_topics import ensure_control_topics
from autoscaler.devtools.broker import Broker
from autoscaler.handover import worker_events
from autoscaler.handover.codec import decode, partition_for
from autoscaler.handover.records import CONTROL_TOPIC, Left
from autoscaler.worker import ManagedConsumer, effect_loop
from autoscaler.worker.settings import Connection
from autoscaler.worker.transactions import fence
from tests.until import until

LEASE_S = 6.0


@pytest.fixture
def left(broker: Broker, group: str) -> Callable[[], list[str]]:
    """Return who has left the group, by the control log as it is now."""
    admin = AdminClient(broker.connection())
    made = ensure_control_topics(admin, lease_s=LEASE_S, replication_factor=None)
    place = TopicPartition(CONTROL_TOPIC, partition_for(group, made[CONTROL_TOPIC].partitions), OFFSET_BEGINNING)

    def read() -> list[str]:
        reader = Consumer({**broker.connection(), "group.id": "reader", "enable.partition.eof": True})
        reader.assign([place])
        found = []
        while (message := reader.poll(30)) is not None and message.error() is None:
            said = decode(message.key(), message.value()).record
            found += [said.worker.uuid] if isinstance(said, Left) and said.group == group else []
        reader.close()
        return found

    return read


@pytest.fixture
def consumer(broker: Broker, group: str) -> Iterator[ManagedConsumer]:
    made = ManagedConsumer(broker.connection(), group=group, name="w", lease_s=LEASE_S, exactly_once=True, handle_sigterm=False)
    with made:
        thread = threading.Thread(target=lambda: [None for _ in made])
        thread.start()
        yield made
        made.stop()
        thread.join(60)


def lapse(consumer: ManagedConsumer) -> str:
    """Let the incarnation lapse, and return its uuid when another one has joined."""
    until("it has joined", lambda: consumer.incarnation)
    before = consumer.incarnation
    consumer._loop._step(worker_events.LogReplaced())  # type: ignore[union-attr]
    until("it has joined anew", lambda: consumer.incarnation not in {None, before})
    assert before is not None
    return before.uuid


def test_it_takes_its_id_first(consumer: ManagedConsumer, left: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, list[str]]] = []

    def noting(connection: Connection, group: str, uuid: str, timeout_s: float) -> None:
        seen.append((uuid, left()))
        fence(connection, group, uuid, timeout_s)

    monkeypatch.setattr(effect_loop, "fence", noting)
    over = lapse(consumer)
    assert seen == [(over, [])]
    assert left() == [over]


def test_without_it_it_says_nothing(
    consumer: ManagedConsumer, left: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    monkeypatch.setattr(effect_loop, "fence", refused)
    lapse(consumer)
    assert left() == []
