"""What a cycle costs with very many partitions in very many groups: the whole job in ``mode: advise``, on a real broker.

``python -m tests.bench.groups --partitions 10000 --groups 200`` starts the embedded broker with so many partitions, shared
among so many groups that have committed, lets records arrive in all of them, and runs ``spark-submit.sh`` over it at a
trigger of one second. It prints how long triggers took, and which program used how much of the machine.
"""

import argparse
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import yaml
from confluent_kafka import Producer

from autoscaler.embedded.broker import Broker
from tests.bench import findings
from tests.bench.job import ROOT, process
from tests.bench.reading import TOPIC_SIZE, Bench
from tests.bench.usage import Usage

RECORD = 200
_START_S = 600.0


def config(directory: Path, bench: Bench) -> Path:
    """Write the job's configuration and return its path."""
    file = directory / "config.yaml"
    groups = [
        {"group": group, "topics": list(topics), "mode": "advise", "capacity_bytes_per_s": 10_000}
        for group, topics in bench.topics_of.items()
    ]
    settings = {
        "clusters": [{"connection": {"bootstrap.servers": bench.broker.bootstrap}}],
        "state_dir": str(directory / "state"),
        "measure": {"trigger_s": 1, "window_s": 30, "read_timeout_s": 10, "known_for_s": 15},
        "groups": groups,
    }
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return file


class Trickle:
    """Lets records arrive in all partitions, in turn."""

    def __init__(self, bench: Bench, per_s: float) -> None:
        """Remember where to."""
        self._bench, self._per_s = bench, per_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        """Begin."""
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        """End."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        producer = Producer({**self._bench.broker.connection(), "linger.ms": 50, "log_level": 0})
        began, sent, topics = time.monotonic(), 0, self._bench.topics
        while not self._stop.wait(0.05):
            while sent < (time.monotonic() - began) * self._per_s:
                topic, partition = topics[sent // TOPIC_SIZE % len(topics)], sent % TOPIC_SIZE
                producer.produce(topic, b"x" * RECORD, partition=partition)
                sent += 1
            producer.poll(0)
        producer.flush(30)


def measure(directory: Path, args: argparse.Namespace) -> list[tuple[str, str]]:
    """Run the job and return (what, figure) rows."""
    with Broker(directory / "broker", heap_mb=2048, java_options=("-XX:TieredStopAtLevel=4",)) as broker:
        bench = Bench(broker, args.partitions, args.groups)
        bench.fill()
        file, cycles = config(directory, bench), directory / "state" / "logs" / "cycles.jsonl"
        began = time.time()
        with process([str(ROOT / "spark-submit.sh"), "--config", str(file)], directory / "job.out") as job:
            while not findings.lines(cycles):
                if job.poll() is not None or time.time() - began > _START_S:
                    raise RuntimeError((directory / "job.out").read_text(encoding="utf-8")[-2000:])
                time.sleep(0.5)
            first_s = findings.lines(cycles)[0]["t"] - began
            usage, started = Usage({"broker": broker.pid, "job": job.pid}), time.monotonic()
            with Trickle(bench, args.records_per_s):
                while (ran := time.monotonic() - started) < args.seconds:
                    usage.look(ran)
                    time.sleep(2)
        rows = [("from spark-submit.sh to the first decision", f"{first_s:.1f} s")]
        rows += findings.triggers(directory / "state" / "logs", time.time() - args.seconds / 2)
        last = findings.lines(cycles)[-args.groups :]
        known = sum(bool(c["known"]) for c in last)
        return [*rows, ("groups whose last decision knew everything", f"{known} of {args.groups}"), *usage.rows(args.seconds / 2)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=180.0, help="the first half of them is not counted")
    parser.add_argument("--records-per-s", type=float, default=1000.0)
    args = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="bench-groups-"))
    try:
        for what, figure in measure(directory, args):
            sys.stdout.write(f"{what}: {figure}\n")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
