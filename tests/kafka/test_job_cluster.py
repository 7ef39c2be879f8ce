"""The whole job on executors that are processes of their own: directories, Python and environment apart from the driver's."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from deltalake import DeltaTable

from autoscaler import jars
from autoscaler.devtools.broker import Broker
from tests.conftest import create_topic
from tests.kafka.machines import python_of_another_machine
from tests.kafka.measuring import Load
from tests.until import until

pytestmark = pytest.mark.timeout(900)
ROOT = Path(__file__).resolve().parents[2]
VARIABLE = "NAME_OF_THE_CLIENT"
SHORT_LIVED = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # of JVMs that live for minutes: optimising does not pay


APART_S = (3.5, -1.5)
# What executors believe: each is a machine of its own, whose clock is apart from the driver's.
BELIEF = f"""\
import pathlib, time
number, real, read = int(pathlib.Path.cwd().name), time.time, pathlib.Path.read_text
time.time = lambda: real() + {APART_S}[number % 2]
pathlib.Path.read_text = lambda self, *a, **k: f"machine {{number}}" if self.name == "boot_id" else read(self, *a, **k)
"""


class Job:
    """spark-submit.sh with ``local-cluster``: two executors of one core."""

    def __init__(self, place: Path, broker: Broker, topic: str) -> None:
        self.place, self.log = place, place / "state" / "logs" / "job.log"
        self.home = place / "spark"  # executors have their directories below it
        self.home.mkdir()
        for part in jars.spark_home().iterdir():
            (self.home / part.name).symlink_to(part)
        self.python = python_of_another_machine(place / "python", unset=VARIABLE, belief=BELIEF)
        self.settings: dict[str, Any] = {
            "clusters": [{"connection": {**broker.connection(), "client.id": f"env:{VARIABLE}"}}],
            "state_dir": str(place / "state"),
            "groups": [{"group": "g", "topics": [topic], "capacity": {"bytes_per_s": 1_000_000}}],
            "measure": {"window": "10s", "buckets": 2},
            "audit": {"flush": "5s"},
        }

    def start(self) -> "subprocess.Popen[bytes]":
        config = self.place / "config.yaml"
        config.write_text(yaml.safe_dump(self.settings), encoding="utf-8")
        command = [str(ROOT / "spark-submit.sh"), "--config", str(config), "--master", "local-cluster[2,1,1024]"]
        command += ["--conf", f"spark.pyspark.python={self.python}", "--conf", f"spark.pyspark.driver.python={sys.executable}"]
        command += ["--conf", f"spark.executor.extraJavaOptions={SHORT_LIVED}"]
        own = {"SPARK_HOME": str(self.home), "AUTOSCALER_PYTHON": sys.executable, VARIABLE: "the driver's own"}
        own["AUTOSCALER_JAVA_OPTIONS"] = SHORT_LIVED
        with (self.place / "told").open("wb") as told:
            return subprocess.Popen(command, cwd=self.place, env={**os.environ, **own}, stderr=told, start_new_session=True)

    def executors(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                if str(self.home / "work") in process.cwd() and "CoarseGrainedExecutorBackend" in " ".join(process.cmdline()):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def told(self) -> str:
        """Return what whoever started it has been told."""
        return (self.place / "told").read_text(encoding="utf-8")

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8") if self.log.exists() else ""

    def rates(self, since: float = 0.0) -> list[float]:
        """Return bytes/s of all partitions together, of the cycles after that moment in which each one's rate was known."""
        lines = self.place / "state" / "logs" / "cycles.jsonl"
        cycles = (
            [json.loads(x) for x in lines.read_text(encoding="utf-8").splitlines() if x.endswith("}")] if lines.exists() else []
        )
        return [c["total_bytes_per_s"] for c in cycles if c["known"] and c["t"] > since]


@pytest.fixture
def job(own_broker: Broker, tmp_path: Path) -> Iterator[Job]:
    topic = create_topic(own_broker, "orders", 4, message_timestamp_type="LogAppendTime")
    it = Job(tmp_path, own_broker, topic)
    with Load(own_broker.connection(), topic, per_s=200, size=1000, partitions=4, wave_s=1e9):  # always half of it
        yield it


@pytest.fixture
def started(job: Job) -> Iterator[Callable[[], "subprocess.Popen[bytes]"]]:
    """Start the job, which a test that fails does not leave behind."""
    running: list[subprocess.Popen[bytes]] = []

    def start() -> "subprocess.Popen[bytes]":
        running.append(job.start())
        return running[-1]

    yield start
    for process in running:
        process.kill()  # what it has started goes with it
        process.wait()


def test_the_job_measures_on_executors_whose_clocks_are_apart_and_goes_on_when_one_is_killed(
    job: Job, started: Callable[[], "subprocess.Popen[bytes]"]
) -> None:
    process = started()
    until("it has measured", job.rates, lambda found: len(found) > 40, explain=job.said, within_s=400)
    assert len([x for x in job.said().splitlines() if "has the job's package and all that it needs" in x]) == 2
    assert "its clock is at least 3." in job.said()
    rates = sorted(job.rates()[15:])
    assert rates[-1] < 1.1 * rates[len(rates) // 2] < 1.1**2 * rates[0], rates
    first = job.executors()
    assert len(first) == 2
    first[0].kill()
    until("another one has come", job.executors, lambda there: len(there) == 2 and first[0] not in there, explain=job.said)
    killed = time.time()
    until("it measures again", lambda: job.rates(killed), lambda found: len(found) > 5, explain=job.said, within_s=300)
    tables = DeltaTable(str(job.place / "state" / "tables" / "loads"))
    assert tables.to_pyarrow_table(columns=["at"]).num_rows > 3
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0, job.told()


def test_what_executors_do_not_share_ends_the_start_with_its_reason(
    job: Job, started: Callable[[], "subprocess.Popen[bytes]"]
) -> None:
    job.settings["checkpoint"] = "/proc/self/cwd/checkpoint"  # of every process another one
    process = started()
    assert process.wait(300) == 78
    assert "checkpoint: what executors on" in job.told()
    assert "write to /proc/self/cwd/checkpoint is not there for the driver: name a disk that all machines share" in job.told()
