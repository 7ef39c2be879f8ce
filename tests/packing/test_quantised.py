"""Placement in whole levels, against a plain form of the same rules."""

from bisect import bisect_left, insort
from itertools import count, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.packing import assign, assign_arrays, lower_bound
from autoscaler.packing.large.levels import LEVELS, UNASSIGNED, empty_stacks, least_from, pop, push, trailing_zeros
from autoscaler.packing.large.quantised import OVERSIZED, level_of
from autoscaler.packing.problem.options import Floats, Labels
from tests.builders import rates, tp
from tests.packing.test_arrays import arrays, groups

CAPACITY = 100.0


def placed_plainly(values: Floats, capacity: float, previous: Labels, *, sticky: bool) -> list[int]:
    """Return the owner by decreasing level: home if ``sticky``, else the fullest that became so last, home, the lowest."""
    levels = [level_of(v, capacity) for v in values.tolist()]
    free: dict[int, int] = {}
    since: dict[int, int] = {}
    by_free: list[tuple[int, int, int]] = []  # free levels, how long so (negative: latest first), consumer
    owner = [UNASSIGNED] * len(levels)
    for step, j in enumerate(sorted(range(len(levels)), key=lambda j: (-levels[j], j)), start=1):
        home, size = int(previous[j]), levels[j]
        at = bisect_left(by_free, (size, -len(levels) - 1, -1))
        if sticky and free.get(home, UNASSIGNED) >= size:
            consumer = home
        elif at < len(by_free):
            consumer = by_free[at][2]
        else:
            consumer = home if home != UNASSIGNED and home not in free else next(c for c in count() if c not in free)
        owner[j] = consumer
        left = free.get(consumer, LEVELS) - size
        if left == free.get(consumer):
            continue
        if consumer in free:
            by_free.remove((free[consumer], since[consumer], consumer))
        free[consumer], since[consumer] = left, -step
        if left >= 0:
            insort(by_free, (left, -step, consumer))
    return owner


@pytest.mark.parametrize("algorithm", ["BFD", "HFD"])
@given(group=groups)
def test_levels_are_placed_as_the_plain_form_places_them(algorithm: str, group: list[tuple[float, int]]) -> None:
    values, previous = arrays(group)
    plan = assign_arrays(values, CAPACITY, previous, algorithm, quantised=True)
    assert plan.tolist() == placed_plainly(values, CAPACITY, previous, sticky=algorithm == "HFD")


@pytest.mark.parametrize("algorithm", ["BFD", "HFD"])
@pytest.mark.parametrize("most", [3, 60, 130])
def test_many_are_placed_as_the_plain_form_places_them(algorithm: str, most: float) -> None:
    random = np.random.default_rng(3)
    values, previous = random.random(2000) * most, random.integers(-1, 900, 2000)
    plan = assign_arrays(values, CAPACITY, previous, algorithm, quantised=True)
    assert plan.tolist() == placed_plainly(values, CAPACITY, previous, sticky=algorithm == "HFD")


@given(group=groups, algorithm=st.sampled_from(["BFD", "HFD"]))
def test_nobody_is_above_the_capacity(group: list[tuple[float, int]], algorithm: str) -> None:
    values, previous = arrays(group)
    plan = assign_arrays(values, CAPACITY, previous, algorithm, quantised=True)
    assert plan.min() >= 0
    for consumer in np.unique(plan):
        held = values[plan == consumer]
        assert held.sum() <= CAPACITY * (1 + 1e-9) or len(held) == 1


@given(groups, st.sampled_from(["BFD", "HFD"]))
def test_a_constant_load_moves_nothing_the_second_time(group: list[tuple[float, int]], algorithm: str) -> None:
    values, previous = arrays(group)
    first = assign_arrays(values, CAPACITY, previous, algorithm, quantised=True)
    assert assign_arrays(values, CAPACITY, first, algorithm, quantised=True).tolist() == first.tolist()


def test_rounding_costs_few_consumers() -> None:
    random = np.random.default_rng(0)
    values, nobody = random.random(20_000) * 100, np.full(20_000, -1)
    rounded = len(np.unique(assign_arrays(values, CAPACITY, nobody, "BFD", quantised=True)))
    assert rounded <= len(np.unique(assign_arrays(values, CAPACITY, nobody, "BFD"))) * 1.001
    assert rounded <= lower_bound(values.tolist(), CAPACITY) * 1.01


@pytest.mark.parametrize("parts", [2, 3, 4, 5, 6, 7, 8, 9, 10, 100, 1000])
def test_common_parts_of_a_capacity_fill_it(parts: int) -> None:
    for capacity in (1.0, 3.7e6):
        plan = assign_arrays(np.full(3 * parts, capacity / parts), capacity, np.full(3 * parts, -1), "BFD", quantised=True)
        assert len(np.unique(plan)) == 3


@pytest.mark.parametrize(
    ("share", "level", "why"),
    [
        (0.0, 0, "no traffic takes nothing"),
        (1e-300, 1, "any traffic takes a level"),
        (5e-324, 1, "the least float there is"),
        (1.5 / LEVELS, 2, "rounded up"),
        (1.0, LEVELS, "all"),
        (1.0 + 1e-6, OVERSIZED, "more than all"),
    ],
)
def test_levels(share: float, level: int, why: str) -> None:
    assert level_of(share, 1.0) == level, why


def test_levels_of_a_tiny_and_of_a_huge_capacity() -> None:
    assert level_of(1e300, 1e-300) == OVERSIZED
    assert level_of(1e-300, 1e300) == 1
    assert level_of(1e308, 1e308) == LEVELS


def test_the_opening_rule_names_what_best_fit_opens() -> None:
    plan = assign_arrays(np.array([60.0, 70.0, 80.0, 90.0]), CAPACITY, np.array([2, 2, -1, 0]), "BFD", quantised=True)
    assert plan.tolist() == [3, 2, 1, 0], "90 its home, 80 the lowest, 70 its home, 60 the lowest as its home is open"


def test_mappings_may_be_quantised_too() -> None:
    plan = assign(rates(60.0, 70.0, 30.0), CAPACITY, {tp(1): 10**12}, "HFD", quantised=True)
    assert dict(plan.owner) == {tp(0): 0, tp(1): 10**12, tp(2): 10**12}


@pytest.mark.parametrize("bit", range(64))
def test_trailing_zeros(bit: int) -> None:
    assert trailing_zeros(np.uint64(1) << np.uint64(bit)) == bit
    assert trailing_zeros(np.uint64(2**64 - 1) << np.uint64(bit)) == bit


@given(st.sets(st.one_of(st.integers(0, LEVELS), st.sampled_from([0, 63, 64, 4095, 4096, LEVELS])), max_size=30))
def test_the_least_stack_is_found_from_anywhere(levels: set[int]) -> None:
    stacks = empty_stacks(len(levels))
    for entry, level in enumerate(sorted(levels)):
        push(stacks, level, entry)
    for below, level in pairwise([-1, *sorted(levels)]):
        assert least_from(stacks, below + 1) == least_from(stacks, level) == level
    assert least_from(stacks, max(levels, default=-1) + 1) == UNASSIGNED
    for level in levels:
        pop(stacks, level)
    assert least_from(stacks, 0) == UNASSIGNED
