"""Placements on consumers that are not alike, or within two limits: tables, and what holds whatever the figures."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from autoscaler.model import TopicPartition
from autoscaler.packing import (
    Gauge,
    Uneven,
    best_uneven,
    consumer_loads,
    fewer_uneven,
    fewest_by_size,
    fit_uneven,
    place_unowned_uneven,
)
from tests.builders import named, owned, owners, rates, tp
from tests.strategies import rate_values

LIMIT = 100.0
ABOVE = LIMIT * (1 + 1e-6)
SLACK = 1e-6  # of a rate: records that fill nobody


def uneven(
    loads: dict[TopicPartition, float],
    owner: dict[TopicPartition, int],
    speeds: dict[int, float] | None = None,
    counts: dict[TopicPartition, float] | None = None,
    consumers: Sequence[int] | None = None,
) -> Uneven:
    there = sorted(set(owner.values())) if consumers is None else consumers
    return Uneven(rates=loads, gauge=Gauge(speeds=speeds or {}, counts=counts or {}), previous=owner, consumers=there)


# --- how full a consumer is ------------------------------------------------------------------------------------------


def test_a_level_is_the_load_of_one_that_is_like_the_group_in_whatever_fills_it_more() -> None:
    loads, owner = named(a=30, b=10, c=20), owners(a=0, b=0, c=1)
    assert Gauge().levels(loads, owner, [2]) == {0: 40, 1: 20, 2: 0}
    assert Gauge(speeds={1: 0.5}).levels(loads, owner, [2]) == {0: 40, 1: 40, 2: 0}
    assert Gauge(speeds={0: 2.0}, counts=named(a=5, b=50, c=1)).levels(loads, owner) == {0: 55, 1: 20}
    assert not Gauge()
    assert Gauge(speeds={1: 0.5})
    assert Gauge(counts=named(a=0)).levels(named(a=3), owners(a=0)) == {0: 3}


def test_a_partition_is_as_large_as_it_is_on_the_fastest_consumer() -> None:
    assert Gauge(speeds={1: 0.5}).sizes(named(a=30)) == named(a=30)
    assert Gauge(speeds={1: 2.0}, counts=named(a=1, b=40)).sizes(named(a=30, b=30)) == named(a=15, b=40)


# --- tables ----------------------------------------------------------------------------------------------------------


def test_a_slower_consumer_gives_up_what_is_too_much_for_it_and_nobody_else_moves_anything() -> None:
    loads, owner = rates(*[10.0] * 24), owned(range(8), range(8, 16), range(16, 24))
    plan = fit_uneven(uneven(loads, owner, {2: 0.5}), LIMIT, at_least=1, at_most=9).plan
    assert consumer_loads(loads, plan.owner) == {0: 100, 1: 90, 2: 50} or consumer_loads(loads, plan.owner) == {
        0: 90,
        1: 100,
        2: 50,
    }
    assert plan.r_score == pytest.approx(0.3)
    assert all(owner[p] == 2 for p in loads if plan.owner[p] != owner[p])


def test_records_are_a_limit_of_their_own() -> None:
    """Two kinds of partitions: of each alone three fit, of both mixed six."""
    loads = named(a=30, b=30, c=30, d=1, e=1, f=1)
    counts = named(a=1, b=1, c=1, d=30, e=30, f=30)
    assert fit_uneven(uneven(loads, {}, counts=counts), LIMIT, at_least=1, at_most=9).plan.consumers == 1
    every = named(a=31, b=31, c=31, d=31, e=31, f=31)
    assert fit_uneven(uneven(every, {}, counts=every), LIMIT, at_least=1, at_most=9).plan.consumers == 2
    hot = fit_uneven(uneven(named(a=10, b=10), owners(a=0, b=0), counts=named(a=60, b=60)), LIMIT, at_least=1, at_most=9)
    assert (hot.plan.consumers, hot.wanted, hot.plan.lower_bound) == (2, 2, 2)


@pytest.mark.parametrize(
    ("speeds", "at_least", "at_most", "loads", "capacity", "why"),
    [
        ({0: 0.5}, 1, 2, [50.0, 100.0], 100, "it is enough"),
        ({0: 0.5}, 1, 1, [150.0], 300, "one that is slow has everything"),
        ({}, 5, 5, [30.0] * 5, 30, "more than are needed"),
    ],
)
def test_bounds_share_what_is_too_much_and_spread_what_is_little(  # noqa: PLR0917  a row
    speeds: dict[int, float], at_least: int, at_most: int, loads: list[float], capacity: float, why: str
) -> None:
    every = rates(*[10.0] * 15)
    placed = fit_uneven(uneven(every, dict.fromkeys(every, 0), speeds), LIMIT, at_least=at_least, at_most=at_most)
    assert placed.capacity == pytest.approx(capacity, rel=0.002), why
    carried = consumer_loads(every, placed.plan.owner)
    assert sum(carried.values()) == 150
    assert len(carried) == len(loads), why
    assert max(carried.values()) <= max(loads), why


def test_a_partition_too_large_for_a_slow_consumer_goes_to_one_that_can() -> None:
    loads, owner = named(a=80, b=20), owners(a=0, b=1)
    plan = fit_uneven(uneven(loads, owner, {0: 0.5}), LIMIT, at_least=1, at_most=3).plan
    assert plan.owner == owners(a=1, b=1)
    assert plan.oversized == ()


def test_a_partition_alone_on_a_consumer_that_is_too_slow_for_it_gets_another() -> None:
    loads, owner = named(a=80, b=80), owners(a=0, b=1)
    another = fit_uneven(uneven(loads, owner, {0: 0.5}), LIMIT, at_least=1, at_most=3)
    assert another.plan.owner == owners(a=2, b=1)
    none = fit_uneven(uneven(loads, owner, {0: 0.5}), LIMIT, at_least=1, at_most=2)
    assert (none.plan.owner, none.wanted) == (owner, 3), "there may be no other, and it is said that one is wanted"
    assert none.capacity == pytest.approx(160, rel=0.001)


def test_a_partition_that_fits_nobody_is_alone() -> None:
    loads, owner = named(a=150, b=20, c=0), owners(a=0, b=0, c=0)
    plan = fit_uneven(uneven(loads, owner, {1: 0.5}), LIMIT, at_least=1, at_most=3).plan
    assert (plan.owner, plan.oversized) == (owners(a=0, b=1, c=0), (tp("a"),)) or plan.owner[tp("b")] != 0


def test_of_those_that_are_there_the_ones_stay_that_move_least_and_suffice() -> None:
    loads, owner = rates(*[26.0] * 6), owned([0, 1], [2, 3], [4, 5])
    placed = fewer_uneven(uneven(loads, owner, {0: 0.5}), LIMIT, 2)
    assert set(placed.plan.owner.values()) == {1, 2}, "the slow one would be too full"
    assert placed.capacity == LIMIT

    little, held = named(a=10, b=40, c=40), owners(a=0, b=1, c=2)
    assert fewer_uneven(uneven(little, held, {0: 2.0}), LIMIT, 2).plan.r_score == pytest.approx(0.1), "a fast one may go too"


def test_a_consumer_more_is_taken_where_packing_anew_would_move_more_than_it_is_worth() -> None:
    chance = Random(1)
    loads = rates(*[chance.uniform(0, 20) for _ in range(1000)])
    counts = {p: chance.uniform(0, 20) for p in loads}
    before = dict(fit_uneven(uneven(loads, {}, counts=counts), LIMIT, at_least=1, at_most=1000).plan.owner)
    risen = {p: rate * chance.uniform(0.9, 1.15) for p, rate in loads.items()}
    ask = uneven(risen, before, counts=counts)
    anew, mended = best_uneven(ask, LIMIT), fit_uneven(ask, LIMIT, at_least=1, at_most=1000).plan
    assert anew.r_score > 20
    assert mended.r_score < 10
    assert anew.consumers <= mended.consumers <= anew.consumers + 8


def test_partitions_that_nobody_holds_go_where_they_leave_most_room() -> None:
    loads, owner = named(a=10, b=40, c=20, d=20), owners(a=0, b=1)
    assert place_unowned_uneven(uneven(loads, owner, {0: 0.25}), LIMIT) == owners(a=0, b=1, c=1, d=1) | {}
    assert place_unowned_uneven(uneven(loads, owner, {0: 0.25}, consumers=[0]), LIMIT) == owners(a=0, b=1, c=0, d=0)


def test_an_owner_of_partitions_that_are_gone_does_not_count_towards_the_minimum() -> None:
    loads, owner = named(a=0, b=0, c=0), owners(a=0, gone=1)
    placed = fit_uneven(uneven(loads, owner), LIMIT, at_least=2, at_most=2)
    assert set(placed.plan.owner) == set(loads)
    assert placed.plan.consumers == 2


# --- whatever the figures --------------------------------------------------------------------------------------------


@st.composite
def asks(draw: st.DrawFn) -> Uneven:
    count = draw(st.integers(0, 16))
    loads = {tp(i): float(draw(rate_values)) for i in range(count)}
    counts = {tp(i): float(draw(rate_values)) for i in range(count)} if draw(st.booleans()) else {}
    owner = {tp(i): draw(st.integers(0, 6)) for i in range(count + 2) if draw(st.booleans())}
    speeds = draw(st.dictionaries(st.integers(0, 9), st.floats(0.1, 4.0), max_size=5))
    idle = draw(st.sets(st.integers(0, 9), max_size=3))
    return uneven(loads, owner, speeds, counts, [*sorted(set(owner.values())), *sorted(idle - set(owner.values()))])


def crowded(ask: Uneven, owner: dict[TopicPartition, int], limit: float) -> list[int]:
    """Return consumers above a limit that hold more than one partition with traffic."""
    busy = [c for p, c in owner.items() if ask.rates[p] > 0 or ask.gauge.counts.get(p, 0) > 0]
    levels = ask.gauge.levels(ask.rates, owner)
    return [c for c, level in levels.items() if level > limit * (1 + 1e-6) and busy.count(c) > 1]


@given(asks())
def test_nobody_is_above_a_limit_where_there_may_be_as_many_as_partitions(ask: Uneven) -> None:
    most = max(1, len(ask.rates)) + len(ask.consumers)
    placed = fit_uneven(ask, LIMIT, at_least=1, at_most=most)
    assert set(placed.plan.owner) == set(ask.rates)
    assert placed.capacity == LIMIT
    assert not crowded(ask, dict(placed.plan.owner), LIMIT)
    assert not crowded(ask, dict(best_uneven(ask, LIMIT).owner), LIMIT)


@given(asks(), st.integers(1, 6), st.integers(0, 4))
def test_bounds_hold_and_what_is_too_much_is_shared(ask: Uneven, at_most: int, fewer: int) -> None:
    at_least = max(1, at_most - fewer)
    placed = fit_uneven(ask, LIMIT, at_least=at_least, at_most=at_most)
    assert placed.plan.consumers <= at_most
    assert placed.capacity >= LIMIT or placed.wanted < at_least
    assert not crowded(ask, dict(placed.plan.owner), placed.capacity)
    if not ask.gauge.speeds:
        assert placed.plan.consumers >= min(at_least, len(ask.rates))


@given(asks(), st.integers(1, 9))
def test_what_fits_stays(ask: Uneven, at_most: int) -> None:
    placed = fit_uneven(ask, LIMIT, at_least=1, at_most=at_most)
    assume(placed.capacity == LIMIT)
    owner = dict(placed.plan.owner)
    there = [*ask.first(at_most), *sorted(set(owner.values()) - set(ask.first(at_most)))]
    again = Uneven(rates=ask.rates, gauge=ask.gauge, previous=owner, consumers=there)
    assert fit_uneven(again, LIMIT, at_least=1, at_most=max(at_most, len(there))).plan.owner == owner


@given(asks(), st.integers(1, 9), st.randoms())
def test_equal_input_gives_equal_output(ask: Uneven, at_most: int, chance: object) -> None:
    def shuffled(mapping: dict[TopicPartition, float] | dict[TopicPartition, int]) -> dict[TopicPartition, float]:
        items = list(mapping.items())
        chance.shuffle(items)  # type: ignore[attr-defined]
        return dict(items)

    gauge = Gauge(speeds=dict(reversed(list(ask.gauge.speeds.items()))), counts=shuffled(dict(ask.gauge.counts)))
    other = Uneven(
        rates=shuffled(dict(ask.rates)),
        gauge=gauge,
        previous=shuffled(dict(ask.previous)),  # type: ignore[arg-type]
        consumers=ask.consumers,
    )
    assert fit_uneven(ask, LIMIT, at_least=1, at_most=at_most) == fit_uneven(other, LIMIT, at_least=1, at_most=at_most)


@given(asks(), st.integers(1, 5))
def test_nobody_else_moves_when_what_nobody_holds_is_placed(ask: Uneven, receivers: int) -> None:
    ask = Uneven(rates=ask.rates, gauge=ask.gauge, previous=ask.previous, consumers=range(receivers))
    placed = place_unowned_uneven(ask, LIMIT)
    assert set(placed) == set(ask.rates)
    assert all(c == ask.previous[p] if p in ask.previous else c in range(receivers) for p, c in placed.items())


@given(st.lists(st.one_of(st.floats(0.5, 120), st.just(25.0), st.just(50.0)), min_size=1, max_size=24))
def test_equal_consumers_and_a_limit_that_fills_nobody_take_one_more_at_most(values: list[float]) -> None:
    loads = rates(*values)
    ask = uneven(loads, {}, counts={p: rate * SLACK for p, rate in loads.items()})
    plain = fewest_by_size(loads.values(), LIMIT)
    assert ask.fewest(LIMIT) <= plain + 1
    assert fit_uneven(ask, LIMIT, at_least=1, at_most=len(loads)).plan.consumers <= plain + 1
    assert ask.least(LIMIT) <= ask.fewest(LIMIT)
