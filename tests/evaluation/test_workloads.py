"""The published streams: bounds, steps, seeds."""

import numpy as np
import pytest

from autoscaler.evaluation.workloads import FAMILIES, bounded_walk, listings, two_demands


@pytest.mark.parametrize("delta", [0, 5, 25])
def test_a_stream_walks_in_whole_steps_inside_its_bounds(delta: int) -> None:
    stream = bounded_walk(delta=delta, seed=3)
    assert stream.shape == (501, 200)
    assert (stream == np.round(stream)).all()
    assert stream.min() >= 0
    assert stream.max() <= 100
    assert np.abs(np.diff(stream, axis=0)).max(initial=0) == delta


def test_it_reaches_both_ends_and_its_steps_are_uniform_where_no_end_is_near() -> None:
    stream = bounded_walk(delta=5, seed=1)
    assert (stream.min(), stream.max()) == (0, 100)
    away = (stream[:-1] >= 5) & (stream[:-1] <= 95)
    counts = np.bincount((np.diff(stream, axis=0)[away] + 5).astype(int), minlength=11)
    assert counts / counts.sum() == pytest.approx(np.full(11, 1 / 11), abs=0.005)


def test_a_seed_is_a_stream() -> None:
    assert (bounded_walk(delta=5, seed=1) == bounded_walk(delta=5, seed=1)).all()
    assert (bounded_walk(delta=5, seed=1) != bounded_walk(delta=5, seed=2)).any()


@pytest.mark.parametrize("wrong", [{"partitions": 0}, {"measurements": 0}, {"capacity": 0}, {"delta": -1}])
def test_nonsense_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="a stream needs partitions"):
        bounded_walk(**{"delta": 5, "seed": 0, **wrong})


def test_every_measurement_lists_all_partitions_in_an_order_of_its_own() -> None:
    found = listings(5, 30, seed=1)
    assert (np.sort(found, axis=1) == np.arange(30)).all()
    assert len(np.unique(found, axis=0)) == 5
    assert (found == listings(5, 30, seed=1)).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_demands_are_parts_of_a_consumer(family: str) -> None:
    rate, lag = two_demands(family, 500, seed=4)
    assert rate.shape == lag.shape == (500,)
    assert min(rate.min(), lag.min()) >= 0.005
    assert max(rate.max(), lag.max()) <= 1
    assert (two_demands(family, 500, seed=4)[1] == lag).all()


def test_families_differ_in_how_the_two_go_together() -> None:
    together = {family: np.corrcoef(*two_demands(family, 2000, seed=1))[0, 1] for family in FAMILIES}
    assert together["correlated"] > 0.8
    assert together["anti-correlated"] < -0.8
    assert together["bimodal"] < -0.5
    assert max(abs(together[family]) for family in ("independent", "skewed lag", "full")) < 0.1


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(ValueError, match="family 'purple' is unknown; choose one of independent, "):
        two_demands("purple", 3, seed=0)
