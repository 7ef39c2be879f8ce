"""Sizing policies on loads: the published figures come out, and nothing does better than can be."""

from pathlib import Path

import numpy as np
import pytest

from autoscaler.evaluation.figures import share_and_cost
from autoscaler.evaluation.page import page
from autoscaler.evaluation.sizing import (
    BY_RATES,
    NAMES,
    POLICIES,
    PROMISE,
    TRACES,
    Run,
    least_consumer_min,
    policy_of,
    run,
    workloads,
)
from autoscaler.evaluation.sizing_cells import sizing_cells, sizing_work
from autoscaler.evaluation.sizing_report import PRINTED, sizing_document, sizing_report
from autoscaler.evaluation.trace_reader import read_trace

MADE = {w.name: w for w in workloads({})}
ALL = {w.name: w for w in workloads({name: np.full(600, 100.0) for name in TRACES})}


def test_workloads_are_named_once_and_are_loads() -> None:
    assert tuple(ALL) == NAMES
    for workload in ALL.values():
        assert (workload.rates >= 0).all()
        assert np.isfinite(workload.rates).all()
        assert workload.rates.sum(axis=1).max() / workload.capacity < workload.rates.shape[1], "more consumers than partitions"


def test_printed_figures_are_of_workloads_and_policies_that_there_are() -> None:
    assert {w for w, _ in PRINTED} <= set(NAMES)
    assert {p for _, p in PRINTED} <= set(POLICIES)


def test_the_bound_is_the_published_one() -> None:
    assert least_consumer_min(MADE["W-skew"], 1.0) == pytest.approx(19.2, abs=0.05)


def test_the_load_aware_policy_reads_all_of_the_skewed_load_in_time_as_published() -> None:
    found = run("AUTO_SCALE_CG", MADE["W-skew"])
    assert found.in_time == pytest.approx(1.0, abs=1e-6)
    assert found.consumer_min == pytest.approx(21.0, abs=0.5)


@pytest.mark.parametrize("name", ["step", "flash crowd", "drifting skew"])
@pytest.mark.parametrize("policy", ["TAIL_LATENCY_2", "rates 90%"])
def test_what_reads_its_share_in_time_costs_at_least_the_bound(name: str, policy: str) -> None:
    found = run(policy, MADE[name])
    assert 0.9 < found.in_time <= 1
    assert found.consumer_min > least_consumer_min(MADE[name], found.in_time)


def test_a_lower_target_costs_more_and_is_late_less() -> None:
    lean, roomy = (run(policy, MADE["flash crowd"]) for policy in ("rates 90%", "rates 50%"))
    assert roomy.consumer_min > 1.3 * lean.consumer_min
    assert roomy.in_time > lean.in_time


def test_a_policy_that_is_not_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="'PROPHET' is no policy; there are LINEAR, "):
        policy_of("PROPHET", MADE["step"])


def test_a_trace_without_its_columns_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("second,rate\n0,1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no column events_per_s"):
        read_trace(file)


@pytest.mark.parametrize(
    ("name", "policy", "percent", "consumer_min"),
    [
        ("table 2", "LINEAR", 96.5, 25.1),
        ("table 2, skewed", "LINEAR", 85.4, 25.1),
        ("table 2, t_r 2 s", "TAIL_LATENCY_1", 94.5, 33.0),
        ("table 2, t_r 2 s", "TAIL_LATENCY_2", 99.8, 44.3),
        ("table 3", "TAIL_LATENCY_2", 99.9, 417.8),
    ],
)
def test_the_recorded_loads_give_what_others_found(
    data: Path, name: str, policy: str, percent: float, consumer_min: float
) -> None:
    found = run(policy, {w.name: w for w in workloads({t: read_trace(data / f"{t}.csv") for t in TRACES})}[name])
    assert 100 * found.in_time == pytest.approx(percent, abs=1.0)
    assert found.consumer_min == pytest.approx(consumer_min, rel=0.03)


def test_a_worker_gives_a_row_for_each_cell() -> None:
    import pandas as pd  # noqa: PLC0415  takes long to load, and only this test needs it

    cells = [c for c in sizing_cells({}) if c.workload == "W-skew"][:2]
    [rows] = sizing_work({})(iter([pd.DataFrame(cells)]))
    assert list(rows.columns) == list(Run._fields)
    assert [tuple(r) for r in rows[["workload", "policy"]].itertuples(index=False)] == cells


def test_page_and_document_show_every_run_beside_what_was_printed() -> None:
    runs = [
        Run("W-skew", "about it", 17.6, "rates 90%", "", 1.0, 27.0, 4, 3, 9),
        Run("W-skew", "about it", 17.6, "AUTO_SCALE_CG", "", 0.9999, 21.2, 4, 4, 14),
    ]
    report = sizing_report(runs, "make evaluate", "Made here.")
    told = sizing_document(report)
    assert "A promise" not in told, "neither it nor its peer was run"
    rows = [line for line in told.splitlines() if line.startswith(("| AUTO", "| rates"))]
    assert rows == [
        "| AUTO_SCALE_CG | 99.99 % | 100.0 % | 21.2 | 18.0 | 4 | 4 | 14 |",
        "| rates 90% | 100.00 % | – | 27.0 | – | 4 | 3 | 9 |",
    ]
    assert "`make evaluate` made these tables" in told
    shown = page(report)
    assert "Sizing groups, evaluated" in shown
    assert "consumer minutes" in shown


def test_the_promise_is_told_beside_its_peer() -> None:
    runs = [
        Run("step", "about it", 100.0, "KEDA+HPA", "lag threshold 1", 0.995, 300.0, 4, 3, 9),
        Run("step", "about it", 100.0, PROMISE, "", 0.9931, 150.0, 4, 4, 14),
    ]
    told = sizing_document(sizing_report(runs, "make evaluate", "Made here."))
    assert "| step | 99.31 % | 99.50 % | 150.0 | 300.0 | 0.50 | 100.0 |" in told
    assert "The mean ratio of consumer minutes is 0.50." in told


@pytest.mark.parametrize("name", ["W-skew", "step", "flash crowd", "batches"])
def test_a_promise_is_kept_on_loads_that_it_was_not_tuned_on(name: str) -> None:
    found = run(PROMISE, MADE[name])
    assert found.in_time >= 0.98
    assert found.consumer_min < {"W-skew": 22, "step": 150, "flash crowd": 95, "batches": 250}[name]


@pytest.mark.parametrize(("name", "consumer_min"), [("table 2", 28.0), ("table 2, t_r 2 s", 40.0), ("table 3", 325.0)])
def test_a_promise_of_99_percent_is_kept_on_the_recorded_loads_more_cheaply(data: Path, name: str, consumer_min: float) -> None:
    found = run(PROMISE, {w.name: w for w in workloads({t: read_trace(data / f"{t}.csv") for t in TRACES})}[name])
    assert found.in_time >= 0.99
    assert found.consumer_min <= consumer_min


def test_a_figure_shows_every_policy() -> None:
    runs = [Run("step", "about it", 100.0, policy, "", 0.99, 100.0 + n, 4, 3, 9) for n, policy in enumerate(POLICIES)]
    shown = share_and_cost(runs, BY_RATES)
    assert [t.name for t in shown.data] == ["by rates, at each target", *(p for p in POLICIES if p not in BY_RATES)]
    assert len({(t.marker.color, t.marker.symbol) for t in shown.data}) == len(shown.data)
