"""Tables beside what is printed: differences, tolerances, what was not run."""

import pytest

from autoscaler.evaluation import figures, tables
from autoscaler.evaluation.algorithms_compared import contender, contenders
from autoscaler.evaluation.experiments import LATER_THAN_S
from autoscaler.evaluation.published_figures import FIGURES
from autoscaler.evaluation.report import document, sections
from autoscaler.evaluation.results import Lateness, Packed, Results, Score
from autoscaler.evaluation.tables import Table


def score(name: str, delta: int, cbs_percent: float, r_score: float, partitions: int = 200, *, seeds: int = 8) -> Score:
    return Score(
        contender=name,
        delta=delta,
        partitions=partitions,
        seeds=seeds,
        cbs_percent=cbs_percent,
        consumers=100.0,
        r_score=r_score,
        moved=1.0,
        r_score_spread=0.5,
    )


def late(name: str, **other: float | None) -> Lateness:
    figures = {"consumers": 15.0, "r_score": 1.0, "late_ratio": 0.02, "p90_of_late_s": 4.5, "p90_s": 0.0, "p99_s": 2.6}
    return Lateness(**{**figures, **other}, contender=name, later_ratio=tuple(0.02 / s for s in LATER_THAN_S))  # type: ignore[arg-type]


def results(*scores: Score, **other: tuple[Lateness, ...] | tuple[Packed, ...]) -> Results:
    return Results(**{"scores": scores, "lateness": (), "packed": (), **other}, command="make evaluate", made="Here.")  # type: ignore[arg-type]


def test_the_claims_stand_beside_what_comes_out() -> None:
    found = tables.headline(results(score("MWF", 5, 11.9, 9.0), score("NFD", 5, 23.0, 20.0), score("MWF", 25, 9.0, 15.0)))
    assert found.rows == (
        ("delta 5: Rscore of MWF against NFD, %", "-55.0", "-55.0", "+0.0", "yes"),
        ("delta 5: consumers of MWF above the fewest, %", "11.8", "11.9", "+0.1", "yes"),
    )


def test_a_figure_out_of_tolerance_is_said() -> None:
    rows = tables.published(
        results(score("MWF", 25, 8.5, 15.1), score("MBF", 25, 1.8, 30.0), score("NF", 25, 30.0, 31.9)), 25
    ).rows
    assert [(row[0], row[-1]) for row in rows] == [("NF", "no"), ("MWF", "yes"), ("MBF", "no")]
    assert rows[1] == ("MWF", "8.81", "8.50", "-0.31", "14.99", "15.10", "+0.7 %", "0.50", "yes")


def test_fewer_streams_scatter_more_and_one_has_no_spread() -> None:
    one = tables.published(results(score("NF", 5, 28.3 - 1.1, 31.5, seeds=1), score("FF", 5, 8.1 - 2.9, 26.6, seeds=1)), 5)
    assert [(row[0], row[-2], row[-1]) for row in one.rows] == [("NF", "–", "yes"), ("FF", "–", "no")]
    assert "Tolerance: CBS 2.8 points, E(R) 17 %, over 1 stream, wider" in one.note
    eight = tables.published(results(score("NF", 5, 28.3 - 1.1, 31.5), score("NF", 5, 20.0, 100.0, partitions=800, seeds=2)), 5)
    assert eight.rows[0][-1] == "no"
    assert "Tolerance: CBS 1 points, E(R) 6 %, over 8 streams; " in eight.note


def test_what_was_not_run_is_left_out() -> None:
    found = tables.by_delta(results(score("MWF", 5, 1, 2), score("PACE lean", 25, 3, 4)), "t", "n", lambda s: f"{s.r_score:g}")
    assert found.header == ("algorithm", "delta 5", "delta 25")
    assert found.rows == (("MWF", "2", "–"), ("PACE lean", "–", "4"))
    assert [s.title for s in sections(results())] == []


def test_sizes_compare_by_the_part_of_the_load_that_moves() -> None:
    found = tables.by_size(results(score("MWF", 5, 1, 10), score("MWF", 5, 2, 40, partitions=800)), 5)
    assert found.header == ("algorithm", "200 partitions", "800 partitions")
    assert found.rows == (("MWF", "1.00 / 10.0 %", "2.00 / 10.0 %"),)


def test_the_recorded_stream_stands_beside_what_is_printed() -> None:
    rows = (late("MWF", consumers=15.01, p90_of_late_s=4.6), late("kd_31", p90_of_late_s=None), late("kd_15", p90_of_late_s=None))
    assert tables.recorded(rows).rows == (
        ("MWF: mean consumers", "15.010", "15.010", "+0.000", "yes"),
        ("MWF: p90 of the late bytes, s", "4.516", "4.600", "+0.084", "no"),
        ("kd_15: p90 of the late bytes, s", "217", "–", "–", "no"),
        ("kd_31: p90 of the late bytes, s", "–", "–", "–", "yes"),
    )


@pytest.mark.parametrize(("seconds", "shown"), [(None, "–"), (0.0, "0"), (0.01234, "0.0123"), (4.516, "4.52"), (364.66, "365")])
def test_seconds_are_as_long_as_they_say_something(seconds: float | None, shown: str) -> None:
    assert tables.lateness((late("MWF", p90_of_late_s=seconds),), "t", "n").rows[0][4] == shown


def test_two_dimensions_are_compared_with_ll_ffd() -> None:
    packed = tuple(
        Packed(algorithm=a, family=f, partitions=10, seeds=1, over_bound=n / 8, consumers=n)
        for a, f, n in (("LL-FFD", "full", 10.0), ("LL-FFD", "bimodal", 12.0), ("DOT", "full", 9.0), ("DOT", "bimodal", 9.0))
    )
    found = tables.two_dimensions(results(packed=packed))
    assert found.header == ("algorithm", "bimodal", "full", "mean", "of LL-FFD")
    assert found.rows == (("DOT", "1.125", "1.125", "1.125", "0.825"), ("LL-FFD", "1.500", "1.250", "1.375", "1.000"))


def test_a_table_as_markdown_and_as_html() -> None:
    table = Table(title="T", note="N & more", header=("a", "b<c"), rows=(("x", "1"), ("y", "<2>")))
    assert table.markdown() == "### T\n\nN & more\n\n| a | b<c |\n| --- | ---: |\n| x | 1 |\n| y | <2> |"
    assert '<th scope="col">b&lt;c</th>' in table.html()
    assert '<tr><th scope="row">y</th><td>&lt;2&gt;</td></tr>' in table.html()


def test_the_document_says_how_to_make_it_again() -> None:
    every = results(*(score(c.name, delta, 1, 2) for c in contenders() for delta in FIGURES), lateness=(late("MWF"),))
    text = document(every)
    assert "`make evaluate` made these tables" in text
    assert text.count("\n### ") == 7
    assert text.endswith("|\n")


def test_a_contender_has_a_name_of_its_own() -> None:
    names = [c.name for c in contenders()]
    assert len(set(names)) == len(names) == 19
    assert contender("PACE quiet").options == {"preset": "quiet"}
    with pytest.raises(ValueError, match="no contender is called 'PACE loud'; there are NF, "):
        contender("PACE loud")


def test_of_points_that_lie_on_one_another_one_is_named() -> None:
    still = results(
        score("BFD", 0, 0.0, 0.0), score("MWF", 0, 0.0, 0.0), score("PACE quiet", 0, 5.0, 0.0), score("NF", 0, 28.0, 31.0)
    )
    names = [name for trace in figures.pareto(still, 0).data for name in trace.text]
    assert sorted(names) == ["", "", "BFD …", "quiet"]
