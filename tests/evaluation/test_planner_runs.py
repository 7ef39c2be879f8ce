"""A planner over a stream: who holds what, and the figures that follow."""

from dataclasses import replace

import numpy as np
import pytest

from autoscaler.evaluation.algorithms_compared import published
from autoscaler.evaluation.planner_runs import Contender, owners, run_planner, trace
from autoscaler.evaluation.published_figures import FIGURES
from autoscaler.evaluation.workloads import bounded_walk, listings
from autoscaler.packing import ALGORITHMS
from tests.evaluation.metrics import cardinal_bin_scores, mean_r_score


def contender(algorithm: str) -> Contender:
    return Contender(name=algorithm, algorithm=algorithm, options={})


def test_every_plan_starts_from_the_one_before() -> None:
    stream = np.array([[6.0, 5.0, 4.0, 3.0, 2.0], [6.0, 5.0, 4.0, 3.0, 2.0], [6.0, 5.0, 5.0, 3.0, 2.0]])
    held = owners(contender("MBF"), stream, 10)
    assert held[0].tolist() == held[1].tolist() == [0, 1, 0, 1, 1]
    assert held[2].tolist() == [0, 1, 2, 1, 0]


def test_the_figures_of_a_run() -> None:
    held = np.array([[0, 0, 1], [0, 2, 1], [0, 0, 0]])
    stream = np.array([[1.0, 2.0, 3.0], [1.0, 5.0, 3.0], [1.0, 2.0, 4.0]])
    found = trace(held, stream, 10)
    assert found.consumers.tolist() == [2, 3, 1]
    assert found.moved.tolist() == [0, 1, 2]
    assert found.r_scores == pytest.approx([0.0, 0.5, 0.6])


def test_a_group_that_does_not_change_is_planned_once() -> None:
    found = run_planner(contender("BFD"), bounded_walk(delta=0, seed=0, partitions=40, measurements=4), 100)
    assert found.moved.tolist() == [0, 0, 0, 0]


def test_the_published_order_of_the_algorithms_comes_about() -> None:
    """Landau et al. 2024, table of delta 5: BFD takes fewest, MWF moves least."""
    stream = bounded_walk(delta=5, seed=11, measurements=120)
    runs = {name: run_planner(contender(name), stream, 100) for name in ("NFD", "BFD", "MBF", "MWF")}
    cost = cardinal_bin_scores({name: run.consumers for name, run in runs.items()})
    moved = {name: mean_r_score(run.r_scores) for name, run in runs.items()}
    assert sorted(cost, key=cost.__getitem__) == ["BFD", "MBF", "MWF", "NFD"]
    assert sorted(moved, key=moved.__getitem__) == ["MWF", "MBF", "NFD", "BFD"]
    assert cost["MWF"] == pytest.approx(0.118, abs=0.02)
    assert moved["MWF"] == pytest.approx(9.2, abs=0.8)
    assert moved["BFD"] == pytest.approx(24.1, abs=1.0)


def test_every_algorithm_runs_over_a_stream() -> None:
    stream = bounded_walk(delta=5, seed=2, partitions=20, measurements=5)
    for name in ALGORITHMS:
        quick = replace(contender(name), options={"time_limit_s": 0.2} if name == "EXACT" else {})
        assert run_planner(quick, stream, 100).consumers.min() >= np.ceil(stream.sum(axis=1).min() / 100)


def test_who_takes_partitions_as_listed_follows_the_listing_and_nobody_else() -> None:
    stream = np.array([[5.0, 6.0, 4.0], [5.0, 6.0, 4.0]])
    listed = np.array([[0, 1, 2], [2, 1, 0]])
    first_fit = replace(contender("FF"), as_listed=True)
    assert owners(first_fit, stream, 10, listed).tolist() == [[0, 1, 0], [1, 0, 0]]
    assert owners(contender("FF"), stream, 10, listed).tolist() == [[0, 1, 0], [0, 1, 0]]


@pytest.mark.parametrize("delta", [5, 25])
def test_the_twelve_score_as_published(delta: int) -> None:
    """Landau et al. 2024: cardinal bin score and mean Rscore, over a stream of ours drawn like theirs."""
    stream = bounded_walk(delta=delta, seed=3)
    measurements, partitions = stream.shape
    order = listings(measurements, partitions, seed=3)
    runs = {c.name: run_planner(c, stream, 100, order) for c in published()}
    cost = cardinal_bin_scores({name: run.consumers for name, run in runs.items()})
    for name, figures in FIGURES[delta].items():
        assert 100 * cost[name] == pytest.approx(figures.cbs_percent, abs=1.0), name
        assert mean_r_score(runs[name].r_scores) == pytest.approx(figures.r_score, rel=0.1), (
            name
        )  # one seed; the mean of several is nearer
