"""A group that subscribes is adopted and goes back, by the steps and commands of docs/tasks/adopt.md, with the whole job."""

import contextlib
import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition

from autoscaler.devtools.broker import Broker
from tests.conftest import create_topic
from tests.kafka.test_application import ADOPTING, ROOT, commands
from tests.until import until

TOPIC = GROUP = "orders"  # as in the page's configuration
PARTITIONS = 4
LEASE_S = 3.0


@dataclass
class Group:
    """The group before, while and after it is managed."""

    broker: Broker
    folder: Path
    produced: int = 0
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        config = yaml.safe_load((ROOT / "docs" / "examples" / "orders.yaml").read_text(encoding="utf-8"))
        config["clusters"][0]["connection"]["bootstrap.servers"] = self.broker.bootstrap
        config["state_dir"] = str(self.folder / "state")
        config["measure"] = {"window": 5}
        config["handover"] = {"lease": LEASE_S}
        config["groups"][0]["workers"]["environment"] = {"ORDERS_DB": str(self.folder / "orders.db")}
        self.config = self.folder / "orders.yaml"
        self.config.write_text(yaml.safe_dump(config), encoding="utf-8")

    def run(self, command: str) -> subprocess.Popen[bytes]:
        """Start what the page says, with this test's configuration."""
        with (self.folder / "commands.log").open("ab") as log:
            words = shlex.split(command.replace("orders.yaml", str(self.config)))
            self.children.append(subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=log, start_new_session=True))
        return self.children[-1]

    def subscribe(self) -> subprocess.Popen[bytes]:
        own = {"OLD_BOOTSTRAP": self.broker.bootstrap, "OLD_GROUP": GROUP, "OLD_TOPIC": TOPIC}
        own |= {"CONSUMER_LOG_DIR": str(self.folder), "PYTHONPATH": str(ROOT)}
        script = str(Path(__file__).with_name("subscribed_consumer.py"))
        self.children.append(subprocess.Popen([sys.executable, script], env={**os.environ, **own}))
        return self.children[-1]

    def produce(self, number: int) -> None:
        """Produce orders, each with an id of its own, so that each leaves a row of its own."""
        producer = Producer({**self.broker.connection(), "linger.ms": 20})
        for n in range(self.produced, self.produced + number):
            order = {"id": f"order-{n}", "state": "paid"}
            producer.produce(TOPIC, json.dumps(order).encode(), order["id"].encode(), partition=n % PARTITIONS)
        assert producer.flush(30) == 0
        self.produced += number

    def every(self) -> set[tuple[int, int]]:
        return {(n % PARTITIONS, n // PARTITIONS) for n in range(self.produced)}

    def by_subscribers(self) -> Counter[tuple[int, int]]:
        lines = [x for f in self.folder.glob("old-*.log") for x in f.read_text(encoding="utf-8").rpartition("\n")[0].splitlines()]
        return Counter((int(p), int(o)) for p, o in (x.split() for x in lines))

    def by_workers(self) -> set[tuple[int, int]]:
        with contextlib.closing(sqlite3.connect(self.folder / "orders.db", timeout=30)) as db:
            try:
                return set(db.execute("SELECT partition, position FROM orders").fetchall())
            except sqlite3.OperationalError:
                return set()  # no worker has made the table yet

    def committed(self) -> dict[int, int]:
        reader = Consumer({**self.broker.connection(), "group.id": GROUP})
        found = reader.committed([TopicPartition(TOPIC, p) for p in range(PARTITIONS)], 30)
        reader.close()
        return {t.partition: t.offset for t in found}

    def cycles(self) -> list[dict[str, object]]:
        file = self.folder / "state" / "logs" / "cycles.jsonl"
        return [json.loads(x) for x in file.read_text(encoding="utf-8").split("\n")[:-1]] if file.exists() else []

    def refused_s(self) -> float:
        """Return for how long it has been refused because of the subscribers."""
        said = "members subscribe with this group's id"
        refused = [float(str(c["t"])) for c in self.cycles() if c["reason"] == "PAUSED" and said in str(c["detail"])]
        return refused[-1] - refused[0] if refused else 0.0

    def until(self, what: str, look: Callable[[], bool]) -> None:
        def last() -> str:
            said = (self.folder / "commands.log").read_text(encoding="utf-8", errors="replace")[-3000:]
            return "\n".join([*(f"{c['reason']} {c['detail']}" for c in self.cycles()[-3:]), said])

        until(what, look, explain=last)

    def close(self) -> None:
        for child in self.children:
            if child.poll() is None:
                child.terminate()
        for child in self.children:
            try:
                child.wait(60)
            except subprocess.TimeoutExpired:
                child.kill()
        _, _, stop_workers = commands(ADOPTING)
        self.run(stop_workers).wait(60)


@pytest.fixture
def adopted(own_broker: Broker, tmp_path: Path) -> Iterator[Group]:
    create_topic(own_broker, TOPIC, PARTITIONS)
    create_topic(own_broker, "orders.dead")
    it = Group(own_broker, tmp_path)
    yield it
    it.close()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_group_that_subscribes_is_adopted_and_goes_back_and_nothing_is_lost(adopted: Group) -> None:
    validate, start, stop_workers = commands(ADOPTING)
    group = adopted
    old = [group.subscribe(), group.subscribe()]
    group.produce(2000)
    group.until("the subscribers work", lambda: len(group.by_subscribers()) == 2000)

    assert group.run(validate).wait(60) == 0
    job = group.run(start)
    group.until("it is refused, for longer than a lease and its margin", lambda: group.refused_s() > 2 * LEASE_S)
    assert not group.by_workers()

    group.produce(2000)
    group.until("they work on", lambda: len(group.by_subscribers()) > 2200)
    old[0].send_signal(signal.SIGTERM)
    old[1].send_signal(signal.SIGKILL)  # its last records are not committed
    for process in old:
        process.wait(30)
    before, committed, ended = group.by_subscribers(), group.committed(), time.time()
    assert len(before) < 4000
    group.until("the workers begin", lambda: bool(group.by_workers()))
    began, gone = time.time(), max(float(str(c["t"])) for c in group.cycles() if c["reason"] == "PAUSED")
    print(f"first row {began - gone:.1f} s after the last cycle with a member, {began - ended:.1f} s after its end")
    group.until("nothing is lost", lambda: set(before) | group.by_workers() == group.every())
    assert all(offset >= committed[partition] for partition, offset in group.by_workers()), "they went on at what was committed"
    twice = set(before) & group.by_workers()
    assert twice == {(p, o) for p, o in before if o >= committed[p]}, "what the killed one had not committed, and no more"

    job.terminate()
    job.wait(60)
    assert group.run(stop_workers).wait(60) == 0
    group.produce(400)
    again = group.subscribe()
    group.until("subscribers go on", lambda: set(group.by_subscribers()) | group.by_workers() == group.every())
    after = group.by_subscribers() - before
    assert not set(after) & group.by_workers(), "the workers committed everything"
    assert len(after) == 400

    job = group.run(start)  # and once more: what stands in the control log does not hold it up
    again.terminate()
    again.wait(30)
    group.produce(400)
    group.until("workers go on", lambda: set(group.by_subscribers()) | group.by_workers() == group.every())
    assert max(group.by_subscribers().values()) <= 2
