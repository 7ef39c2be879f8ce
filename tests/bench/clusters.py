"""What a second cluster costs: the whole job in ``mode: advise``, on one real broker after the other as a cluster of its own.

``python -m tests.bench.clusters --clusters 2 --partitions 400 --groups 8`` shares so many partitions and groups among so many
embedded brokers, lets records arrive in all of them, and runs ``spark-submit.sh`` over it at a trigger of one second. It prints
how long triggers and their stages took. The same partitions and groups on ``--clusters 1`` are what to compare with.
"""

import argparse
import contextlib
import shutil
import sys
import tempfile
import time
from pathlib import Path

import yaml

from autoscaler.embedded.broker import Broker
from tests.bench import findings
from tests.bench.groups import Trickle
from tests.bench.job import ROOT, process
from tests.bench.reading import Bench
from tests.bench.usage import Usage

_START_S = 300.0


def config(directory: Path, benches: list[Bench]) -> Path:
    """Write the job's configuration and return its path."""
    file = directory / "config.yaml"
    settings = {
        "clusters": [{"name": f"c{i}", "connection": {"bootstrap.servers": b.broker.bootstrap}} for i, b in enumerate(benches)],
        "state_dir": str(directory / "state"),
        "measure": {"trigger_s": 1, "window_s": 10},
        "groups": [
            {"group": group, "cluster": f"c{i}", "topics": list(topics), "capacity_bytes_per_s": 10_000}
            for i, bench in enumerate(benches)
            for group, topics in bench.topics_of.items()
        ],
    }
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return file


def measure(directory: Path, args: argparse.Namespace) -> list[tuple[str, str]]:
    """Run the job and return (what, figure) rows."""
    with contextlib.ExitStack() as held:
        brokers = [held.enter_context(Broker(directory / f"broker-{i}", heap_mb=256)) for i in range(args.clusters)]
        benches = [
            Bench(b, args.partitions // args.clusters, args.groups // args.clusters, f"c{i}") for i, b in enumerate(brokers)
        ]
        for bench in benches:
            bench.fill()
        file, cycles = config(directory, benches), directory / "state" / "logs" / "cycles.jsonl"
        began = time.time()
        with process([str(ROOT / "spark-submit.sh"), "--config", str(file)], directory / "job.out") as job:
            while not findings.lines(cycles):
                if job.poll() is not None or time.time() - began > _START_S:
                    raise RuntimeError((directory / "job.out").read_text(encoding="utf-8")[-2000:])
                time.sleep(0.5)
            for bench in benches:
                held.enter_context(Trickle(bench, args.records_per_s / args.clusters))
            usage, started = Usage({"job": job.pid}), time.monotonic()
            while (ran := time.monotonic() - started) < args.seconds:
                usage.look(ran)
                time.sleep(2)
        rows = list(findings.triggers(directory / "state" / "logs", time.time() - args.seconds / 2))
        last = findings.lines(cycles)[-args.groups :]
        known = sum(bool(c["known"]) for c in last)
        return [*rows, ("groups whose last decision knew everything", f"{known} of {args.groups}"), *usage.rows(args.seconds / 2)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=2)
    parser.add_argument("--partitions", type=int, default=400, help="of all clusters together")
    parser.add_argument("--groups", type=int, default=8, help="of all clusters together")
    parser.add_argument("--seconds", type=float, default=80.0, help="the first half of them is not counted")
    parser.add_argument("--records-per-s", type=float, default=400.0)
    args = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="bench-clusters-"))
    try:
        for what, figure in measure(directory, args):
            sys.stdout.write(f"{what}: {figure}\n")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
