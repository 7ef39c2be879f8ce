"""Planners run over the published streams, each plan from the one before, in several processes."""

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from autoscaler.evaluation.planner_runs import Contender, trace
from autoscaler.evaluation.workloads import PUBLISHED_CAPACITY, bounded_walk
from autoscaler.packing import TAKES, Given, assign_arrays
from autoscaler.packing.kernels.drift import DriftEstimator
from tests.bench.naive import drain_hottest
from tests.evaluation.metrics import mean_r_score

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

CAPACITY = float(PUBLISHED_CAPACITY)
NAIVE = Contender(name="naive", algorithm="naive", options={})


def held(contender: Contender, stream: Floats) -> Labels:
    """Return who holds what after every measurement: int64[measurements, partitions]."""
    out = np.full(stream.shape, -1, np.int64)
    before, drift = out[0].copy(), DriftEstimator()
    for rates, now in zip(stream, out, strict=True):
        drift = drift.update(dict(enumerate(rates.tolist())))
        now[:] = before = step(contender, rates, before, drift)
    return out


def step(contender: Contender, rates: Floats, before: Labels, drift: DriftEstimator) -> Labels:
    """Return one plan."""
    if contender.algorithm == NAIVE.algorithm:
        return drain_hottest(rates, CAPACITY, before) if before[0] >= 0 else assign_arrays(rates, CAPACITY, before, "BFD")
    options = Given(**contender.options)
    if "drift" in TAKES.get(contender.algorithm, ()):
        options["drift"] = drift
    return assign_arrays(rates, CAPACITY, before, contender.algorithm, **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Mean consumers and mean R-score of runs over the same seeds, one per seed."""

    consumers: Floats
    r_scores: Floats


def _run(task: tuple[Contender, int, int, int, int]) -> tuple[float, float]:
    contender, delta, seed, partitions, measurements = task
    stream = bounded_walk(delta=delta, seed=seed, partitions=partitions, measurements=measurements)
    figures = trace(held(contender, stream), stream, CAPACITY)
    return float(figures.consumers.mean()), mean_r_score(figures.r_scores)


def outcomes(
    contenders: Iterable[Contender], deltas: Sequence[int], seeds: Sequence[int], *, partitions: int, measurements: int
) -> Mapping[tuple[str, int], Outcome]:
    """Run every planner over every delta and seed.

    Returns:
        Outcomes by name of the planner and delta.
    """
    cells = list(product({c.name: c for c in contenders}.values(), deltas))
    tasks = [(c, d, s, partitions, measurements) for c, d in cells for s in seeds]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        figures = np.array(list(pool.map(_run, tasks))).reshape(len(cells), len(seeds), 2)
    return {(c.name, d): Outcome(consumers=f[:, 0], r_scores=f[:, 1]) for (c, d), f in zip(cells, figures, strict=True)}
