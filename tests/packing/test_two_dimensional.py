"""Placement by rate and backlog together."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tests.strategies  # noqa: F401  the profile without deadlines
from autoscaler.packing.research.ll_ffd import ll_ffd
from autoscaler.packing.research.two_dimensional import ALGORITHMS_2D, assign_2d
from autoscaler.packing.vector.elimination import eliminate
from autoscaler.packing.vector.fill import DOT, L2, Demand, Ints, Room, fill, fill_by_angle, first_fit
from autoscaler.packing.vector.fleet import Capacity
from autoscaler.packing.vector.overlap import least_cost, match

Group = list[list[int]]

GOOD_ENOUGH = 1e-6  # of a capacity, for sums in any order
shares = st.one_of(st.just(0.0), st.floats(0.01, 0.6), st.integers(0, 8).map(lambda i: i / 8), st.floats(0, 3))
needs = st.lists(st.tuples(shares, shares), min_size=1, max_size=24)


def held(owner: Mapping[int, int]) -> dict[int, list[int]]:
    """Return the partitions of each consumer."""
    contents: dict[int, list[int]] = defaultdict(list)
    for p, c in sorted(owner.items()):
        contents[c].append(p)
    return dict(contents)


def numbered(values: Sequence[float]) -> dict[int, float]:
    return dict(enumerate(values))


def equal_room(count: int) -> Room:
    return Room(np.ones(count), np.ones(count), 0)


def demand_of(pairs: Sequence[tuple[float, float]]) -> Demand:
    return Demand(np.array([r for r, _ in pairs], np.float64), np.array([b for _, b in pairs], np.float64))


def assert_fits(place: Ints, demand: Demand, room: Room) -> None:
    size = room.rate.shape[0]
    assert (np.bincount(place, demand.rate, size) <= room.rate + GOOD_ENOUGH).all()
    assert (np.bincount(place, demand.lag, size) <= room.lag + GOOD_ENOUGH).all()


@pytest.mark.parametrize(
    ("rates", "lags", "groups"),
    [
        ((60, 60, 15, 15, 15), (0,) * 5, [[0, 2, 4], [1, 3]]),
        ((60, 60, 36, 15, 15), (0,) * 5, [[0], [1], [2, 3, 4]]),
        ((60, 60, 35, 15, 15), (0,) * 5, [[0, 2], [1, 3, 4]]),
        ((10,) * 5, (300, 200, 100, 0, 0), [[0, 2, 4], [1, 3]]),
    ],
)
def test_ll_ffd_gives_the_published_examples(rates: tuple[float, ...], lags: tuple[float, ...], groups: Group) -> None:
    plan = assign_2d(numbered(rates), numbered(lags), 95, 95 * 5, {}, "LL-FFD")
    assert list(held(plan.owner).values()) == groups
    assert list(held(plan.owner)) == list(range(len(groups))), "numbered as created"
    assert (plan.algorithm, plan.consumers, plan.oversized) == ("LL-FFD", len(groups), ())


@pytest.mark.parametrize(
    ("rates", "capacity", "groups"),
    [
        ((20, 20, 20, 20, 16), 95, [[0, 2, 4], [1, 3]]),  # 96 in all: one consumer is 1 too few
        ((19,) * 5, 95, [[0, 1, 2, 3, 4]]),
        ((15,) * 5, 95, [[0, 1, 2, 3, 4]]),
        ((40,) * 5, 180, [[0, 2, 4], [1, 3]]),
        ((30,) * 5, 180, [[0, 1, 2, 3, 4]]),
        ((100, 90, 40, 40, 40), 180, [[0, 3], [1, 2, 4]]),
    ],
)
def test_ll_ffd_packs_what_the_published_controllers_ask_for(rates: tuple[float, ...], capacity: float, groups: Group) -> None:
    """The packings inside the published controllers' worked decisions, at full capacity or at 0.9 of it."""
    plan = assign_2d(numbered(rates), dict.fromkeys(range(5), 0.0), capacity, capacity * 5, {}, "LL-FFD")
    assert list(held(plan.owner).values()) == groups


@pytest.mark.parametrize(
    ("rate", "lags", "capacity", "groups"),
    [
        (10, (50, 50, 10, 0, 0), 180, 2),  # backlog alone asks for the second consumer
        (40, (80,) * 5, 180, 5),  # what arrives during a rebalance of 2 s
        (40, (2,) * 5, 180, 2),  # during one of 0.05 s
        (10, (20,) * 5, 80, 3),
    ],
)
def test_ll_ffd_counts_backlog(rate: float, lags: tuple[float, ...], capacity: float, groups: int) -> None:
    plan = assign_2d(dict.fromkeys(range(5), rate), numbered(lags), capacity, capacity * 0.5, {}, "LL-FFD")
    assert plan.consumers == groups


def published_loop(demand: Demand, most: tuple[float, float]) -> list[int]:
    """Return LL-FFD as printed: one consumer more and all over again, from one on."""
    order = sorted(range(len(demand.rate)), key=lambda j: (-demand.rate[j], j))
    for count in range(1, len(order) + 1):
        load, lag, owner = [0.0] * count, [0.0] * count, [-1] * len(order)
        for j in order:
            for c in sorted(range(count), key=lambda c: (load[c], c)):
                if load[c] + demand.rate[j] <= most[0] and lag[c] + demand.lag[j] <= most[1]:
                    load[c], lag[c], owner[j] = load[c] + demand.rate[j], lag[c] + demand.lag[j], c
                    break
        if -1 not in owner:
            return owner
    raise AssertionError


@pytest.mark.parametrize("most", [(1.0, 1.0), (95.0, 475.0), (0.3, 7.0)])
@given(needs)
def test_ll_ffd_is_the_published_loop(most: tuple[float, float], pairs: list[tuple[float, float]]) -> None:
    demand = demand_of(pairs)
    scaled = Demand(np.minimum(demand.rate, 1) * most[0], np.minimum(demand.lag, 1) * most[1])
    assert ll_ffd(scaled, np.argsort(-scaled.rate, kind="stable"), *most).tolist() == published_loop(scaled, most)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 280)), min_size=1, max_size=8))
def test_ll_ffd_breaks_ties_of_whole_numbers_as_published(pairs: list[tuple[int, int]]) -> None:
    rates, lags = numbered([float(r) for r, _ in pairs]), numbered([float(x) for _, x in pairs])
    plan = assign_2d(rates, lags, 95.0, 475.0, {}, "LL-FFD")
    demand = Demand(np.array([*rates.values()]), np.array([*lags.values()]))
    assert [plan.owner[p] for p in sorted(rates)] == published_loop(demand, (95.0, 475.0))


def test_the_first_known_defect_of_ll_ffd_is_gone() -> None:
    rates, lags = numbered((6, 4, 4, 3, 3)), dict.fromkeys(range(5), 0.0)
    assert assign_2d(rates, lags, 10, 10, {}, "LL-FFD").consumers == 3
    assert assign_2d(rates, lags, 10, 10, {}).consumers == 2


def test_opposite_needs_share_a_consumer() -> None:
    plan = assign_2d(numbered((9, 1, 9, 1)), numbered((1, 9, 1, 9)), 10, 10, {})
    assert plan.consumers == plan.lower_bound == 2
    assert sorted(held(plan.owner).values()) in ([[0, 1], [2, 3]], [[0, 3], [1, 2]])


@pytest.mark.parametrize(("rates", "lags"), [((12, 1, 0), (1, 1, 0)), ((1, 1, 0), (12, 1, 0))])
def test_a_partition_above_either_capacity_sits_alone_and_is_named(rates: tuple[float, ...], lags: tuple[float, ...]) -> None:
    plan = assign_2d(numbered(rates), numbered(lags), 10, 10, {})
    assert plan.oversized == (0,)
    assert [0] in held(plan.owner).values()


def test_contents_go_to_those_who_hold_most_of_them() -> None:
    rates, lags = numbered((6, 4, 5, 5, 7, 3)), dict.fromkeys(range(6), 1.0)
    plan = assign_2d(rates, lags, 10, 10, {0: 7, 1: 7, 2: 3, 3: 3, 4: 5, 5: 9})
    assert plan.consumers == 3
    assert plan.r_score == pytest.approx(0.3), "only what consumer 9 held moves"
    assert plan.owner == {0: 7, 1: 7, 2: 3, 3: 3, 4: 5, 5: 5}


def test_what_fits_on_as_few_consumers_stays() -> None:
    plan = assign_2d(numbered((6, 4, 6, 4)), dict.fromkeys(range(4), 1.0), 10, 10, {0: 4, 3: 4, 2: 0, 1: 0})
    assert (plan.owner, plan.r_score) == ({0: 4, 3: 4, 2: 0, 1: 0}, 0)


@pytest.mark.parametrize(
    ("capacity", "lag_capacity"),
    [({3: 10.0, 5: 20.0, 8: 5.0}, {3: 10.0, 5: 20.0, 8: 5.0}), ((1.0, 1.0, 1.0, 10.0, 1.0, 20.0, 1.0, 1.0, 5.0), 20)],
)
def test_consumers_of_different_size_are_each_filled_to_their_own(capacity: Capacity, lag_capacity: Capacity) -> None:
    rates = numbered((12, 8, 6, 4, 5))
    plan = assign_2d(rates, dict.fromkeys(rates, 0.0), capacity, lag_capacity, {0: 5, 1: 5})
    assert {c: sum(rates[p] for p in ps) for c, ps in held(plan.owner).items()} == {5: 20, 3: 10, 8: 5}
    assert (plan.consumers, plan.lower_bound, plan.r_score, plan.oversized) == (3, 3, 0, ())


@pytest.mark.parametrize(
    "sizes", [[10.0, 5.0, 20.0], (10, 5, 20), np.array([10, 5, 20]), {0: 10, 1: np.float32(5), np.int8(2): 20}]
)
def test_sizes_may_be_given_in_any_form(sizes: Capacity) -> None:
    plan = assign_2d({0: 4.0, 1: 18.0}, {0: 0.0, 1: 0.0}, sizes, 10, {})
    assert plan.owner == {0: 1, 1: 2}
    assert {type(c) for c in plan.owner.values()} == {int}


def test_of_consumers_of_different_size_the_smallest_with_room_is_used() -> None:
    plan = assign_2d({0: 4.0}, {0: 0.0}, {0: 10, 1: 5, 2: 20}, 10, {})
    assert plan.owner == {0: 1}


def test_a_consumer_not_named_counts_as_small_as_the_smallest() -> None:
    rates = numbered((9, 9, 4, 4))
    plan = assign_2d(rates, dict.fromkeys(rates, 0.0), {0: 10, 1: 5}, 10, {})
    loads = {c: sum(rates[p] for p in ps) for c, ps in held(plan.owner).items()}
    assert loads[0] == 9
    assert plan.oversized in {(0,), (1,)}, "the second of 9 fits nobody who is left"
    assert all(load <= 5 for c, load in loads.items() if c and load != 9)


@pytest.mark.parametrize("algorithm", ALGORITHMS_2D)
def test_nothing_to_place_needs_nobody(algorithm: str) -> None:
    plan = assign_2d({}, {}, 10, 10, {5: 3}, algorithm)
    assert (plan.owner, plan.consumers, plan.lower_bound, plan.r_score) == ({}, 0, 0, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rates": {0: -1.0, 1: 1.0}}, r"rate of partition 0 must be .* not -1"),
        ({"rates": {0: 1.0, 1: float("nan")}}, r"rate of partition 1 must be .* not nan"),
        ({"lags": {0: 1.0, 1: float("inf")}}, r"backlog of partition 1 must be .* not inf"),
        ({"lags": {0: 1.0}}, r"partition 1 has a rate but no backlog"),
        ({"lags": {0: 1.0, 1: 1.0, 2: 1.0}}, r"partition 2 has a backlog but no rate"),
        ({"capacity": 0.0}, r"capacity must be a positive number, not 0.0"),
        ({"lag_capacity": float("inf")}, r"lag capacity must be a positive number, not inf"),
        ({"capacity": {0: 1.0, 4: -2.0}}, r"capacity of consumer 4 must be a positive number, not -2.0"),
        ({"capacity": {}}, r"capacity must be given for one consumer at least"),
        ({"capacity": (1.0, None)}, r"capacity of consumer 1 must be a positive number, not None"),
        ({"capacity": {3: "1"}}, r"capacity of consumer 3 must be a positive number, not '1'"),
        ({"lag_capacity": np.array([1.0, np.nan])}, r"lag capacity of consumer 1 must be a positive number, not nan"),
        ({"capacity": np.ones((2, 2))}, r"capacity of consumer 0 must be a positive number, not \[1.0, 1.0\]"),
        ({"capacity": "10"}, r"capacity must be a positive number, not '10'"),
        ({"capacity": {-1: 5.0}}, r"capacity is given for -1, which is no index of a consumer"),
        ({"lag_capacity": {0.5: 5.0}}, r"lag capacity is given for 0.5, which is no index of a consumer"),
        ({"capacity": {"0": 5.0}}, r"capacity is given for '0', which is no index of a consumer"),
        ({"lags": {0: "1", 1: 1.0}}, r"backlog of partition 0 must be .* not '1'"),
        ({"tries": -1}, r"tries must be a whole number from 0, not -1"),
        ({"tries": "x"}, r"tries must be a whole number from 0, not 'x'"),
        ({"time_limit_s": float("nan")}, r"time_limit_s must be a finite number above 0, not nan"),
        ({"previous": {0: -1}}, r"previous owner of partition 0 must be an index from 0, not -1"),
        ({"algorithm": "FFD"}, r"algorithm 'FFD' is unknown; choose one of DOT, LL-FFD, EXACT"),
        ({"algorithm": "LL-FFD", "capacity": {0: 1.0}}, r"LL-FFD is for consumers of one size"),
        ({"algorithm": "EXACT", "lag_capacity": {0: 1.0}}, r"EXACT is for consumers of one size"),
    ],
)
def test_nonsense_is_refused(change: dict[str, Any], message: str) -> None:
    good = {"rates": {0: 1.0, 1: 1.0}, "lags": {0: 1.0, 1: 1.0}, "capacity": 1.0, "lag_capacity": 1.0, "previous": {}}
    with pytest.raises(ValueError, match=message):
        assign_2d(**{**good, **change})


@given(needs, st.dictionaries(st.integers(0, 30), st.integers(0, 9)), st.sampled_from(["DOT", "LL-FFD", "EXACT"]))
def test_every_placement_is_complete_and_within_capacity(
    pairs: list[tuple[float, float]], previous: dict[int, int], algorithm: str
) -> None:
    rates, lags = numbered([r for r, _ in pairs]), numbered([b for _, b in pairs])
    plan = assign_2d(rates, lags, 1.0, 1.0, previous, algorithm, tries=50, time_limit_s=0.2)
    assert list(plan.owner) == list(rates)
    assert plan.lower_bound <= plan.consumers == len(set(plan.owner.values()))
    assert plan.oversized == tuple(p for p in rates if rates[p] > 1 + 1e-9 or lags[p] > 1 + 1e-9)
    for ps in held(plan.owner).values():
        fits = sum(rates[p] for p in ps) <= 1 + GOOD_ENOUGH and sum(lags[p] for p in ps) <= 1 + GOOD_ENOUGH
        alone = [p for p in ps if rates[p] or lags[p]]
        assert fits or len(alone) == 1 or algorithm == "LL-FFD"  # which clips instead


def best(pairs: Sequence[tuple[float, float]], home: Mapping[int, int]) -> tuple[int, float]:
    """Return the fewest consumers, and the least that moves then, over all placements."""
    found = (len(pairs) + 1, 0.0)
    slots = max(home.values(), default=-1) + 1 + len(pairs)
    for owner in product(range(slots), repeat=len(pairs)):
        contents = held(dict(enumerate(owner))).values()
        loads = [[pairs[p] for p in ps if any(pairs[p])] for ps in contents]
        if all(len(ps) <= 1 or max(map(sum, zip(*ps, strict=True))) <= 1 + 1e-9 for ps in loads):
            moved = sum(pairs[p][0] for p, c in enumerate(owner) if home.get(p, c) != c)
            found = min(found, (len(loads), moved))
    return found


@settings(max_examples=40)
@given(
    st.lists(st.tuples(shares, shares).filter(any), min_size=1, max_size=4), st.dictionaries(st.integers(0, 3), st.integers(0, 2))
)
def test_exact_is_the_best_of_all_placements(pairs: list[tuple[float, float]], previous: dict[int, int]) -> None:
    rates, lags = numbered([r for r, _ in pairs]), numbered([b for _, b in pairs])
    plan = assign_2d(rates, lags, 1.0, 1.0, previous, "EXACT", tries=0)
    fewest, least = best(pairs, {p: c for p, c in previous.items() if p < len(pairs)})
    assert plan.proven
    assert plan.consumers == fewest
    assert plan.r_score == pytest.approx(least, abs=1e-6)
    assert assign_2d(rates, lags, 1.0, 1.0, plan.owner, "EXACT", tries=0).owner == plan.owner


def test_exact_proves_what_emptying_only_finds() -> None:
    rng = np.random.default_rng(11)
    rates, lags = numbered((rng.integers(2, 50, 24) / 100).tolist()), numbered((rng.integers(2, 50, 24) / 100).tolist())
    found, proven = assign_2d(rates, lags, 1.0, 1.0, {}), assign_2d(rates, lags, 1.0, 1.0, {}, "EXACT", time_limit_s=30)
    assert proven.proven
    assert found.proven is None
    assert proven.consumers <= found.consumers <= proven.consumers + 1


@given(needs, st.dictionaries(st.integers(0, 30), st.integers(0, 9)), st.randoms())
def test_equal_input_gives_equal_output_and_then_nothing_moves(
    pairs: list[tuple[float, float]], previous: dict[int, int], random: Random
) -> None:
    rates, lags = numbered([r for r, _ in pairs]), numbered([b for _, b in pairs])
    plan = assign_2d(rates, lags, 1.0, 1.0, previous, tries=50)
    shuffled = list(rates)
    random.shuffle(shuffled)
    assert assign_2d({p: rates[p] for p in shuffled}, lags, 1.0, 1.0, previous, tries=50) == plan
    assert assign_2d(rates, lags, 1.0, 1.0, plan.owner, tries=50).owner == plan.owner


@given(needs, st.lists(st.tuples(st.floats(0.05, 2), st.floats(0.05, 2)), min_size=1, max_size=6))
def test_consumers_of_any_size_hold_what_fits(pairs: list[tuple[float, float]], sizes: list[tuple[float, float]]) -> None:
    rates, lags = numbered([r for r, _ in pairs]), numbered([b for _, b in pairs])
    capacity, lag_capacity = numbered([r for r, _ in sizes]), numbered([b for _, b in sizes])
    plan = assign_2d(rates, lags, capacity, lag_capacity, {}, tries=50)
    assert list(plan.owner) == list(rates)
    assert plan.lower_bound <= plan.consumers
    for c, ps in held(plan.owner).items():
        most, longest = capacity.get(c, min(capacity.values())), lag_capacity.get(c, min(lag_capacity.values()))
        fits = sum(rates[p] for p in ps) <= most + GOOD_ENOUGH * 2 and sum(lags[p] for p in ps) <= longest + GOOD_ENOUGH * 2
        assert fits or (len([p for p in ps if rates[p] or lags[p]]) == 1 and set(ps) & set(plan.oversized))
    assert assign_2d(rates, lags, capacity, lag_capacity, plan.owner, tries=50).r_score == 0


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=40))
def test_every_packing_fits_and_emptying_never_needs_more(pairs: list[tuple[float, float]]) -> None:
    demand, room = demand_of(pairs), equal_room(len(pairs))
    order = np.argsort(-demand.rate, kind="stable")
    places = [fill(demand, room, DOT), fill(demand, room, L2), first_fit(demand, room, order)]
    places += [fill_by_angle(demand, room, classes) for classes in (1, 4, 32)]
    for place in places:
        assert_fits(place, demand, room)
        fewer = eliminate(demand, room, place, 1, 30)
        assert_fits(fewer, demand, room)
        assert np.unique(fewer).size <= np.unique(place).size


def test_angle_classes_do_about_as_well_as_looking_at_every_partition() -> None:
    rng = np.random.default_rng(3)
    demand, room = Demand(rng.random(1000), rng.random(1000)), equal_room(1000)
    assert fill_by_angle(demand, room, 32).max() <= 1.03 * fill(demand, room, DOT).max()


def test_emptying_finds_what_filling_misses() -> None:
    demand = demand_of([(0.5, 0.1), (0.3, 0.5), (0.2, 0.4), (0.5, 0.5), (0.3, 0.1), (0.2, 0.4)])
    place = np.arange(6)
    assert np.unique(eliminate(demand, equal_room(6), place, 1, 100)).size == 2
    assert place.tolist() == list(range(6)), "the input is left as it is"


@given(
    st.integers(1, 4).flatmap(
        lambda k: st.lists(st.lists(st.integers(-9, 9), min_size=k + 1, max_size=k + 1), min_size=k, max_size=k)
    )
)
def test_the_matching_costs_least(cost: list[list[int]]) -> None:
    chosen = least_cost(np.array(cost, np.float64))
    best = min(
        sum(cost[i][c] for i, c in enumerate(columns))
        for columns in product(range(len(cost) + 1), repeat=len(cost))
        if len(set(columns)) == len(cost)
    )
    assert sum(cost[i][c] for i, c in enumerate(chosen)) == best
    assert len(set(chosen.tolist())) == len(cost)


def test_a_great_matching_is_made_pair_by_pair() -> None:
    content = np.arange(1000) // 2
    home = np.where(np.arange(1000) % 2, (content + 1) % 500, content)  # each shares something with two consumers
    weight = np.where(np.arange(1000) % 2, 1.0, 2.0)
    assert match(content, home, weight).tolist() == list(range(500))
