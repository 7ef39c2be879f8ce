"""Placements that keep what can be kept."""

import pytest

from autoscaler.model import TopicPartition
from autoscaler.packing import assign, consumer_loads, drain, fit_count, place_unowned
from tests.builders import named, owned, owners, rates, tp

Loads = dict[TopicPartition, float]
Owners = dict[TopicPartition, int]


@pytest.mark.parametrize(
    ("loads", "owner", "consumers", "placed", "why"),
    [
        (named(a=5, b=3, n=4), owners(a=0, b=1), None, owners(a=0, b=1, n=0), "best fit: the fullest that has room"),
        (named(a=8, b=3, n=4), owners(a=0, b=1), None, owners(a=0, b=1, n=1), "the fullest has no room"),
        (named(a=8, b=8, n=4), owners(a=0, b=2), None, owners(a=0, b=2, n=1), "no room anywhere: the lowest free index"),
        (named(a=8, b=3, n=4), owners(a=0, b=1), [0], owners(a=0, b=1, n=0), "only consumer 0 lives: late beats nobody"),
        (named(a=8, b=9, n=4), owners(a=0, b=1), [0, 1], owners(a=0, b=1, n=0), "nobody has room: the least loaded"),
        (named(a=8, b=9, n=4), owners(a=0, b=1), [0, 1, 2], owners(a=0, b=1, n=2), "an idle one lives"),
        (named(m=6, n=5, o=4), {}, [0, 1], owners(m=0, n=1, o=0), "biggest first, then best fit"),
        (named(a=5), owners(a=0), [], owners(a=0), "nothing to place needs nobody"),
        (named(a=5, n=1), owners(a=0, gone=1), None, owners(a=0, n=0), "a partition that is gone holds nothing"),
    ],
)
def test_only_partitions_without_an_owner_are_placed(
    loads: Loads, owner: Owners, consumers: list[int] | None, placed: Owners, why: str
) -> None:
    assert place_unowned(loads, 10, owner, consumers) == placed, why


def test_placing_on_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no consumer may receive n-0"):
        place_unowned(named(n=1), 10, {}, [])


def test_consumer_loads_name_those_who_hold_nothing() -> None:
    assert consumer_loads(named(a=1, b=2), owners(a=3, b=3, unknown=1), [0]) == {0: 0.0, 1: 0.0, 3: 3.0}


def test_a_count_within_bounds_is_left_alone() -> None:
    loads = rates(6, 6, 6)
    fitted = fit_count(loads, 10, {}, "MWF", at_least=2, at_most=4)
    assert (fitted.plan, fitted.wanted, fitted.capacity) == (assign(loads, 10, {}, "MWF"), 3, 10)


@pytest.mark.parametrize("algorithm", ["MWF", "BFD"])
def test_too_few_allowed_shares_the_overload(algorithm: str) -> None:
    loads = rates(*[6] * 6)  # six consumers wanted
    fitted = fit_count(loads, 10, {}, algorithm, at_least=1, at_most=3)
    assert (fitted.plan.consumers, fitted.wanted) == (3, 6)
    assert sorted(consumer_loads(loads, fitted.plan.owner).values()) == [12, 12, 12], "nobody carries more than its share"
    assert fitted.capacity == pytest.approx(12, rel=1e-3)


@pytest.mark.parametrize("algorithm", ["MWF", "BFD"])
def test_more_asked_for_spreads_the_load(algorithm: str) -> None:
    loads = rates(2, 2, 2, 2)
    fitted = fit_count(loads, 10, owned([0, 1, 2, 3]), algorithm, at_least=2, at_most=9)
    assert (fitted.plan.consumers, fitted.wanted) == (2, 1)
    assert sorted(consumer_loads(loads, fitted.plan.owner).values()) == [4, 4]


def test_silent_partitions_are_spread_too() -> None:
    fitted = fit_count(rates(0, 0, 0, 0), 10, {}, "MWF", at_least=2, at_most=2)
    assert sorted(len([p for p in fitted.plan.owner if fitted.plan.owner[p] == c]) for c in (0, 1)) == [2, 2]


def test_never_more_consumers_than_partitions() -> None:
    fitted = fit_count(rates(1, 1, 1), 10, {}, "MWF", at_least=5, at_most=9)
    assert fitted.plan.consumers == 3


def test_a_partition_above_every_capacity_does_not_take_a_second_consumer() -> None:
    fitted = fit_count(rates(1000, 1), 10, {}, "MWF", at_least=1, at_most=1)
    assert fitted.plan.consumers == 1
    assert fitted.plan.oversized == (tp(0),), "figures are those of the capacity asked for"


@pytest.mark.parametrize("algorithm", ["MWF", "WF", "MBF", "PACE"])
def test_one_oversized_partition_does_not_make_the_small_ones_large(algorithm: str) -> None:
    """A share of the mean is a share of what consumers can hold, or nothing fits any more and nobody is relieved."""
    loads = rates(300, 20, 1e6, 183, 20, 20, 100)
    held = owned([3], [5], [1], [6], [0, 4], [2])
    fitted = fit_count(loads, 80, held, algorithm, at_least=6, at_most=64)
    assert fitted.capacity <= 80
    assert [p for p, c in fitted.plan.owner.items() if c == fitted.plan.owner[tp(0)]] == [tp(0)]


@pytest.mark.parametrize(
    ("loads", "at_least", "at_most", "carried", "why"),
    [
        (rates(60, 60, 60, 60), 1, 3, [60, 60, 120], "four consumers become two at twice the rate; three are there"),
        (rates(2, 2, 2, 2), 3, 3, [2, 2, 4], "one becomes two or four; three are asked for"),
        (rates(0, 0, 0, 0), 3, 3, [0, 0, 0], "silent partitions are spread too"),
    ],
)
def test_counts_that_no_capacity_gives_come_from_splitting(
    loads: Loads, at_least: int, at_most: int, carried: list[float], why: str
) -> None:
    fitted = fit_count(loads, 80, {}, "MWF", at_least=at_least, at_most=at_most)
    assert sorted(consumer_loads(loads, fitted.plan.owner).values()) == pytest.approx(carried), why


@pytest.mark.parametrize(
    ("loads", "bounds", "carried", "wanted", "why"),
    [
        (rates(6, 4, 4, 3, 3), (1, 2), [10, 10], 2, "two do, though best-fit decreasing takes three"),
        (rates(6, 4, 4, 3, 3), (1, 1), [20], 2, "one carries twice as much"),
        (rates(2, 2, 2, 2), (2, 9), [4, 4], 1, "two are asked for"),
    ],
)
def test_the_exact_one_is_asked_itself_and_the_label_says_so(
    loads: Loads, bounds: tuple[int, int], carried: list[float], wanted: int, why: str
) -> None:
    fitted = fit_count(loads, 10, {}, "EXACT", at_least=bounds[0], at_most=bounds[1], time_limit_s=1)
    assert sorted(consumer_loads(loads, fitted.plan.owner).values()) == carried, why
    assert (fitted.wanted, fitted.plan.algorithm) == (wanted, "EXACT")


@pytest.mark.parametrize("algorithm", ["BFD", "PACE"])
def test_the_largest_rates_are_shared_too(algorithm: str) -> None:
    fitted = fit_count(rates(1e308, 7e307), 1.1e308, {}, algorithm, at_least=1, at_most=1)
    assert fitted.plan.consumers == 1


@pytest.mark.parametrize(("at_least", "at_most"), [(1, 0), (3, 2)])
def test_bounds_that_leave_no_count_are_refused(at_least: int, at_most: int) -> None:
    with pytest.raises(ValueError, match=r"leave no number"):
        fit_count(rates(1), 10, {}, "MWF", at_least=at_least, at_most=at_most)


@pytest.mark.parametrize(
    ("loads", "holds", "keep", "after", "why"),
    [
        (rates(3, 2, 1), [[0], [1], [2]], 2, [[0, 2], [1], []], "the least loaded one gives what it has, best fit"),
        (rates(3, 2, 1), [[0], [1], [2]], 1, [[0, 1, 2], [], []], "two give"),
        (rates(3, 2), [[0], [1], []], 2, [[0], [1], []], "one that holds nothing goes first, nothing moves"),
        (rates(9, 9, 9), [[0], [1], [2]], 2, None, "what must move fits nowhere"),
        (rates(15, 2), [[0], [1]], 1, None, "one above capacity takes no more"),
        (rates(15, 2, 2), [[0], [1], [2]], 2, [[0], [1, 2], []], "one above capacity may stay as it is"),
    ],
)
def test_draining_moves_only_what_the_emptied_ones_held(
    loads: Loads, holds: list[list[int]], keep: int, after: list[list[int]] | None, why: str
) -> None:
    placed = drain(loads, 10, owned(*holds), range(len(holds)), keep)
    assert placed == (None if after is None else owned(*after)), why
