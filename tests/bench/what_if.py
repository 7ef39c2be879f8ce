"""How long it takes to tell what another policy would have done with a recorded day.

``python -m tests.bench.what_if`` writes a day of one-second measurements of a group of 200 partitions to tables, without deciding
on them, and times ``autoscaler replay GROUP --policy FILE`` on them.
"""

import argparse
import math
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from deltalake import write_deltalake

from autoscaler.adapters.audit import rows
from autoscaler.cli.main import main as cli
from autoscaler.core.decide import History
from autoscaler.model import PartitionLoad
from autoscaler.ports import Inputs, Start
from tests import builders as b
from tests.adapters.audit import audit_cases as cases

CONFIG = """
clusters: [{connection: {bootstrap.servers: "localhost:9092"}}]
state_dir: STATE
groups: [{group: g, topics: [orders], capacity: {bytes_per_s: 1MB, target_utilisation: 0.7}}]
"""


def day(partitions: int, seconds: int) -> Iterator[list[rows.Cycle]]:
    """Yield the cycles of each hour."""
    policy = b.policy(capacity_bytes_per_s=1e6)
    decision, _, state = cases.calm()
    decision = replace(decision, capacity_bytes_per_s=1e6, usable_bytes_per_s=8e5)
    owner = {b.tp(p): p % 8 for p in range(partitions)}
    weights = [0.5 + (p * 7 % 11) / 11 for p in range(partitions)]
    for hour in range(0, seconds, 3600):
        yield [
            _cycle(decision, policy, owner, state, _loads(weights, t), t) for t in range(hour, min(hour + 3600, seconds))
        ]  # fmt: skip


def _loads(weights: list[float], t: int) -> list[PartitionLoad]:
    mean = 5e4 * (1.2 - math.cos(2 * math.pi * t / 86_400)) * (1 + 0.1 * math.sin(t / 60))
    return [b.load(b.tp(p), round(30 * mean * w * (1 + 0.02 * math.sin(t * (p + 1)))) / 30) for p, w in enumerate(weights)]


def _cycle(decision, policy, owner, state, loads, t) -> rows.Cycle:  # type: ignore[no-untyped-def]  # noqa: ANN001, PLR0917
    at = cases.T0 + t
    seen = b.snapshot(loads, at=at)
    start = Start(history=History(), policy=policy, follows=False) if t % 3600 == 0 else None
    inputs = Inputs(number=t, observation=b.observation(seen, state), moment=b.moment(at), start=start)
    made = replace(decision, decision_id=f"g/{t}", at=at, consumers=8, consumers_now=8)
    return rows.Cycle(decision=made, snapshot=seen, outcomes=(), handovers=(), owner=owner, inputs=inputs)


def main() -> None:
    """Write, replay, and print how long that took."""
    parser = argparse.ArgumentParser(description="Time a what-if over a recorded day.")
    parser.add_argument("--partitions", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=86_400)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        tables, config = Path(place) / "tables", Path(place) / "other.yaml"
        config.write_text(CONFIG.replace("STATE", place), encoding="utf-8")
        for cycles in day(args.partitions, args.seconds):
            for name, made in (("loads", rows.loads(cycles, [0] * len(cycles))), ("decisions", rows.decisions(cycles[::10]))):
                write_deltalake(str(tables / name), made, mode="append", partition_by=["date"])
        since, until = rows.when(cases.T0), rows.when(cases.T0 + args.seconds)
        times = ["--since", since.isoformat(), "--until", until.isoformat()]
        began = time.monotonic()
        cli(["replay", "g", "--tables", str(tables), *times, "--policy", str(config), "--price", "0.05"])
        took = f"{time.monotonic() - began:.0f} s, {os.cpu_count()} processors"
        print(f"{args.seconds} measurements of {args.partitions} partitions: {took}")


if __name__ == "__main__":
    main()
