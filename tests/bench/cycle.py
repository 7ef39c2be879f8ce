"""Measure one cycle's cost: the real job's query on a real broker, with a decider that does nothing.

``python tests/bench/cycle.py --partitions 16 --seconds 120`` starts the embedded broker, a light producer and the query, and
prints the trigger's p50, p95 and maximum and where the time went. Figures before the first minute are left out: the JVM is
still compiling. On a busy machine read the ratios.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from autoscaler.embedded import jars
from autoscaler.embedded.broker import Broker
from autoscaler.model import LoadSnapshot
from autoscaler.settings import Settings

ROOT = Path(__file__).resolve().parents[2]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the broker and the producer here, and the query in a process of its own, as the job does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--warm-up", type=float, default=60.0)
    parser.add_argument("--trigger", type=float, default=1.0)
    parser.add_argument("--rate", type=float, default=200.0, help="records per second of 1,000 bytes")
    parser.add_argument("--conf", action="append", default=[], help="further Spark settings, KEY=VALUE")
    parser.add_argument("--java-options", default="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -Xss4m")
    parser.add_argument("--query", help=argparse.SUPPRESS)
    parser.add_argument("--began", type=float, default=0.0, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.query:
        measure(args)
        return
    with tempfile.TemporaryDirectory() as place, Broker(heap_mb=512) as broker:
        make_topic(broker.bootstrap, args.partitions)
        stop = threading.Event()
        load = threading.Thread(target=produce, args=(broker.bootstrap, args.partitions, args.rate, stop))
        load.start()
        try:
            print(f"load average {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores, {args.partitions} partitions")
            subprocess.run(command(args, place, broker.bootstrap), check=True, env=environment(), timeout=args.seconds + 120)
        finally:
            stop.set()
            load.join()


def make_topic(bootstrap: str, partitions: int) -> None:
    """Create the topic and wait for it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("bench", partitions, 1)])["bench"].result(30)


def produce(bootstrap: str, partitions: int, rate: float, stop: threading.Event) -> None:
    """Produce evenly until told to stop."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "log_level": 0})
    sent, began = 0, time.monotonic()
    while not stop.wait(0.05):
        while sent < (time.monotonic() - began) * rate:
            producer.produce("bench", b"x" * 1000, partition=sent % partitions)
            sent += 1
        producer.poll(0)
    producer.flush(5)


def environment() -> dict[str, str]:
    """Return the environment that spark-submit.sh makes."""
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}


def command(args: argparse.Namespace, place: str, bootstrap: str) -> list[str]:
    """Return the spark-submit command line of the measuring half."""
    settings = Path(place) / "settings.json"
    settings.write_text(json.dumps({
        "cluster": {"connection": {"bootstrap.servers": bootstrap}},
        "state_dir": str(Path(place) / "state"),
        "groups": [{"group": "bench", "topics": ["bench"], "capacity_bytes_per_s": 1e6}],
        "measure": {"trigger_s": args.trigger, "window_s": 30},
    }))  # fmt: skip
    import pyspark  # noqa: PLC0415  half a second that only the starting half pays

    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    extra = [x for pair in args.conf for x in ("--conf", pair)]
    return [
        submit, "--master", "local[4]", "--driver-memory", "1g", "--properties-file", str(ROOT / "conf" / "spark.conf"),
        "--driver-java-options", f"{args.java_options} -Dlog4j2.configurationFile={ROOT / 'conf' / 'log4j2.properties'}",
        "--driver-class-path", jars.class_path(jars.DELTA), *extra, str(Path(__file__).resolve()), "--query", str(settings),
        "--seconds", str(args.seconds), "--warm-up", str(args.warm_up), "--began", str(time.time()),
    ]  # fmt: skip


def measure(args: argparse.Namespace) -> None:
    """Run the query and print what its batches cost."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  only this half needs Spark

    from autoscaler.streaming import query  # noqa: PLC0415

    settings = Settings.model_validate(json.loads(Path(args.query).read_text()))
    spark = SparkSession.builder.getOrCreate()
    session = time.time()
    batches: list[dict[str, float]] = []
    first: list[float] = []

    def tell(number: int, snapshots: Mapping[str, LoadSnapshot], measured: Mapping[str, float]) -> None:
        snapshot = snapshots["bench"]
        rate = sum(x.bytes_per_s or 0.0 for x in snapshot.loads)
        if snapshot.known and not first:
            first.append(time.time())
        batches.append({"batch": number, "rate": rate, "known": sum(x.known for x in snapshot.loads), **measured})

    stream = query.start(spark, settings, tell)
    progress: dict[int, dict[str, Any]] = {}
    limit = time.monotonic() + args.seconds
    warm = time.monotonic() + args.warm_up
    skip = -1
    while time.monotonic() < limit and stream.isActive:
        time.sleep(1)
        for p in stream.recentProgress:
            progress[p.batchId] = json.loads(p.json)
        if time.monotonic() < warm:
            skip = max(progress, default=-1)
    failure = stream.exception()
    query.stop(stream)
    if failure is not None:
        raise SystemExit(str(failure))
    counted = [p for n, p in progress.items() if n > skip]
    print(f"session after {session - args.began:.1f} s, first rates after {first[0] - args.began:.1f} s, {len(counted)} batches")
    print(f"last batch: {batches[-1]}")
    for stage in sorted({k for p in counted for k in p["durationMs"]}):
        show(stage, [p["durationMs"].get(stage, 0) for p in counted])
    for stage in ("collect_s", "read_s", "window_s", "snapshot_s"):
        show(stage, [b[stage] * 1000 for b in batches if b["batch"] > skip])
    states = [p["stateOperators"][0] for p in counted]
    show("state updates", [s["allUpdatesTimeMs"] for s in states])
    show("state commit", [s["commitTimeMs"] for s in states])
    custom = sorted({k for s in states for k in s.get("customMetrics", {}) if k.endswith(("Latency", "LatencyMs"))})
    for name in custom:
        show(name, [s["customMetrics"][name] for s in states])


def show(name: str, values: Sequence[float]) -> None:
    """Print p50, p95 and maximum in milliseconds."""
    if not values or max(values) <= 0:
        return
    ordered = sorted(values)
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    print(f"{name:36s} p50 {statistics.median(values):7.0f}  p95 {p95:7.0f}  max {ordered[-1]:7.0f} ms")


if __name__ == "__main__":
    main()
