"""A transaction that stays open is said with what ends it, to the operator: no reader stalls behind it in silence."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from autoscaler.adapters.kafka import transaction_markers
from autoscaler.adapters.kafka.open_transactions import open_transactions
from autoscaler.adapters.kafka.transaction_markers import KafkaMarkers
from autoscaler.devtools.broker import Broker
from autoscaler.model import Span, TopicPartition
from tests.until import let_pass, until

MakeTopic = Callable[..., str]


@pytest.fixture
def hidden(broker: Broker, make_topic: MakeTopic) -> Iterator[TopicPartition]:
    """Return a partition with a record that is committed and one in a transaction that is still open."""
    topic = make_topic()
    producer = Producer({**broker.connection(), "transactional.id": topic})
    producer.init_transactions(30)
    for commits in (True, False):
        producer.begin_transaction()
        producer.produce(topic, "v", partition=0)
        producer.flush(30)
        if commits:
            producer.commit_transaction(30)
    yield TopicPartition(topic=topic, partition=0)
    producer.abort_transaction(30)


def test_an_open_transaction_is_said_with_the_command_that_ends_it(broker: Broker, hidden: TopicPartition) -> None:
    let_pass(1.1)
    (said,) = open_transactions(broker.connection(), [hidden], older_than_s=1.0)
    command = f"kafka-transactions.sh --bootstrap-server {broker.bootstrap} abort --topic {hidden.topic} --partition 0"
    assert f"{command} --start-offset 2" in said, "behind a record and its marker"


def test_a_young_one_and_a_committed_one_are_not(broker: Broker, hidden: TopicPartition, make_topic: MakeTopic) -> None:
    others = [hidden, TopicPartition(topic=make_topic(), partition=0)]
    assert open_transactions(broker.connection(), others, older_than_s=600.0) == ()


def test_what_cannot_be_asked_for_is_left_out() -> None:
    here = [TopicPartition(topic="t", partition=0)]
    assert open_transactions({"bootstrap.servers": "127.0.0.1:1"}, here, older_than_s=1.0) == ()


def test_a_tail_behind_one_counts_as_nothing_and_is_said(
    broker: Broker, hidden: TopicPartition, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(transaction_markers, "LONGEST_S", 1.0)
    monkeypatch.setattr(transaction_markers, "_SELDOM_S", 0.5)
    markers, span = KafkaMarkers(broker.connection(), read_committed=True), Span(2, 3)
    try:
        with caplog.at_level("WARNING", logger="autoscaler.kafka"):
            markers.of("g").ask({hidden: span})
            until("it is said", lambda: "abort --topic" in caplog.text)
        assert markers.of("g").empty() == {hidden: span}
        markers.of("g").ask({})
        until("it is forgotten", lambda: not markers._hidden)
    finally:
        markers.close()
