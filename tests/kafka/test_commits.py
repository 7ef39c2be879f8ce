"""A commit that is under way when its broker goes away: waited for while it is allowed, and not sent any more afterwards."""

import signal
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from autoscaler.devtools.broker import Broker
from autoscaler.worker.commit_client import CommitClient, OnCommit
from tests.conftest import create_topic
from tests.until import throughout, until


@pytest.fixture
def commits(own_broker: Broker, group: str) -> Iterator[CommitClient]:
    def make(on_commit: OnCommit) -> Consumer:
        return Consumer({
            **own_broker.connection(), "group.id": group, "enable.auto.commit": False, "socket.timeout.ms": 6000,
            "reconnect.backoff.max.ms": 1000, "log_level": 0, "on_commit": on_commit,
        })  # fmt: skip

    client = CommitClient(make)
    yield client
    client.close()


def at(offset: int) -> list[TopicPartition]:
    return [TopicPartition("t", 0, offset)]


def committed(commits: CommitClient, offset: int) -> None:
    """Commit, by a broker that may have to load its coordinator first."""

    def done() -> bool:
        try:
            return commits.commit(at(offset), lambda: True) is not None
        except KafkaException:
            return False

    until("it is committed", done)


def found(broker: Broker, group: str) -> int | None:
    consumer = Consumer({**broker.connection(), "group.id": group})
    try:
        return int(consumer.committed(at(0), 5)[0].offset)
    except KafkaException:
        return None
    finally:
        consumer.close()


def for_s(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end


def cut_off(own_broker: Broker, commits: CommitClient) -> None:
    """Have a commit be under way when the broker dies."""
    create_topic(own_broker, "t", 1)
    committed(commits, 1)
    own_broker.nodes[0].signal(signal.SIGSTOP)
    killed = False

    def may() -> bool:
        nonlocal killed
        if not killed and not soon():
            own_broker.nodes[0].kill()
            killed = True
        return long()

    soon, long = for_s(0.5), for_s(8)
    assert commits.commit(at(2), may) is None
    assert killed


def test_what_is_not_answered_is_not_sent_when_the_broker_is_back(own_broker: Broker, commits: CommitClient, group: str) -> None:
    cut_off(own_broker, commits)
    own_broker.restart()
    until("the broker answers", lambda: found(own_broker, group) is not None)
    late_s = 3  # a client connects again once a second
    throughout("nothing comes late", lambda: found(own_broker, group), lambda at: at == 1, for_s=late_s)


def test_the_next_commit_is_another_clients(own_broker: Broker, commits: CommitClient, group: str) -> None:
    cut_off(own_broker, commits)
    own_broker.restart()
    committed(commits, 3)
    assert found(own_broker, group) == 3


def test_closing_waits_for_nothing_that_was_given_up(own_broker: Broker, commits: CommitClient) -> None:
    cut_off(own_broker, commits)
    commits.close()  # the time limit of tests says if not


def test_one_that_takes_its_time_is_waited_for(own_broker: Broker, commits: CommitClient, group: str) -> None:
    create_topic(own_broker, "t", 1)
    committed(commits, 1)
    own_broker.nodes[0].signal(signal.SIGSTOP)
    back = for_s(8)  # longer than a request is given

    def may() -> bool:
        if not back():
            own_broker.nodes[0].signal(signal.SIGCONT)
        return True

    answered = commits.commit(at(2), may)
    assert answered is not None
    assert [(t.offset, t.error) for t in answered] == [(2, None)]
    until("it is there", lambda: found(own_broker, group) == 2)
