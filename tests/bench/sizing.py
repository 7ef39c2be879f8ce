"""What sizing on simulated groups depends on, and how long a simulated day takes.

``python -m tests.bench.sizing --traces DIR`` plays the recorded loads of the published experiments: the published policies at
other moments after each second's burst, and sizing by rates that gives consumers back after three seconds. Then it times a day of
100 partitions, by a part of it.
"""

import argparse
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from autoscaler.evaluation.sizing import TRACES, Workload, played, policy_of, run, workloads
from autoscaler.evaluation.trace_reader import read_trace
from autoscaler.model import TopicPartition
from autoscaler.simulation.group import simulate
from autoscaler.simulation.outcome import Outcome
from autoscaler.simulation.world import Load, World
from tests import builders as b

MOMENTS_S = (0.02, 0.05, 0.06, 0.1, 0.2, 0.5)
SOON = {"shrink_stabilisation_s": 3.0, "shrink_cooldown_s": 0.0}
TARGETS = {"table 2": (0.48, 0.5, 0.51, 0.52), "table 3": (0.5, 0.52, 0.55), "W-skew": (0.9,)}
DAY_S, PART_S, PARTITIONS = 86_400, 3600, 100


def moments(workload: Workload) -> Iterator[str]:
    """Yield what a published policy does where it looks so long after each burst."""
    for moment_s in MOMENTS_S:
        found = run("TAIL_LATENCY_2", replace(workload, measured_s=moment_s))
        yield f"{workload.name}, TAIL_LATENCY_2, {moment_s:.2f} s after a burst: {found.in_time:.2%} at {found.consumer_min:.1f}"


def given_back_soon(workload: Workload) -> Iterator[str]:
    """Yield what sizing by rates does that takes consumers away three seconds after they are not needed."""
    for target in TARGETS.get(workload.name, ()):
        policy = policy_of("rates 90%", workload).model_copy(update={**SOON, "target_utilisation": target})
        found = played("rates 90%", workload, policy)
        yield f"{workload.name}, by rates at {target}, given back soon: {found.in_time:.2%} at {found.consumer_hours * 60:.1f}"


def day(every_s: float) -> tuple[float, Outcome]:
    """Return the processor seconds of a simulated day, from a part of it, and what that did."""
    second = np.arange(PART_S + 1.0)
    weights = np.linspace(0.5, 1.5, PARTITIONS) / PARTITIONS
    noise = np.clip(1 + 0.05 * np.random.default_rng(0).standard_normal((len(second), PARTITIONS)), 0, None)
    rates = (120_000 - 100_000 * np.cos(2 * math.pi * second / DAY_S))[:, None] * weights * noise
    load = Load(
        times=second,
        partitions=tuple(TopicPartition(topic="t", partition=p) for p in range(PARTITIONS)),
        rates=rates,
        record_bytes=np.full(PARTITIONS, 100.0),
        owner=np.zeros(PARTITIONS, np.int64),
    )
    world = World(
        consumer_bytes_per_s=20_000.0, usable_bytes_per_s=16_000.0, start_s=5.0, pause_s=0.1, window_s=5.0, decide_s=every_s,
        within_s=5.0,
    )  # fmt: skip
    policy = b.policy(capacity_bytes_per_s=20_000.0)
    simulate(replace(load, times=second[:60], rates=rates[:60]), policy, world)  # compiles
    began = time.process_time()
    found = simulate(load, policy, world)
    return (time.process_time() - began) * DAY_S / PART_S, found


def main() -> None:
    parser = argparse.ArgumentParser(prog="sizing", description=__doc__)
    parser.add_argument("--traces", type=Path, help="a directory with the recorded loads; without it, W-skew and the day only")
    traces = parser.parse_args().traces
    named = {name: traces / f"{name}.csv" for name in TRACES} if traces else {}
    for workload in workloads({name: read_trace(file) for name, file in named.items()}):
        for line in (*(moments(workload) if workload.name == "table 2" else ()), *given_back_soon(workload)):
            print(f"{line} consumer minutes", flush=True)
    for every_s in (1.0, 5.0):
        took_s, found = day(every_s)
        what = f"a day of {PARTITIONS} partitions, a decision every {every_s:.0f} s"
        print(f"{what}: {took_s:.0f} s of one core ({found.most} consumers)")


if __name__ == "__main__":
    main()
