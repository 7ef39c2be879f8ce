"""What a worker takes apart of a log that it reads: the last record of each key, in the log's order, once it has read it all."""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Message
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.handover.codec import Key, encode_key
from autoscaler.handover.records import CONTROL_TOPIC
from autoscaler.worker.control_log import ControlLog, LogEntry, LogPlace, keep_latest

Records = list[tuple[bytes, bytes | None]]
logs = st.lists(st.tuples(st.sampled_from([b"plan", b"released 1", b"released 2", b"left"]), st.binary(max_size=2) | st.none()))
END = Message(topic="log", error=KafkaError(KafkaError._PARTITION_EOF))


def records(log: Records) -> list[Message]:
    return [Message(topic="log", key=key, value=value) for key, value in log]


@given(logs, st.integers(0, 20))
def test_of_each_key_the_last_record_stays_where_it_stands(log: Records, cut: int) -> None:
    unread: dict[bytes | None, Message] = {}
    keep_latest(unread, records(log[:cut]))
    keep_latest(unread, [*records(log[cut:]), END])
    found = [(m.key(), m.value()) for m in unread.values()]
    assert dict(found) == dict(log)
    assert len(found) == len(dict(log))
    rest = iter(log)
    assert all(any(record == other for other in rest) for record in found)
    assert not log or found[-1] == log[-1]


@pytest.fixture
def entries() -> list[LogEntry]:
    return []


@pytest.fixture
def log(entries: list[LogEntry]) -> Iterator[ControlLog]:
    made = ControlLog(
        {"bootstrap.servers": "127.0.0.1:9"}, "g", LogPlace(control_id="c", control_partition=0, heartbeat_partition=0),
        take=entries.extend, caught_up=lambda: None, replaced=lambda: None, now=lambda: 0.0, prove_s=1.0,
    )  # fmt: skip
    yield made
    made.close()


@pytest.mark.parametrize("told", [True, False])
def test_nothing_is_taken_apart_before_the_log_was_read_to_its_end(
    log: ControlLog, entries: list[LogEntry], *, told: bool
) -> None:
    """The end that it had at first: where others write all the time none is ever told."""
    keys: list[Key] = [("left", "g", "w", str(n)) for n in range(12)]
    messages = [Message(topic=CONTROL_TOPIC, partition=0, offset=n, key=encode_key(k)) for n, k in enumerate(keys)]
    end = Message(topic=CONTROL_TOPIC, partition=0, offset=7, error=KafkaError(KafkaError._PARTITION_EOF))
    log._follower.reached.begin((CONTROL_TOPIC, 0), 0, 10)
    log._came(messages[:7])
    assert entries == []
    log._came([end] if told else messages[7:])
    assert entries == keys[: 7 if told else 12]
    log._came([Message(topic=CONTROL_TOPIC, partition=0, offset=12, key=encode_key(keys[0]))])
    assert entries[-1] == keys[0], "from then on at once, and once"
    assert len(entries) == (8 if told else 13)


@pytest.mark.parametrize(("code", "refused"), [("GROUP_AUTHORIZATION_FAILED", False), ("TOPIC_AUTHORIZATION_FAILED", True)])
def test_a_refusal_of_the_group_that_the_client_is_named_by_is_none_of_the_log(
    log: ControlLog, code: str, *, refused: bool
) -> None:
    """It comes again when a broker has been away; in a group in which nothing happens no record would ever take it back."""
    log._note(KafkaError(getattr(KafkaError, code)))
    assert log._refused is refused
