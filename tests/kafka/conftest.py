"""What tests on a real broker share besides the brokers themselves."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from autoscaler.devtools.broker import Broker, Cluster
from tests.kafka.workers import Publisher, Workers

Produce = Callable[..., None]


@pytest.fixture
def topic(make_topic: Callable[..., str]) -> str:
    """Return a new topic of four partitions on the shared broker."""
    return make_topic(partitions=4)


@pytest.fixture
def produce(broker: Broker) -> Produce:
    """Return ``produce(topic, {partition: records}, size=1000, cluster=broker)``: acknowledged before it returns."""

    def send(topic: str, counts: dict[int, int], *, size: int = 1000, cluster: Cluster = broker) -> None:
        failed: list[str] = []
        producer = Producer({**cluster.connection(), "enable.idempotence": True, "log_level": 0, "linger.ms": 5})
        for partition, count in counts.items():
            for _ in range(count):
                payload = uuid.uuid4().bytes * (size // 16 + 1)
                producer.produce(
                    topic, payload[:size], partition=partition, on_delivery=lambda e, _m: failed.append(str(e)) if e else None
                )
                producer.poll(0)
        assert producer.flush(30) == 0
        assert not failed

    return send


@pytest.fixture
def control(broker: Broker, group: str, topic: str) -> Iterator[Publisher]:
    """Publish plans for the group's workers, and read what they say."""
    publisher = Publisher(broker.bootstrap, group, topic)
    yield publisher
    publisher.close()


@pytest.fixture
def workers(broker: Broker, group: str, topic: str, tmp_path: Path) -> Iterator[Workers]:
    """Run the example consumer as processes; a test may take another script."""
    started = Workers(broker.bootstrap, group, topic, tmp_path)
    yield started
    started.close()
