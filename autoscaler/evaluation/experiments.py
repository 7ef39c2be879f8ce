"""The cells of the experiments and what one of them computes: rows in, rows out, wherever a Spark worker runs them.

Spark itself is not known here: the functions take and give pandas frames, as ``mapInPandas`` wants them. ``SCHEMA_*`` say what
they give.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from autoscaler.evaluation import algorithms_compared
from autoscaler.evaluation.latency_model import Latencies, latencies, round_robin
from autoscaler.evaluation.planner_runs import owners, run_planner, trace
from autoscaler.evaluation.published_figures import FIGURES
from autoscaler.evaluation.results import Lateness
from autoscaler.evaluation.trace_reader import Recorded
from autoscaler.evaluation.workloads import (
    FAMILIES,
    PUBLISHED_CAPACITY,
    PUBLISHED_PARTITIONS,
    bounded_walk,
    listings,
    two_demands,
)
from autoscaler.packing.precompile import warm as warm_planners
from autoscaler.packing.research.two_dimensional import assign_2d

SCHEMA_PLANS = "contender string, delta int, seed int, partitions int, measurement int, consumers int, r_score double, moved int"
SCHEMA_LATENCIES = (
    "contender string, consumers double, r_score double, late_ratio double, p90_of_late_s double, p90_s double, p99_s double, "
    "later_ratio array<double>"
)
SCHEMA_TWO_DIMENSIONS = "algorithm string, family string, seed int, partitions int, consumers int, lower_bound int"

LATENCY_PARTITIONS, LATENCY_MEASUREMENTS, LATENCY_DELTA = 32, 100, 5  # the published experiment's
COMPARED_2D = ("DOT", "LL-FFD")  # EXACT takes seconds for each draw and finds nothing better at 200 partitions
STATIC = (15, 16, 18, 20, 22, 24, 26, 28, 30, 31, 32)  # n of kd_n
LATER_THAN_S = np.geomspace(0.05, 3000, 90)  # where the share of later bytes is read for the figure

Frames = Iterator[pd.DataFrame]
Work = Callable[[Frames], Frames]


class PlanCell(NamedTuple):
    """One contender over one stream."""

    contender: str
    delta: int
    seed: int
    partitions: int
    measurements: int


class LatencyCell(NamedTuple):
    """One contender, or kd_n by its name, over the streams of several seeds together."""

    contender: str
    seeds: int


class TwoDimensionCell(NamedTuple):
    """One algorithm on one draw of a family."""

    algorithm: str
    family: str
    seed: int
    partitions: int


def plan_cells(deltas: Sequence[int], seeds: int, partitions: Sequence[int], measurements: int) -> list[PlanCell]:
    """Return every contender over every stream, those that take longest first: the last ones to end are short.

    Other numbers of partitions than the published one are run at the deltas whose figures are printed, and larger groups over
    fewer streams: more partitions are more draws.
    """
    names = [c.name for c in algorithms_compared.contenders()][::-1]
    cells = []
    for n in sorted(partitions, reverse=True):
        streams = seeds if n <= PUBLISHED_PARTITIONS else max(1, seeds * PUBLISHED_PARTITIONS // n)
        shown = deltas if n == PUBLISHED_PARTITIONS else [d for d in deltas if d in FIGURES]
        cells += [PlanCell(c, d, s, n, measurements) for c, s, d in product(names, range(streams), shown)]
    return cells


def latency_cells(seeds: int) -> list[LatencyCell]:
    """Return every contender and the placements that never change."""
    names = [c.name for c in algorithms_compared.contenders()][::-1]
    return [LatencyCell(name, seeds) for name in (*names, *(f"kd_{n}" for n in STATIC))]


def two_dimension_cells(seeds: int, partitions: int) -> list[TwoDimensionCell]:
    """Return every algorithm on every draw of every family."""
    return [TwoDimensionCell(a, f, s, partitions) for a, f, s in product(COMPARED_2D, FAMILIES, range(seeds))]


def run_plans(frames: Frames) -> Frames:
    """Run plan cells: one row per measurement, ``SCHEMA_PLANS``."""
    for frame in frames:
        for cell in frame.itertuples(index=False):
            yield _plan_rows(PlanCell(*cell))


def run_latencies(frames: Frames) -> Frames:
    """Run latency cells: one row each, ``SCHEMA_LATENCIES``."""
    for frame in frames:
        for cell in frame.itertuples(index=False):
            yield _latency_row(LatencyCell(*cell))


def run_two_dimensions(frames: Frames) -> Frames:
    """Run two-dimensional cells: one row each, ``SCHEMA_TWO_DIMENSIONS``."""
    for frame in frames:
        for cell in frame.itertuples(index=False):
            yield _two_dimension_row(TwoDimensionCell(*cell))


def _plan_rows(cell: PlanCell) -> pd.DataFrame:
    stream = bounded_walk(delta=cell.delta, seed=cell.seed, partitions=cell.partitions, measurements=cell.measurements)
    listed = listings(cell.measurements, cell.partitions, cell.seed)
    found = run_planner(algorithms_compared.contender(cell.contender), stream, PUBLISHED_CAPACITY, listed)
    return pd.DataFrame(
        {
            "contender": cell.contender,
            "delta": np.int32(cell.delta),
            "seed": np.int32(cell.seed),
            "partitions": np.int32(cell.partitions),
            "measurement": np.arange(cell.measurements, dtype=np.int32),
            "consumers": found.consumers.astype(np.int32),
            "r_score": found.r_scores,
            "moved": found.moved.astype(np.int32),
        }
    )


def _latency_row(cell: LatencyCell) -> pd.DataFrame:
    found = _lateness(cell.contender, [_latency_run(cell.contender, seed) for seed in range(cell.seeds)])
    return pd.DataFrame([found._asdict() | {"later_ratio": list(found.later_ratio)}])


def _latency_run(contender: str, seed: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return who holds what over one stream, and the stream."""
    stream = bounded_walk(delta=LATENCY_DELTA, seed=seed, partitions=LATENCY_PARTITIONS, measurements=LATENCY_MEASUREMENTS)
    if contender.startswith("kd_"):
        return round_robin(LATENCY_PARTITIONS, int(contender.removeprefix("kd_")), LATENCY_MEASUREMENTS), stream
    listed = listings(LATENCY_MEASUREMENTS, LATENCY_PARTITIONS, seed)
    return owners(algorithms_compared.contender(contender), stream, PUBLISHED_CAPACITY, listed), stream


def _lateness(name: str, runs: Sequence[tuple[NDArray[np.int64], NDArray[np.float64]]]) -> Lateness:
    """Return the figures of several runs of one contender together."""
    traces = [trace(held, stream, PUBLISHED_CAPACITY) for held, stream in runs]
    found = Latencies.pooled([latencies(held, stream) for held, stream in runs])
    return Lateness(
        contender=name,
        consumers=float(np.mean([run.consumers.mean() for run in traces])),
        r_score=float(np.mean([run.r_scores.mean() for run in traces])),
        late_ratio=found.late / found.total,
        p90_of_late_s=found.percentile_of_late(90),
        p90_s=found.percentile(90),
        p99_s=found.percentile(99),
        later_ratio=tuple(1 - found.at_most(s) / found.total for s in LATER_THAN_S),
    )


def _two_dimension_row(cell: TwoDimensionCell) -> pd.DataFrame:
    rate, lag = two_demands(cell.family, cell.partitions, cell.seed)
    plan = assign_2d(dict(enumerate(rate.tolist())), dict(enumerate(lag.tolist())), 1.0, 1.0, {}, cell.algorithm)
    return pd.DataFrame(
        {
            "algorithm": [cell.algorithm],
            "family": [cell.family],
            "seed": np.array([cell.seed], np.int32),
            "partitions": np.array([cell.partitions], np.int32),
            "consumers": np.array([plan.consumers], np.int32),
            "lower_bound": np.array([plan.lower_bound], np.int32),
        }
    )


def recorded_lateness(stream: Recorded) -> tuple[Lateness, ...]:
    """Return the latency model on a recorded stream for every contender and every static placement."""
    rates = stream.rates
    first = np.argsort(stream.listed[0])  # kd_n deals the partitions in the order in which they are listed first
    runs = [(f"kd_{n}", round_robin(rates.shape[1], n, len(rates))[:, first]) for n in STATIC]
    named = [(c.name, owners(c, rates, PUBLISHED_CAPACITY, stream.listed)) for c in algorithms_compared.contenders()]
    return tuple(_lateness(name, [(held, rates)]) for name, held in [*named, *runs])


def warm() -> None:
    """Run everything once on little, so that its machine code is on disk before workers look for it."""
    warm_planners(("PACE",))
    for frame, work in (
        (pd.DataFrame([PlanCell(c.name, 25, 0, 24, 4) for c in algorithms_compared.contenders()]), run_plans),
        (pd.DataFrame([TwoDimensionCell(a, FAMILIES[0], 0, 24) for a in COMPARED_2D]), run_two_dimensions),
    ):
        for _ in work(iter([frame])):
            pass
