"""The Spark job: what workers compute, what SQL makes of it, what is written."""

import csv
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.functions import count
from pyspark.sql.functions import max as max_

from autoscaler.evaluation import experiments, regeneration
from autoscaler.evaluation.algorithms_compared import contenders
from autoscaler.evaluation.results import Results, Score
from autoscaler.evaluation.sizing_cells import sizing_cells
from autoscaler.evaluation.workloads import bounded_walk
from jobs import evaluate
from tests.evaluation.small import MEASUREMENTS, scores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARGUMENTS = ["--deltas", "5", "--seeds", "1", "--partitions", "30", "200", "--measurements", str(MEASUREMENTS)]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("evaluation")


@pytest.fixture(scope="module")
def recorded(out: Path) -> Path:
    """A file as the authors record streams."""
    file = out / "stream.csv"
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["iteration", "topic", "partition", "rate"])
        rates = bounded_walk(delta=5, seed=1, partitions=32, measurements=4)
        writer.writerows([k, "t", p, rate] for k, now in enumerate(rates) for p, rate in enumerate(now))
    return file


@pytest.fixture(scope="module")
def results(spark: "SparkSession", out: Path, recorded: Path) -> Results:
    experiments.warm()
    args = evaluate.options([*ARGUMENTS, "--out", str(out), "--stream", str(recorded)])
    regeneration.run(spark, args)
    return regeneration.read(spark, args)


def test_sql_scores_as_the_functions_do(results: Results) -> None:
    expected = [s for size in (30, 200) for s in scores(5, size)]
    assert len(results.scores) == len(expected)
    for score in expected:
        found = results.score(score.contender, 5, score.partitions)
        assert found is not None
        for name, value, right in zip(Score._fields, found, score, strict=True):
            assert value == (pytest.approx(right) if isinstance(right, float) else right), (score.contender, name)


def test_every_row_is_kept_in_a_table(results: Results, spark: "SparkSession", out: Path) -> None:
    plans = spark.read.format("delta").load(str(out / "tables" / "plans"))
    rows = plans.groupBy("contender", "partitions").agg(count("*").alias("n"), max_("measurement").alias("last")).collect()
    assert {(r.contender, r.partitions) for r in rows} == {(c.name, n) for c in contenders() for n in (30, 200)}
    assert {(r.n, r.last) for r in rows} == {(MEASUREMENTS, MEASUREMENTS - 1)}


def test_lateness_comes_back_whole_and_in_order(results: Results) -> None:
    names = [row.contender for row in results.lateness]
    assert names == [*(c.name for c in contenders()), *(f"kd_{n}" for n in experiments.STATIC)]
    static = {row.contender: row for row in results.lateness}["kd_32"]
    assert (static.consumers, static.r_score, static.late_ratio, static.p90_of_late_s) == (32.0, 0.0, 0.0, None)
    for row in results.lateness:
        assert len(row.later_ratio) == len(experiments.LATER_THAN_S)
        assert all(a >= b for a, b in pairwise(row.later_ratio)), row.contender
        assert row.later_ratio[0] <= row.late_ratio


def test_two_dimensions_are_counted_over_their_bound(results: Results) -> None:
    found = {(p.algorithm, p.family): p for p in results.packed}
    assert len(found) == 12
    assert min(p.over_bound for p in results.packed) >= 1
    for family in {p.family for p in results.packed}:
        assert found["DOT", family].consumers <= found["LL-FFD", family].consumers


def test_a_recorded_stream_is_put_through_the_latency_model(results: Results) -> None:
    assert [row.contender for row in results.recorded] == [row.contender for row in results.lateness]


def test_it_writes_the_page_and_the_document_from_what_is_kept(
    results: Results, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = out / "document.md"
    assert evaluate.main(["--redraw", "--out", str(out), "--document", str(document)]) == 0
    text = document.read_text(encoding="utf-8")
    said = "--deltas 5 --seeds 1 --partitions 30 200 --measurements 6 --stream stream.csv"
    assert f"`make evaluate ARGS='{said}'` made these tables" in text
    assert f"Streams per delta: 1, {MEASUREMENTS} measurements, on " in text
    assert "recorded stream" in text
    assert "| PACE balanced |" in text
    assert "delta 5: Rscore of MWF against NFD, % | -55.0 |" in text
    assert (out / "evaluation.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert capsys.readouterr().out.splitlines() == [str(out / "evaluation.html"), str(document)]


def test_the_sizing_policies_run_on_the_workers_and_are_shown(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = [c for c in sizing_cells({}) if c.workload == "W-skew" and c.policy in {"AUTO_SCALE_CG", "rates 90%"}]
    monkeypatch.setattr(regeneration, "sizing_cells", lambda _: some)
    assert evaluate.main(["--part", "sizing", "--out", str(tmp_path)]) == 0
    told = (tmp_path / "sizing.md").read_text(encoding="utf-8")
    assert "`make evaluate ARGS='--part sizing'` made these tables" in told
    assert [line.split(" | ")[0] for line in told.splitlines() if line.startswith(("| AUTO", "| rates"))] == [
        "| AUTO_SCALE_CG",
        "| rates 90%",
    ]
    assert "W-skew" in (tmp_path / "sizing.html").read_text(encoding="utf-8")


def test_nothing_can_be_drawn_again_that_was_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        evaluate.options(["--redraw", "--out", str(tmp_path)])
    assert "there are no tables in" in capsys.readouterr().err


def test_full_means_more_streams_and_other_sizes() -> None:
    quick, full = evaluate.options([]), evaluate.options(["--full", "--out", "/elsewhere"])
    assert (quick.seeds, quick.partitions) == (1, [200])
    assert (full.seeds, full.partitions) == (8, [50, 200, 800])
    assert (quick.command, full.command) == ("make evaluate", "make evaluate ARGS=--full")
    every = experiments.plan_cells(full.deltas, full.seeds, full.partitions, full.measurements)
    assert every[0].partitions == 800
    assert {c.seed for c in every if c.partitions == 800} == {0, 1}
    assert {c.delta for c in every if c.partitions == 50} == {5, 25}
    assert {c.delta for c in every if c.partitions == 200} == {0, 5, 10, 15, 20, 25}


def test_a_missing_recording_is_said_before_anything_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        evaluate.options(["--stream", "/nowhere/stream.csv"])
    assert "/nowhere/stream.csv" in capsys.readouterr().err
