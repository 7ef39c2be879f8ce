"""A small evaluation: every cell real, few measurements, without Spark."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from autoscaler.evaluation import experiments
from autoscaler.evaluation.results import Lateness, Packed, Results, Score
from autoscaler.packing.problem.options import PUBLISHED
from tests.evaluation.metrics import cardinal_bin_scores, fewest, mean_r_score

DELTAS = (5, 25)
SIZES = (30, 200)
MEASUREMENTS = 6


def small_results() -> Results:
    """Return results over two deltas and two numbers of partitions, one stream each."""
    return Results(
        scores=tuple(s for delta in DELTAS for size in SIZES for s in scores(delta, size)),
        lateness=tuple(Lateness(**row) for row in _records(experiments.latency_cells(1), experiments.run_latencies)),
        packed=tuple(
            Packed(
                algorithm=row["algorithm"],
                family=row["family"],
                partitions=row["partitions"],
                seeds=1,
                over_bound=row["consumers"] / row["lower_bound"],
                consumers=float(row["consumers"]),
            )
            for row in _records(experiments.two_dimension_cells(1, 60), experiments.run_two_dimensions)
        ),
        command="make evaluate ARGS='--measurements 6'",
        made="By a test.",
    )


def scores(delta: int, size: int, seed: int = 0) -> list[Score]:
    """Return the scores of one stream, by the functions of ``metrics``."""
    every = [cell._replace(seed=seed) for cell in experiments.plan_cells([delta], 1, [size], MEASUREMENTS)]
    runs = {cell.contender: next(experiments.run_plans(iter([pd.DataFrame([cell])]))) for cell in every}
    counts = {name: run["consumers"].to_numpy(np.int64) for name, run in runs.items()}
    m = fewest({name: counts[name] for name in PUBLISHED})
    twelve = cardinal_bin_scores({name: counts[name] for name in PUBLISHED})
    return [
        Score(
            contender=name,
            delta=delta,
            partitions=size,
            seeds=1,
            cbs_percent=100 * twelve.get(name, float(np.mean((counts[name] - m) / m))),
            consumers=float(counts[name].mean()),
            r_score=mean_r_score(run["r_score"].to_numpy(np.float64)),
            moved=float(run["moved"].to_numpy(np.float64).mean()),
            r_score_spread=0.0,
        )
        for name, run in runs.items()
    ]


def _records(every: Sequence[tuple[Any, ...]], work: experiments.Work) -> list[dict[str, Any]]:
    frames = work(iter([pd.DataFrame(every)]))
    return [{str(name): value for name, value in row.items()} for frame in frames for row in frame.to_dict("records")]
