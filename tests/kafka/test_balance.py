"""Balancing three real brokers: under load, emptied, killed in the middle, beside another tool, and ended in order."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import psutil
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer
from deltalake import write_deltalake

from autoscaler.adapters.audit import balance_table
from autoscaler.adapters.audit.decision_reader import DecisionTables
from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.http.brokers import told
from autoscaler.adapters.kafka.cluster_admin import KafkaClusterAdmin
from autoscaler.balancing import Balancer
from autoscaler.brokers.journal import NOTHING
from autoscaler.brokers.ports import Entry
from autoscaler.brokers.view import LISTS, RATES, Cancel, ClearThrottle, Reassign, SetThrottle, Setting, View
from autoscaler.config.clusters import Cluster as ClusterSettings
from autoscaler.config.settings import Group
from autoscaler.devtools.broker import Cluster
from autoscaler.errors import Exit, FencedError, TransientError
from autoscaler.model import TopicPartition, What
from autoscaler.ports import PlanIntent
from jobs.balance_brokers import Consumers, main
from tests.conftest import create_topic
from tests.contracts.publishers import KafkaWorld
from tests.kafka.balance_victim import balancer
from tests.kafka.traffic import Traffic
from tests.until import throughout, until

ROOT = Path(__file__).resolve().parents[2]


class Brokers:
    """Three brokers and one topic on them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.connection = cluster, cluster.connection()
        self.ids = sorted(n.number for n in cluster.nodes)
        self.topic = f"balanced-{uuid4().hex[:8]}"
        self.admin = KafkaClusterAdmin(self.connection)

    def make(self, replicas: list[list[int]], *, megabytes: int = 0) -> None:
        create_topic(self.cluster, self.topic, len(replicas), replicas=replicas)
        producer = Producer({**self.connection, "log_level": 0})
        for _ in range(10 * megabytes):
            producer.produce(self.topic, b"x" * 100_000, partition=0)
        producer.flush(30)

    def job(self, **wanted: object) -> Balancer:
        found = balancer(self.connection, self.topic, wanted)
        if found.acts:
            found.take_over()
        return found

    def victim(self, **wanted: object) -> "subprocess.Popen[bytes]":
        case = json.dumps({"connection": self.connection, "topic": self.topic, "wanted": wanted})
        return subprocess.Popen([sys.executable, "-m", "tests.kafka.balance_victim", case], cwd=ROOT)

    def config(self, where: Path) -> str:
        """Return a file for the job's commands."""
        (where / "c.yaml").write_text(
            json.dumps(
                {
                    "clusters": [{"connection": self.connection}],
                    "state_dir": str(where),
                    "groups": [{"group": "g", "topics": ["t"]}],
                }
            )
        )
        return str(where / "c.yaml")

    def see(self) -> View:
        return self.admin.observe([self.topic])

    def part(self, number: int = 0) -> TopicPartition:
        return TopicPartition(topic=self.topic, partition=number)

    def held(self, view: View) -> list[tuple[int, ...]]:
        return [h.replicas for p, h in sorted(view.partitions.items()) if p.topic == self.topic]

    def leaders(self, view: View) -> list[int]:
        return sorted(h.leader for p, h in view.partitions.items() if p.topic == self.topic)

    def looks(self, job: Balancer, what: str, holds: Callable[[View], object]) -> View:
        def look() -> View:
            job.look()
            return self.see()

        return until(what, look, lambda v: holds(v) and job.journal == NOTHING and job.waiting is None, within_s=60, every_s=0.1)


@pytest.fixture
def brokers(three_brokers: Cluster) -> Iterator[Brokers]:
    found = Brokers(three_brokers)
    yield found
    view = found.see()
    found.admin.execute(Cancel(partitions=frozenset(view.running)))
    found.admin.execute(ClearThrottle(settings=frozenset(view.throttles)))
    found.admin.close()


@pytest.fixture
def stopped(brokers: Brokers) -> Iterator[Callable[..., "subprocess.Popen[bytes]"]]:
    """Return what starts a job in a process of its own; it waits until a copy runs with its throttle."""
    started: list[subprocess.Popen[bytes]] = []

    def start(**wanted: object) -> "subprocess.Popen[bytes]":
        started.append(brokers.victim(**wanted))
        until("a copy that is throttled", brokers.see, lambda v: v.running and v.throttles, within_s=60, every_s=0.1)
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait(30)


@pytest.mark.slow
def test_a_broker_that_is_killed_in_the_middle_is_waited_for_and_the_batch_ends_behind_it(brokers: Brokers) -> None:
    a, b, c = brokers.ids
    brokers.make([[c, a], [a, b]], megabytes=6)
    job = brokers.job(leaving=[c], throttle_bytes_per_s=2e6)
    until("a copy", lambda: job.look() and brokers.see(), lambda v: isinstance(v, View) and v.running, every_s=0.1)
    (node,) = (n for n in brokers.cluster.nodes if n.number == b)
    node.kill()
    try:
        with suppress(TransientError):
            job.look()
        assert job.journal.moves
    finally:
        node.start()

    def look() -> View:
        job.look()
        return brokers.see()

    def over(view: View) -> bool:
        return job.journal == NOTHING and brokers.part() not in view.running and c not in view.partitions[brokers.part()].replicas

    until("the end of the batch", look, over, passing=TransientError, every_s=0.5)
    until("no throttle", brokers.see, lambda v: not v.throttles, passing=TransientError, within_s=30)


@pytest.mark.slow
def test_a_broker_that_dies_in_a_batch_and_comes_back_behind_it_keeps_no_throttle(
    brokers: Brokers, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    a, _, c = brokers.ids
    caplog.set_level("INFO", "balance")
    brokers.make([[a, c]], megabytes=6)
    config = brokers.config(tmp_path)
    job = brokers.job(leaving=[c], throttle_bytes_per_s=2e6)
    until("a copy", lambda: job.look() and brokers.see(), lambda v: isinstance(v, View) and v.running, every_s=0.1)
    (node,) = (n for n in brokers.cluster.nodes if n.number == c)
    node.kill()
    rates = {Setting("broker", str(c), key): "2000000" for key in RATES}
    try:
        until("the end of the copy without it", brokers.see, lambda v: not v.running, passing=TransientError, every_s=0.5)
        until("its end in the journal", job.look, lambda _: not job.journal.moves, passing=TransientError, every_s=0.5)
        assert job.journal.throttle == rates
        assert "is taken away when they are back" in caplog.text
        assert not brokers.see().throttles
        assert main(["--config", config, "--cancel"]) == Exit.FAILED
        assert f"the throttle may be left on broker {c}" in caplog.text
    finally:
        node.start()
    until("it is back, and limited", brokers.see, lambda v: v.throttles == rates, passing=TransientError, every_s=0.5)
    assert main(["--config", config, "--cancel"]) == 0
    assert "no throttle is left" in capsys.readouterr().out
    assert not brokers.see().throttles


@contextmanager
def produced(brokers: Brokers, *, size: int, every_s: float = 0.01) -> Iterator[set[bytes]]:
    """Produce records meanwhile; afterwards the set has what brokers have acknowledged."""
    stop, acked = threading.Event(), set[bytes]()
    producer = Producer({**brokers.connection, "log_level": 0, "acks": "all", "enable.idempotence": True, "linger.ms": 5})

    def produce() -> None:
        number = 0
        while not stop.wait(every_s):
            key = str(number := number + 1).encode()
            producer.produce(
                brokers.topic, os.urandom(size), key, on_delivery=lambda error, m: None if error else acked.add(m.key() or b"")
            )
            producer.poll(0)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield acked
    finally:
        stop.set()
        thread.join()
        assert producer.flush(30) == 0


def test_skewed_leaders_become_balanced_under_producers_and_nothing_is_lost(brokers: Brokers) -> None:
    a, b, c = brokers.ids
    brokers.make([[a, b, c]] * 6)
    with produced(brokers, size=100) as acked:
        job = brokers.job(goals=["bytes_out"])
        brokers.looks(job, "two leaders on each broker", lambda v: brokers.leaders(v) == [a, a, b, b, c, c])
    assert consumed(brokers, len(acked)) >= acked
    assert not brokers.see().throttles, "leaderships copy nothing"


def consumed(brokers: Brokers, count: int) -> set[bytes]:
    consumer = Consumer({
        **brokers.connection, "log_level": 0, "group.id": f"g-{uuid4().hex}", "auto.offset.reset": "earliest",
    })  # fmt: skip
    consumer.subscribe([brokers.topic])
    found = set[bytes]()

    def read() -> int:
        found.update(m.key() or b"" for m in consumer.consume(1000, 0.5) if m.error() is None)
        return len(found)

    try:
        until("all records", read, lambda n: n >= count, within_s=60)
    finally:
        consumer.close()
    return found


def test_a_broker_is_emptied_under_producers_and_consumers_and_nothing_is_lost_or_out_of_order(brokers: Brokers) -> None:
    a, b, c = brokers.ids
    brokers.make([[c, a], [b, c], [a, b], [c, b]], megabytes=2)
    traffic = Traffic(brokers.connection, brokers.topic, 4, per_s=200)
    with traffic.running(), traffic.span("while it moves"):
        job = brokers.job(leaving=[c])
        view = brokers.looks(job, "nothing on the broker", lambda v: not [r for r in brokers.held(v) if c in r])
    print(traffic.figures()["while it moves"])
    assert (traffic.failed, traffic.wrong) == (0, [])
    assert traffic.next == traffic.sent
    assert not view.throttles
    assert {len(r) for r in brokers.held(view)} == {2}


def test_on_disks_that_are_full_leaderships_move_and_no_replica_and_the_log_and_the_audit_say_why(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    a, b, _ = brokers.ids
    brokers.make([[a, b]] * 6, megabytes=1)
    rows = list[Entry]()
    job = brokers.job(goals=["bytes_out"], disk_ratio=1e-9)
    job.world = replace(job.world, record=rows.extend)
    with caplog.at_level("INFO", "balance"):
        view = brokers.looks(job, "what leaderships alone can do", lambda v: brokers.leaders(v) == [a] * 4 + [b] * 2)
        job.look()
    assert {frozenset(r) for r in brokers.held(view)} == {frozenset({a, b})}
    for broker in brokers.ids:
        why = rf"broker {broker} has no room for replicas: it stores .*, and its disk \(disk_ratio\) or limits leave it 0 B"
        assert re.search(why, caplog.text), caplog.text
    assert "no action makes it better" in caplog.text
    looks = [e for e in rows if e.kind == "look"]
    assert What.BROKER_FULL in {f.what for f in looks[-1].findings}
    loads = [f.numbers for f in looks[-1].findings if f.what is What.BROKER_LOADS]
    assert [n["storage_most"] for n in loads] == [0.0] * 3


def test_while_consumers_of_a_topic_are_handed_over_nothing_of_it_moves(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    a, b, c = brokers.ids
    brokers.make([[a, b, c]] * 6)
    world = KafkaWorld(brokers.cluster, brokers.topic, f"g-{uuid4().hex[:8]}", lease_s=5.0)
    settings = {
        "group": world.group,
        "topics": [world.topic],
        "mode": "act",
        "workers": {"kind": "processes", "command": ["true"]},
    }
    group = Group.model_validate({**settings, "capacity_bytes_per_s": 1e6})
    consumers = Consumers(ClusterSettings(connection=brokers.connection), [group], world.lease_s, SystemClock())
    job = brokers.job(goals=["bytes_out"])
    job.world = replace(job.world, busy=consumers.busy)

    def handed_to(slot: int) -> None:
        target = dict.fromkeys((brokers.part(n) for n in range(6)), slot)
        world.publisher.publish(PlanIntent(target=target, requested=frozenset({0, 1}), summary=f"all to {slot}"))

    try:
        world.start(0)
        world.start(1)
        handed_to(0)
        world.until(lambda s: not s.pending and len(s.owner) == 6)
        until("all is held", consumers.busy, lambda topics: not topics)
        world.die(0)  # it gives nothing back: the other one waits until its lease is over
        handed_to(1)
        until("a handover", consumers.busy, lambda topics: topics == {brokers.topic})
        with caplog.at_level("INFO"):
            for _ in range(3):
                job.look()
        assert consumers.busy() == {brokers.topic}
        assert "wait until their consumers have been handed over" in caplog.text
        assert "ignored" not in caplog.text
        assert (job.journal, brokers.leaders(brokers.see())) == (NOTHING, [a] * 6)
        world.until(lambda s: not s.pending and set(s.owner.values()) == {1})
        until("all is held again", consumers.busy, lambda topics: not topics)
        brokers.looks(job, "two leaders on each broker", lambda v: brokers.leaders(v) == [a, a, b, b, c, c])
    finally:
        consumers.close()
        world.close()


def test_a_job_that_was_killed_is_followed_by_one_that_ends_its_copies_and_takes_its_throttle_away(
    brokers: Brokers, stopped: Callable[..., "subprocess.Popen[bytes]"], caplog: pytest.LogCaptureFixture
) -> None:
    a, b, c = brokers.ids
    brokers.make([[c, a], [a, b]], megabytes=6)
    victim = stopped(leaving=[c], throttle_bytes_per_s=1000)
    victim.kill()
    victim.wait(30)
    left = brokers.see()
    assert left.running
    assert left.throttles
    advising = brokers.job(mode="advise")
    with caplog.at_level("INFO", "balance"):
        advising.look()
    said = f"a job in mode act has begun and not ended: to move 1 partition ({brokers.part()}), and to throttle broker {a}"
    assert said in caplog.text
    assert "balance_brokers.py --cancel" in caplog.text
    now = brokers.see()
    assert (now.running, now.throttles) == (left.running, left.throttles)
    job = brokers.job(leaving=[c], throttle_bytes_per_s=1000)
    assert job.journal.moves.keys() >= left.running.keys()
    assert job.journal.throttle.items() >= {s: v for s, v in left.throttles.items() if s.kind == "topic"}.items()
    lists = frozenset(s for s in left.throttles if s.kind == "topic")
    brokers.admin.execute(ClearThrottle(settings=lists))  # limits nothing any more: it would take hours
    view = brokers.looks(job, "the copy's end", lambda v: brokers.part() not in v.running)
    assert (set(view.partitions[brokers.part()].replicas), view.throttles) == ({a, b}, {})


def test_an_orderly_end_puts_back_what_copies_and_leaves_no_throttle(
    brokers: Brokers, stopped: Callable[..., "subprocess.Popen[bytes]"]
) -> None:
    a, b, c = brokers.ids
    brokers.make([[c, a], [a, b]], megabytes=6)
    process = stopped(leaving=[c], throttle_bytes_per_s=1000)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    view = brokers.see()
    assert (view.running, view.throttles, view.partitions[brokers.part()].replicas) == ({}, {}, (c, a))


def test_what_a_killed_job_has_begun_can_be_cancelled_by_a_command(
    brokers: Brokers, stopped: Callable[..., "subprocess.Popen[bytes]"], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b, c = brokers.ids
    brokers.make([[c, a], [a, b]], megabytes=6)
    stopped(leaving=[c], throttle_bytes_per_s=1000).kill()
    command = ["--config", brokers.config(tmp_path), "--cancel"]
    table = balance_table.of_brokers(tmp_path / "tables").at("balance")
    write_deltalake(table, pa.Table.from_pylist([], balance_table.BALANCE.schema), partition_by=["date"])
    assert main(command) == 0
    now = datetime.fromtimestamp(SystemClock().now(), UTC)
    (row,) = DecisionTables(tmp_path / "tables").balancing(brokers.topic, 0, now)
    assert (row["kind"], row["status"], row["cluster"], row["mode"]) == ("outcome", "cancelled", "kafka", "act")
    view = brokers.see()
    assert (view.running, view.throttles, view.partitions[brokers.part()].replicas) == ({}, {}, (c, a))
    said = capsys.readouterr().out
    assert f"put back: 1 ({brokers.part()})" in said
    assert "no throttle is left" in said
    idle = brokers.job(goals=["bytes_out"], rounds=99)
    idle.look()
    assert main(command) == 0
    assert "nothing was begun" in capsys.readouterr().out
    with pytest.raises(FencedError):
        idle.look()


def test_a_list_that_another_tool_has_left_does_not_switch_the_throttle_off(
    brokers: Brokers, stopped: Callable[..., "subprocess.Popen[bytes]"]
) -> None:
    a, b, c = brokers.ids
    brokers.make([[c, a], [a, b]], megabytes=6)
    theirs = {Setting("topic", brokers.topic, key): f"1:{a},1:{b}" for key in LISTS}
    brokers.admin.execute(SetThrottle(values=theirs))
    until("their lists", brokers.see, lambda v: v.throttles == theirs, within_s=30)
    process = stopped(leaving=[c], throttle_bytes_per_s=1000)
    view = brokers.see()
    assert view.throttles[Setting("topic", brokers.topic, LISTS[0])].startswith(f"1:{a},1:{b},0:")
    throughout("it copies as slowly as it is told", brokers.see, lambda v: brokers.part() in v.running, for_s=3.0, every_s=0.5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert (brokers.see().throttles, brokers.see().running) == (theirs, {})


def test_a_reassignment_of_another_tool_and_its_throttle_are_respected(brokers: Brokers) -> None:
    a, b, c = brokers.ids
    brokers.make([[a, b], [a, b], [a, b]], megabytes=6)
    theirs = {Setting("broker", str(n), k): "1000" for n in brokers.ids for k in ("leader.replication.throttled.rate",)}
    theirs |= {Setting("topic", brokers.topic, "leader.replication.throttled.replicas"): f"0:{a},0:{b}"}
    brokers.admin.execute(SetThrottle(values=theirs))
    until("their throttle", brokers.see, lambda v: v.throttles.items() >= theirs.items(), within_s=30)
    brokers.admin.execute(Reassign(replicas={brokers.part(): (a, c)}))
    job = brokers.job(goals=["bytes_out"])
    for _ in range(3):
        job.look()
    view = brokers.see()
    assert view.running == {brokers.part(): (a, c)}
    assert (job.journal, job.waiting, brokers.leaders(view)) == (NOTHING, None, [a, a, a])
    assert job.end()
    assert brokers.see().running == {brokers.part(): (a, c)}
    brokers.admin.execute(ClearThrottle(settings=frozenset(theirs)))
    brokers.looks(job, "ours after theirs", lambda v: len(set(brokers.leaders(v))) > 1)


CONFIG = """
clusters:
  - connection: {connection}
    balance: {{mode: act, goals: [bytes_out], every: 2s, rounds: 2, smoothing: 0, stays: 5m, excluded: {excluded}}}
state_dir: {state}
measure: {{trigger: 2s, window: 6s, known_for: 5s}}
groups: [{{group: g, topics: [^balanced-]}}]
"""


@pytest.mark.timeout(1200)
def test_the_job_measures_balances_explains_and_ends_in_order(brokers: Brokers, tmp_path: Path, java: str) -> None:
    a, b, c = brokers.ids
    brokers.make([[a, b, c]] * 6)
    others = sorted({p.topic for p in brokers.see().partitions} - {brokers.topic})
    config, out = tmp_path / "c.yaml", tmp_path / "out"
    text = CONFIG.format(connection=json.dumps(brokers.connection), excluded=json.dumps(others), state=tmp_path / "state")
    config.write_text(text)
    command = [str(ROOT / "spark-submit.sh"), "--job", str(ROOT / "jobs" / "balance_brokers.py"), "--", "--config", str(config)]
    environment = {**os.environ, "AUTOSCALER_PYTHON": sys.executable}

    def below() -> list[psutil.Process]:
        return psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []

    def drives(p: psutil.Process) -> bool:
        with suppress(psutil.NoSuchProcess):  # ended meanwhile
            return p.status() != psutil.STATUS_ZOMBIE and any(x.endswith("balance_brokers.py") for x in p.cmdline()[1:2])
        return False

    with produced(brokers, size=40_000, every_s=0.025) as acked, out.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
        try:
            until(
                "two leaders on each broker", brokers.see, lambda v: brokers.leaders(v) == [a, a, b, b, c, c],
                explain=lambda: out.read_text()[-3000:], every_s=2.0, within_s=600,
            )  # fmt: skip
            until("its end in the log", out.read_text, lambda said: said.count(": moved") >= 4, every_s=0.5)
            (driver,) = (p for p in below() if drives(p))
            driver.terminate()
            assert process.wait(90) == 0, out.read_text()[-3000:]
        finally:
            for p in below():
                p.kill()
            process.kill()
            process.wait(30)
    assert consumed(brokers, len(acked)) >= acked
    assert (brokers.see().running, brokers.see().throttles) == ({}, {})
    moved = next(p for p, h in sorted(brokers.see().partitions.items()) if p.topic == brokers.topic and h.leader != a)

    def explained(partition: str) -> "subprocess.CompletedProcess[str]":
        asked = [sys.executable, "-m", "autoscaler.cli", "explain", "--partition", partition, "--config", str(config)]
        return subprocess.run(asked, capture_output=True, text=True, check=False, cwd=ROOT)

    said = explained(str(moved)).stdout
    assert f"planned: {moved}: broker {brokers.see().partitions[moved].leader} leads in place of broker {a}" in said
    assert "bytes_out" in said
    assert " moved to brokers " in said
    assert explained(f"{brokers.topic}-99").returncode == 1
    (shown,) = told(DecisionTables(tmp_path / "state" / "tables").plans(datetime.fromtimestamp(SystemClock().now(), UTC)))
    loads = {x["id"]: [y["goal"] for y in x["loads"]] for x in shown["brokers"]}
    assert loads == {n: ["bytes_out", "storage"] for n in brokers.ids}, "disks limit what is stored"
    assert {x["state"] for x in shown["actions"]} == {"moved"}
    became = Entry(kind="outcome", plan="p", at=SystemClock().now(), status="cancelled", partition=moved)
    balance_table.append(tmp_path / "state" / "tables", [balance_table.row(became, cluster="kafka", mode="act", detail="")])
    assert explained(str(moved)).stdout.splitlines()[-1].endswith("  cancelled"), "a command adds to what Spark has made"
    assert explained("nonsense").returncode == Exit.SETTINGS
