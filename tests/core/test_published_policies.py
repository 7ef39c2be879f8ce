"""The published latency-aware policies: every worked value, and what holds for any input."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.assignors.group_model import Assignor, Client, Consumer, NativeGroup
from autoscaler.core.assignors.simulate import assign
from autoscaler.core.baselines.policies import (
    Action,
    Placement,
    auto_scale_cg,
    in_ranges,
    linear,
    ll_ffd,
    tail_latency_1,
    tail_latency_2,
)
from autoscaler.model import TopicPartition

FIVE = [[0, 1, 2, 3, 4]]
EACH_ITS_OWN = [[0], [1], [2], [3], [4]]
TWO = [[0, 1], [2, 3, 4]]
cg = partial(auto_scale_cg, mu=95.0, wanted_latency_s=5.0)
first = partial(tail_latency_1, mu=200.0, wanted_latency_s=0.5)
second = partial(tail_latency_2, mu=200.0, wanted_latency_s=0.5)


def named(values: Sequence[float]) -> dict[int, float]:
    return dict(enumerate(map(float, values)))


NO_LAG = named([0] * 5)


@pytest.mark.parametrize(
    ("rates", "lags", "wanted"),
    [
        ([60, 60, 15, 15, 15], [0] * 5, [[0, 2, 4], [1, 3]]),
        ([60, 60, 36, 15, 15], [0] * 5, [[0], [1], [2, 3, 4]]),
        ([60, 60, 35, 15, 15], [0] * 5, [[0, 2], [1, 3, 4]]),
        ([10] * 5, [300, 200, 100, 0, 0], [[0, 2, 4], [1, 3]]),
    ],
)
def test_ll_ffd_gives_the_worked_placements(rates: list[float], lags: list[float], wanted: Placement[int]) -> None:
    assert ll_ffd(named(rates), named(lags), mu=95.0, wanted_latency_s=5.0) == wanted


@pytest.mark.parametrize(
    ("rates", "current", "action", "wanted"),
    [
        ([20, 20, 20, 20, 16], FIVE, Action.UP, [[0, 2, 4], [1, 3]]),
        ([19] * 5, FIVE, Action.NONE, FIVE),
        ([60, 60, 15, 15, 15], TWO, Action.REASSIGN, [[0, 2, 4], [1, 3]]),
        ([15] * 5, [[0, 1], [2, 3], [4]], Action.DOWN, FIVE),
    ],
)
def test_auto_scale_cg_gives_the_worked_answers(
    rates: list[float], current: Placement[int], action: Action, wanted: Placement[int]
) -> None:
    assert cg(current, named(rates), NO_LAG) == (action, wanted)


@pytest.mark.parametrize(
    ("rates", "lags", "current", "action", "wanted"),
    [
        ([20] * 5, [0] * 5, FIVE, Action.NONE, FIVE),
        ([40] * 5, [0] * 5, FIVE, Action.UP, [[0, 2, 4], [1, 3]]),
        ([30] * 5, [0] * 5, TWO, Action.NONE, TWO),
        ([15] * 5, [0] * 5, TWO, Action.DOWN, FIVE),
        ([10] * 5, [50, 50, 10, 0, 0], FIVE, Action.UP, [[0, 2, 4], [1, 3]]),
        ([100, 90, 40, 40, 40], [0] * 5, TWO, Action.REASSIGN, [[0, 3], [1, 2, 4]]),
    ],
)
def test_algorithm_1_gives_the_worked_answers(
    rates: list[float], lags: list[float], current: Placement[int], action: Action, wanted: Placement[int]
) -> None:
    assert first(current, named(rates), named(lags)) == (action, wanted)


@pytest.mark.parametrize(
    ("rate", "current", "rebalance_s", "action", "wanted"),
    [
        (40, FIVE, 2.0, Action.UP, EACH_ITS_OWN),
        (40, FIVE, 0.05, Action.UP, [[0, 2, 4], [1, 3]]),
        (15, EACH_ITS_OWN, 2.0, Action.NONE, EACH_ITS_OWN),
        (10, EACH_ITS_OWN, 2.0, Action.DOWN, [[0, 3], [1, 4], [2]]),
    ],
)
def test_algorithm_2_gives_the_worked_answers(
    rate: float, current: Placement[int], rebalance_s: float, action: Action, wanted: Placement[int]
) -> None:
    assert second(current, named([rate] * 5), NO_LAG, rebalance_s=rebalance_s) == (action, wanted)


def test_algorithm_2_asks_for_more_where_the_rebalance_itself_leaves_too_much() -> None:
    """Algorithm 1 would hand partitions out anew to as many; the backlog of two seconds does not fit on those."""
    rates = named([100, 90, 40, 40, 40])
    assert first(TWO, rates, NO_LAG)[0] is Action.REASSIGN
    assert second(TWO, rates, NO_LAG, rebalance_s=2.0) == (Action.UP, EACH_ITS_OWN)
    assert second(TWO, rates, NO_LAG, rebalance_s=0.0) == (Action.REASSIGN, [[0, 3], [1, 2, 4]])


@pytest.mark.parametrize(
    ("rate", "current", "action", "wanted"),
    [
        (36, FIVE, Action.NONE, FIVE),
        (37, FIVE, Action.UP, [[0, 1, 2], [3, 4]]),
        (17, TWO, Action.NONE, TWO),
        (16, TWO, Action.DOWN, FIVE),
        (0, TWO, Action.DOWN, FIVE),
    ],
)
def test_the_linear_baseline_counts_and_kafka_places(
    rate: float, current: Placement[int], action: Action, wanted: Placement[int]
) -> None:
    assert linear(current, named([rate] * 5), mu=200.0) == (action, wanted)


def test_another_assignor_places_for_the_linear_baseline() -> None:
    def round_robin(partitions: Sequence[int], consumers: int) -> Placement[int]:
        return [list(partitions[c::consumers]) for c in range(consumers)]

    assert linear(FIVE, named([37] * 5), mu=200.0, assignor=round_robin) == (Action.UP, [[0, 2, 4], [1, 3]])


def test_ranges_of_fewer_partitions_than_consumers_leave_some_without() -> None:
    assert in_ranges([0, 1], 3) == [[0], [1], []]


def test_what_is_above_a_limit_counts_for_the_limit() -> None:
    assert ll_ffd(named([500, 1]), named([9e9, 0]), mu=100.0, wanted_latency_s=1.0) == [[0], [1]]


def test_no_partitions_need_no_consumers() -> None:
    assert ll_ffd({}, {}, mu=1.0, wanted_latency_s=1.0) == [[]]


@pytest.mark.parametrize(
    ("current", "said"),
    [([[0, 1], [1]], "partition 1 is held by two consumers"), ([[0], [7]], "partition 7 is held and has no rate")],
)
def test_holders_that_make_no_sense_are_refused(current: Placement[int], said: str) -> None:
    for policy in (cg, first, partial(second, rebalance_s=1.0)):
        with pytest.raises(ValueError, match=said):
            policy(current, named([1, 1]), named([0, 0]))
    with pytest.raises(ValueError, match=said):
        linear(current, named([1, 1]), mu=1.0)


def test_a_negative_rebalance_time_is_refused() -> None:
    with pytest.raises(ValueError, match="rebalance_s must be 0 or more seconds, not -1"):
        second(FIVE, named([1] * 5), NO_LAG, rebalance_s=-1)


amounts = st.floats(0, 300)


@given(st.lists(st.tuples(amounts, amounts), min_size=1, max_size=12), st.integers(1, 6), st.floats(0, 5))
def test_every_answer_places_every_partition_once_and_its_action_says_how_many(
    values: list[tuple[float, float]], consumers: int, rebalance_s: float
) -> None:
    rates, lags = named([r for r, _ in values]), named([lag for _, lag in values])
    current = in_ranges(list(rates), consumers)
    for action, placed in (
        cg(current, rates, lags),
        first(current, rates, lags),
        second(current, rates, lags, rebalance_s=rebalance_s),
        linear(current, rates, mu=95.0),
    ):
        assert sorted(p for mine in placed for p in mine) == sorted(rates)
        assert (action is Action.UP) == (len(placed) > consumers)
        if action is Action.NONE:
            assert placed == current
        if action is Action.DOWN:
            assert len(placed) < consumers


@pytest.mark.parametrize(
    ("rate", "changes", "said"),
    [
        (1.0, {"mu": 0.0}, "mu must be a number above 0, not 0"),
        (1.0, {"mu": -1.0}, "mu must be a number above 0, not -1"),
        (1.0, {"mu": 1.0, "up_ratio": float("nan")}, "up_ratio must be a number above 0, not nan"),
        (1.0, {"mu": 1.0, "down_ratio": 0.0}, "down_ratio must be a number above 0, not 0"),
        (float("inf"), {"mu": 1.0}, "the rate of partition 0 must be a number from 0 on, not inf"),
        (-1.0, {"mu": 1.0}, "the rate of partition 0 must be a number from 0 on, not -1"),
    ],
)
def test_the_linear_one_refuses_numbers_that_are_none(rate: float, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        linear([[0]], {0: rate}, **changes)


def test_ties_of_whole_numbers_are_broken_as_published() -> None:
    """Divided by mu, 95, loads that are equal would be so no more: another consumer would be the least loaded."""
    limits = {"mu": 95.0, "wanted_latency_s": 5.0}
    rates, lags = [10.0, 1.0, 3.0, 6.0, 13.0], [269.0, 58.0, 99.0, 112.0, 0.0]
    assert ll_ffd(dict(enumerate(rates)), dict(enumerate(lags)), **limits) == [[4, 2, 1], [0, 3]]
    current = [[3, 4, 5], [2, 6, 7, 8], [0, 1]]
    rates, lags = [5.0, 10, 5, 6, 8, 6, 1, 11, 13], [254.0, 114, 39, 0, 255, 206, 23, 0, 0]
    assert auto_scale_cg(current, dict(enumerate(rates)), dict(enumerate(lags)), **limits) == (Action.NONE, current)
    current = [[0], [1], [7, 8], [2, 4, 6], [3, 5]]
    rates, lags = [17.0, 11, 1, 19, 16, 2, 14, 7, 10], [240.0, 97, 186, 0, 0, 128, 0, 60, 0]
    fewer = [[3, 7, 5], [0], [4, 8, 2], [6, 1]]
    assert tail_latency_1(current, dict(enumerate(rates)), dict(enumerate(lags)), **limits) == (Action.DOWN, fewer)


@given(st.dictionaries(st.integers(0, 9), st.floats(0, 100), max_size=10), st.floats(0.1, 200))
def test_what_was_just_packed_stays(rates: dict[int, float], mu: float) -> None:
    """What is above a limit by itself is packed as if it were at it, and reassigned for ever: that defect is the papers'."""
    held = {p: min(r, mu) for p, r in rates.items()}
    packed = ll_ffd(held, dict.fromkeys(held, 0.0), mu=mu, wanted_latency_s=1.0)
    assert auto_scale_cg(packed, held, dict.fromkeys(held, 0.0), mu=mu, wanted_latency_s=1.0) == (Action.NONE, packed)


def test_linear_takes_no_consumer_more_for_the_last_digit_of_a_product() -> None:
    rates = {0: 4.0, 1: 10.0, 2: 11.0, 3: 9.0, 4: 5.0, 5: 10.0}  # 49 are 10 consumers of 7 × 0.7, which comes out below 4.9
    assert len(linear([[0]], rates, mu=7.0, up_ratio=0.7, down_ratio=0.3)[1]) == 10


def test_several_topics_are_dealt_each_by_itself_as_kafkas_range_assignor_does() -> None:
    rates = {TopicPartition(topic, n): 30.0 for topic in "ab" for n in range(3)}
    _, placed = linear([sorted(rates)], rates, mu=100.0)
    members = tuple(Consumer(member_id=m, topics=frozenset("ab")) for m in ("m0", "m1"))
    kafkas = assign(NativeGroup(assignor=Assignor.RANGE, consumers=members, partitions={"a": 3, "b": 3}), Client.JAVA)
    assert kafkas is not None
    assert [sorted(held) for held in placed] == [sorted(kafkas[m]) for m in ("m0", "m1")]
