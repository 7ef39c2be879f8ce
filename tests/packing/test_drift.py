"""How far rates go, learned from measurements, and what that will cost, against the definition written out."""

import itertools
import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from autoscaler.packing.kernels.bins import bins_of, put
from autoscaler.packing.kernels.drift import MIDPOINTS, DriftEstimator, drift_if, drift_of, expected_eviction, min_evict

shares = st.lists(st.integers(1, 100).map(lambda x: x / 100), min_size=1, max_size=9).map(
    lambda xs: np.array(sorted(xs, reverse=True))
)


def cheapest(xs: NDArray[np.float64], overflow: float) -> float:
    singles = [(x,) for x in xs]
    sums = [sum(group) for group in (*singles, *itertools.combinations(xs, 2)) if sum(group) >= overflow]
    return min(sums, default=float(xs.sum()))


def expectation(xs: NDArray[np.float64], slack: float, sigma: float) -> float:
    spread = sigma * math.sqrt(len(xs))
    if len(xs) <= 1 or slack >= 1.7317 * spread:
        return 0.0
    steps = [spread * z - slack for z in MIDPOINTS]
    return sum(cheapest(xs, step) for step in steps if step > 0) / 12


@settings(deadline=None)  # the first call compiles
@given(shares, st.floats(0.001, 3))
def test_the_cheapest_eviction_is_a_single_or_a_pair(xs: NDArray[np.float64], overflow: float) -> None:
    assert min_evict(xs, len(xs), overflow) == pytest.approx(cheapest(xs, overflow))


@pytest.mark.parametrize(
    ("xs", "overflow", "cost", "why"),
    [
        ([0.5, 0.3, 0.2], 0.15, 0.2, "the smallest that is enough"),
        ([0.5, 0.3, 0.2], 0.45, 0.5, "one alone is as cheap as the cheapest pair"),
        ([0.6, 0.25, 0.2], 0.4, 0.45, "a pair is cheaper than the largest"),
        ([0.2, 0.1, 0.1], 0.35, 0.4, "no pair is enough: everything"),
    ],
)
def test_worked_evictions(xs: list[float], overflow: float, cost: float, why: str) -> None:
    assert min_evict(np.array(xs), len(xs), overflow) == pytest.approx(cost), why


@settings(deadline=None)  # the first call compiles
@given(shares, st.floats(0, 0.5), st.floats(0.001, 0.5))
def test_the_expected_eviction_is_the_mean_over_twelve_steps(xs: NDArray[np.float64], slack: float, sigma: float) -> None:
    assert expected_eviction(xs, len(xs), slack, sigma) == pytest.approx(expectation(xs, slack, sigma))


def test_the_steps_are_the_middles_of_twelve_equal_parts_of_the_normal_distribution() -> None:
    assert pytest.approx([NormalDist().inv_cdf(1 - (k + 0.5) / 12) for k in range(12)], abs=6e-4) == list(MIDPOINTS)


@pytest.mark.parametrize("held", [[0.6], [], [0.4, 0.3], [0.4, 0.3, 0.0]])
@pytest.mark.parametrize("extra", [0.25, 0.1, 0.0])
def test_one_more_partition_is_priced_as_if_it_were_there(held: list[float], extra: float) -> None:
    both = np.array(sorted([*held, extra], reverse=True))
    j = both.tolist().index(extra)
    owner = np.zeros(len(both), np.int64)
    owner[j] = -1
    bins = bins_of(both, both, owner, owner)
    before, foretold = drift_of(bins, 0, 0.3), drift_if(bins, 0, j, -1, 0.3)
    put(bins, j, 0)
    assert foretold == drift_of(bins, 0, 0.3)
    assert drift_if(bins, 0, -1, j, 0.3) == pytest.approx(before, abs=1e-15)


def test_nothing_is_known_before_two_measurements() -> None:
    estimator = DriftEstimator()
    assert estimator.sigma == 0.0
    assert estimator.update({"a": 5.0}).sigma == 0.0
    assert estimator.update({}).update({}).sigma == 0.0


def test_the_first_increments_seed_the_estimate_and_later_ones_count_a_tenth() -> None:
    first = DriftEstimator().update({"a": 0.0, "b": 4.0}).update({"a": 3.0, "b": 0.0})
    assert first.sigma == pytest.approx(math.sqrt(12.5))
    assert first.update({"a": 3.0, "b": 0.0}).sigma == pytest.approx(0.9 * math.sqrt(12.5))
    assert first.update({"a": 5.0, "b": 2.0}).sigma == pytest.approx(0.9 * math.sqrt(12.5) + 0.1 * 2)


def test_partitions_that_come_and_go_do_not_count() -> None:
    estimator = DriftEstimator().update({"a": 1.0, "gone": 900.0}).update({"new": 700.0, "a": 2.0})
    assert estimator.sigma == pytest.approx(1.0)
    assert estimator.update({"other": 1.0}).sigma == pytest.approx(1.0), "nothing in common teaches nothing"
    assert estimator.update({"a": 2.0, "new": 700.0}).sigma == pytest.approx(0.9), "the order does not matter"


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1e9, 1e300])
def test_estimates_keep_to_the_unit_however_large_or_small(scale: float) -> None:
    estimator = DriftEstimator().update({"a": 0.0, "b": scale}).update({"a": scale, "b": 0.0})
    assert estimator.sigma == pytest.approx(scale)


def test_an_estimator_is_a_value() -> None:
    start = DriftEstimator().update({"a": 1.0})
    assert start.update({"a": 4.0}).sigma == start.update({"a": 4.0}).sigma == pytest.approx(3.0)
    assert start.sigma == 0.0


def test_a_random_walk_of_known_width_is_found() -> None:
    rng = np.random.default_rng(3)
    rates, estimator = np.full(500, 1e6), DriftEstimator()
    for _ in range(60):
        rates = rates + rng.uniform(-25.0, 25.0, 500)
        estimator = estimator.update(dict(enumerate(rates.tolist())))
    assert estimator.sigma == pytest.approx(25 / math.sqrt(3), rel=0.05)


@pytest.mark.parametrize("rate", [math.nan, math.inf, -1.0])
def test_a_rate_that_is_none_is_refused_by_its_partition(rate: float) -> None:
    with pytest.raises(ValueError, match=f"rate of partition b .*{rate}"):
        DriftEstimator().update({"a": 1.0, "b": rate})


def test_estimates_that_go_on_differently_are_not_equal() -> None:
    low, high = DriftEstimator().update({"a": 1.0}), DriftEstimator().update({"a": 100.0})
    assert low != high
    assert low == DriftEstimator().update({"a": 1.0})
    assert DriftEstimator().update({"a": 1.0, "b": 2.0}) == DriftEstimator().update({"b": 2.0, "a": 1.0})


def test_the_order_of_a_mapping_does_not_matter() -> None:
    first, second = ({"a": 1.0, "b": 2.0}, {"b": 4.0, "a": 1.0})
    assert DriftEstimator().update(first).update(second).sigma == pytest.approx(math.sqrt(2.0))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"sigma": -3.0, "seeded": True}, "sigma must be a number from 0, not -3.0"),
        ({"sigma": math.nan}, "sigma must be a number from 0, not nan"),
        ({"partitions": (1, 2), "rates": (1.0,)}, "2 partitions, 1 rates"),
    ],
)
def test_one_that_no_measurement_leaves_is_refused(made: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        DriftEstimator(**made)
