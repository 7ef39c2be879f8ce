"""Measure the whole job, acting, as a user runs it: ``spark-submit.sh`` on a real broker with real consumers under real load.

``python -m tests.bench.job --partitions 16 --seconds 300`` prints the trigger's durations, the time to the first decision, how
long it takes from a rate above capacity to the new owner's first record, how far the measured byte rate is from what the
broker's files grew, and whether memory stays flat. ``--outage 35`` stops the broker for so long in the middle. The first
minute is left out of durations: the JVM is still compiling.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

import psutil
import yaml
from confluent_kafka.admin import AdminClient, NewTopic

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.processes import ProcessPool
from autoscaler.embedded.broker import Broker
from autoscaler.settings import load
from tests.bench.processed import percentile, read

ROOT = Path(__file__).parents[2]
TOPIC, GROUP = "bench-load", "bench"
WARM_UP_S = 60.0
Row = tuple[str, str]


def config(directory: Path, bootstrap: str, capacity: float) -> Path:
    """Write the job's configuration and return its path."""
    file = directory / "config.yaml"
    file.write_text(
        yaml.safe_dump({
            "cluster": {"name": "bench", "connection": {"bootstrap.servers": bootstrap}},
            "state_dir": str(directory / "state"),
            "measure": {"trigger_s": 1, "window_s": 5},
            "handover": {"lease_s": 10},
            "groups": [{
                "group": GROUP, "topics": [TOPIC], "mode": "act", "capacity_bytes_per_s": capacity, "max_consumers": 8,
                "cooldown_s": 3, "shrink_stabilisation_s": 8, "shrink_cooldown_s": 8,
                "workers": {"command": ["{python}", str(ROOT / "docs" / "examples" / "consumer.py")],
                            "environment": {
 "CONSUMER_LOG_DIR": str(directory / "processed"), "CONSUMER_BYTES_PER_S": str(capacity)}},
            }],
        }),
        encoding="utf-8",
    )  # fmt: skip
    return file


def waves(directory: Path, *, partitions: int, seconds: float, low: float, high: float) -> Path:
    """Write a load that rises and falls every 45 s, with two hot partitions that change, so that the job keeps acting."""
    moments, at, number = [], 0.0, 0
    while at < seconds:
        for start, total in ((at, low), (at + 22, high)):
            hot = {(number * 2) % partitions, (number * 2 + 5) % partitions} if total == high else set()
            each = total * (0.6 if hot else 1.0) / (partitions - len(hot))
            rates = [total * 0.2 if p in hot else each for p in range(partitions)]
            end = start + (20 if total == low else 21)
            moments += [{"at_s": at_s, "bytes_per_s": rates} for at_s in (start, end)]
            number += 1
        at += 45
    file = directory / "waves.json"
    file.write_text(json.dumps({"moments": moments}), encoding="utf-8")
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


def memory(root: psutil.Process) -> dict[str, int]:
    """Return resident bytes of the JVMs and of the Python processes below a process."""
    found = {"jvm": 0, "python": 0}
    for child in root.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            name = "jvm" if "java" in child.name() else "python"
            found[name] += child.memory_full_info().pss if name == "python" else child.memory_info().rss
    return found


def lines(path: Path) -> list[dict]:  # type: ignore[type-arg]
    """Return the JSON lines of a file."""
    return [json.loads(x) for x in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def measure(*, partitions: int, seconds: float, outage_s: float, heap_mb: int) -> list[Row]:
    """Run the job and return (what, figure) rows."""
    capacity = 300_000.0
    with tempfile.TemporaryDirectory() as temporary, Broker(Path(temporary) / "broker", heap_mb=heap_mb) as broker:
        directory = Path(temporary)
        (directory / "processed").mkdir()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, num_partitions=partitions, replication_factor=1)])[TOPIC].result(60)
        file = config(directory, broker.bootstrap, capacity)
        scenario = waves(directory, partitions=partitions, seconds=seconds + 120, low=0.4e6, high=1.2e6)
        began = time.time()
        producing = [sys.executable, "-m", "autoscaler.embedded.load", "--bootstrap", broker.bootstrap, "--topic", TOPIC,
                     "--scenario", str(scenario), "--duration", str(seconds + 120), "--log", str(directory)]  # fmt: skip
        with process([str(ROOT / "spark-submit.sh"), "--config", str(file)], directory / "job.out") as job:
            cycles = directory / "state" / "logs" / "cycles.jsonl"
            while not lines(cycles):
                if job.poll() is not None or time.time() - began > 180:
                    raise RuntimeError((directory / "job.out").read_text(encoding="utf-8")[-2000:])
                time.sleep(0.2)
            first = lines(cycles)[0]["t"] - began
            with process(producing, directory / "load.out"):
                watched = _watch(psutil.Process(job.pid), broker, seconds, outage_s)
        _end_workers(file)
        return [
            ("from spark-submit.sh to the first decision", f"{first:.1f} s"),
            *_triggers(lines(directory / "state" / "logs" / "progress.jsonl")),
            *_reactions(lines(cycles), directory / "processed"),
            *_rates(lines(cycles), watched["disk"]),
            *_memory(watched["memory"]),
        ]


def _watch(job: psutil.Process, broker: Broker, seconds: float, outage_s: float) -> dict[str, list]:  # type: ignore[type-arg]
    data = broker.nodes[0].data
    out: dict[str, list] = {"disk": [], "memory": []}  # type: ignore[type-arg]
    began, away = time.monotonic(), False
    while (ran := time.monotonic() - began) < seconds:
        if outage_s and not away and ran > seconds / 2:
            away = True
            broker.stop()
            time.sleep(outage_s)
            broker.restart()
        out["disk"].append((time.time(), log_bytes(data)))
        if len(out["disk"]) % 20 == 0:
            out["memory"].append((ran, memory(job)))
        time.sleep(0.25)
    return out


def _end_workers(file: Path) -> None:
    settings = load(file)
    group = settings.groups[0]
    assert group.workers is not None
    pool = ProcessPool(
        group=GROUP, settings=group.workers, directory=settings.root / "workers" / GROUP, environment={}, clock=SystemClock()
    )
    pool.observe()
    pool.stop_all(20)


def _triggers(progress: list[dict]) -> list[Row]:  # type: ignore[type-arg]
    took = [p["trigger_ms"] for p in progress][int(WARM_UP_S) :]
    if not took:
        return [("whole trigger", "run longer than the first minute")]
    names = progress[-1]["durations_ms"]
    stages = {k: statistics.median(p["durations_ms"].get(k, 0) for p in progress[int(WARM_UP_S) :]) for k in names}
    parts = ", ".join(f"{k} {v:.0f}" for k, v in sorted(stages.items(), key=lambda x: -x[1])[1:6])
    return [
        ("whole trigger, p50 / p95 / max", " / ".join(f"{percentile(took, s):.0f}" for s in (0.5, 0.95, 1.0)) + " ms"),
        ("... triggers over 1 s", f"{sum(t > 1000 for t in took)} of {len(took)}"),
        ("... its largest parts, p50", f"{parts} ms"),
    ]


def _reactions(cycles: list[dict], directory: Path) -> list[Row]:  # type: ignore[type-arg]
    """From the sample that showed a rate above capacity to the moved partitions' first records at their new owners."""
    first: dict[int, dict[int, float]] = {}
    for partition, records in read(directory).items():
        for r in records:
            first.setdefault(r.epoch, {}).setdefault(partition, r.done)
    warm: list[float] = []
    cold: list[float] = []
    parts: dict[str, list[float]] = {"to the decision": [], "starting consumers": [], "publishing": [], "handing over": []}
    crossed: float | None = None
    started = False
    for c in cycles:
        if c["reason"] != "RATE_ABOVE_CAPACITY":
            crossed, started = (None, False) if not c["actions"] else (crossed, started)
            continue
        sampled = c["t"] - (c["sample_age_s"] or 0.0)
        crossed = crossed or sampled
        adds = any(a.startswith("add") for a in c["actions"])
        moves = any(a.startswith("move") for a in c["actions"])
        if moves and (taken := first.get(c["epoch"] + 1)):
            (cold if started else warm).append(max(taken.values()) - crossed)
            parts["to the decision"].append(c["t"] - sampled)
            parts["starting consumers"].append(sampled - crossed)
            parts["publishing"].append(c["stages"].get("publish_s", 0.0))
            parts["handing over"].append(max(taken.values()) - c["t"])
            crossed, started = None, False
        elif adds:
            started = True
    stage = ", ".join(f"{k} {percentile(v, 0.5):.2f}" for k, v in parts.items())
    return [
        ("rate above capacity to new owners consuming, consumers running, p50 / p95", _seconds(warm)),
        ("... when consumers had to be started first", _seconds(cold)),
        ("... stages of both, p50", f"{stage} s"),
    ]


def _seconds(values: list[float]) -> str:
    return f"{percentile(values, 0.5):.2f} / {percentile(values, 0.95):.2f} s (n {len(values)})"


def _rates(cycles: list[dict], disk: list[tuple[float, int]]) -> list[Row]:  # type: ignore[type-arg]
    """Compare each measured rate with the growth of the broker's files over the same 5 s window."""
    off = []
    for c in cycles:
        end = c["t"] - (c["sample_age_s"] or 0.0)
        if not c["known"] or c["total_bytes_per_s"] <= 0 or end - 5 < disk[0][0] or end > disk[-1][0]:
            continue
        a, b = (_at(disk, t) for t in (end - 5, end))
        if a is not None and b is not None and b > a:
            off.append(abs(c["total_bytes_per_s"] * 5 / (b - a) - 1))
    figure = f"{percentile(off, 0.5):.2%} / {percentile(off, 0.95):.2%} (n {len(off)})"
    return [("byte rate against the growth of the log files over the same 5 s, off by, median / p95", figure)]


def _at(disk: list[tuple[float, int]], t: float) -> float | None:
    i = bisect_left(disk, (t, 0))
    if i == 0 or i == len(disk):
        return None
    (t0, b0), (t1, b1) = disk[i - 1], disk[i]
    return b0 + (b1 - b0) * (t - t0) / (t1 - t0) if t1 - t0 < 1 else None


def _memory(found: list[tuple[float, dict[str, int]]]) -> list[Row]:
    late = [m for ran, m in found if ran > WARM_UP_S]
    if len(late) < 4:
        return []
    quarter = max(1, len(late) // 4)
    rows = []
    for kind in ("jvm", "python"):
        early, end = (statistics.median(m[kind] for m in part) / 2**20 for part in (late[:quarter], late[-quarter:]))
        rows.append((f"memory of {kind}, first and last quarter after the first minute", f"{early:.0f} and {end:.0f} MiB"))
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--outage", type=float, default=0.0)
    parser.add_argument("--heap-mb", type=int, default=512)
    args = parser.parse_args()
    for what, figure in measure(partitions=args.partitions, seconds=args.seconds, outage_s=args.outage, heap_mb=args.heap_mb):
        sys.stdout.write(f"{what}: {figure}\n")


if __name__ == "__main__":
    main()
