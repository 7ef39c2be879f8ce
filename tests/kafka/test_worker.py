"""Workers as processes on a real broker, with plans published by the test itself."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from autoscaler.devtools.broker import Broker
from autoscaler.handover.records import CONTROL_TOPIC, Epoch, Grant, Incarnation, Plan, Tp, Wait
from tests.kafka.workers import LEASE_S, ROOT, Publisher, Workers, all_processed
from tests.until import until


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
    # One fetch brings a thousand records, of which each takes a tenth of a second: work is left when the topic is gone
    workers.environment["CONSUMER_BYTES_PER_S"] = "10_000"
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
    produce(topic, {0: 20})  # before the other, or all of that may be worked off before the first of these comes
    produce(doomed, {0: 3000})
    until("it works on both", lambda: {x[0] for x in workers.lines()} == {topic, doomed}, explain=workers.said)
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
base = "worker", "handover", "concurrency", "errors", "clients", "topic_selection"
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
