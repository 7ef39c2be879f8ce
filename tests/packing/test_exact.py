"""The fewest consumers, then the least moved, proven."""

import sys
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tests.strategies  # noqa: F401  the profile without deadlines
from autoscaler.errors import PermanentError
from autoscaler.evaluation.workloads import bounded_walk
from autoscaler.packing.exact.columns import Columns, placement_of
from autoscaler.packing.exact.exact import exact
from autoscaler.packing.exact.whole_units import UNITS, whole_costs, whole_sizes
from autoscaler.packing.pace.pace import pace
from autoscaler.packing.problem.lower_bounds import martello_toth
from autoscaler.packing.problem.options import Floats, Labels, Options, Planned
from tests.bench.least_moves import least_r

pytestmark = pytest.mark.timeout(600)  # the first one compiles PACE and more where nothing is kept yet

ROUNDING = 1e-9


def planned(
    rates: Sequence[float], home: Sequence[int], capacity: float = 1.0, seconds: float = 4.0, paid_for: int = 0
) -> Planned:
    cost = np.array(rates, np.float64) / capacity
    options = Options(time_limit_s=seconds, paid_for=paid_for)
    return exact(np.minimum(cost, 1.0), cost, np.array(home, np.int64), options)


def scored(rates: Sequence[float], home: Sequence[int], labels: Sequence[int]) -> tuple[int, float]:
    """Return consumers, and the rate moved."""
    return len(set(labels)), sum(r for r, h, c in zip(rates, home, labels, strict=True) if h >= 0 and h != c)


def is_legal(rates: Sequence[float], labels: Sequence[int]) -> bool:
    """Say whether nobody is above a capacity of 1, unless it holds one partition with traffic."""
    for consumer in set(labels):
        held = [r for r, c in zip(rates, labels, strict=True) if c == consumer and r > 0]
        if sum(held) > 1 + ROUNDING and len(held) > 1:
            return False
    return True


def best(rates: Sequence[float], home: Sequence[int]) -> tuple[int, float]:
    """Return the least of all placements, by trying every one of them."""
    found = (len(rates) + 1, 0.0)
    owner: list[int] = []
    labels = range(max(home, default=-1) + 1 + len(rates))

    def extend() -> None:
        nonlocal found
        if len(owner) == len(rates):
            if is_legal(rates, owner):
                found = min(found, scored(rates, home, owner))
            return
        fresh = max([max(home, default=-1), *owner]) + 1  # consumers that are not there yet are alike
        for c in labels[: fresh + 1]:
            owner.append(c)
            extend()
            owner.pop()

    extend()
    return found


@pytest.mark.parametrize(
    ("rates", "home", "consumers", "moved", "why"),
    [
        ((6, 4, 4, 3, 3), (-1,) * 5, 2, 0, "first fit decreasing needs three"),
        ((6, 4, 4, 3, 3), (0, 0, 1, 1, 1), 2, 0, "and it stays"),
        ((6, 5, 5, 4), (0, 0, 1, 1), 2, 9, "the only packing: 6+4 and 5+5; 5 and 4 change places"),
        ((7, 2, 2, 3), (0, 0, 0, 1), 2, 2, "the cheapest of 2, 2 and 7 leaves"),
        ((3, 3, 3, 1), (0, 1, 2, 2), 1, 6, "two of three consumers go: the 4 stays"),
        ((12, 5, 5), (0, 0, 1), 2, 5, "above the capacity: alone"),
        ((12, 0, 10), (0, 0, 1), 2, 0, "what has no traffic may stay where it is"),
        ((12, 0, 4), (0, -1, 1), 2, 0, "but goes where it is not in the way"),
        ((12, 0), (0, -1), 2, 0, "never beside a partition that is too much alone"),
        ((10 / 3, 10 / 3, 10 / 3), (0, 0, 0), 1, 0, "thirds fill a consumer"),
        ((0, 0, 0), (2, 1, 0), 1, 0, "no traffic needs one consumer"),
    ],
)
def test_fewest_consumers_then_least_moved(
    rates: tuple[float, ...], home: tuple[int, ...], consumers: int, moved: float, why: str
) -> None:
    plan = planned(rates, home, 10)
    assert scored(rates, home, plan.labels.tolist()) == (consumers, moved), why
    assert plan.proven


@pytest.mark.parametrize(
    ("rates", "home", "paid_for", "score", "why"),
    [
        ((3, 3, 3, 1), (0, 1, 2, 2), 2, (2, 3), "one consumer would do, but only the third of them costs anything"),
        ((3, 3, 3, 1), (0, 1, 2, 2), 3, (3, 0), "nothing is saved by emptying one"),
        ((3, 3, 3, 1), (0, 1, 2, 2), 9, (3, 0), "nor by more than there are partitions"),
        ((6, 5, 5, 4), (0, 0, 1, 1), 3, (3, 5), "a third one that runs already takes what is too much"),
        ((6, 6, 6), (0, 0, 0), 2, (3, 12), "what is needed beyond those paid for is taken"),
    ],
)
def test_consumers_that_are_paid_for_cost_nothing(
    rates: tuple[float, ...], home: tuple[int, ...], paid_for: int, score: tuple[int, float], why: str
) -> None:
    plan = planned(rates, home, 10, paid_for=paid_for)
    assert scored(rates, home, plan.labels.tolist()) == score, why
    assert plan.proven


def test_a_known_hard_packing_is_solved() -> None:
    """Triplets that each fill a consumer exactly: decreasing fits need more consumers, the sum of the rates is the optimum."""
    rng = np.random.default_rng(5)
    rates: list[float] = []
    for _ in range(10):
        first = int(rng.integers(380, 490))
        second = int(rng.integers((1000 - first) // 2, 490))
        rates += [first, second, 1000 - first - second]
    cost = np.array(rates) / 1000
    nobody = np.full(30, -1)
    assert len(set(pace(cost, cost, nobody, Options(consumer_price=100.0, drift_weight=0.0)).labels.tolist())) > 10
    plan = planned(rates, [-1] * 30, 1000, seconds=60)
    assert (len(set(plan.labels.tolist())), plan.proven) == (10, True)
    assert np.bincount(plan.labels, cost).max() <= 1 + ROUNDING


share = st.one_of(st.just(0.0), st.floats(0.01, 0.7), st.integers(1, 7).map(lambda i: i / 7), st.floats(1, 3), st.just(1e-300))


@settings(max_examples=60)
@given(st.lists(st.tuples(share, st.integers(-1, 3)), min_size=1, max_size=6))
def test_nothing_is_better_than_the_exact_plan(partitions: list[tuple[float, int]]) -> None:
    rates = [r for r, _ in partitions]
    known = sorted({h for _, h in partitions if h >= 0})
    home = [known.index(h) if h >= 0 else -1 for _, h in partitions]
    plan = planned(rates, home)
    labels = plan.labels.tolist()
    consumers, moved = scored(rates, home, labels)
    fewest, least = best(rates, home)
    assert plan.proven
    assert is_legal(rates, labels)
    crowded_out = any(r > 1 for r in rates) and any(not r for r in rates)  # the one rule that the count of all placements lacks
    assert consumers == fewest or (crowded_out and consumers == fewest + 1)
    assert moved == pytest.approx(least, abs=1e-6) or consumers > fewest
    again = planned(rates, np.unique(plan.labels, return_inverse=True)[1].tolist())
    assert scored(rates, np.unique(plan.labels, return_inverse=True)[1].tolist(), again.labels.tolist())[1] == 0


def stream(n: int, steps: int, seed: int) -> Floats:
    return bounded_walk(delta=10, seed=seed, partitions=n, measurements=steps) / 100


def test_equal_input_gives_equal_output_on_a_stream() -> None:
    home: Labels = np.full(24, -1)
    for e in stream(24, 4, 3):
        plan, again = (exact(e, e, home, Options()) for _ in range(2))
        assert plan.proven
        assert plan.labels.tolist() == again.labels.tolist()
        assert len(set(plan.labels.tolist())) >= martello_toth(e.tolist(), 1.0)
        home = np.unique(plan.labels, return_inverse=True)[1]


@pytest.mark.parametrize("finer", [0.0, 1e-4])
def test_fewer_moves_are_found_where_cp_sat_is_at_its_end(finer: float) -> None:
    """With whole percent of a capacity, and with sizes that the relaxation must round."""
    first, second = np.clip(stream(160, 2, 8) + finer * np.sin(np.arange(160)), 0, 1)
    lean = Options(consumer_price=100.0, drift_weight=0.0, time_limit_s=6)
    home = np.unique(pace(first, first, np.full(160, -1), lean).labels, return_inverse=True)[1]
    plan = exact(second, second, home, lean)
    by_pace = pace(second, second, home, lean).labels
    consumers, moved = scored(second.tolist(), home.tolist(), plan.labels.tolist())
    assert is_legal(second.tolist(), plan.labels.tolist())
    assert (consumers, moved) < scored(second.tolist(), home.tolist(), by_pace.tolist())
    assert least_r(second, second, home, consumers, rounds=3000).bound <= moved + 1e-6


def test_new_consumers_are_opened_where_the_old_ones_are_too_few() -> None:
    rates = [0.6] * 12 + [0.3] * 12
    plan = planned(rates, [i % 6 for i in range(24)])
    assert is_legal(rates, plan.labels.tolist())
    consumers, moved = scored(rates, [i % 6 for i in range(24)], plan.labels.tolist())
    assert consumers == 12
    assert moved == pytest.approx(6 * 0.6 + 6 * 0.3)
    assert plan.proven


def test_a_partition_in_two_fillings_stays_at_home() -> None:
    takes = np.array([[1, 1, 0], [0, 1, 1]], np.int8)
    columns = Columns(np.array([0, 1]), takes, np.array([0.5, 0.5]), np.array([False, False]))
    assert placement_of(columns, np.array([0, 1]), 2, np.array([0, 1, 1])).tolist() == [0, 1, 1]
    assert placement_of(columns, np.array([0, 1]), 2, np.array([0, 0, 1])).tolist() == [0, 0, 1]
    assert placement_of(Columns(np.array([0, 0]), *columns[1:]), np.array([0, 1]), 0, np.full(3, -1)).tolist() == [0, 0, 1]


def test_when_the_time_is_over_the_best_so_far_is_returned_and_not_called_proven() -> None:
    first, second = stream(100, 2, 4)
    nobody = np.full(100, -1)
    lean = Options(consumer_price=100.0, drift_weight=0.0, time_limit_s=0.05)
    home = np.unique(pace(first, first, nobody, lean).labels, return_inverse=True)[1]
    plan = exact(second, second, home, lean)
    by_pace = pace(second, second, home, lean).labels
    assert plan.proven is False
    assert scored(second.tolist(), home.tolist(), plan.labels.tolist()) <= scored(
        second.tolist(), home.tolist(), by_pace.tolist()
    )


def test_a_group_too_large_to_search_keeps_the_plan_of_pace() -> None:
    first, second = stream(1600, 2, 6)
    lean = Options(consumer_price=100.0, drift_weight=0.0)
    home = np.unique(pace(first, first, np.full(1600, -1), lean).labels, return_inverse=True)[1]
    plan = exact(second, second, home, lean)
    assert plan.proven is False
    assert plan.labels.tolist() == pace(second, second, home, lean).labels.tolist()


def test_without_the_library_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python.cp_model", None)
    with pytest.raises(
        PermanentError, match=r"needs OR-Tools, which is not installed: pip install 'kafka-group-autoscaler\[exact\]'"
    ):
        planned([1, 2], [-1, -1])


@pytest.mark.parametrize(
    ("shares", "sizes", "capacity"),
    [
        ([0.07, 0.93, 0.5], [7, 93, 50], 100),  # 0.07 is a little more than 7 hundredths
        ([1.0, 0.5], [2, 1], 2),
        ([1e-300, 1.0], [1, UNITS], UNITS + 500),
        ([0.0, 0.25], [0, 1], 4),
        ([3.0, 0.25], [4, 1], 4),
        ([3.0, 1e-300], [UNITS + 500, 1], UNITS + 500),  # nothing fits beside what is above the capacity
        ([1 / 3] * 3, [1] * 3, 3),  # rounded up, but the capacity has grace
    ],
)
def test_whole_sizes_are_exact_for_whole_parts_and_careful_otherwise(
    shares: list[float], sizes: list[int], capacity: int
) -> None:
    whole = whole_sizes(np.array(shares))
    assert (whole.sizes.tolist(), whole.capacity) == (sizes, capacity)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_what_fits_in_whole_units_fits(shares: list[float]) -> None:
    whole = whole_sizes(np.array(shares))
    fitting = np.cumsum(whole.sizes) <= whole.capacity
    assert (np.cumsum(shares)[fitting] <= 1 + ROUNDING).all()


@pytest.mark.parametrize(
    ("costs", "multiples", "unit"), [([0.25, 0.5, 3.0], [1, 2, 12], 0.25), ([0.0, 0.0], [0, 0], 1e-6), ([1e300], [1], 1e9)]
)
def test_costs_keep_their_proportions(costs: list[float], multiples: list[int], unit: float) -> None:
    whole = whole_costs(np.array(costs))
    assert (whole.multiples.tolist(), whole.unit) == (multiples, unit)
