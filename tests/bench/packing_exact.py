"""How far plans are from what is proven possible: rows of the planner's bench that the exact solver has a part in."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import NamedTuple

import numpy as np

from autoscaler.evaluation.planner_runs import Contender
from autoscaler.evaluation.workloads import PUBLISHED_PARTITIONS, bounded_walk
from autoscaler.packing import assign
from tests.bench.least_moves import least_r
from tests.bench.packing_quality import AS_FEW_AS_BFD, AS_MANY_AS_MWF, DELTAS, DELTAS_TEXT, LEAN
from tests.bench.replays import CAPACITY, Floats, Labels, held
from tests.bench.rows import Row

SMALL = 32  # partitions: most answers are proven within a second
_SECONDS = 4.0
_ROUNDS = 5000  # of the relaxation
_SAME = 1e-6


class _Task(NamedTuple):
    """Some steps of one planner over one stream."""

    contender: Contender
    partitions: int
    delta: int
    seed: int
    looks: int


class _Look(NamedTuple):
    """One step beside what is proven about it."""

    figure: float
    least: float
    proven: bool


Judge = Callable[[_Task], list[_Look]]


def distance(seeds: Sequence[int], looks: int) -> list[Row]:
    """Return the row about consumers at 32 partitions over the proven fewest; ``looks`` steps of each stream are looked at."""
    found = [_looks(_fewest, LEAN, SMALL, delta, seeds=seeds, looks=looks) for delta in DELTAS]
    proven = [[look for look in those if look.proven] for those in found]
    above = [100 * (sum(x.figure for x in those) / sum(x.least for x in those) - 1) for those in proven]
    counts = " / ".join(f"{len(p)} of {len(f)}" for p, f in zip(proven, found, strict=True))
    return [
        Row(
            what=f"consumers above the proven fewest, {SMALL} partitions, {DELTAS_TEXT}", figures=tuple(above),
            aims=(0.1, 0.1, 0.1), unit="%", how=LEAN.name, beside=f"steps whose fewest CP-SAT has proven: {counts}",
        )
    ]  # fmt: skip


def bounds(seeds: Sequence[int], looks: int) -> list[Row]:
    """Return the rows about what a step of PACE moves over the least that one with as many consumers could move."""
    rows = []
    for contender, partitions in product((AS_MANY_AS_MWF, AS_FEW_AS_BFD), (PUBLISHED_PARTITIONS, SMALL)):
        found = [_looks(_least_moved, contender, partitions, delta, seeds=seeds, looks=looks) for delta in DELTAS]
        how = "CP-SAT" if partitions == SMALL else "relaxation"
        counts = " / ".join(f"{sum(x.proven for x in those)} of {len(those)}" for those in found)
        rows.append(
            Row(
                what=f"R over the least R of one step with as many consumers, {partitions} partitions, {DELTAS_TEXT}",
                figures=tuple(sum(x.figure for x in those) / sum(x.least for x in those) for those in found),
                how=contender.name, beside=f"bound by {how}, from the same placement; steps shown to move the least: {counts}",
            )
        )  # fmt: skip
    return rows


def _looks(judge: Judge, contender: Contender, partitions: int, delta: int, *, seeds: Sequence[int], looks: int) -> list[_Look]:
    tasks = [_Task(contender, partitions, delta, seed, looks) for seed in seeds]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return [look for those in pool.map(judge, tasks) for look in those]


def _steps(task: _Task) -> Iterator[tuple[Floats, Labels, Labels]]:
    """Give rates, owners before and owners after, for steps spread over the stream."""
    stream = bounded_walk(delta=task.delta, seed=task.seed, partitions=task.partitions)
    owners = held(task.contender, stream)
    for k in np.linspace(1, len(stream) - 1, task.looks).astype(int):
        yield stream[k], owners[k - 1], owners[k]


def _fewest(task: _Task) -> list[_Look]:
    out = []
    for rates, _, after in _steps(task):
        best = assign(dict(enumerate(rates.tolist())), CAPACITY, {}, "EXACT", time_limit_s=_SECONDS)
        out.append(_Look(len(np.unique(after)), best.consumers, bool(best.proven)))
    return out


def _least_moved(task: _Task) -> list[_Look]:
    out = []
    for rates, before, after in _steps(task):
        cost = rates / CAPACITY
        moved, consumers = float(cost[after != before].sum()), len(np.unique(after[rates > 0]))
        seconds = _SECONDS if task.partitions == SMALL else 0.0
        least = least_r(cost, cost, before, consumers, known=moved, rounds=_ROUNDS, seconds=seconds)
        out.append(_Look(moved, least.bound, least.proven and abs(least.bound - moved) < _SAME))
    return out
