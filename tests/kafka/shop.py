"""A shop for tests of the whole job: real brokers, the job as a user starts it, its consumers, and loads that come and go."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import yaml
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.workers.process_pool import ProcessPool
from autoscaler.config.settings import ProcessWorkers, load
from autoscaler.devtools.broker import Cluster
from autoscaler.devtools.verify.__main__ import check
from autoscaler.devtools.verify.finding import Finding
from autoscaler.devtools.verify.run import Run
from tests.until import until

ROOT = Path(__file__).resolve().parents[2]
TOPIC, GROUP, CAPACITY, PARTITIONS = "orders", "shop", 300_000.0, 8
FLUSH_S = 20.0  # each write of rows takes a second of processor time
COMMIT_S = 25.0  # what rows may wait for beyond ``flush_s``, when a starved machine takes its time to commit those before them
MUST_HOLD = {
    "acknowledged is in the topic", "every record processed", "only records of the topic", "order per partition",
    "one worker at a time", "handovers match the logs", "steps match the logs", "decisions have their rows",
    "cycles have their rows",
}  # fmt: skip


@dataclass
class Shop:
    """A job, its consumers and its load on a broker."""

    broker: Cluster
    directory: Path
    handover: Mapping[str, object] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)  # checkpoint and tables, where they lie elsewhere
    options: tuple[str, ...] = ()  # of spark-submit
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _known: list[dict[str, object]] = field(default_factory=list)  # cycles that were read so far
    _at: int = 0  # where the next one begins in their file

    def __post_init__(self) -> None:
        (self.directory / "processed").mkdir()
        self.tables = self.places.get("tables", str(self.directory / "state" / "tables"))
        self.config = self.directory / "config.yaml"
        environment = {"CONSUMER_LOG_DIR": str(self.directory / "processed"), "CONSUMER_BYTES_PER_S": str(CAPACITY)}
        group = {
            "group": GROUP, "topics": [TOPIC], "mode": "act", "capacity": {"bytes_per_s": CAPACITY}, "max_consumers": 8,
            "moves": {"cooldown": "2s"}, "scale_down": {"stabilisation": "10s", "cooldown": "10s", "reversals_per_hour": None},
            "workers": {"command": ["{python}", str(ROOT / "docs" / "examples" / "consumer.py")], "environment": environment},
        }  # fmt: skip
        self.config.write_text(
            yaml.safe_dump(
                {
                    "clusters": [{"connection": {"bootstrap.servers": self.broker.bootstrap}}],
                    "state_dir": str(self.directory / "state"),
                    **self.places,
                    "measure": {"window": "5s"},
                    "audit": {"flush": f"{FLUSH_S:.0f}s"},
                    **({"handover": dict(self.handover)} if self.handover else {}),
                    "groups": [group],
                }
            )
        )

    def spawn(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with (self.directory / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, start_new_session=True)
        self.children.append(child)
        return child

    def start_job(self) -> subprocess.Popen[bytes]:
        return self.spawn("job", str(ROOT / "spark-submit.sh"), "--config", str(self.config), *self.options)

    def produce(self, name: str, bytes_per_s: float) -> subprocess.Popen[bytes]:
        return self.produce_moments(name, [{"at_s": 0, "bytes_per_s": [bytes_per_s / PARTITIONS] * PARTITIONS}], 600)

    def produce_moments(self, name: str, moments: list[dict[str, object]], duration_s: float) -> subprocess.Popen[bytes]:
        scenario = self.directory / f"{name}.json"
        scenario.write_text(json.dumps({"moments": moments}))
        (self.directory / name).mkdir()
        return self.spawn(
            f"{name}-load", sys.executable, "-m", "autoscaler.devtools.load", "--bootstrap", self.broker.bootstrap,
            "--topic", TOPIC, "--scenario", str(scenario), "--duration", str(duration_s), "--log", str(self.directory / name),
            "--seed", str(len(self.children)),  # of two loads no record is like another, or the check would take it for a repeat
        )  # fmt: skip

    def cycles(self, since: float = 0.0) -> list[dict[str, object]]:
        file = self.directory / "state" / "logs" / "cycles.jsonl"
        if file.exists():
            with file.open("rb") as lines:
                lines.seek(self._at)
                new = lines.read().rpartition(b"\n")[0]
            if new:
                self._known.extend(map(json.loads, new.split(b"\n")))
                self._at += len(new) + 1
        return [c for c in self._known if float(str(c["t"])) >= since]

    def recorded(self) -> float:
        """Return the time of the latest cycle that has its row; 0 before the first."""
        try:
            times = DeltaTable(f"{self.tables}/loads").to_pyarrow_table(columns=["at"])["at"].to_pylist()
        except TableNotFoundError:
            return 0.0
        return max((at.timestamp() for at in times), default=0.0)

    def wait(self, what: str, condition: Callable[[], bool], timeout_s: float = 400.0) -> None:
        def last() -> str:
            return "\n".join(f"{c['reason']} {c['limited_by']} {c['detail']}" for c in self.cycles()[-5:])

        until(what, condition, explain=last, within_s=timeout_s, every_s=0.1)

    def settles(self, what: str, since: float, timeout_s: float = 400.0) -> int:
        """Wait until a cycle after ``since`` finds all well; return how many consumers there are."""
        self.wait(what, lambda: any(c["reason"] == "WITHIN_TARGET" and c["known"] for c in self.cycles(since)), timeout_s)
        return int(str([c["consumers_now"] for c in self.cycles(since) if c["consumers_now"] is not None][-1]))

    def workers(self) -> dict[int, psutil.Process]:
        records = (self.directory / "state" / "workers" / GROUP).glob("*.json")
        found = {}
        for record in records:
            said = json.loads(record.read_text())
            if said["pid"] is None:  # it has ended; psutil would take None for this very process
                continue
            with contextlib.suppress(psutil.Error):
                found[said["slot"]] = psutil.Process(said["pid"])
        return found

    def at_work(self, since: float) -> set[str]:
        """Return the incarnations that have processed something since then."""
        return {f.name for f in (self.directory / "processed").glob("processed-*.log") if f.stat().st_mtime >= since}

    def holding(self) -> set[str]:
        """Return the incarnations that held partitions when it was last known, by the names of ``at_work``."""
        lists = [c["workers"] for c in self.cycles() if c["consumers_now"] is not None]
        return {f"processed-{w['uuid']}.log" for w in lists[-1] if w["partitions"]}  # type: ignore[attr-defined]

    def kill_job(self, supervisor_pid: int) -> None:
        """SIGKILL the JVM and the Python driver, everything but the supervisor."""
        for child in psutil.Process(supervisor_pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if "java" in child.name() or "autoscale.py" in " ".join(child.cmdline()):
                    child.kill()

    def end_workers(self) -> None:
        group = load(self.config).groups[0]
        assert group.workers is not None
        workers = group.workers.chosen
        assert isinstance(workers, ProcessWorkers)
        place = self.directory / "state" / "workers" / GROUP
        pool = ProcessPool(group=GROUP, settings=workers, directory=place, environment={}, clock=SystemClock())
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

    def findings(self, loads: tuple[str, ...], began: float, ended: float, *, paused: int = 0) -> dict[str, Finding]:
        """Let the independent check judge what happened; job, consumers and loads have ended."""
        acknowledged = [0] * PARTITIONS
        for name in loads:
            said = json.loads((self.directory / name / "produced.jsonl").read_text().splitlines()[-1])["partitions"]
            for partition, counts in said.items():
                acknowledged[int(partition)] += counts[0]
        produced = self.directory / "produced.jsonl"
        produced.write_text(json.dumps({"partitions": {p: [n] for p, n in enumerate(acknowledged)}}) + "\n")
        run = Run(
            bootstrap=self.broker.bootstrap, topic=TOPIC, group=GROUP, window_s=5, usable_bytes_per_s=0.8 * CAPACITY,
            load_from_s=began, load_to_s=ended, logs=self.directory / "processed", tables=self.tables,
            cycles=self.directory / "state" / "logs" / "cycles.jsonl", produced=produced,
            flush_s=FLUSH_S + COMMIT_S, paused=paused,
        )  # fmt: skip
        return {f.rule: f for f in check(run)}


def assert_all_holds(findings: dict[str, Finding]) -> None:
    assert set(findings) >= MUST_HOLD
    for rule in sorted(MUST_HOLD):
        assert findings[rule].ok, f"{rule}: {findings[rule].measured} {findings[rule].evidence}"
