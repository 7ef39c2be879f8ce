"""Measure the whole job, acting, as a user runs it: ``spark-submit.sh`` on a real broker with real consumers under real load.

``python -m tests.bench.job --partitions 16 --seconds 300`` prints the trigger's durations, the time to the first decision, how
long it takes from a rate above capacity to the new owners' consuming, how far the measured byte rate is from the producer's own
count, whether memory stays flat, and which program used how much of the machine. ``--consumers running`` keeps all consumers
running from the start and changes only which partition is hot. ``--outage 30`` stops the broker for so long in the middle, with
the default lease. The first minute of the load is left out of durations and processor time: the JVM is still compiling.
"""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import yaml
from confluent_kafka.admin import AdminClient, NewTopic

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.workers.process_pool import ProcessPool
from autoscaler.config.settings import ProcessWorkers, load
from autoscaler.devtools.broker import Broker
from autoscaler.handover.records import LEASE_S
from tests.bench import findings
from tests.bench.findings import Row, Run
from tests.bench.usage import Usage
from tests.bench.waves import Wave, elastic, rotating, write
from tests.until import until

ROOT = Path(__file__).parents[2]
TOPIC, GROUP = "bench-load", "bench"
WARM_UP_S = 60.0
CAPACITY = 300_000.0
# Few records, so that broker, generator and consumers leave something of two cores; and what the log adds to each is little.
RECORD_BYTES = 4000
MOST = 8


def config(directory: Path, bootstrap: str, *, running: bool, lease_s: float) -> Path:
    """Write the job's configuration and return its path; ``running`` keeps all consumers from the start."""
    file = directory / "config.yaml"
    file.write_text(
        yaml.safe_dump({
            "clusters": [{"name": "bench", "connection": {"bootstrap.servers": bootstrap}}],
            "state_dir": str(directory / "state"),
            "measure": {"window": 5},
            "handover": {"lease": lease_s},
            "groups": [{
                "group": GROUP, "topics": [TOPIC], "mode": "act", "capacity": {"bytes_per_s": CAPACITY},
                "min_consumers": MOST if running else 1, "max_consumers": MOST,
                "moves": {"cooldown": 3},
                "scale_down": {"stabilisation": 8, "cooldown": 8, "reversals_per_hour": None},
                "workers": {"command": ["{python}", str(ROOT / "docs" / "examples" / "consumer.py")],
                            "environment": {
 "CONSUMER_LOG_DIR": str(directory / "processed"), "CONSUMER_BYTES_PER_S": str(CAPACITY)}},
            }],
        }),
        encoding="utf-8",
    )  # fmt: skip
    return file


@contextlib.contextmanager
def process(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program beside the measurement and end it in order."""
    with log.open("ab") as out:
        child = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True, cwd=ROOT)
    try:
        yield child
    finally:
        child.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(60)
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)


def log_bytes(data: Path) -> int:
    """Return what the topic's log segments hold on disk."""
    return sum(f.stat().st_size for f in data.glob(f"{TOPIC}-*/*.log"))


def measure(directory: Path, args: argparse.Namespace) -> list[Row]:
    """Run the job and return (what, figure) rows."""
    running = args.consumers == "running"
    with Broker(directory / "broker", heap_mb=args.heap_mb) as broker:
        (directory / "processed").mkdir()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        # Stamped by the broker when it appends: that is when a record becomes load.
        stamped = {"message.timestamp.type": "LogAppendTime"}
        topic = NewTopic(TOPIC, num_partitions=args.partitions, replication_factor=1, config=stamped)
        admin.create_topics([topic])[TOPIC].result(60)
        file = config(directory, broker.bootstrap, running=running, lease_s=LEASE_S if args.outage else 10.0)
        make = rotating if running else elastic
        waves = make(partitions=args.partitions, seconds=args.seconds + 120)
        state, began = directory / "state", time.time()
        with process([str(ROOT / "spark-submit.sh"), "--config", str(file)], directory / "job.out") as job:
            cycles = state / "logs" / "cycles.jsonl"
            said = partial((directory / "job.out").read_text, encoding="utf-8")
            decided = partial(findings.lines, cycles)
            ended = lambda found: found or job.poll() is not None  # noqa: E731
            if not until("the job's first decision", decided, ended, explain=said, within_s=180, every_s=0.2):
                raise RuntimeError(said()[-2000:])
            first_s = findings.lines(cycles)[0]["t"] - began
            with process(_producing(directory, broker, waves, args.seconds), directory / "load.out") as producer:
                usage = Usage({"broker": broker.pid, "load generator": producer.pid, "job": job.pid})
                outage = _watch(usage, broker, args.seconds, args.outage)
            grown = log_bytes(broker.nodes[0].data)
        _end_workers(file)
        run = Run(directory=directory, waves=waves, warm_up_s=WARM_UP_S, log_bytes=grown, outage=outage)
        return [("from spark-submit.sh to the first decision", f"{first_s:.1f} s"), *run.rows(), *usage.rows(WARM_UP_S)]


def _producing(directory: Path, broker: Broker, waves: list[Wave], seconds: float) -> list[str]:
    scenario = write(waves, directory / "waves.json")
    return [
        sys.executable, "-m", "autoscaler.devtools.load", "--bootstrap", broker.bootstrap, "--topic", TOPIC,
        "--scenario", str(scenario), "--duration", str(seconds + 120), "--log", str(directory),
        "--record-bytes", str(RECORD_BYTES),
    ]  # fmt: skip


def _watch(usage: Usage, broker: Broker, seconds: float, outage_s: float) -> tuple[float, float] | None:
    """Let the run go on, and return when the broker was away."""
    began, outage = time.monotonic(), None
    while (ran := time.monotonic() - began) < seconds:
        if outage_s and outage is None and ran > seconds / 2:
            away = time.time()
            broker.stop()
            time.sleep(outage_s)
            broker.restart()
            outage = (away, time.time())
            usage.follow("broker", broker.pid)
        usage.look(ran)
        time.sleep(2)
    return outage


def _end_workers(file: Path) -> None:
    settings = load(file)
    group = settings.groups[0]
    assert group.workers is not None
    workers = group.workers.chosen
    assert isinstance(workers, ProcessWorkers)
    pool = ProcessPool(
        group=GROUP, settings=workers, directory=settings.root / "workers" / GROUP, environment={}, clock=SystemClock()
    )
    pool.observe()
    pool.stop_all(20)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--consumers", choices=("elastic", "running"), default="elastic")
    parser.add_argument("--outage", type=float, default=0.0)
    parser.add_argument("--heap-mb", type=int, default=512)
    parser.add_argument("--keep", type=Path, help="directory to leave logs and tables in; it must not exist")
    args = parser.parse_args()
    if args.keep is not None:
        args.keep.mkdir(parents=True)
    directory = args.keep or Path(tempfile.mkdtemp(prefix="bench-job-"))
    try:
        for what, figure in measure(directory, args):
            sys.stdout.write(f"{what}: {figure}\n")
    finally:
        if args.keep is None:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
