"""PACE and what it is made of, on groups small enough to be checked by hand or by trying everything."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from autoscaler.packing.kernels.bins import CROWDED, Bins, Floats, Ints, bins_of, crowded, loosest_bucket, moved_cost
from autoscaler.packing.kernels.knapsack import new_trial
from autoscaler.packing.pace.ejection_chains import Prices, objective, plan
from autoscaler.packing.pace.fixed_point import Demand, canonical, demand_of
from autoscaler.packing.pace.home_fit import name_anew
from autoscaler.packing.pace.local_search import refine
from autoscaler.packing.pace.portfolio import BEST_FIT, HOME_BEST_FIT, HOME_FIT, from_scratch, is_settled, least_consumers
from autoscaler.packing.pace.return_home import bring_home
from autoscaler.packing.registry import assign_arrays

LEAN = Prices(100.0, 0.0, 0.0, 0.0)
BALANCED = Prices(0.7, 0.0, 1.0, 0.05)
PAID_FOR = Prices(0.7, 5.0, 1.0, 0.05)


def drawn(seed: int, n: int, consumers: int) -> tuple[Floats, Ints]:
    """Return shares and homes: some partitions new, some without traffic, some alike, some consumers crowded."""
    rng = np.random.default_rng(seed)
    shares = np.round(rng.random(n) * rng.choice([0.3, 0.7, 1.1]), int(rng.integers(1, 4)))
    shares[rng.random(n) < 0.1] = 0.0
    return shares, np.where(rng.random(n) < 0.9, rng.integers(0, consumers, n), -1)


def complete(seed: int, n: int) -> Bins:
    """Return a placement from scratch, many partitions away from home."""
    demand = demand_of(*_arrays(*drawn(seed, n, max(1, n // 3))))
    return from_scratch(demand.share, demand.cost, canonical(demand.home), (BEST_FIT, HOME_FIT, HOME_BEST_FIT)[seed % 3])


def _arrays(shares: Floats, home: Ints) -> tuple[Floats, Floats, Ints]:
    return np.minimum(shares, 1.0), shares, home


def lean(rates: list[float], previous: list[int]) -> list[int]:
    owner: list[int] = assign_arrays(np.array(rates), 10.0, np.array(previous, np.int64), "PACE", preset="lean").tolist()
    return owner


@pytest.mark.parametrize(
    ("rates", "previous", "expected", "why"),
    [
        ([7, 4, 5, 4, 2], [0, 0, 1, 1, 2], [0, 2, 1, 1, 2], "the cheaper one leaves the crowded consumer, to where it fits"),
        ([8, 3, 4, 3, 5], [0, 1, 1, 1, 2], [0, 1, 1, 1, 2], "nothing is wrong: nothing moves"),
        ([6, 5, 4, 3, 2], [-1] * 5, [0, 1, 0, 1, 1], "as few consumers as there can be"),
        ([12, 0, 3], [0, 0, 1], [0, 0, 1], "what needs more than one consumer shares with nothing that has traffic"),
        ([12, 1, 3], [0, 0, 1], [0, 1, 1], "and what has traffic leaves it"),
        ([6, 6, 5], [1, 3, -1], [1, 3, 0], "a new one that fits nowhere opens the lowest consumer that is free"),
        ([3, 3, 3], [5, 7, 9], [5, 5, 5], "two consumers too many"),
        ([5, 5, 6, 4, 1], [0, 0, 1, 1, -1], [0, 0, 1, 1, 2], "no chain of ejections saves the third consumer"),
        ([6, 3, 5, 4, 2], [0, 0, 1, 1, -1], [0, 1, 1, 0, 1], "nor would a third be opened where a swap makes the room"),
    ],
)
def test_worked_examples_of_lean(rates: list[float], previous: list[int], expected: list[int], why: str) -> None:
    assert lean(rates, previous) == expected, why


def test_a_swap_that_saves_a_consumer_is_found() -> None:
    """6+3, 5+4 and a new 2: 6+4 and 5+3+2 are two full consumers."""
    plan_ = lean([6, 3, 5, 4, 2], [0, 0, 1, 1, -1])
    assert len(set(plan_)) == 2
    assert sorted(sum(r for r, o in zip([6, 3, 5, 4, 2], plan_, strict=True) if o == c) for c in set(plan_)) == [10, 10]


@pytest.mark.parametrize(
    ("drift", "price", "consumers", "why"),
    [
        (3.0, 0.1, 2, "half of all steps would move one of them: about 0.2 capacities expected, at the price of 0.1 for room"),
        (3.0, 0.4, 1, "the room is dearer than that"),
        (0.0, 0.1, 2, "nothing is known to change, which does not mean that nothing will"),
    ],
)
def test_room_is_bought_where_drift_would_cost_more(drift: float, price: float, consumers: int, why: str) -> None:
    new = np.array([-1, -1])
    assert len(set(assign_arrays(np.array([5.0, 5.0]), 10.0, new, "PACE", consumer_price=price, drift=drift))) == consumers, why


EVERY_PLACEMENT = np.indices([6] * 6).reshape(6, -1).T


def prices_of_every_placement(demand: Demand, prices: Prices) -> Floats:
    """Return J of each of six partitions' placements, infinity where a consumer is crowded."""
    held = EVERY_PLACEMENT[:, :, None] == np.arange(6)
    shares = np.where(held, demand.share[:, None], 0.0)
    load, busy = shares.sum(axis=1), np.count_nonzero(shares, axis=1)
    crowded_one = ((load > CROWDED) & (busy > 1)).any(axis=1)
    moved = (demand.home != EVERY_PLACEMENT) & (demand.home >= 0)
    price = prices.consumer * held.any(axis=1).sum(axis=1) + moved @ demand.cost
    return np.where(crowded_one, np.inf, price)


@pytest.mark.parametrize("seed", range(60))
def test_nothing_beats_it_by_more_than_one_move_on_tiny_groups(seed: int) -> None:
    """Against every placement of six partitions, at prices that make consumers and moves compete."""
    shares, home = drawn(seed, 6, 3)
    prices = Prices(0.7, 0.0, 0.0, 0.0)
    found = assign_arrays(shares, 1.0, home, "PACE", drift_weight=0.0)
    demand = demand_of(*_arrays(shares, home))
    every = prices_of_every_placement(demand, prices)
    labels = found[demand.order]
    reached = objective(bins_of(demand.share, demand.cost, demand.home, labels), prices)
    assert every.min() - 1e-9 <= reached <= every.min() + 0.7


def test_the_price_of_a_placement_is_counted_as_the_planner_counts_it() -> None:
    prices = Prices(0.7, 0.0, 0.0, 0.0)
    for seed in range(20):
        demand = demand_of(*_arrays(*drawn(seed, 6, 3)))
        every = prices_of_every_placement(demand, prices)
        for number in np.random.default_rng(seed).integers(len(every), size=100):
            bins = bins_of(demand.share, demand.cost, demand.home, EVERY_PLACEMENT[number])
            assert every[number] == pytest.approx(objective(bins, prices) if is_settled(bins) else np.inf)


@pytest.mark.parametrize("seed", range(120))
def test_homing_neither_moves_more_nor_opens_nor_crowds(seed: int) -> None:
    bins = complete(seed, 4 + seed % 40)
    before, opened = moved_cost(bins), bins.opened[0]
    bring_home(bins, 5, new_trial())
    assert moved_cost(bins) <= before + 1e-9
    assert bins.opened[0] <= opened
    assert is_settled(bins)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("prices", [LEAN, BALANCED], ids=["lean", "balanced"])
def test_the_plan_is_complete_and_crowds_nobody(seed: int, prices: Prices) -> None:
    demand = demand_of(*_arrays(*drawn(seed, 3 + seed, 1 + seed // 3)))
    home = canonical(demand.home)
    bins = bins_of(demand.share, demand.cost, home, home)
    bound = least_consumers(demand.share)
    price = plan(bins, bound, prices, new_trial())
    assert is_settled(bins)
    assert bins.opened[0] >= bound
    assert price == objective(bins, prices)


@pytest.mark.parametrize("seed", range(120))
@pytest.mark.parametrize("prices", [LEAN, BALANCED, PAID_FOR], ids=["lean", "balanced", "paid for"])
def test_the_search_on_j_never_raises_it_nor_crowds(seed: int, prices: Prices) -> None:
    bins = complete(seed, 4 + seed % 40)
    before = objective(bins, prices)
    refine(bins, prices)
    assert objective(bins, prices) <= before + 1e-9
    assert is_settled(bins)


@pytest.mark.parametrize("seed", range(40))
def test_lists_loads_and_buckets_agree_with_the_owners(seed: int) -> None:
    bins = complete(seed, 5 + seed)
    bring_home(bins, 5, new_trial())
    loosest = loosest_bucket(bins)
    for c in range(len(bins.load)):
        held = np.flatnonzero(bins.owner == c).tolist()
        listed, j = [], int(bins.first[c])
        while j >= 0:
            listed.append(j)
            j = int(bins.after[j])
        assert listed == held, "each list is in the order of the partitions, which is by decreasing share"
        assert bins.load[c] == pytest.approx(bins.share[held].sum(), abs=1e-12)
        assert bins.held[c] == len(held)
        assert bins.busy[c] == sum(bins.share[j] > 0 for j in held)
        assert (bins.bucket[c] >= 0) == bool(held)
        assert bins.bucket[c] <= loosest
        assert not crowded(bins, c)


def test_consumers_are_named_after_those_from_which_they_keep_most() -> None:
    home, owner = np.array([0, 0, 1, 1, 2, -1]), np.array([5, 5, 4, 5, 4, 3])
    cost = np.array([0.5, 0.1, 0.4, 0.3, 0.2, 0.9])
    assert name_anew(cost, home, owner, 7).tolist() == [0, 0, 1, 0, 1, 2], "what has nothing of an old one gets the lowest name"


def test_numbering_forgets_names_and_keeps_groups() -> None:
    assert canonical(np.array([7, -1, 3, 7, 3, 0])).tolist() == [0, -1, 1, 0, 1, 2]


SCRIPT = """
import numpy as np
from autoscaler.packing.registry import assign_arrays
rng = np.random.default_rng(8)
for i in range({count}):
    n = int(rng.integers(1, 30))
    rates = np.round(rng.random(n) * rng.choice([3.0, 7.0, 12.0]), int(rng.integers(0, 4)))
    previous = rng.integers(-1, max(1, n // 2), n)
    for algorithm, options in (("PACE", dict(drift=0.5)), ("PACE", dict(preset="lean")), ("MMR", {{}}), ("HFD", {{}})):
        print(algorithm, assign_arrays(rates, 10.0, previous, algorithm, **options).tolist())
"""


def test_compiled_and_interpreted_text_say_the_same() -> None:
    """The text is plain Python: what numba makes of it must not differ in a single owner."""
    script, root = SCRIPT.format(count=60), Path(__file__).resolve().parents[2]
    outputs = [
        subprocess.run(
            [sys.executable, "-W", "error", "-c", script],
            env=os.environ | {"NUMBA_DISABLE_JIT": disabled, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
            timeout=110,
        ).stdout
        for disabled in ("0", "1")
    ]
    assert len(outputs[0].splitlines()) == 240
    assert outputs[0] == outputs[1]
