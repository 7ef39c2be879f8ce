"""Random inputs, many and nasty: no planner crashes, runs on without end, loses a partition or overloads anybody.

The tests draw some hundreds of inputs, ``long_run.py`` 100,000 or as many as it has time for; every algorithm gets every input.
Input number ``i`` is the same in both. A kernel that ran on without end would not see a signal, so the time limit is a thread
that ends the process.
"""

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

from autoscaler.packing import ALGORITHMS, PRESETS, Assignment, Given, assign, assign_arrays
from autoscaler.packing.problem.options import TAKES
from autoscaler.packing.research.two_dimensional import assign_2d

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Input = tuple[Floats, float, Labels]

KEEP_STILL = ("MMR", "HFD", "GOALS", "PACE", "EXACT")
BY_RATE = [a for a in ALGORITHMS if a not in {"NF", "FF", "WF", "BF"}]
FAST = [a for a in ALGORITHMS if a != "EXACT"]
# Of the capacity: fitting forgives 1e-9, staying another one, and a partition that is above by 1e-9 counts as 1.
ROUNDING = 4e-9
CAPACITIES = (1.0, 1.0, 1.0, 100.0, 7.5e6, 1e-300, 1e300, 3.0)
CHANCE = 0.5  # that an option is given


def _one(rng: np.random.Generator, *values: float) -> float:
    return float(rng.choice(values))


def _uniform(rng: np.random.Generator, n: int) -> Floats:
    return rng.random(n) * _one(rng, 0.1, 0.5, 1.0, 1.3)


def _ties(rng: np.random.Generator, n: int) -> Floats:
    return rng.integers(0, 6, n) / _one(rng, 3.0, 4.0, 5.0)


def _alike(rng: np.random.Generator, n: int) -> Floats:
    return np.full(n, _one(rng, 0.0, 0.1, 1 / 3, 0.5, 0.5 + 1e-9, 0.5 + 1e-12, 1.0, 1.0 + 1e-10, 1.0 + 1e-8, 2.0))


def _oversized(rng: np.random.Generator, n: int) -> Floats:
    return 1.0 + rng.random(n) * _one(rng, 1e-8, 1.0, 1e12)


def _skewed(rng: np.random.Generator, n: int) -> Floats:
    return np.exp(rng.normal(-3.0, 2.0, n))


def _sparse(rng: np.random.Generator, n: int) -> Floats:
    return np.where(rng.random(n) < 0.7, 0.0, rng.random(n))


def _brim(rng: np.random.Generator, n: int) -> Floats:
    """Return parts that add up to one exactly, or to a little more or less."""
    cuts = np.sort(rng.random(n - 1)) if n > 1 else np.empty(0)
    parts = np.diff(np.concatenate(([0.0], cuts, [1.0])))
    return parts[:n] * _one(rng, 1.0, 1.0 + 1e-9, 1.0 + 1e-8, 1.0 - 1e-9) * rng.integers(1, 4)


def _extreme(rng: np.random.Generator, n: int) -> Floats:
    return rng.choice(np.array([0.0, 5e-324, 1e-300, 1e-9, 0.3, 1.0, 1e9, 1e300]), n)


RATES: tuple[Callable[[np.random.Generator, int], Floats], ...] = (
    _uniform, _ties, _alike, _oversized, _skewed, _sparse, _brim, _extreme,
)  # fmt: skip


def _nobody(rng: np.random.Generator, n: int) -> Labels:
    return np.full(n, -1, np.int64)


def _few(rng: np.random.Generator, n: int) -> Labels:
    return rng.integers(0, rng.integers(1, max(2, n // 2 + 1)), n)


def _gaps(rng: np.random.Generator, n: int) -> Labels:
    return rng.choice(np.array([-1, 0, 3, 7, 8, 10**6, 2**40, 2**62], np.int64), n)


def _own(rng: np.random.Generator, n: int) -> Labels:
    return rng.permutation(n).astype(np.int64) * int(rng.integers(1, 5))


PREVIOUS: tuple[Callable[[np.random.Generator, int], Labels], ...] = (_nobody, _few, _few, _gaps, _own)


def drawn(number: int) -> Input:
    """Return input ``number``: rates, capacity, previous owners."""
    rng = np.random.default_rng(number)
    n = int(rng.choice([0, 1, 2, 3, int(rng.integers(4, 16)), int(rng.integers(4, 50))], p=[0.01, 0.07, 0.1, 0.12, 0.5, 0.2]))
    if number % 500 == 0:
        n = int(rng.integers(200, 400))
    elif number % 1000 == 1:
        n = int(rng.integers(1000, 1500))  # often more consumers than are planned in one piece
    capacity = float(rng.choice(CAPACITIES))
    rates = RATES[rng.integers(len(RATES))](rng, n)
    with np.errstate(over="ignore"):
        scaled = rates * (capacity if rng.random() < 0.9 else 1.0)
    if n and rng.random() < 0.5:
        scaled[rng.integers(n)] = rng.choice([0.0, capacity, capacity * (1 + 1e-9), capacity / 3, 1e-300])
    scaled = np.minimum(scaled, 1e305)  # their sum is a number still
    return scaled, capacity, PREVIOUS[rng.integers(len(PREVIOUS))](rng, n)


def in_capacities(rates: Floats, capacity: float) -> Floats:
    """Return rates in units of the capacity, at most 1e9 of it where more could not be counted."""
    return np.minimum(rates, 1e9 * capacity if capacity < 1 else np.inf) / capacity


def check(rates: Floats, capacity: float, previous: Labels, owner: Labels) -> None:
    """Check that everybody has an owner that may be one, and that nobody is above the capacity without need."""
    assert owner.shape == rates.shape
    assert owner.dtype == np.int64
    known = np.isin(owner, previous)
    assert np.all(owner >= 0)
    assert np.all(known | (owner <= len(rates))), "a new consumer gets a low index"
    consumers, label = np.unique(owner, return_inverse=True)
    load = np.bincount(label, weights=in_capacities(rates, capacity))
    busy = np.bincount(label, weights=rates / max(capacity, 1.0) > 0)  # 1e-300 of 1e300 is nothing
    crowded = (load > 1 + ROUNDING) & (busy > 1)
    assert not crowded.any(), f"consumers {consumers[crowded].tolist()} hold {load[crowded].tolist()} capacities"


def options(algorithm: str, number: int, capacity: float) -> Given:
    """Return options that the algorithm takes, the same for the same number."""
    rng = np.random.default_rng(number)
    if number % 2 or algorithm not in TAKES:
        return {}
    values: Given = {
        "preset": str(rng.choice(list(PRESETS))),
        "consumer_price": _one(rng, 0.0, 0.1, 5.0, 1e6),
        "paid_for": int(_one(rng, 0, 1, 7, 10**6)),
        "drift_weight": _one(rng, 0.0, 0.3, 1.0, 50.0),
        "horizon": _one(rng, 0.01, 1.0, 16.0),
        "drift": _one(rng, 0.0, 1e-6, 0.03, 0.3, 1e6) * capacity,
        "fill_ratio": _one(rng, 0.01, 0.8, 0.95, 1.0),
        "drain_limit": _one(rng, 0.0, 0.2, 1e9),
        "open_first": bool(rng.integers(2)),
        "quantised": bool(rng.integers(2)),
    }
    chosen = {k: v for k, v in values.items() if k in TAKES[algorithm] and rng.random() < CHANCE}
    return cast("Given", chosen)


def keep(algorithm: str, given: Input, asked: Given) -> Labels:
    """Plan one input twice, check it, and return the plan."""
    rates, capacity, previous = given
    was = rates.copy(), previous.copy()
    owner = assign_arrays(rates, capacity, previous, algorithm, **asked)
    assert np.array_equal(rates, was[0]), "the rates given were written to"
    assert np.array_equal(previous, was[1]), "the owners given were written to"
    check(rates, capacity, previous, owner)
    assert np.array_equal(owner, assign_arrays(rates, capacity, previous, algorithm, **asked)), "equal input, another plan"
    return owner


def run(algorithm: str, numbers: range) -> None:
    """Plan many inputs; a failure names its number."""
    for number in numbers:
        rates, capacity, previous = drawn(number)
        asked = options(algorithm, number, capacity)
        try:
            owner = keep(algorithm, (rates, capacity, previous), asked)
            if algorithm in KEEP_STILL and not asked.get("quantised"):
                again = assign_arrays(rates, capacity, owner, algorithm, **asked)
                assert np.array_equal(again, owner), "the same load again moved something"
        except Exception as error:
            given = f"{rates.tolist()}, {capacity}, {previous.tolist()}, {algorithm!r}, {asked}"
            error.add_note(f"input {number}: assign_arrays({given})")
            raise


def mapped(algorithm: str, numbers: range) -> None:
    """Plan many inputs as mappings in a random order: the same plan as of arrays, and figures that belong to it."""
    for number in numbers:
        rates, capacity, previous = drawn(number)
        rng = np.random.default_rng(number)
        order = rng.permutation(len(rates)) if algorithm in BY_RATE else np.arange(len(rates))
        loads = {int(j): float(rates[j]) for j in order}
        held = {int(j): int(previous[j]) for j in rng.permutation(len(rates)) if previous[j] >= 0}
        try:
            plan: Assignment[int] = assign(loads, capacity, held, algorithm)
            owner = np.array([plan.owner[j] for j in range(len(rates))], np.int64)
            check(rates, capacity, previous, owner)
            assert list(plan.owner) == sorted(loads)
            assert plan.lower_bound <= plan.consumers == len(np.unique(owner))
            assert set(plan.oversized) == set(np.flatnonzero(rates > capacity * (1 + 1e-9)).tolist())
            assert plan.r_score >= 0
            assert np.array_equal(owner, assign_arrays(rates, capacity, previous, algorithm)), "mapping and arrays disagree"
        except Exception as error:
            error.add_note(f"input {number}: assign({loads}, {capacity}, {held}, {algorithm!r})")
            raise


@pytest.mark.timeout(100, method="thread")
@pytest.mark.parametrize("algorithm", FAST)
def test_hundreds_of_inputs(algorithm: str) -> None:
    run(algorithm, range(300))


@pytest.mark.timeout(100, method="thread")
@pytest.mark.parametrize("algorithm", FAST)
def test_mappings_in_any_order(algorithm: str) -> None:
    mapped(algorithm, range(100_000, 100_100))


def both(numbers: range) -> None:
    """Plan many inputs by rate and backlog, in two orders; a failure names its number."""
    for number in numbers:
        rates, capacity, previous = drawn(number)
        rng = np.random.default_rng(number)
        lags = np.minimum(RATES[rng.integers(len(RATES))](rng, len(rates)), 1e300) * 50.0
        keys = range(len(rates))
        held = {j: int(previous[j]) for j in keys if previous[j] >= 0}
        try:
            plan = assign_2d(dict(enumerate(rates.tolist())), dict(enumerate(lags.tolist())), capacity, 50.0, held, tries=50)
            owner = np.array([plan.owner[j] for j in keys], np.int64)
            check_both(in_capacities(rates, capacity), lags / 50.0, owner)
            assert plan.lower_bound <= plan.consumers == len(np.unique(owner))
            order = rng.permutation(len(rates)).tolist()
            mixed = [{j: float(x[j]) for j in order} for x in (rates, lags)]
            assert assign_2d(mixed[0], mixed[1], capacity, 50.0, held, tries=50) == plan, "another order, another plan"
            after = {j: int(owner[j]) for j in keys}
            again = assign_2d(dict(enumerate(rates.tolist())), dict(enumerate(lags.tolist())), capacity, 50.0, after, tries=50)
            assert again.owner == plan.owner, "the same load again moved something"
        except Exception as error:
            error.add_note(f"input {number}: assign_2d({rates.tolist()}, {lags.tolist()}, {capacity}, 50.0, {held})")
            raise


def check_both(rates: Floats, lags: Floats, owner: Labels) -> None:
    """Check that nobody is above the capacity in rate or backlog but for one partition."""
    consumers, label = np.unique(owner, return_inverse=True)
    assert owner.min(initial=0) >= 0
    busy = np.bincount(label, weights=(rates > 0) | (lags > 0))
    for needs in (rates, lags):
        crowded = (np.bincount(label, weights=np.minimum(needs, 1e9)) > 1 + ROUNDING) & (busy > 1)
        assert not crowded.any(), f"consumers {consumers[crowded].tolist()} are above the capacity"


HARD: dict[str, tuple[list[float], float, list[int]]] = {
    "nothing at all": ([], 1.0, []),
    "one silent partition": ([0.0], 1.0, [-1]),
    "one partition far above": ([1e300], 1e-300, [2**62]),
    "all far above, on one consumer": ([1e300] * 5, 1e-300, [3] * 5),
    "all far below": ([1e-300] * 50, 1e300, [-1] * 50),
    "the smallest number there is": ([5e-324] * 9, 5e-324, [0] * 9),
    "hardly anything beside what is too much": ([1.5, 1e-300, 1e-12, 0.0], 1.0, [0, 0, 0, 0]),
    "exactly full": ([0.5, 0.5, 0.25, 0.25, 0.25, 0.25], 1.0, [0, 1, 0, 1, 0, 1]),
    "ten tenths": ([0.1] * 30, 1.0, [0] * 15 + [1] * 15),
    "as many consumers as partitions, far apart": ([0.2] * 8, 1.0, [10**k for k in range(8)]),
    "everything on one": ([0.3] * 40, 1.0, [7] * 40),
    "all silent on one": ([0.0] * 40, 1.0, [7] * 40),
    "all silent apart": ([0.0] * 40, 1.0, list(range(40))),
}


@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_hard_inputs(algorithm: str, case: str) -> None:
    rates, capacity, previous = HARD[case]
    given = np.array(rates), capacity, np.array(previous, np.int64)
    owner = keep(algorithm, given, {})
    loads, held = dict(enumerate(rates)), {j: c for j, c in enumerate(previous) if c >= 0}
    plan: Assignment[int] = assign(loads, capacity, held, algorithm)
    assert list(plan.owner.values()) == owner.tolist()
    assert plan.lower_bound <= plan.consumers
    if algorithm in KEEP_STILL:
        assert np.array_equal(keep(algorithm, (given[0], capacity, owner), {}), owner)


@pytest.mark.timeout(100, method="thread")
def test_a_few_small_inputs_of_the_exact_solver() -> None:
    small = [number for number in range(100) if len(drawn(number)[0]) <= 10]
    assert len(small) > 30
    for number in small:
        run("EXACT", range(number, number + 1))


@pytest.mark.timeout(100, method="thread")
def test_hundreds_of_inputs_by_rate_and_backlog() -> None:
    both(range(100))


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), -float("inf"), -1.0, -1e-300])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_is_no_rate_is_refused_by_position_and_value(algorithm: str, rate: float) -> None:
    with pytest.raises(ValueError, match=rf"rate at 2 .*{rate!r}"):
        assign_arrays(np.array([1.0, 0.0, rate]), 1.0, np.array([0, -1, 2]), algorithm)
    with pytest.raises(ValueError, match=rf"rate of partition 2 .*{rate!r}"):
        assign({0: 1.0, 1: 0.0, 2: rate}, 1.0, {0: 0, 2: 2}, algorithm)


@pytest.mark.parametrize("capacity", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_is_no_capacity_is_refused(algorithm: str, capacity: float) -> None:
    with pytest.raises(ValueError, match=rf"capacity .*{capacity!r}"):
        assign_arrays(np.ones(1), capacity, np.zeros(1, np.int64), algorithm)
    with pytest.raises(ValueError, match=rf"capacity .*{capacity!r}"):
        assign({0: 1.0}, capacity, {}, algorithm)
