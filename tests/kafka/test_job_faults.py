"""The whole job under faults, as a user runs it: real broker, real processes, real signals, judged by the independent check."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import yaml
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.processes import ProcessPool
from autoscaler.embedded.broker import Broker
from autoscaler.embedded.check.__main__ import check
from autoscaler.embedded.check.run import Run
from autoscaler.handover.codec import decode, partition_for
from autoscaler.handover.records import CONTROL_TOPIC, Incarnation, Plan, Released, Tp
from autoscaler.settings import load
from tests.conftest import create_topic

ROOT = Path(__file__).resolve().parents[2]
TOPIC, GROUP, CAPACITY = "orders", "shop", 300_000.0
MUST_HOLD = {
    "acknowledged is in the topic", "every record processed", "only records of the topic", "order per partition",
    "one worker at a time", "handovers match the logs", "steps match the logs", "decisions have their rows",
    "cycles have their rows",
}  # fmt: skip


@dataclass
class Shop:
    """A job, its consumers and its load on a broker."""

    broker: Broker
    directory: Path
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.directory / "processed").mkdir()
        self.config = self.directory / "config.yaml"
        environment = {"CONSUMER_LOG_DIR": str(self.directory / "processed"), "CONSUMER_BYTES_PER_S": str(CAPACITY)}
        group = {
            "group": GROUP, "topics": [TOPIC], "mode": "act", "capacity_bytes_per_s": CAPACITY, "max_consumers": 8,
            "cooldown_s": 2, "shrink_stabilisation_s": 10, "shrink_cooldown_s": 10,
            "workers": {"command": ["{python}", str(ROOT / "docs" / "examples" / "consumer.py")], "environment": environment},
        }  # fmt: skip
        self.config.write_text(
            yaml.safe_dump(
                {
                    "cluster": {"connection": {"bootstrap.servers": self.broker.bootstrap}},
                    "state_dir": str(self.directory / "state"),
                    "measure": {"window_s": 5},
                    "groups": [group],
                }
            )
        )

    def spawn(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with (self.directory / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, start_new_session=True)
        self.children.append(child)
        return child

    def produce(self, name: str, bytes_per_s: float) -> subprocess.Popen[bytes]:
        scenario = self.directory / f"{name}.json"
        scenario.write_text(json.dumps({"moments": [{"at_s": 0, "bytes_per_s": [bytes_per_s / 8] * 8}]}))
        (self.directory / name).mkdir()
        return self.spawn(
            f"{name}-load", sys.executable, "-m", "autoscaler.embedded.load", "--bootstrap", self.broker.bootstrap,
            "--topic", TOPIC, "--scenario", str(scenario), "--duration", "600", "--log", str(self.directory / name),
        )  # fmt: skip

    def cycles(self, since: float = 0.0) -> list[dict[str, object]]:
        file = self.directory / "state" / "logs" / "cycles.jsonl"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        return [c for c in map(json.loads, lines) if c["t"] >= since]

    def wait(self, what: str, condition: Callable[[], bool], timeout_s: float = 90.0) -> None:
        limit = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > limit:
                last = "\n".join(f"{c['reason']} {c['limited_by']} {c['detail']}" for c in self.cycles()[-5:])
                pytest.fail(f"{what} did not happen in {timeout_s:.0f} s; the last cycles:\n{last}")
            time.sleep(0.01)

    def settles(self, what: str, since: float, timeout_s: float = 90.0) -> int:
        """Wait until a cycle after ``since`` finds all well; return how many consumers there are."""
        self.wait(what, lambda: any(c["reason"] == "WITHIN_TARGET" and c["known"] for c in self.cycles(since)), timeout_s)
        return int(str(self.cycles(since)[-1]["consumers_now"]))

    def workers(self) -> dict[int, psutil.Process]:
        records = (self.directory / "state" / "workers" / GROUP).glob("*.json")
        found = {}
        for record in records:
            said = json.loads(record.read_text())
            with contextlib.suppress(psutil.Error, KeyError):
                found[said["slot"]] = psutil.Process(said["pid"])
        return found

    def kill_job(self, supervisor: subprocess.Popen[bytes]) -> None:
        """SIGKILL the JVM and the Python driver, everything but the supervisor."""
        for child in psutil.Process(supervisor.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if "java" in child.name() or "autoscale.py" in " ".join(child.cmdline()):
                    child.kill()

    def end_workers(self) -> None:
        group = load(self.config).groups[0]
        assert group.workers is not None
        place = self.directory / "state" / "workers" / GROUP
        pool = ProcessPool(group=GROUP, settings=group.workers, directory=place, environment={}, clock=SystemClock())
        try:
            pool.observe()
            pool.stop_all(20)
        finally:
            pool.close()

    def close(self) -> None:
        for worker in self.workers().values():
            with contextlib.suppress(psutil.Error):
                worker.resume()
        for child in self.children:
            if child.poll() is None:
                child.terminate()
        for child in self.children:
            try:
                child.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
        self.end_workers()


def awaited(broker: Broker) -> set[tuple[Tp, Incarnation]]:
    """Return which releases the latest plan waits for that have not been written."""
    reader = Consumer(
        {**broker.connection(), "group.id": "test", "isolation.level": "read_committed", "enable.partition.eof": True}
    )
    partitions = reader.list_topics(CONTROL_TOPIC, timeout=30).topics[CONTROL_TOPIC].partitions
    reader.assign([TopicPartition(CONTROL_TOPIC, partition_for(GROUP, len(partitions)), OFFSET_BEGINNING)])
    waits: set[tuple[Tp, Incarnation, int]] = set()
    released: dict[tuple[Tp, Incarnation], int] = {}
    while (message := reader.poll(30)) is not None and message.error() is None:
        match decode(message.key(), message.value()).record:
            case Plan() as plan if plan.group == GROUP:
                waits = {(tp, w.worker, w.epoch) for tp, ws in plan.waits.items() for w in ws}
            case Released() as r if r.group == GROUP:
                released[r.tp, r.worker] = r.epoch
    reader.close()
    return {(tp, worker) for tp, worker, epoch in waits if released.get((tp, worker), -1) < epoch}


@pytest.fixture
def shop(own_broker: Broker, tmp_path: Path) -> Iterator[Shop]:
    create_topic(own_broker, TOPIC, 8)
    it = Shop(own_broker, tmp_path)
    yield it
    it.close()


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_nothing_is_lost_and_nothing_shrinks_when_worker_broker_and_job_fail(shop: Shop) -> None:
    began = time.time()
    steady = shop.produce("steady", 700_000)
    supervisor = shop.spawn("job", str(ROOT / "spark-submit.sh"), "--config", str(shop.config))
    consumers = shop.settles("a settled group", began, 180)
    assert consumers >= 3

    at = time.time()
    slot, victim = min(shop.workers().items())
    victim.send_signal(signal.SIGKILL)
    shop.wait("seeing the death", lambda: any(c["reason"] == "WORKER_LOST" for c in shop.cycles(at)))
    shop.wait("starting it again", lambda: slot in shop.workers() and shop.workers()[slot].pid != victim.pid)
    consumers = shop.settles("a group that has taken over", time.time())

    at = time.time()
    shop.broker.stop()
    time.sleep(20)
    shop.broker.restart()
    shop.wait("measuring again", lambda: any(c["known"] and c["reason"] != "NOT_READY" for c in shop.cycles(time.time() - 1)))
    away = shop.cycles(at)
    assert any(not c["known"] for c in away)
    assert all(int(str(c["consumers"])) >= consumers for c in away)  # unknown is not zero
    assert not any("remove" in str(c["actions"]) for c in away)
    shop.settles("a group that works after the outage", time.time(), 180)

    at = time.time()
    frozen = list(shop.workers().values())
    for worker in frozen:
        worker.suspend()  # nobody gives up a partition before the job is gone
    burst = shop.produce("burst", 500_000)
    shop.wait("moving partitions", lambda: any("move" in str(c["actions"]) for c in shop.cycles(at)))
    shop.kill_job(supervisor)
    assert awaited(shop.broker), "it was killed in the middle of a handover"
    for worker in frozen:
        worker.resume()
    shop.settles("a restarted job that carries on", time.time() + 1, 120)
    assert supervisor.poll() is None

    ended = time.time()
    for child in (burst, steady):
        child.terminate()
        child.wait(30)
    shop.wait("an empty backlog", lambda: any(c["known"] and c["total_lag_records"] == 0 for c in shop.cycles(time.time() - 2)))
    supervisor.terminate()
    supervisor.wait(60)
    shop.end_workers()

    both = [
        json.loads((shop.directory / n / "produced.jsonl").read_text().splitlines()[-1])["partitions"]
        for n in ("steady", "burst")
    ]
    produced = shop.directory / "produced.jsonl"
    produced.write_text(json.dumps({"partitions": {p: [both[0][p][0] + both[1][p][0]] for p in both[0]}}) + "\n")
    run = Run(
        bootstrap=shop.broker.bootstrap, topic=TOPIC, group=GROUP, window_s=5, usable_bytes_per_s=0.8 * CAPACITY,
        load_from_s=began, load_to_s=ended, logs=shop.directory / "processed", tables=shop.directory / "state" / "tables",
        cycles=shop.directory / "state" / "logs" / "cycles.jsonl", produced=produced, flush_s=5,
    )  # fmt: skip
    findings = {f.rule: f for f in check(run)}
    assert set(findings) >= MUST_HOLD
    for rule in sorted(MUST_HOLD):
        assert findings[rule].ok, f"{rule}: {findings[rule].measured} {findings[rule].evidence}"
