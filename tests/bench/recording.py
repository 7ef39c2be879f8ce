"""What the inputs of decisions cost in the audit, and how fast they are decided again.

``python -m tests.bench.recording`` lets a managed group of 200 partitions be decided on for 20 minutes of one second each, with
workers whose figures change in every cycle and traffic that grows and falls, and prints the bytes that the column ``inputs`` adds
to the tables per cycle, the time that packing takes, and the time to decide a cycle again.
"""

import argparse
import math
import random
import tempfile
import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from unittest.mock import patch

import pyarrow.parquet as pq

from autoscaler.adapters.audit import rows
from autoscaler.adapters.audit.inputs import pack_inputs
from autoscaler.config.policy import Policy
from autoscaler.controller.group_controller import START_EVERY_S
from autoscaler.core.decide import History, decide
from autoscaler.model import Decision, Moment, Observation, TopicPartition
from autoscaler.ports import Inputs, Start
from autoscaler.replay.redecide import redecide
from tests import builders as b
from tests.scenarios import world
from tests.scenarios.world import World


def recorded(partitions: int, seconds: int) -> list[rows.Cycle]:
    """Return the cycles of a group that is decided on each second, as the controller gives them to the audit."""
    weights = [random.Random(p).uniform(0.5, 1.5) for p in range(partitions)]
    made: list[rows.Cycle] = []

    def kept(observation: Observation, history: History, policy: Policy, moment: Moment) -> tuple[Decision, History]:
        number, state = len(made), observation.state
        start = Start(history=history, policy=policy, follows=number > 0) if number % START_EVERY_S == 0 else None
        inputs = Inputs(number=number, observation=observation, moment=moment, start=start)
        decision, after = decide(observation, history, policy, moment)
        told = {"decision": decision, "snapshot": observation.snapshot, "owner": dict(state.owner if state else {})}
        made.append(rows.Cycle(**told, outcomes=(), handovers=(), inputs=inputs))  # type: ignore[arg-type]
        return decision, after

    @lru_cache(maxsize=4)
    def traffic(t: float) -> dict[TopicPartition, float]:
        mean, draw = 5e4 * (1.3 + math.sin(t / 300)), random.Random(t)
        return {b.tp(p): round(30 * mean * w * draw.uniform(0.98, 1.02)) / 30 for p, w in enumerate(weights)}

    with patch.object(world, "decide", kept):
        World(policy=b.policy(capacity_bytes_per_s=1e6), traffic=traffic, downstream=lambda _: 1e9).run(seconds)
    return made


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure what recording and deciding again cost.")
    parser.add_argument("--partitions", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=1200)
    args = parser.parse_args()
    cycles = recorded(args.partitions, args.seconds)
    began = time.process_time()
    packed = [pack_inputs(c.inputs) for c in cycles if c.inputs is not None]
    packing = time.process_time() - began
    sizes = {}
    with tempfile.TemporaryDirectory() as root:
        for name, given in (("with", cycles), ("without", [replace(c, inputs=None) for c in cycles])):
            files = 0
            for at in range(0, len(given), 60):  # as each flush writes them
                file = Path(root) / f"{name}{at}"
                part = given[at : at + 60]
                pq.write_table(rows.loads(part, [0] * len(part)), file, compression="zstd")
                files += file.stat().st_size
            sizes[name] = files / len(given)
    table = rows.loads(cycles, [0] * len(cycles)).to_pylist()
    decided = rows.decisions(cycles[::10]).to_pylist()
    began = time.process_time()
    found = redecide(table, decided)
    again = (time.process_time() - began) / len(cycles)
    many = len(cycles)
    print(f"{args.partitions} partitions, {many} cycles, consumers up to {max(c.decision.consumers for c in cycles)}")
    print(f"packing: {1000 * packing / many:.2f} ms a cycle; {sum(map(len, packed)) / many:,.0f} bytes before compression")
    print(f"loads: {sizes['without']:,.0f} bytes a cycle without, {sizes['with']:,.0f} with")
    print(f"deciding again: {1000 * again:.2f} ms a cycle, {found.same} the same, {found.differing} not")
    print(f"a day of cycles of 1 s, on one processor: {again * 86_400:.0f} s")


if __name__ == "__main__":
    main()
