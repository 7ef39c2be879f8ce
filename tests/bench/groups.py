"""What a cycle costs with very many partitions in very many groups: the whole job in ``mode: advise``, on real brokers.

``python -m tests.bench.groups --partitions 10000 --groups 200`` starts the embedded broker with so many partitions, shared
among so many groups that have committed, lets records arrive in all of them, and runs ``spark-submit.sh`` over it at a
trigger of one second. It prints how long triggers took, and which program used how much of the machine. With ``--clusters 2``
they are shared among so many brokers, each a cluster of its own.
"""

import argparse
import contextlib
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import yaml
from confluent_kafka import Producer

from autoscaler.devtools.broker import Broker
from tests.bench import findings
from tests.bench.job import ROOT, process
from tests.bench.reading import TOPIC_SIZE, Bench
from tests.bench.usage import Usage
from tests.until import until

RECORD = 200
_HEAP_MB = 2048  # of all brokers together
_START_S = 600.0


def config(directory: Path, benches: Sequence[Bench]) -> Path:
    """Write the job's configuration and return its path."""
    file = directory / "config.yaml"
    settings = {
        "clusters": [{"name": f"c{i}", "connection": {"bootstrap.servers": b.broker.bootstrap}} for i, b in enumerate(benches)],
        "state_dir": str(directory / "state"),
        "measure": {"trigger": 1, "window": 30, "read_timeout": 10, "known_for": 15},
        "groups": [
            {"group": group, "cluster": f"c{i}", "topics": list(topics), "mode": "advise", "capacity": {"bytes_per_s": 10_000}}
            for i, bench in enumerate(benches)
            for group, topics in bench.topics_of.items()
        ],
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
    each = 1 / args.clusters
    with contextlib.ExitStack() as held:
        benches = []
        for i in range(args.clusters):
            broker = Broker(directory / f"broker-{i}", heap_mb=int(_HEAP_MB * each), java_options=("-XX:TieredStopAtLevel=4",))
            held.enter_context(broker)
            benches.append(Bench(broker, int(args.partitions * each), int(args.groups * each), f"c{i}-group"))
            benches[-1].fill()
        file, cycles = config(directory, benches), directory / "state" / "logs" / "cycles.jsonl"
        began = time.time()
        with process([str(ROOT / "spark-submit.sh"), "--config", str(file)], directory / "job.out") as job:
            said = partial((directory / "job.out").read_text, encoding="utf-8")
            decided = partial(findings.lines, cycles)
            ended = lambda found: found or job.poll() is not None  # noqa: E731
            if not until("the job's first decision", decided, ended, explain=said, within_s=_START_S, every_s=0.5):
                raise RuntimeError(said()[-2000:])
            first_s = findings.lines(cycles)[0]["t"] - began
            brokers = {f"broker {b.broker.bootstrap}": b.broker.pid for b in benches}
            usage, started = Usage({**brokers, "job": job.pid}), time.monotonic()
            with contextlib.ExitStack() as loads:
                for bench in benches:
                    loads.enter_context(Trickle(bench, args.records_per_s * each))
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
    parser.add_argument("--clusters", type=int, default=1, help="that partitions and groups are shared among")
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
