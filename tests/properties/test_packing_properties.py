"""What holds for every placement, whatever the rates."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from autoscaler.model import TopicPartition
from autoscaler.packing import (
    ALGORITHMS,
    PRESETS,
    Given,
    assign,
    consumer_loads,
    drain,
    fit_count,
    lower_bound,
    place_unowned,
    r_score,
)
from tests.builders import tp
from tests.strategies import algorithms, placements

Loads = dict[TopicPartition, float]
Owners = dict[TopicPartition, int]
Placement = tuple[Loads, Owners]

CAPACITY = 100.0
LIMIT = CAPACITY * (1 + 1e-6)
BY_RATE = [a for a in ALGORITHMS if a not in {"NF", "FF", "WF", "BF"}]  # the others take partitions in the order given
STILL = [a for a in ALGORITHMS if a not in {"MWF", "MBF", "MWFP", "MBFP"}]  # those move on as published
NASTY = st.sampled_from([0.0, 5e-324, 1e-300, 0.1, CAPACITY / 3, CAPACITY, CAPACITY * (1 + 1e-12), 3 * CAPACITY, 1e15, 1e300])


def crowded(loads: Loads, owner: Owners, limit: float) -> list[int]:
    """Return consumers above a limit that hold more than one partition with traffic."""
    return [
        c
        for c, load in consumer_loads(loads, owner).items()
        if load > limit and sum(1 for p, o in owner.items() if o == c and loads[p] > 0) > 1
    ]


@given(placements(), algorithms)
def test_every_partition_has_one_owner_and_nobody_is_crowded(placement: Placement, algorithm: str) -> None:
    loads, previous = placement
    plan = assign(loads, CAPACITY, previous, algorithm)
    assert set(plan.owner) == set(loads)
    assert not crowded(loads, dict(plan.owner), LIMIT)


@given(placements(), algorithms)
def test_figures_agree_with_the_placement(placement: Placement, algorithm: str) -> None:
    loads, previous = placement
    plan = assign(loads, CAPACITY, previous, algorithm)
    assert plan.lower_bound <= plan.consumers <= len(loads)
    assert plan.lower_bound == lower_bound(loads.values(), CAPACITY)
    assert plan.r_score == r_score(loads, CAPACITY, previous, plan.owner)
    assert 0 <= plan.r_score <= sum(loads[p] for p in previous if p in loads) / CAPACITY * (1 + 1e-9)


@given(placements(), st.sampled_from(BY_RATE), st.randoms())
def test_the_order_of_the_input_does_not_matter(placement: Placement, algorithm: str, random: st.DataObject) -> None:
    loads, previous = placement
    items, held = list(loads.items()), list(previous.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    random.shuffle(held)  # type: ignore[attr-defined]
    again = assign(dict(items), CAPACITY, dict(held), algorithm)
    assert list(again.owner.items()) == list(assign(loads, CAPACITY, previous, algorithm).owner.items())


@given(placements(), st.sampled_from(STILL))
def test_constant_load_moves_nothing_at_the_second_call(placement: Placement, algorithm: str) -> None:
    loads, previous = placement
    first = assign(loads, CAPACITY, previous, algorithm)
    second = assign(loads, CAPACITY, first.owner, algorithm)
    assert second.owner == first.owner
    assert second.r_score == 0


@given(placements(), st.sampled_from(sorted(PRESETS)), st.floats(0, 30))
def test_constant_load_moves_nothing_whatever_the_prices(placement: Placement, preset: str, drift: float) -> None:
    loads, previous = placement
    first = assign(loads, CAPACITY, previous, "PACE", preset=preset, drift=drift)
    assert assign(loads, CAPACITY, first.owner, "PACE", preset=preset, drift=drift).owner == first.owner


@given(placements(), st.sampled_from(["MMR", "PACE"]), st.sampled_from(sorted(PRESETS)), st.floats(0, 30), st.integers(0, 99))
def test_removing_a_consumer_moves_only_what_it_held(
    placement: Placement, algorithm: str, preset: str, drift: float, which: int
) -> None:
    loads, previous = placement
    options: Given = {"preset": preset, "drift": drift} if algorithm == "PACE" else {}
    before = assign(loads, CAPACITY, previous, algorithm, **options).owner
    used = sorted(set(before.values()))
    if not used:
        return
    gone = used[which % len(used)]
    kept = {p: c for p, c in before.items() if c != gone}
    after = assign(loads, CAPACITY, kept, algorithm, **options).owner
    assert {p: after[p] for p in kept} == kept


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_has_no_traffic_may_stay_beside_one_above_the_capacity(algorithm: str) -> None:
    loads, previous = {tp(0): 2 * CAPACITY, tp(1): 0.0}, {tp(0): 0, tp(1): 0}
    plan = assign(loads, CAPACITY, previous, algorithm)
    stays = algorithm in {"MMR", "HFD", "GOALS", "PACE", "EXACT"}
    assert (plan.owner == previous) == stays
    assert plan.oversized == (tp(0),)


@given(st.lists(st.tuples(NASTY, st.integers(-1, 3)), min_size=1, max_size=12), algorithms)
def test_extreme_rates_are_placed_like_any_others(group: list[tuple[float, int]], algorithm: str) -> None:
    loads = {tp(i): rate for i, (rate, _) in enumerate(group)}
    previous = {tp(i): 10**12 * owner for i, (_, owner) in enumerate(group) if owner >= 0}
    plan = assign(loads, CAPACITY, previous, algorithm)
    assert set(plan.owner) == set(loads)
    assert not crowded(loads, dict(plan.owner), LIMIT)
    assert set(plan.owner.values()) <= {*previous.values(), *range(len(loads))}
    assert set(plan.oversized) == {p for p, rate in loads.items() if rate > LIMIT}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("keys", [[("t", 1), ("a", 2), ("t", 0)], ["c", "a", "b"], [3, 1, 2]])
def test_a_partition_is_any_key_that_can_be_ordered(algorithm: str, keys: list[str]) -> None:
    plan = assign(dict(zip(keys, [60.0, 70.0, 20.0], strict=True)), CAPACITY, {keys[0]: 7}, algorithm)
    assert list(plan.owner) == sorted(keys)
    assert plan.owner[keys[0]] == 7


@given(placements(most=12))
def test_what_is_proven_is_not_beaten(placement: Placement) -> None:
    loads, previous = placement
    assume(all(rate < 1e9 * CAPACITY for rate in loads.values()))  # from there on all moves cost alike: a billion capacities
    best = assign(loads, CAPACITY, previous, "EXACT")
    assert best.proven in {True, False} or not loads
    if best.proven:
        others = [assign(loads, CAPACITY, previous, a) for a in ALGORITHMS]
        assert all((best.consumers, best.r_score) <= (o.consumers, o.r_score * (1 + 1e-6) + 1e-9) for o in others)


@given(placements(), algorithms, st.floats(0.1, 10))
def test_only_the_ratio_of_rates_to_capacity_matters(placement: Placement, algorithm: str, factor: float) -> None:
    """Up to powers of two, which scale exactly."""
    loads, previous = placement
    exact = 2.0 ** round(factor)
    scaled = assign({p: r * exact for p, r in loads.items()}, CAPACITY * exact, previous, algorithm)
    assert scaled.owner == assign(loads, CAPACITY, previous, algorithm).owner


@given(placements(), algorithms, st.integers(1, 8), st.integers(0, 8))
def test_counts_keep_their_bounds(placement: Placement, algorithm: str, least: int, more: int) -> None:
    loads, previous = placement
    fitted = fit_count(loads, CAPACITY, previous, algorithm, at_least=least, at_most=least + more)
    assert set(fitted.plan.owner) == set(loads)
    assert min(least, len(loads)) <= fitted.plan.consumers <= least + more
    free = assign(loads, CAPACITY, previous, algorithm).consumers
    assert (fitted.plan.consumers != fitted.wanted) == (fitted.plan.consumers != free)
    assert not crowded(loads, dict(fitted.plan.owner), max(LIMIT, fitted.capacity * (1 + 1e-6)))


@given(placements(), st.one_of(st.none(), st.sets(st.integers(0, 9), min_size=1)))
def test_placing_what_nobody_owns_moves_nobody_else(placement: Placement, consumers: set[int] | None) -> None:
    loads, previous = placement
    placed = place_unowned(loads, CAPACITY, previous, consumers)
    assert set(placed) == set(loads)
    assert all(placed[p] == c for p, c in previous.items() if p in loads)
    assert consumers is None or all(placed[p] in consumers for p in loads if p not in previous)


@given(placements(), st.integers(1, 10))
def test_draining_moves_only_what_leaving_consumers_held(placement: Placement, keep: int) -> None:
    loads, held = placement
    owner = {p: held.get(p, 0) for p in loads}
    present = set(range(10))
    placed = drain(loads, CAPACITY, owner, present, keep)
    if placed is None:
        return
    left = set(owner.values()) - set(placed.values())
    assert len(set(placed.values())) <= keep
    assert all(placed[p] == owner[p] for p in loads if owner[p] in set(placed.values()) and owner[p] not in left)
    assert set(crowded(loads, placed, LIMIT)) <= set(crowded(loads, owner, LIMIT))


@pytest.mark.parametrize("algorithm", ["MWF", "BFD"])
@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 1000])
def test_equal_partitions_need_exactly_their_share(algorithm: str, count: int) -> None:
    loads = {TopicPartition(topic="t", partition=i): 25.0 for i in range(count)}
    assert assign(loads, CAPACITY, {}, algorithm).consumers == -(-count // 4)
