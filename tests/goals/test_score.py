"""The published score, by its worked values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.goals import Band, Tail, weighted
from autoscaler.goals.score import Floats
from tests.goals.clusters import MIB


def of(*mib: float) -> Floats:
    return np.array(mib) * MIB


def acted(band: Band, load: Floats, a: int, b: int, moved: float) -> float:
    """Return the score of moving so many MiB/s from one node to another."""
    pair, x = load[[a, b]], moved * MIB
    return float(band.action((pair[:1], pair[1:]), (pair[:1] - x, pair[1:] + x))[0])


def test_three_nodes_as_worked() -> None:
    load = of(40, 80, 120)
    band = Band(mean=80 * MIB, ratio=0.2, width=100 * MIB)
    assert band.score(load) == pytest.approx([0.784, 1.0, 0.784], abs=1e-12)
    assert acted(band, load, 2, 0, 40) == pytest.approx(0.608, abs=1e-12)
    assert acted(band, load, 0, 1, 40) == pytest.approx(0.32, abs=1e-12)
    assert acted(band, load, 1, 0, 40) == 0.5


def test_beyond_the_linear_part_as_worked() -> None:
    load = of(600, 900, 0)
    band = Band(mean=500 * MIB, ratio=0.15, width=50 * MIB)
    assert band.score(load).round(6).tolist() == [0.55, 0.094142, 0.093095]
    assert round(acted(band, load, 0, 2, 50), 6) == 0.500246


@pytest.mark.parametrize(("moved", "by_goal", "mean"), [((45, 20), (0.644, 0.446), 0.545), ((35, 40), (0.644, 0.356), 0.5)])
def test_two_goals_as_worked(moved: tuple[float, float], by_goal: tuple[float, float], mean: float) -> None:
    band = Band(mean=40 * MIB, ratio=0.2, width=100 * MIB)
    scores = [acted(band, load, 1, 0, x) for load, x in zip((of(0, 80), of(40, 40)), moved, strict=True)]
    assert scores == pytest.approx(by_goal, abs=1e-12)
    assert float(weighted(np.array(scores), np.ones(2))) == pytest.approx(mean, abs=1e-12)


def test_weights_that_do_not_add_up_to_one_leave_neutral_neutral() -> None:
    assert float(weighted(np.array([0.5, 0.5, 0.5]), np.array([3.0, 0.5, 9.0]))) == 0.5


def test_the_band_has_its_ends_and_idle_nodes_are_in_it() -> None:
    band = Band(mean=100.0, width=100.0)
    assert band.holds(np.array([90.0, 110.0, 89.9, 110.1])).tolist() == [True, True, False, False]
    idle = Band(mean=100.0, width=100.0, idle=1000.0)
    assert idle.holds(np.array([0.0, 999.0, 1001.0])).tolist() == [True, True, False]
    assert Band(mean=5.0, ratio=2.0, width=1.0).limits() == (0.0, 15.0)


def test_a_band_that_is_none_is_refused() -> None:
    for numbers in ((-1.0, 1.0), (1.0, 0.0), (float("nan"), 1.0)):
        with pytest.raises(ValueError, match="must be finite"):
            Band(mean=numbers[0], width=numbers[1])


@given(st.floats(0, 1e12), st.floats(0, 1e12), st.sampled_from(Tail))
def test_what_is_further_away_never_scores_more(one: float, other: float, tail: Tail) -> None:
    band = Band(mean=500 * MIB, ratio=0.1, width=100 * MIB, tail=tail)
    near, far = sorted((one, other), key=lambda load: abs(load - band.mean))
    scores = band.score(np.array([near, far]))
    assert 0.0 < scores[1] <= scores[0] <= 1.0


def test_the_scale_free_tail_is_the_same_in_every_unit() -> None:
    for unit in (1.0, MIB):
        band = Band(mean=500 * unit, ratio=0.15, width=50 * unit, tail=Tail.RATIO)
        assert band.score(np.array([900.0]) * unit).tolist() == [0.1 * 125 / 400]
