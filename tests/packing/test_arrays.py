"""The array form: what it refuses, how it names consumers, and that it places as the form on mappings does."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.packing import ALGORITHMS, assign, assign_arrays
from autoscaler.packing.problem.options import PUBLISHED, Floats, Labels
from autoscaler.packing.published.reference import place
from autoscaler.packing.published.reference_arrays import place_arrays
from tests.builders import tp
from tests.strategies import rate_values

ROOT = Path(__file__).resolve().parents[2]
nasty_rates = st.one_of(rate_values, st.sampled_from([1e-300, 1e300, 5e-324, 0.1, 0.2, 0.3, 100 / 3, 100.0, 100.0000001]))
indices = st.one_of(st.just(-1), st.integers(0, 3), st.integers(0, 60), st.sampled_from([10**12, 10**12 + 7, 2**62]))
groups = st.lists(st.tuples(nasty_rates, indices), min_size=1, max_size=40)


def arrays(group: list[tuple[float, int]]) -> tuple[Floats, Labels]:
    return np.array([rate for rate, _ in group], np.float64), np.array([index for _, index in group], np.int64)


@given(group=groups, algorithm=st.sampled_from(PUBLISHED), open_first=st.booleans())
def test_arrays_are_placed_as_mappings_are(group: list[tuple[float, int]], algorithm: str, *, open_first: bool) -> None:
    rates, previous = arrays(group)
    loads, held = dict(enumerate(rates.tolist())), {j: c for j, c in enumerate(previous.tolist()) if c >= 0}
    first = open_first and algorithm in {"NF", "NFD"}
    owner = place(loads, 100.0, held, algorithm, open_first=first)
    assert place_arrays(rates, 100.0, previous, algorithm, open_first=first).tolist() == [owner[j] for j in range(len(rates))]


@pytest.mark.parametrize("algorithm", PUBLISHED)
def test_large_arrays_are_placed_as_mappings_are(algorithm: str) -> None:
    """Enough consumers for several blocks of the ordered ones, with many ties."""
    random = np.random.default_rng(5)
    rates = random.integers(0, 101, 3000).astype(np.float64)
    previous = random.integers(-1, 1600, 3000)
    held = {j: c for j, c in enumerate(previous.tolist()) if c >= 0}
    owner = place(dict(enumerate(rates.tolist())), 100.0, held, algorithm)
    assert assign_arrays(rates, 100.0, previous, algorithm).tolist() == [owner[j] for j in range(len(rates))]


@pytest.mark.parametrize("algorithm", PUBLISHED)
def test_large_mappings_in_any_order_are_placed_plainly(algorithm: str) -> None:
    """Above fifty partitions ``assign`` goes through arrays; the first four depend on the order given, the others do not."""
    random = np.random.default_rng(8)
    keys = [tp(int(i)) for i in random.permutation(300)]
    loads = dict(zip(keys, random.integers(0, 121, 300).astype(float).tolist(), strict=True))
    previous = {p: int(random.integers(0, 400)) for p in keys[:250]}
    plan = assign(loads, 100.0, previous, algorithm)
    assert plan.owner == place(loads, 100.0, previous, algorithm)
    assert list(plan.owner) == sorted(keys)


@given(groups, st.sampled_from(ALGORITHMS))
def test_both_forms_give_the_same_plan(group: list[tuple[float, int]], algorithm: str) -> None:
    rates, previous = arrays(group)
    rates = np.minimum(rates, 1e200)
    loads, held = dict(enumerate(rates.tolist())), {j: c for j, c in enumerate(previous.tolist()) if c >= 0}
    plan = assign(loads, 100.0, held, algorithm)
    assert assign_arrays(rates, 100.0, previous, algorithm).tolist() == list(plan.owner.values())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_nothing_to_place_gives_nothing(algorithm: str) -> None:
    assert assign_arrays(np.array([]), 10.0, np.array([]), algorithm).tolist() == []


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_indices_need_not_be_dense(algorithm: str) -> None:
    plan = assign_arrays(np.array([6.0, 6.0, 6.0]), 10.0, np.array([10**12, -1, 3]), algorithm)
    assert plan.tolist() == [10**12, 0, 3]


@pytest.mark.parametrize(
    ("rates", "capacity", "previous", "said"),
    [
        ([1.0, math.nan], 10, [0, 0], "rate at 1 .*nan"),
        ([1.0, -2.0], 10, [0, 0], "rate at 1 .*-2.0"),
        ([math.inf, -2.0], 10, [0, 0], "rate at 0 .*inf"),
        ([1.0], 0, [0], "capacity .*0"),
        ([1.0], -1.5, [0], "capacity .*-1.5"),
        ([1.0], math.nan, [0], "capacity .*nan"),
        ([1.0, 2.0], 10, [0], r"one length, not of shapes \(2,\) and \(1,\)"),
        ([[1.0]], 10, [[0]], r"one length, not of shapes \(1, 1\) and \(1, 1\)"),
        ([1.0, 1.0], 10, [-1, -2], "previous owner at 1 .*-2"),
        ([1.0], 10, [0.5], "whole numbers, not float64"),
        ([1.0], 10, [2**63], r"previous owner at 0 .* below 2\*\*63, not 9223372036854775808"),
        ([1e308, 1e308], 10, [0, 0], "2 partitions add up"),
    ],
)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_cannot_be_packed_is_refused_by_position(
    algorithm: str, rates: list[float], capacity: float, previous: list[int], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        assign_arrays(np.array(rates), capacity, np.array(previous), algorithm)


def test_an_unknown_algorithm_is_refused_in_arrays_too() -> None:
    with pytest.raises(ValueError, match="'pace' is unknown"):
        assign_arrays(np.array([1.0]), 10.0, np.array([0]), "pace")


def test_arrays_given_are_not_written_to() -> None:
    rates, previous = np.array([3.0, 9.0, 4.0]), np.array([0, 0, -1])
    rates.flags.writeable = previous.flags.writeable = False
    for algorithm in ALGORITHMS:
        assign_arrays(rates, 10.0, previous, algorithm)


def test_arrays_may_be_of_other_number_types_and_strides() -> None:
    rates, previous = np.arange(8, dtype=np.float32)[::2], np.array([0, -1, 5, 1], np.int16)
    plan = assign_arrays(rates, 10.0, previous, "MWF")  # type: ignore[arg-type]  # they are converted
    assert plan.dtype == np.int64
    assert plan.tolist() == assign_arrays(rates.astype(np.float64), 10.0, previous.astype(np.int64), "MWF").tolist()


def test_nothing_is_compiled_once_the_planner_is_warm() -> None:
    program = """
import numba.core.dispatcher as dispatcher, numpy as np
from autoscaler.packing.precompile import warm
from autoscaler.packing import ALGORITHMS, assign, assign_arrays
from autoscaler.packing.problem.options import PUBLISHED
warm(ALGORITHMS)
def refuse(self, *_): raise SystemExit(f"{self.py_func.__name__} is compiled late")
dispatcher.Dispatcher.compile = refuse
rates = np.random.default_rng(0).random(700) * 40
rates.flags.writeable = False
for algorithm in (*PUBLISHED, "MMR", "HFD", "GOALS", "PACE"):
    plan = assign_arrays(rates, 100.0, np.full(700, -1), algorithm)
    held = dict(enumerate(plan.tolist()))
    assign(dict(enumerate((rates + 1).tolist())), 100.0, held, algorithm)
for fewer in (rates[:9], rates[:60]):
    held = assign_arrays(fewer, 100.0, np.full(len(fewer), -1), "WFD")  # not the fewest, and not the least moved
    for other in (fewer, fewer + 20, fewer[::-1]):
        assign_arrays(other, 100.0, held, "EXACT", time_limit_s=1.0)
print("done")
"""
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=110)
    assert run.stdout == "done\n", run.stderr
