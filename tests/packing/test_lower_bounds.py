"""Bounds are never above what is possible, and are reached where they can be."""

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tests.strategies  # noqa: F401  the profile without deadlines
from autoscaler.evaluation.workloads import bounded_walk
from autoscaler.packing.exact.fill_prices import Relaxation, Steps, best_bound, bound_at
from autoscaler.packing.pace.pace import pace
from autoscaler.packing.problem.lower_bounds import fewest_of, lower_bound, martello_toth
from autoscaler.packing.problem.options import Floats, Labels, Options
from autoscaler.packing.registry import assign
from tests.bench.least_moves import LeastR, least_r

Partition = tuple[float, int]  # share and home

share = st.one_of(st.just(0.0), st.floats(0.01, 0.7), st.integers(1, 7).map(lambda i: i / 7), st.floats(1, 3))
groups = st.lists(st.tuples(share, st.integers(-1, 2)), min_size=1, max_size=5)


def is_legal(rates: Sequence[float], owner: Sequence[int], sizes: Sequence[float]) -> bool:
    """Say whether nobody is above its size, unless it holds one partition with traffic."""
    for consumer in set(owner):
        held = [r for r, c in zip(rates, owner, strict=True) if c == consumer and r > 0]
        if sum(held) > sizes[consumer] + 1e-9 and len(held) > 1:
            return False
    return True


def fewest(rates: Sequence[float], sizes: Sequence[float]) -> int:
    """Return the least number of consumers over all placements."""
    owners = product(range(len(sizes)), repeat=len(rates))
    return min(len(set(owner)) for owner in owners if is_legal(rates, owner, sizes))


@given(st.lists(share, min_size=1, max_size=5))
def test_no_bound_is_above_the_fewest_consumers(rates: list[float]) -> None:
    equal = [1.0] * len(rates)
    possible = fewest(rates, equal)
    assert 1 <= lower_bound(rates, 1.0) <= martello_toth(rates, 1.0) <= possible
    assert fewest_of(rates, equal) <= possible


@given(st.lists(share, min_size=1, max_size=4), st.lists(st.floats(0.1, 2), min_size=1, max_size=3))
def test_the_bound_for_consumers_of_different_size_holds(rates: list[float], sizes: list[float]) -> None:
    offered = [*sizes, *[min(sizes)] * len(rates)]
    assert 1 <= fewest_of(rates, offered) <= fewest(rates, offered)


@pytest.mark.parametrize(
    ("rates", "simple", "bound", "why"),
    [
        ([], 0, 0, "nothing"),
        ([0, 0], 1, 1, "no traffic still needs one"),
        ([6, 6, 4, 4, 4], 3, 3, "6+4, 6+4, 4"),
        ([7, 7, 4, 4], 3, 3, "4 and 4 go together, beside neither 7"),
        ([6, 6, 6, 5, 5], 3, 4, "nothing from 5 up goes beside a 6, and only two of 5 share"),
        ([7, 6, 5, 4, 4, 4], 3, 4, "4 does not go beside 7; 5 and one 4 or two of 4 share"),
        ([34, 34, 34], 3, 3, "each above the capacity: alone"),
        ([6, 6, 6], 3, 3, "no two above half the capacity go together, though the sum fits on two"),
    ],
)
def test_the_second_bound_sees_what_does_not_go_together(rates: list[float], simple: int, bound: int, why: str) -> None:
    assert martello_toth(rates, 10) == bound, why
    assert lower_bound(rates, 10) == simple, why


@pytest.mark.parametrize(
    ("shares", "sizes", "bound"),
    [
        ([], [1.0], 0),
        ([1.0, 1.0, 1.0], [2.0, 1.0, 0.5, 0.5], 2),
        ([0.4, 0.4], [0.5, 0.5, 0.5], 2),
        ([1.0, 1.0], [1.0, 0.5, 0.5], 2),  # the second one alone on a consumer of half its size
        ([5.0], [1.0, 1.0], 1),
    ],
)
def test_the_largest_consumers_must_hold_everything(shares: list[float], sizes: list[float], bound: int) -> None:
    assert fewest_of(shares, sizes) == bound


def arrays(partitions: Sequence[Partition]) -> tuple[Floats, Floats, Labels]:
    """Return what fits, what a move costs, and homes from 0 on without gaps."""
    cost = np.array([r for r, _ in partitions], np.float64)
    known = sorted({h for _, h in partitions if h >= 0})
    return np.minimum(cost, 1.0), cost, np.array([known.index(h) if h >= 0 else -1 for _, h in partitions], np.int64)


def cheapest(cost: Floats, home: Labels, consumers: int) -> float:
    """Return the least R-score over all placements on so many consumers."""
    rates, slots = cost.tolist(), int(home.max(initial=-1)) + 1 + consumers
    return min(
        (
            float(cost[(home >= 0) & (home != np.array(owner))].sum())
            for owner in product(range(slots), repeat=len(rates))
            if len({c for c, r in zip(owner, rates, strict=True) if r > 0}) <= consumers and is_legal(rates, owner, [1.0] * slots)
        ),
        default=math.inf,
    )


@settings(max_examples=60)
@given(groups, st.integers(1, 3))
def test_no_step_costs_less_than_the_least(partitions: list[Partition], consumers: int) -> None:
    e, cost, home = arrays(partitions)
    least = cheapest(cost, home, consumers)
    bound = least_r(e, cost, home, consumers, rounds=200)
    assert bound.bound <= least + 1e-6
    assert not bound.proven or bound.bound == pytest.approx(least, abs=1e-6)
    exact = least_r(e, cost, home, consumers, rounds=50, seconds=10)
    assert exact.proven
    assert exact.bound == pytest.approx(least, abs=1e-5)


@settings(max_examples=40)
@given(groups, st.integers(1, 3), st.lists(st.floats(0, 3), min_size=5, max_size=5))
def test_the_relaxation_holds_at_any_prices(partitions: list[Partition], consumers: int, prices: list[float]) -> None:
    e, cost, home = arrays(partitions)
    order = np.argsort(np.where(home < 0, 99, home), kind="stable")
    start = np.searchsorted(np.where(home < 0, 99, home)[order], [*range(int(home.max()) + 1), 99, 100])
    sizes = np.floor(e * 700).astype(np.int64)[order]
    given_ = Relaxation(sizes, np.where(home < 0, 0.0, cost)[order], start, 700, consumers)
    bound, missing = bound_at(given_, np.array(prices[: len(order)]))
    assert bound <= cheapest(cost, home, consumers) + 1e-6
    assert missing.max() <= 1


def test_more_rounds_never_lower_the_bound() -> None:
    rng = np.random.default_rng(2)
    size, home = rng.integers(1, 101, 40), np.sort(rng.integers(0, 22, 40))
    given_ = Relaxation(size, size / 100, np.append(np.searchsorted(home, np.arange(23)), 40), 100, 22)
    bounds = [best_bound(given_, math.inf, rounds, Steps())[0] for rounds in (0, 10, 100, 1000)]
    assert bounds == sorted(bounds)
    assert bounds[-1] > bounds[0]


@pytest.mark.parametrize(
    ("rates", "home", "consumers", "least"),
    [
        ((0.6, 0.5, 0.5, 0.4), (0, 0, 1, 1), 2, LeastR(0.9, proven=True)),
        ((0.6, 0.5, 0.5, 0.4), (0, 0, 1, 1), 3, LeastR(0.5, proven=True)),
        ((0.6, 0.5, 0.5, 0.4), (0, 0, 1, 1), 1, LeastR(math.inf, proven=True)),
        ((0.3, 0.3, 0.3), (0, 1, 2), 1, LeastR(0.6, proven=True)),
        ((3.0, 0.2, 0.1), (0, 0, 1), 2, LeastR(0.2, proven=True)),
        ((0.5, 0.5), (-1, -1), 1, LeastR(0.0, proven=True)),
    ],
)
def test_the_least_is_found_and_proven(rates: tuple[float, ...], home: tuple[int, ...], consumers: int, least: LeastR) -> None:
    cost = np.array(rates)
    found = least_r(np.minimum(cost, 1.0), cost, np.array(home), consumers, seconds=10)
    assert found.bound == pytest.approx(least.bound)
    assert found.proven == least.proven


def test_a_known_placement_that_reaches_the_relaxation_is_proven_without_a_search() -> None:
    first, second = bounded_walk(delta=5, seed=9, partitions=60, measurements=2) / 100
    calm = Options(consumer_price=0.7)
    home = np.unique(pace(first, first, np.full(60, -1), calm).labels, return_inverse=True)[1]
    labels = pace(second, second, home, calm).labels
    moved = float(second[labels != home].sum())
    assert least_r(second, second, home, len(set(labels.tolist())), known=moved) == LeastR(moved, proven=True)
    assert least_r(second, second, home, len(set(labels.tolist()))).bound == pytest.approx(moved)


def test_no_bound_is_above_what_stays_where_it_is() -> None:
    """What fitted once may be above the capacity by twice the rounding."""
    half = 0.5 + 0.9e-9
    plan = assign(dict.fromkeys(range(4), half), 1.0, {0: 0, 1: 0, 2: 1, 3: 1}, "MMR")
    assert (plan.consumers, plan.lower_bound) == (2, 2)
    assert martello_toth([half] * 4, 1.0) == 2
    small = [0.05 + 0.9e-9] * 20
    assert fewest_of(small, [1.0, *[0.05] * 20]) <= fewest_of([0.05] * 20, [1.0, *[0.05] * 20])


def test_fine_sizes_are_rounded_down_so_that_the_bound_holds() -> None:
    cost = np.array([1 / 3 + 1e-7, 1 / 3 + 3e-7, 1 / 3 + 7e-7])  # three thirds do not quite fit, but on a coarse grid they do
    at_one = np.zeros(3, np.int64)
    assert least_r(cost, cost, at_one, 2) == LeastR(0.0, proven=False)
    assert least_r(cost, cost, at_one, 2, seconds=10).bound == pytest.approx(1 / 3, abs=1e-5)
