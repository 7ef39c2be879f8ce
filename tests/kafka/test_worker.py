"""Workers as processes on a real broker, with plans published by the test itself."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from autoscaler.embedded.broker import Broker
from autoscaler.handover.codec import PARTITIONS, decode, encode, partition_for
from autoscaler.handover.records import (
    CONTROL_TOPIC,
    HEARTBEAT_TOPIC,
    Epoch,
    Expired,
    Grant,
    Heartbeat,
    Incarnation,
    Left,
    Phase,
    Plan,
    Record,
    Released,
    Tp,
    Wait,
    kafka_id,
)

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")
LEASE_S = 3.0  # where one ends
PATIENCE_S = 150.0


def until(what: str, look: Callable[[], T | None], explain: Callable[[], str] = str) -> T:
    """Look again and again until something true comes back."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := look()) is None or found is False:
        if time.monotonic() > deadline:
            pytest.fail(f"never happened: {what}\n{explain()}")
        time.sleep(0.02)
    return found


class Publisher:
    """The least that can stand in for the controller: publishes plans in transactions and remembers what the logs say."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.bootstrap, self.group, self.topic = bootstrap, group, topic
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.number = 0
        self.grants: dict[Tp, Grant] = {}
        self.waits: dict[Tp, dict[Incarnation, int]] = {}
        self.heartbeats: list[Heartbeat] = []
        self.released: dict[tuple[Tp, Incarnation], Released] = {}
        self.left: set[Incarnation] = set()
        self.expired: set[Incarnation] = set()
        self._topics()
        self.control_id = until("the control topic is there", lambda: self.identify(CONTROL_TOPIC))
        self.topic_id = until("the topic is there", lambda: self.identify(topic))
        self.producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"test/{group}", "linger.ms": 0})
        self.producer.init_transactions(30)
        self.reader = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "reader", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        )
        self.where = where = partition_for(group, self._partitions())  # another test may have made them, with more
        self.reader.assign([TopicPartition(CONTROL_TOPIC, where, 0), TopicPartition(HEARTBEAT_TOPIC, where, 0)])

    def _topics(self) -> None:
        stamped = {"message.timestamp.type": "LogAppendTime"}
        kinds = {CONTROL_TOPIC: {"cleanup.policy": "compact", **stamped}, HEARTBEAT_TOPIC: {"retention.ms": "600000", **stamped}}
        for name, config in kinds.items():
            try:
                self.admin.create_topics([NewTopic(name, PARTITIONS, 1, config=config)])[name].result()
            except KafkaException as e:
                assert "already exists" in str(e)  # noqa: PT017  (any other failure is one)

    def _partitions(self) -> int:
        return len(self.admin.list_topics(CONTROL_TOPIC, timeout=10).topics[CONTROL_TOPIC].partitions)

    def identify(self, topic: str) -> str | None:
        try:
            return kafka_id(str(self.admin.describe_topics(TopicCollection([topic]))[topic].result().topic_id))
        except KafkaException:
            return None

    def publish(self, *records: Record) -> None:
        self.producer.begin_transaction()
        for record in records:
            key, value = encode(record)
            self.producer.produce(CONTROL_TOPIC, value, key, self.where)
        self.producer.commit_transaction(30)

    def observe(self) -> None:
        for message in self.reader.consume(1000, 0.02):
            match decode(message.key(), message.value()).record:
                case Heartbeat(group=self.group) as h:
                    self.heartbeats.append(h)
                case Released(group=self.group) as r:
                    self.released[r.tp, r.worker] = r
                case Left(group=self.group) as left:
                    self.left.add(left.worker)
                case _:
                    pass

    def plan(self, owners: dict[int, Incarnation]) -> None:
        """Publish who owns what, with waits for every previous owner that may still hold its partition."""
        self.observe()
        self.number += 1
        waits: dict[Tp, tuple[Wait, ...]] = {}
        grants = {}
        for p, owner in owners.items():
            tp = Tp(self.topic_id, p)
            before = self.grants.get(tp)
            kept = before is not None and before.owner == owner
            grants[tp] = before if before is not None and kept else Grant(owner=owner, epoch=self.number)
            pending = dict(self.waits.get(tp, {}))
            if before is not None and not kept:
                pending[before.owner] = self.number
            pending.pop(owner, None)
            waits[tp] = tuple(Wait(worker=w, epoch=e) for w, e in sorted(pending.items()) if not self._over(tp, w, e))
        self.grants = grants
        self.waits = {tp: {w.worker: w.epoch for w in ws} for tp, ws in waits.items()}
        plan = Plan(
            group=self.group,
            epoch=Epoch(self.control_id, self.number),
            topics={self.topic_id: self.topic},
            grants=grants,
            waits={tp: ws for tp, ws in waits.items() if ws},
            starts=dict.fromkeys(grants, 0),
            leases_s={},
            requested=(),
            summary="",
            at=time.time(),
        )
        self.publish(plan)

    def _over(self, tp: Tp, worker: Incarnation, epoch: int) -> bool:
        seen = self.released.get((tp, worker))
        return worker in self.left | self.expired or (seen is not None and seen.epoch >= epoch)

    def expire(self, worker: Incarnation) -> None:
        self.expired.add(worker)
        self.publish(Expired(group=self.group, worker=worker, control_id=self.control_id, evidence="platform"))

    def incarnation(self, name: str, *, other_than: frozenset[Incarnation] = frozenset()) -> Incarnation:
        """Wait until a worker of this name is ready."""

        def look() -> Incarnation | None:
            self.observe()
            ready = (h.worker for h in reversed(self.heartbeats) if h.worker.name == name and h.phase is Phase.ACTIVE)
            return next((w for w in ready if w not in other_than | self.left | self.expired), None)

        return until(f"{name} is ready", look)

    def holds(self, worker: Incarnation, partitions: set[int]) -> None:
        """Wait until the worker's own heartbeats say that it holds exactly these."""

        def look() -> bool:
            self.observe()
            last = next((h for h in reversed(self.heartbeats) if h.worker == worker), None)
            return last is not None and {tp.partition for tp in last.owned} == partitions

        until(f"{worker.name} holds {partitions}", look)

    def committed(self, partition: int) -> TopicPartition:
        """Return what is committed; the offset is negative where nothing is."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group})
        (found,) = consumer.committed([TopicPartition(self.topic, partition)], 10)
        consumer.close()
        return found

    def committed_at(self, partition: int, offset: int) -> TopicPartition | None:
        """Return what is committed, if it is this offset."""
        found = self.committed(partition)
        return found if found.offset == offset else None

    def has_left(self, worker: Incarnation) -> bool:
        self.observe()
        return worker in self.left

    def close(self) -> None:
        self.reader.close()


class Workers:
    """Processes that run the example, and what they have logged."""

    def __init__(self, bootstrap: str, group: str, topic: str, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "AUTOSCALER_BOOTSTRAP": bootstrap,
            "AUTOSCALER_GROUP": group,
            "AUTOSCALER_TOPICS": topic,
            "AUTOSCALER_LEASE_S": "15",  # a busy machine ends none
            "CONSUMER_LOG_DIR": str(folder),
            "CONSUMER_BYTES_PER_S": "400_000",
            "PYTHONPATH": str(ROOT),
        }
        self.python, self.script = sys.executable, ROOT / "docs/examples/consumer.py"
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def end_leases(self) -> None:
        """Give those that start from now on leases that end within a test."""
        self.environment["AUTOSCALER_LEASE_S"] = str(LEASE_S)

    def start(self, name: str) -> None:
        with (self.folder / f"{name}.err").open("ab") as err:
            self.running[name] = subprocess.Popen(
                [self.python, str(self.script)],
                env={**self.environment, "AUTOSCALER_WORKER_NAME": name, "AUTOSCALER_INSTANCE": f"i-{name}"},
                stderr=err,
            )

    def signal(self, name: str, number: int) -> None:
        self.running[name].send_signal(number)

    def ended(self, name: str) -> int:
        return self.running[name].wait(PATIENCE_S)

    def said(self) -> str:
        """Return the last lines of what each of them wrote, and how those that ended did."""
        ends = {name: process.poll() for name, process in self.running.items()}
        tails = {name: (self.folder / f"{name}.err").read_text(encoding="utf-8").splitlines()[-5:] for name in ends}
        return "\n".join(f"{name}: {line}" for name, end in ends.items() for line in [f"exit code {end}", *tails[name]])

    def processed(self) -> Counter[tuple[int, int]]:
        """Return how often each (partition, offset) was processed."""
        counts: Counter[tuple[int, int]] = Counter()
        for line in self.lines():
            counts[line[1], line[2]] += 1
        return counts

    def lines(self) -> list[tuple[str, int, int, int, int, str]]:
        """Return (topic, partition, offset, epoch, processed at ns, uuid)."""
        out = []
        for file in self.folder.glob("processed-*.log"):
            for line in file.read_text().rpartition("\n")[0].splitlines():  # the last one may be half written
                topic, partition, offset, epoch, at, _ = line.split()
                out.append((topic, int(partition), int(offset), int(epoch), int(at), file.stem.removeprefix("processed-")))
        return out

    def close(self) -> None:
        for process in self.running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()


@pytest.fixture
def group(topic: str) -> str:
    return f"group-{topic}"


@pytest.fixture
def control(broker: Broker, group: str, topic: str) -> Iterator[Publisher]:
    publisher = Publisher(broker.bootstrap, group, topic)
    yield publisher
    publisher.close()


@pytest.fixture
def workers(broker: Broker, group: str, topic: str, tmp_path: Path) -> Iterator[Workers]:
    started = Workers(broker.bootstrap, group, topic, tmp_path)
    yield started
    started.close()


def all_processed(workers: Workers, counts: dict[int, int]) -> None:
    wanted = {(p, o) for p, n in counts.items() for o in range(n)}
    until("every record is processed", lambda: wanted <= set(workers.processed()), workers.said)


def test_partitions_move_under_load_without_loss_or_duplicate(
    control: Publisher, workers: Workers, topic: str, produce: Callable[..., None]
) -> None:
    workers.start("w-0")
    workers.start("w-1")
    a, b = control.incarnation("w-0"), control.incarnation("w-1")
    control.plan({0: a, 1: a, 2: a, 3: a})
    control.holds(a, {0, 1, 2, 3})
    for owners in ({0: a, 1: b, 2: a, 3: b}, {0: b, 1: a, 2: a, 3: b}, {0: b, 1: b, 2: b, 3: b}, {0: a, 1: a, 2: b, 3: b}):
        produce(topic, dict.fromkeys(range(4), 60))
        control.plan(owners)
        control.holds(a, {p for p, w in owners.items() if w == a})
        control.holds(b, {p for p, w in owners.items() if w == b})
    all_processed(workers, dict.fromkeys(range(4), 240))
    assert set(workers.processed().values()) == {1}
    ordered = sorted(workers.lines(), key=lambda x: (x[1], x[4]))
    assert [x[2] for x in ordered] == [o for _ in range(4) for o in range(240)]  # in order within each partition, across owners
    assert all(x[3] <= y[3] for x, y in pairwise(ordered) if x[1] == y[1])  # tokens only grow


def test_offsets_name_the_topic_the_epoch_and_the_incarnation(
    control: Publisher, workers: Workers, topic: str, produce: Callable[..., None]
) -> None:
    produce(topic, {0: 10})
    workers.start("w-0")
    a = control.incarnation("w-0")
    control.plan({0: a})
    committed = until("the offset is committed", lambda: control.committed_at(0, 10))
    assert json.loads(committed.metadata or "") == [control.topic_id, 1, a.uuid]


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_records_larger_than_what_is_fetched_ahead_come_nevertheless(
    control: Publisher, workers: Workers, topic: str, broker: Broker, codec: str
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.codec": codec, "linger.ms": 50})
    for number in range(3):
        producer.produce(topic, bytes([number]) * 900_000, partition=0)
    for number in range(2000):
        producer.produce(topic, number.to_bytes(4, "big") * 25, partition=1)  # batches of 200 KB, a few KB when compressed
    producer.flush()
    workers.environment["CONSUMER_BYTES_PER_S"] = "100_000_000"
    workers.start("w-0")
    control.plan(dict.fromkeys(range(2), control.incarnation("w-0")))
    all_processed(workers, {0: 3, 1: 2000})


def test_a_worker_told_to_end_commits_releases_and_leaves(
    control: Publisher, workers: Workers, topic: str, produce: Callable[..., None]
) -> None:
    workers.start("w-0")
    workers.start("w-1")
    a, b = control.incarnation("w-0"), control.incarnation("w-1")
    control.plan({0: a, 1: a})
    control.holds(a, {0, 1})
    produce(topic, {0: 300, 1: 300})
    until("it works", lambda: len(workers.processed()) > 50)
    workers.signal("w-0", signal.SIGTERM)
    assert workers.ended("w-0") == 0
    control.observe()
    assert a in control.left
    assert {tp.partition for tp, w in control.released if w == a} == {0, 1}
    control.plan({0: b, 1: b})
    all_processed(workers, {0: 300, 1: 300})
    assert set(workers.processed().values()) == {1}


def test_a_topic_that_is_deleted_keeps_a_worker_neither_from_releasing_others_nor_from_ending(
    control: Publisher, workers: Workers, topic: str, make_topic: Callable[..., str], produce: Callable[..., None]
) -> None:
    """Commits on it are refused for good."""
    doomed = make_topic(partitions=1)
    kept, gone = Tp(control.topic_id, 0), Tp(until("its id is known", lambda: control.identify(doomed)), 0)
    workers.environment["AUTOSCALER_TOPICS"] = f"{topic},{doomed}"
    workers.environment["CONSUMER_BYTES_PER_S"] = "40_000"  # there is work left when the topic is gone, however long that takes
    workers.start("w-0")
    workers.start("w-1")
    a, b = control.incarnation("w-0"), control.incarnation("w-1")

    def plan(number: int, owners: dict[Tp, Incarnation], waits: dict[Tp, tuple[Wait, ...]]) -> None:
        grants = {tp: Grant(owner=w, epoch=number) for tp, w in owners.items()}
        epoch, topics = Epoch(control.control_id, number), {kept.topic_id: topic, gone.topic_id: doomed}
        control.publish(
            Plan(
                group=control.group, epoch=epoch, topics=topics, grants=grants, waits=waits, starts=dict.fromkeys(grants, 0),
                leases_s={}, requested=(), summary="", at=time.time(),
            )
        )  # fmt: skip

    plan(1, {kept: a, gone: a}, {})
    produce(doomed, {0: 3000})
    produce(topic, {0: 100})
    until("it works on both", lambda: {x[0] for x in workers.lines()} == {topic, doomed}, workers.said)
    control.admin.delete_topics([doomed])[doomed].result(30)
    plan(2, {kept: b}, {tp: (Wait(worker=a, epoch=2),) for tp in (kept, gone)})
    control.holds(b, {0})
    workers.signal("w-0", signal.SIGTERM)
    assert workers.ended("w-0") == 0
    until("it has left", lambda: control.has_left(a))
    assert "is released without its last commit, which is refused" in (workers.folder / "w-0.err").read_text(encoding="utf-8")


def test_a_killed_worker_costs_duplicates_at_most(
    control: Publisher, workers: Workers, topic: str, produce: Callable[..., None]
) -> None:
    workers.start("w-0")
    workers.start("w-1")
    a, b = control.incarnation("w-0"), control.incarnation("w-1")
    control.plan({0: a, 1: a})
    control.holds(a, {0, 1})
    produce(topic, {0: 300, 1: 300})
    until("it works", lambda: len(workers.processed()) > 50)
    workers.signal("w-0", signal.SIGKILL)
    workers.ended("w-0")
    control.plan({0: b, 1: b})
    before = {(x[1], x[2]) for x in workers.lines() if x[5] == b.uuid}
    assert before == set()  # it waits as long as nobody says that the old owner is over
    control.expire(a)
    all_processed(workers, {0: 300, 1: 300})


def test_a_worker_paused_beyond_its_lease_commits_nothing_more_and_joins_anew(
    control: Publisher, workers: Workers, topic: str, produce: Callable[..., None]
) -> None:
    workers.end_leases()
    workers.start("w-0")
    workers.start("w-1")
    a, b = control.incarnation("w-0"), control.incarnation("w-1")
    control.plan({0: a, 1: b})
    control.holds(a, {0})
    produce(topic, {0: 400})
    until("it works", lambda: len(workers.processed()) > 50)
    workers.signal("w-0", signal.SIGSTOP)
    resume_at = time.monotonic() + LEASE_S + 1
    control.expire(a)
    control.plan({0: b, 1: b})
    control.holds(b, {0, 1})
    until("the lease is over", lambda: time.monotonic() > resume_at)
    until("its successor works", lambda: any(x[5] == b.uuid for x in workers.lines()))
    workers.signal("w-0", signal.SIGCONT)
    again = control.incarnation("w-0", other_than=frozenset({a}))
    assert again.uuid != a.uuid
    all_processed(workers, {0: 400})
    committed = until("the offset is committed", lambda: control.committed_at(0, 400))
    assert json.loads(committed.metadata or "")[2] == b.uuid
    control.plan({0: again, 1: b})
    control.holds(again, {0})


def test_a_worker_started_before_its_controller_waits(broker: Broker, make_topic: Callable[..., str], tmp_path: Path) -> None:
    with Broker(heap_mb=128) as fresh:
        workers = Workers(fresh.bootstrap, "g", "t", tmp_path)
        try:
            workers.start("w-0")
            until("it says what it waits for", lambda: "waiting for the controller" in (tmp_path / "w-0.err").read_text())
            admin = AdminClient({"bootstrap.servers": fresh.bootstrap})
            admin.create_topics([NewTopic("t", 1, 1)])["t"].result()
            control = Publisher(fresh.bootstrap, "g", "t")
            control.plan({0: control.incarnation("w-0")})
            control.holds(control.incarnation("w-0"), {0})
            control.close()
        finally:
            workers.close()


def test_a_worker_whose_control_log_was_made_anew_joins_under_the_new_one(tmp_path: Path) -> None:
    with Broker(heap_mb=128) as fresh:
        workers = Workers(fresh.bootstrap, "g", "t", tmp_path)
        workers.end_leases()
        admin = AdminClient({"bootstrap.servers": fresh.bootstrap})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result()
        try:
            control = Publisher(fresh.bootstrap, "g", "t")
            workers.start("w-0")
            first = control.incarnation("w-0")
            control.plan({0: first})
            control.holds(first, {0})
            control.close()
            admin.delete_topics([CONTROL_TOPIC])[CONTROL_TOPIC].result()
            until("the topic is gone", lambda: CONTROL_TOPIC not in admin.list_topics().topics)
            control = Publisher(fresh.bootstrap, "g", "t")
            second = control.incarnation("w-0", other_than=frozenset({first}))
            until("its successor says that it has left", lambda: control.has_left(first))
            control.plan({0: second})
            control.holds(second, {0})
            control.close()
        finally:
            workers.close()


def test_the_worker_library_imports_nothing_but_the_client_and_the_protocol() -> None:
    script = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyspark", "kafka", "numpy", "pandas", "pyarrow", "pydantic", "yaml", "psutil", "rich"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import autoscaler.worker
ours = {m for m in sys.modules if m.startswith("autoscaler.")}
base = "worker", "handover", "bounded_call", "errors", "kept", "references"
base = tuple(f"autoscaler.{name}" for name in base)
print(sorted(m for m in ours if not m.startswith(base)))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_base_install_alone_consumes(
    control: Publisher, workers: Workers, topic: str, produce: Callable[..., None], tmp_path: Path
) -> None:
    """A new environment with the package and its one dependency runs the example."""
    source, python = tmp_path / "source", tmp_path / "venv" / "bin" / "python"
    shutil.copytree(ROOT / "autoscaler", source / "autoscaler")
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", str(source)], check=True)
    listed = subprocess.run([str(python), "-m", "pip", "list", "--format=freeze"], check=True, capture_output=True, text=True)
    names = {line.split("==")[0] for line in listed.stdout.split()}
    assert names - {"pip", "setuptools"} == {"confluent-kafka", "kafka-group-autoscaler"}
    produce(topic, {0: 20})
    workers.environment["PYTHONPATH"] = ""
    workers.python = str(python)
    workers.start("w-0")
    control.plan({0: control.incarnation("w-0")})
    all_processed(workers, {0: 20})


def test_a_worker_whose_broker_was_away_beyond_the_lease_joins_anew_and_goes_on(tmp_path: Path) -> None:
    with Broker(heap_mb=128) as fresh:
        workers = Workers(fresh.bootstrap, "g", "t", tmp_path)
        workers.end_leases()
        admin = AdminClient({"bootstrap.servers": fresh.bootstrap})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result()
        try:
            control = Publisher(fresh.bootstrap, "g", "t")
            workers.start("w-0")
            first = control.incarnation("w-0")
            control.plan({0: first})
            control.holds(first, {0})
            fresh.stop()
            until("its lease is over", lambda: "the lease is over" in (tmp_path / "w-0.err").read_text())
            fresh.start()
            second = control.incarnation("w-0", other_than=frozenset({first}))
            until("its successor says that it has left", lambda: control.has_left(first))
            control.plan({0: second})
            control.holds(second, {0})
            control.close()
        finally:
            workers.close()
