"""The published algorithms, against the worked examples of the specification."""

import math

import pytest

from autoscaler.model import TopicPartition
from autoscaler.packing import ALGORITHMS, assign, lower_bound, r_score
from tests.builders import named, owners, rates, tp

Loads = dict[TopicPartition, float]
Owners = dict[TopicPartition, int]

TWELVE = ("NF", "FF", "WF", "BF", "NFD", "FFD", "WFD", "BFD", "MWF", "MBF", "MWFP", "MBFP")
MODIFIED = ("MWF", "MBF", "MWFP", "MBFP")

# rates, previous owners, and what each algorithm makes of them at a capacity of 10: (algorithms, owners, R-score)
EXAMPLES: dict[str, tuple[Loads, Owners, list[tuple[tuple[str, ...], Owners, float]]]] = {
    "one consumer over capacity, one half empty": (
        named(a=7, b=4, c=5, d=4, e=2),
        owners(a=0, b=0, c=1, d=1, e=2),
        [
            (MODIFIED, owners(a=0, e=0, c=1, d=1, b=2), 0.6),
            (("FFD", "BFD"), owners(a=0, e=0, c=1, b=1, d=2), 1.0),
            (("NFD", "WFD"), owners(a=0, c=1, b=1, d=2, e=2), 0.8),
        ],
    ),
    "the key decides which consumer is emptied": (
        named(a=8, b=3, c=4, d=3, e=5),
        owners(a=0, b=1, c=1, d=1, e=2),
        [
            (("MWF", "MBF"), owners(a=0, b=1, c=1, d=1, e=2), 0.0),
            (("MWFP", "MBFP"), owners(a=0, c=1, b=1, e=2, d=2), 0.3),
            (("NFD", "FFD", "WFD", "BFD"), owners(a=0, b=1, d=1, e=2, c=2), 0.4),
        ],
    ),
    "nothing is held yet": (
        named(a=6, b=5, c=4, d=3, e=2),
        {},
        [
            (("MBF", "BFD", "FFD"), owners(a=0, c=0, b=1, d=1, e=1), 0.0),
            (("MWF", "WFD"), owners(a=0, d=0, b=1, c=1, e=2), 0.0),
            (("NFD",), owners(a=0, b=1, c=1, d=2, e=2), 0.0),
        ],
    ),
    "a partition above the capacity sits alone": (
        named(a=12, b=0, c=3),
        owners(a=0, b=0, c=1),
        [(TWELVE, owners(a=0, b=1, c=1), 0.0)],
    ),
    "a new consumer takes the lowest index that is not open, those who stay keep theirs": (
        named(a=6, b=6, n=5),
        owners(a=1, b=3),
        [(TWELVE, owners(n=0, a=1, b=3), 0.0)],
    ),
}
ROWS = [
    pytest.param(algorithm, loads, previous, owner, score, id=f"{algorithm}: {why}")
    for why, (loads, previous, answers) in EXAMPLES.items()
    for algorithms, owner, score in answers
    for algorithm in algorithms
]


@pytest.mark.parametrize(("algorithm", "loads", "previous", "owner", "score"), ROWS)
def test_worked_examples(algorithm: str, loads: Loads, previous: Owners, owner: Owners, score: float) -> None:
    plan = assign(loads, 10, previous, algorithm)
    assert dict(plan.owner) == owner
    assert plan.r_score == pytest.approx(score)
    assert plan.consumers == len(set(owner.values()))
    assert plan.algorithm == algorithm


def test_all_twelve_are_there_by_their_published_names() -> None:
    assert ALGORITHMS[:12] == TWELVE


def test_the_default_is_the_least_disturbing_of_the_published_ones() -> None:
    assert assign(rates(1.0), 10, {}).algorithm == "MWF"


@pytest.mark.parametrize(
    ("algorithm", "owner"),
    [
        ("NF", [0, 1, 1, 2, 3]),  # 6 | 5 +4 | 3 (only the last is open) | 8 does not fit on 3
        ("FF", [0, 1, 0, 1, 2]),  # 4 goes back to consumer 0
        ("WF", [0, 1, 1, 0, 2]),  # 4 to the emptier, then consumer 0 is the emptier
        ("BF", [0, 1, 0, 1, 2]),  # 4 to the fuller one that fits
    ],
)
def test_any_fit_takes_partitions_in_the_order_given(algorithm: str, owner: list[int]) -> None:
    loads = rates(6, 5, 4, 3, 8)
    assert list(assign(loads, 10, {}, algorithm).owner.values()) == owner
    backwards = dict(reversed(list(loads.items())))
    assert assign(backwards, 10, {}, algorithm).owner[tp(4)] == 0, "the order given starts with the last partition"


@pytest.mark.parametrize("algorithm", ["WF", "WFD", "MWF", "BF", "BFD", "MBF"])
def test_equally_loaded_consumers_are_taken_by_lowest_index(algorithm: str) -> None:
    loads = named(a=6, b=6, c=2)
    assert assign(loads, 10, {}, algorithm).owner[tp("c")] == 0


@pytest.mark.parametrize("algorithm", TWELVE)
def test_partitions_that_are_gone_do_not_hold_a_consumer(algorithm: str) -> None:
    plan = assign(named(a=3), 10, owners(a=2, gone=0), algorithm)
    assert dict(plan.owner) == owners(a=2)
    assert plan.r_score == 0


@pytest.mark.parametrize("algorithm", TWELVE)
def test_nothing_to_place_needs_nobody(algorithm: str) -> None:
    plan = assign({}, 10, {}, algorithm)
    assert (dict(plan.owner), plan.consumers, plan.lower_bound, plan.oversized, plan.r_score) == ({}, 0, 0, (), 0)


@pytest.mark.parametrize("algorithm", TWELVE)
def test_a_sum_of_floats_that_just_fits_fits(algorithm: str) -> None:
    plan = assign(rates(*[0.1] * 10), 1.0, {}, algorithm)
    assert plan.consumers == 1


@pytest.mark.parametrize("algorithm", TWELVE)
def test_every_partition_above_the_capacity_is_named(algorithm: str) -> None:
    plan = assign(named(a=12, b=10, c=11), 10, {}, algorithm)
    assert plan.oversized == (tp("a"), tp("c"))
    assert plan.consumers == 3


@pytest.mark.parametrize(("bad", "said"), [(math.nan, "nan"), (-1.0, "-1.0"), (math.inf, "inf"), (-math.inf, "-inf")])
@pytest.mark.parametrize("algorithm", TWELVE)
def test_a_rate_that_is_none_is_refused_by_name(algorithm: str, bad: float, said: str) -> None:
    with pytest.raises(ValueError, match=rf"b-0.*{said}"):
        assign(named(a=1, b=bad), 10, {}, algorithm)


@pytest.mark.parametrize("capacity", [0, -5.0, math.nan, math.inf])
def test_a_capacity_that_is_none_is_refused(capacity: float) -> None:
    with pytest.raises(ValueError, match=rf"capacity .*{capacity}"):
        assign(named(a=1), capacity, {}, "MWF")


def test_an_unknown_algorithm_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'KMEANS' is unknown.*NF, FF.*MBFP"):
        assign(named(a=1), 10, {}, "KMEANS")


def test_a_previous_owner_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a-0 must be an index from 0, not -1"):
        assign(named(a=1), 10, owners(a=-1), "MWF")


def test_rates_that_cannot_be_added_up_are_refused() -> None:
    with pytest.raises(ValueError, match=r"2 partitions add up"):
        assign(named(a=1e308, b=1e308), 10, {}, "MWF")


@pytest.mark.parametrize(
    ("values", "bound", "why"),
    [
        ([], 0, "no partitions, nobody"),
        ([0, 0], 1, "somebody must read silent partitions"),
        ([4, 4, 4], 2, "12 in all over 10"),
        ([6, 6, 6], 3, "no two above half share one"),
        ([5, 5, 5, 5], 2, "exactly half shares"),
        ([25, 1], 2, "a partition above capacity fills one, not three"),
        ([0.1] * 100, 1, "ten sums of a tenth that rounding makes a little more than 10"),
    ],
)
def test_lower_bound(values: list[float], bound: int, why: str) -> None:
    assert lower_bound(values, 10) == bound, why


def test_r_score_counts_partitions_that_change_hands_only() -> None:
    loads = named(stays=1, moves=2, comes=4)
    before, after = owners(stays=0, moves=0, goes=0), owners(stays=0, moves=1, comes=1)
    assert r_score(loads, 10, before, after) == pytest.approx(0.2)
