"""``autoscaler advise`` on a real broker: several groups of ordinary consumers, each of which shows one thing."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from autoscaler.devtools.broker import Broker
from tests.cli import commands
from tests.until import until

pytestmark = pytest.mark.broker

SECONDS = 14  # as long as it takes to say that a partition stands still
RECORDS = 40  # a second and partition


class Member:
    """A consumer that subscribes and commits what it polls, or commits nothing any more from some time on."""

    def __init__(self, broker: Broker, group: str, topic: str) -> None:
        self.commits = True
        self._end = threading.Event()
        own = {"group.id": group, "client.id": "app", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        self._consumer = Consumer({**broker.connection(), **own})
        self.held = 0
        self._consumer.subscribe([topic], on_assign=self._given, on_revoke=self._taken)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        self._end.set()
        self._thread.join(30)
        self._consumer.close()

    def _given(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.held = len(partitions)

    def _taken(self, _: Consumer, _partitions: list[TopicPartition]) -> None:
        self.held = 0

    def _run(self) -> None:
        while not self._end.is_set():
            read = self._consumer.consume(200, 0.2)
            if self.commits and any(m.error() is None for m in read):
                with suppress(KafkaException):  # of a rebalance: the next one holds
                    self._consumer.commit(asynchronous=False)


class Load:
    """Records that arrive in every partition of some topics, at an even pace."""

    def __init__(self, broker: Broker) -> None:
        self._producer = Producer({**broker.connection(), "linger.ms": 5})
        self._end, self._topics = threading.Event(), list[tuple[str, int]]()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def into(self, topic: str, partitions: int) -> None:
        self._topics.append((topic, partitions))

    def close(self) -> None:
        self._end.set()
        self._thread.join(30)
        self._producer.flush(30)

    def _run(self) -> None:
        while not self._end.wait(1 / RECORDS):
            for topic, partitions in list(self._topics):
                for p in range(partitions):
                    self._producer.produce(topic, b"x" * 500, partition=p)
            self._producer.poll(0)


@pytest.fixture
def load(broker: Broker) -> Iterator[Load]:
    made = Load(broker)
    yield made
    made.close()


@pytest.fixture
def joined(broker: Broker) -> Iterator[Callable[[str, str, int, int], list[Member]]]:
    """Return ``joined(group, topic, consumers, partitions)``: they hold all partitions when it returns."""
    members: list[Member] = []

    def join(group: str, topic: str, consumers: int, partitions: int) -> list[Member]:
        there = [Member(broker, group, topic) for _ in range(consumers)]
        members.extend(there)
        until("all partitions are held", lambda: sum(m.held for m in there), lambda n: n == partitions)
        return there

    yield join
    for member in members:
        member.close()


def commit(broker: Broker, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({**broker.connection(), "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def transaction(broker: Broker, topic: str, records: int) -> None:
    """Write records in a transaction, whose mark counts as an offset behind them."""
    producer = Producer({**broker.connection(), "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(records):
        producer.produce(topic, b"x", partition=0)
    producer.commit_transaction(30)


def groups(said: str, *names: str) -> dict[str, Any]:
    return {g["group"]: g for g in json.loads(said)["groups"] if g["group"] in names}


def test_several_groups_are_judged_by_what_their_consumers_do(
    broker: Broker, make_topic: Callable[..., str], load: Load, joined: Callable[[str, str, int, int], list[Member]], group: str
) -> None:
    busy, idle, stuck, left, marked = (f"{group}-{name}" for name in ("busy", "idle", "stuck", "left", "marked"))
    topic, quiet, written = make_topic(partitions=2), make_topic(partitions=1), make_topic(partitions=1)
    load.into(topic, 2)
    transaction(broker, written, 5)
    commit(broker, marked, written, 5)  # behind its last record, as many consumers do
    joined(marked, written, 1, 1)
    joined(busy, topic, 2, 2)
    joined(idle, topic, 3, 2)
    (still,) = joined(stuck, topic, 1, 2)
    commit(broker, left, quiet, 0)
    seen = Consumer({**broker.connection(), "group.id": stuck})
    until("it has committed", lambda: seen.committed([TopicPartition(topic, 0)], timeout=10)[0].offset, lambda n: n > 0)
    still.commits = False
    done = commands.run("advise", "--bootstrap", broker.bootstrap, "--for", f"{SECONDS}s", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = groups(done.stdout, busy, idle, stuck, left, marked)
    assert {name: g["troubles"] for name, g in found.items()} == {
        busy: ["FINE"], idle: ["OVER"], stuck: ["STUCK"], left: ["FINE"], marked: ["FINE"],
    }  # fmt: skip
    assert (found[idle]["saves"], found[idle]["idle"], found[idle]["consumers"]) == (1, 1, 3)
    assert found[stuck]["stuck"] == [f"{topic}-0", f"{topic}-1"]
    assert found[busy]["by_bytes"]
    assert 0.5 * 2 * RECORDS * 500 < found[busy]["arriving"] < 2 * RECORDS * 700
    assert found[busy]["hottest"][0].startswith("app on /")
    names = [g["group"] for g in json.loads(done.stdout)["groups"]]
    assert names.index(stuck) < names.index(idle) < names.index(busy)
    seen.close()


def test_records_that_wait_for_nobody_are_said(broker: Broker, make_topic: Callable[..., str], produce: Any, group: str) -> None:  # noqa: ANN401
    topic = make_topic(partitions=1)
    produce(topic, {0: 20})
    commit(broker, group, topic, 5)
    done = commands.run("advise", "--bootstrap", broker.bootstrap, "--for", "1s")
    assert done.returncode == 0
    text = " ".join(done.stdout.split())
    assert f"{group}: NO CONSUMERS 0 consumers on 1 partition of {topic}" in text
    assert "15 records behind" in text
    assert "In less than 12 s it does not show whether a partition stands still: --for 60s." in text


def test_a_cluster_that_does_not_answer_and_what_is_not_configured_are_said(tmp_path: Path) -> None:
    done = commands.run("advise", "--bootstrap", "127.0.0.1:9", "--for", "1s")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no broker answers at 127.0.0.1:9" in done.stderr
    file = tmp_path / "c.yaml"
    file.write_text(
        "clusters: [{connection: {bootstrap.servers: '127.0.0.1:9'}}]\nstate_dir: s\ngroups: [{group: g, topics: [t]}]\n"
    )
    other = commands.run("advise", "other", "--config", file)
    assert (other.returncode, "no cluster 'other'; there are kafka" in other.stderr) == (78, True)
    for arguments, said in [
        (("--bootstrap", "h:1", "--for", "soon"), "must be seconds or a duration"),
        (("--bootstrap", "h:1", "--for", "2h"), "must be up to an hour"),
        ((), "one of the arguments --bootstrap --config is required"),
    ]:
        wrong = commands.run("advise", *arguments)
        assert (wrong.returncode, said in wrong.stderr) == (2, True), wrong.stderr
