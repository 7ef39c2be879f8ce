"""Groups of more than five hundred consumers: planned in parts, with the same promises."""

import subprocess
import sys
import threading

import numpy as np
import pytest

from autoscaler.evaluation.workloads import bounded_walk
from autoscaler.packing.kernels.bins import Floats, Ints
from autoscaler.packing.problem.lower_bounds import lower_bound
from autoscaler.packing.registry import assign_arrays

N = 1500


def moved(rates: Floats, before: Ints, after: Ints) -> float:
    return float(rates[before != after].sum())


def crowded(rates: Floats, owner: Ints) -> bool:
    loads, busy = np.bincount(owner, rates), np.bincount(owner, rates > 0)
    return bool(np.any((loads > 1 + 1e-6) & (busy > 1)))


@pytest.fixture(scope="module")
def walk() -> tuple[Floats, Ints, Floats]:
    """Return rates, their plan and the rates of the next measurement."""
    rates, later = bounded_walk(delta=5, seed=1, partitions=N, measurements=2) / 100
    plan = assign_arrays(rates, 1.0, np.full(N, -1), "PACE", drift=0.03)
    return rates, plan, later


def test_the_first_plan_is_close_to_the_fewest(walk: tuple[Floats, Ints, Floats]) -> None:
    rates, plan, _ = walk
    assert not crowded(rates, plan)
    assert len(set(plan.tolist())) > 500
    lean = assign_arrays(rates, 1.0, np.full(N, -1), "PACE", preset="lean")
    assert len(set(lean.tolist())) <= 1.015 * lower_bound(rates.tolist(), 1.0)


def test_little_moves_when_rates_change_a_little(walk: tuple[Floats, Ints, Floats]) -> None:
    _, plan, later = walk
    again = assign_arrays(later, 1.0, plan, "PACE", drift=0.03)
    assert not crowded(later, again)
    assert moved(later, plan, again) < 0.15 * later.sum()


@pytest.mark.parametrize("preset", ["lean", "even", "balanced", "quiet"])
def test_a_constant_load_moves_nothing_at_the_second_call(walk: tuple[Floats, Ints, Floats], preset: str) -> None:
    _, plan, later = walk
    first = assign_arrays(later, 1.0, plan, "PACE", drift=0.03, preset=preset)
    second = assign_arrays(later, 1.0, first, "PACE", drift=0.03, preset=preset)
    assert np.array_equal(first, second)


@pytest.mark.parametrize("lost", [0, 77, 300])
def test_a_consumer_that_goes_takes_only_its_own_partitions_along(walk: tuple[Floats, Ints, Floats], lost: int) -> None:
    rates, plan, _ = walk
    left = np.where(plan == lost, -1, plan)
    after = assign_arrays(rates, 1.0, left, "PACE", drift=0.03)
    assert np.array_equal(after[plan != lost], plan[plan != lost])
    assert not crowded(rates, after)


def test_what_consumers_are_called_does_not_matter(walk: tuple[Floats, Ints, Floats]) -> None:
    _, plan, later = walk
    names = np.random.default_rng(2).permutation(5000)
    one, other = (assign_arrays(later, 1.0, before, "PACE", drift=0.03) for before in (plan, names[plan]))
    assert len(set(zip(one.tolist(), other.tolist(), strict=True))) == len(set(one.tolist())) == len(set(other.tolist()))
    assert np.array_equal(one == plan, other == names[plan])


def test_where_no_thread_is_to_be_had_it_is_planned_in_the_callers(
    walk: tuple[Floats, Ints, Floats], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, plan, later = walk
    usual = assign_arrays(later, 1.0, plan, "PACE", drift=0.03)

    def refused(_thread: threading.Thread) -> None:
        msg = "can't start new thread"
        raise RuntimeError(msg)

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert np.array_equal(assign_arrays(later, 1.0, plan, "PACE", drift=0.03), usual)


LATE = """
import threading, time
import numpy as np
from autoscaler.packing import assign_arrays

def plan():
    threading.main_thread().join()
    time.sleep(0.2)  # the interpreter has begun to end
    print(len(assign_arrays(np.linspace(0.1, 0.9, 1500), 1.0, np.full(1500, -1), "PACE")), flush=True)

assign_arrays(np.linspace(0.1, 0.9, 1500), 1.0, np.full(1500, -1), "PACE")
threading.Thread(target=plan).start()
"""


def test_a_process_that_ends_plans_what_it_has_begun() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, check=False, timeout=300)
    assert (done.stdout, done.returncode) == ("1500\n", 0), done.stderr
