"""How long topics keep records, as a broker tells it: to who may see their settings, in one request for all of them."""

import math

import pytest
from confluent_kafka.admin import AclOperation
from kafka import KafkaAdminClient

from autoscaler.adapters.kafka.control_topics import Connection
from autoscaler.adapters.kafka.retention import KafkaRetention
from autoscaler.clients import kafka_python
from autoscaler.devtools.broker import Broker
from autoscaler.model import Retention
from tests.conftest import create_topic
from tests.kafka.permissions import DESCRIBE, TOPIC, Permissions
from tests.until import until


def known(reader: KafkaRetention, count: int) -> dict[str, Retention]:
    try:
        return until(f"{count} are known", lambda: dict(reader.retention()), lambda found: len(found) >= count)
    finally:
        reader.close()


def test_what_a_topic_was_made_with_is_known_and_what_is_not_set_as_well(broker: Broker, group: str) -> None:
    kinds: dict[str, dict[str, object]] = {
        "plain": {}, "short": {"retention_ms": 60_000, "retention_bytes": 1_000_000}, "compacted": {"cleanup_policy": "compact"},
    }  # fmt: skip
    topics = {kind: create_topic(broker, f"{kind}-{group}", 1, **config) for kind, config in kinds.items()}
    found = known(KafkaRetention(broker.connection(), [(*topics.values(), f"missing-{group}")]), len(topics))
    assert {kind: found[topic] for kind, topic in topics.items()} == {
        "plain": Retention(seconds=7 * 86_400.0, bytes=math.inf),
        "short": Retention(seconds=60.0, bytes=1_000_000.0),
        "compacted": Retention(seconds=math.inf, bytes=math.inf),
    }
    assert set(found) == set(topics.values())


def test_whatever_goes_wrong_it_is_read_again(
    broker: Broker, group: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topic = create_topic(broker, f"plain-{group}", 1)
    answers = iter((ZeroDivisionError("a defect"),))

    def connect(connection: Connection, deadline: float) -> KafkaAdminClient:
        for error in answers:
            raise error
        return kafka_python.connect(connection, deadline)

    monkeypatch.setattr("autoscaler.adapters.kafka.retention.connect", connect)
    monkeypatch.setattr("autoscaler.adapters.kafka.retention._AGAIN_S", 0.05)
    assert set(known(KafkaRetention(broker.connection(), [(topic,)]), 1)) == {topic}
    assert "ZeroDivisionError: a defect" in caplog.text


def test_a_topic_whose_settings_may_not_be_seen_is_unknown_and_the_others_are_known(secure_broker: Broker, group: str) -> None:
    seen, hidden = create_topic(secure_broker, f"seen-{group}"), create_topic(secure_broker, f"hidden-{group}")
    permissions = Permissions(secure_broker)
    permissions.grant("limited", *((TOPIC, t, DESCRIBE) for t in (seen, hidden)), (TOPIC, seen, AclOperation.DESCRIBE_CONFIGS))
    try:
        assert set(known(KafkaRetention(secure_broker.connection("limited"), [(hidden, seen)]), 1)) == {seen}
    finally:
        permissions.revoke(
            "limited", *((TOPIC, t, DESCRIBE) for t in (seen, hidden)), (TOPIC, seen, AclOperation.DESCRIBE_CONFIGS)
        )
