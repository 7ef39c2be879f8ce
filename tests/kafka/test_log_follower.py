"""When a log counts as read to its end, on a real broker: markers, open and aborted transactions, deleted records, no silence."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from autoscaler.clients.log_follower import FOLLOWER_SETTINGS, LogFollower
from autoscaler.devtools.broker import Broker
from autoscaler.handover.log_progress import Log
from tests.until import until

Produce = Callable[..., None]


@pytest.fixture
def consumer(broker: Broker) -> Iterator[Consumer]:
    made = Consumer({**broker.connection(), **FOLLOWER_SETTINGS, "auto.offset.reset": "earliest", "log_level": 0})
    yield made
    made.close()


@pytest.fixture
def follower(consumer: Consumer) -> LogFollower:
    return LogFollower(consumer)


def transaction(broker: Broker, topic: str, values: int) -> Producer:
    producer = Producer({**broker.connection(), "transactional.id": f"of-{topic}", "linger.ms": 0, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    for n in range(values):
        producer.produce(topic, f"{n}", partition=0)
    assert producer.flush(30) == 0
    return producer


def read(follower: LogFollower, done: Callable[[], bool]) -> list[bytes | None]:
    """Return what is read until then, of all logs."""
    values = list[bytes | None]()

    def look() -> bool:
        if done():
            return True
        messages = follower.fetch(0.05)
        values.extend(m.value() for m in messages if m.error() is None)
        follower.note(messages)
        return done()

    until("it is read so far", look, explain=lambda: values, every_s=0.0)
    return values


def follow(follower: LogFollower, log: Log) -> list[bytes | None]:
    """Return what is read of a log to its end at first."""
    assert follower.begin([log], timeout_s=30) == {}
    return read(follower, lambda: follower.reached.caught_up(log))


def test_a_marker_at_the_end_and_what_was_aborted_have_no_record_and_are_read(
    broker: Broker, topic: str, follower: LogFollower
) -> None:
    transaction(broker, topic, 2).commit_transaction(30)
    transaction(broker, topic, 3).abort_transaction(30)
    values = follow(follower, (topic, 0))  # of the markers the brokers may still be writing the second
    values += read(follower, lambda: follower.reached.offset((topic, 0)) == 2 + 1 + 3 + 1)
    assert values == [b"0", b"1"]


def test_the_end_is_that_of_what_is_committed(broker: Broker, topic: str, produce: Produce, follower: LogFollower) -> None:
    produce(topic, {0: 4})
    producer = transaction(broker, topic, 2)
    assert len(follow(follower, (topic, 0))) == 4
    producer.commit_transaction(30)
    assert read(follower, lambda: follower.reached.offset((topic, 0)) == 4 + 2 + 1) == [b"0", b"1"]


def test_a_log_without_records_is_read_at_once_and_one_that_is_not_there_is_not(topic: str, follower: LogFollower) -> None:
    empty, absent = (topic, 0), (f"no-{topic}", 0)
    failed = until(  # a topic that was just made may not be known yet
        "the log that is there", lambda: follower.begin([empty, absent], timeout_s=30), lambda failed: empty not in failed
    )
    assert set(failed) == {absent}
    assert failed[absent].args[0].code() in {
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
    assert follower.reached.caught_up(empty)
    assert not follower.reached.caught_up(absent)


def test_a_log_that_never_falls_silent_is_read_to_where_it_ended_at_first(
    broker: Broker, topic: str, produce: Produce, consumer: Consumer
) -> None:
    produce(topic, {0: 20})
    producer = Producer({**broker.connection(), "linger.ms": 0})

    class Written(LogFollower):
        def fetch(self, wait_s: float) -> list[object]:  # type: ignore[override]
            """Write before each look, so that none finds the end."""
            producer.produce(topic, b"more", partition=0)
            assert producer.flush(30) == 0
            return [m for m in super().fetch(wait_s) if m.error() is None]

    assert len(follow(Written(consumer), (topic, 0))) >= 20


def test_what_was_deleted_meanwhile_is_not_waited_for(
    broker: Broker, topic: str, produce: Produce, follower: LogFollower
) -> None:
    produce(topic, {0: 20})
    follower.follow({(topic, 0): (0, 20)})
    admin, all_of_it = AdminClient({**broker.connection(), "log_level": 0}), TopicPartition(topic, 0, 20)
    admin.delete_records([all_of_it])[all_of_it].result(30)
    read(follower, lambda: follower.reached.caught_up((topic, 0)))
    assert follower.reached.offset((topic, 0)) == 20


def test_logs_are_followed_one_after_the_other_and_one_of_them_anew(topic: str, produce: Produce, follower: LogFollower) -> None:
    produce(topic, {0: 3, 1: 2})
    assert len(follow(follower, (topic, 0))) == 3
    assert len(follow(follower, (topic, 1))) == 2
    assert len(follow(follower, (topic, 0))) == 3, "read anew"
    produce(topic, {0: 1, 1: 1})
    ends = {(topic, 0): 4, (topic, 1): 3}
    assert len(read(follower, lambda: all(follower.reached.offset(x) == end for x, end in ends.items()))) == 2
