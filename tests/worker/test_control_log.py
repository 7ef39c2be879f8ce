"""What a worker takes apart of a log that it reads: the last record of each key, in the log's order, once it has read it all."""

import pytest
from confluent_kafka import KafkaError, Message
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.worker.control_log import ControlLog, LogPlace, Unread

Log = list[tuple[bytes, bytes | None]]
logs = st.lists(st.tuples(st.sampled_from([b"plan", b"released 1", b"released 2", b"left"]), st.binary(max_size=2) | st.none()))
END = Message(topic="log", error=KafkaError(KafkaError._PARTITION_EOF))


def records(log: Log) -> list[Message]:
    return [Message(topic="log", key=key, value=value) for key, value in log]


def taken(unread: Unread) -> list[tuple[bytes | None, bytes | None]]:
    return [(m.key(), m.value()) for m in unread.take()]


@given(logs, st.integers(0, 20), st.sampled_from([9, -1001]))
def test_of_each_key_the_last_record_stays_where_it_stands(log: Log, cut: int, position: int) -> None:
    unread = Unread(10)
    unread.add(records(log[:cut]), position)
    assert taken(unread) == [], "nothing is taken apart before all of it is there"
    unread.add([*records(log[cut:]), END], position)
    found = taken(unread)
    assert dict(found) == dict(log)
    assert len(found) == len(dict(log))
    rest = iter(log)
    assert all(any(record == other for other in rest) for record in found)
    assert not log or found[-1] == log[-1]
    assert taken(unread) == []


@given(logs)
def test_what_comes_after_the_end_is_taken_at_once(log: Log) -> None:
    unread = Unread(10)
    unread.add([END], 3)
    unread.add(records(log), 3)
    assert dict(taken(unread)) == dict(log)


@given(logs, st.integers(10, 12))
def test_an_end_that_is_never_told_is_reached_where_it_was_at_first(log: Log, position: int) -> None:
    unread = Unread(10)
    unread.add(records(log), position)
    assert dict(taken(unread)) == dict(log)


@pytest.mark.parametrize(("code", "refused"), [("GROUP_AUTHORIZATION_FAILED", False), ("TOPIC_AUTHORIZATION_FAILED", True)])
def test_a_refusal_of_the_group_that_the_client_is_named_by_is_none_of_the_log(code: str, refused: bool) -> None:  # noqa: FBT001  (a case)
    """It comes again when a broker has been away; in a group in which nothing happens no record would ever take it back."""
    log = ControlLog(
        {"bootstrap.servers": "127.0.0.1:9"}, "g", LogPlace(control_id="c", control_partition=0, heartbeat_partition=0),
        take=lambda _: None, caught_up=lambda: None, replaced=lambda: None, now=lambda: 0.0, prove_s=1.0,
    )  # fmt: skip
    log._note(KafkaError(getattr(KafkaError, code)))
    assert log._refused is refused
    log.close()
