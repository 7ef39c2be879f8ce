"""One decision at a time: each row is an observation, and why it must be answered like this."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from autoscaler.config.policy import Policy
from autoscaler.core.decide import History, decide
from autoscaler.core.sizing.planner import Planner
from autoscaler.model import (
    Action,
    AddWorkers,
    GroupState,
    MovePartition,
    PartitionLoad,
    Reason,
    RemoveWorkers,
    TopicPartition,
    WorkerPhase,
)
from autoscaler.model.findings import What
from autoscaler.packing import consumer_loads
from tests.builders import T0, load, moment, observation, owned, policy, rates, says, snapshot, state, tp, unplanned, worker
from tests.core.answers import HALF, LONG_AGO, answer, move, pending, with_orphans

ROWS: dict[str, tuple[Mapping[TopicPartition, float | None], GroupState, Policy, Reason, Reason | None, list[Action]]] = {
    "everybody below what is usable": (
        rates(70, 80), state(HALF), policy(), Reason.WITHIN_TARGET, None, [],
    ),
    "just at the edge of the tolerance is not overload": (
        rates(44, 44, 60), state(owned([0, 1], [2])), policy(), Reason.WITHIN_TARGET, None, [],
    ),
    "overload asks for a consumer before anything moves": (
        rates(50, 50, 60), state(owned([0, 1], [2])), policy(), Reason.RATE_ABOVE_CAPACITY, None, [AddWorkers(slots=(2,))],
    ),
    "a consumer asked for is awaited": (
        rates(50, 50, 60), state(owned([0, 1], [2]), requested=[0, 1, 2]), policy(),
        Reason.RATE_ABOVE_CAPACITY, Reason.NOT_READY, [],
    ),
    "when it is there, one partition moves": (
        rates(50, 50, 60), state(owned([0, 1], [2]), live=[0, 1, 2]), policy(), Reason.RATE_ABOVE_CAPACITY, None, [move(1, 0, 2)],
    ),
    "an idle consumer with another index is used before a new one": (
        rates(50, 50, 60), state(owned([0, 1], [2]), live=[0, 1, 5]), policy(), Reason.RATE_ABOVE_CAPACITY, None, [move(1, 0, 5)],
    ),
    "room on a present consumer needs no new one": (
        rates(60, 30, 25), state(owned([0, 1], [2])), policy(), Reason.RATE_ABOVE_CAPACITY, None, [move(1, 0, 1)],
    ),
    "at the maximum the overload stays when nothing helps": (
        rates(90, 90, 90), state(owned([0, 1], [2])), policy(max_consumers=2),
        Reason.RATE_ABOVE_CAPACITY, Reason.AT_MAXIMUM, [],
    ),
    "at the maximum the overload is shared where that helps": (
        rates(60, 61, 62, 60), state(owned([0, 1, 2], [3])), policy(max_consumers=2),
        Reason.RATE_ABOVE_CAPACITY, Reason.AT_MAXIMUM, [move(1, 0, 1)],
    ),
    "growing stops at the maximum": (
        rates(60, 60, 60, 60), state(owned([0, 1, 2, 3])), policy(max_consumers=3),
        Reason.RATE_ABOVE_CAPACITY, Reason.AT_MAXIMUM, [AddWorkers(slots=(1, 2))],
    ),
    "growing stops at one consumer per partition": (
        rates(900, 900), state(owned([0, 1])), policy(),
        Reason.RATE_ABOVE_CAPACITY, Reason.AT_PARTITION_CEILING, [AddWorkers(slots=(1,))],
    ),
    "one partition above capacity is reported, nothing helps it": (
        rates(300, 20, 30), state(owned([0], [1, 2])), policy(), Reason.PARTITION_EXCEEDS_CAPACITY, None, [],
    ),
    "every partition alone and one above capacity: at the ceiling": (
        rates(300, 70), state(HALF), policy(), Reason.PARTITION_EXCEEDS_CAPACITY, Reason.AT_PARTITION_CEILING, [],
    ),
    "a lost consumer's partitions go to those who live": (
        rates(30, 30, 10), with_orphans(state(owned([0], [1]), requested=[0, 1, 2]), 2), policy(),
        Reason.WORKER_LOST, None, [move(2, None, 0)],
    ),
    "they go even where there is no room: late beats nobody": (
        rates(70, 70, 70), with_orphans(state(owned([0], [1]), requested=[0, 1, 2]), 2), policy(),
        Reason.WORKER_LOST, None, [move(2, None, 0)],
    ),
    "a lost consumer among partitions in motion: only its own move": (
        rates(30, 30, 10), pending(with_orphans(state(owned([0], [1]), requested=[0, 1, 2]), 2), 1), policy(),
        Reason.WORKER_LOST, None, [move(2, None, 0)],
    ),
    "nobody lives: the requested ones are awaited": (
        rates(30, 30), with_orphans(state({}, requested=[0, 1]), 0, 1), policy(), Reason.WORKER_LOST, Reason.NOT_READY, [],
    ),
    "nobody lives and nobody is requested: one is asked for": (
        rates(30, 30), with_orphans(state({}), 0, 1), policy(), Reason.WORKER_LOST, Reason.NOT_READY, [AddWorkers(slots=(0,))],
    ),
    "nothing was ever measured, and a consumer is lost: placed by count": (
        {tp(0): None, tp(1): None, tp(2): None, tp(3): None},
        with_orphans(state(owned([0], [1])), 2, 3), policy(), Reason.WORKER_LOST, None, [move(2, None, 0), move(3, None, 1)],
    ),
    "new partitions are placed, the others stay": (
        rates(50, 50, 10, 10), state(HALF), policy(), Reason.PARTITIONS_CHANGED, None, [move(2, None, 0), move(3, None, 0)],
    ),
    "a new partition without a rate counts as the mean of the others": (
        {**rates(50, 30), tp(2): None}, state(HALF), policy(), Reason.PARTITIONS_CHANGED, None, [move(2, None, 1)],
    ),
    "the first plan asks for everybody at once": (
        rates(50, 50, 50), unplanned(), policy(), Reason.PARTITIONS_CHANGED, None, [AddWorkers(slots=(0, 1, 2))],
    ),
    "the first plan waits for a rate": (
        {tp(0): None, tp(1): None}, unplanned(), policy(), Reason.NOT_READY, None, [],
    ),
    "the first plan waits for its consumers": (
        rates(50, 50), state({}, live=[1], requested=[0, 1]), policy(), Reason.PARTITIONS_CHANGED, Reason.NOT_READY, [],
    ),
    "the first plan is published when all are there": (
        rates(50, 50), state({}, live=[0, 1]), policy(),
        Reason.PARTITIONS_CHANGED, None, [move(0, None, 0), move(1, None, 1)],
    ),
    "the first plan keeps the minimum": (
        rates(1, 1, 1), unplanned(), policy(min_consumers=2), Reason.PARTITIONS_CHANGED, None, [AddWorkers(slots=(0, 1))],
    ),
    "the first plan is never larger than the number of partitions": (
        rates(1), unplanned(), policy(min_consumers=3), Reason.PARTITIONS_CHANGED, None, [AddWorkers(slots=(0,))],
    ),
    "workers that live already are used by the first plan": (
        rates(50, 50), unplanned([3, 4]), policy(), Reason.PARTITIONS_CHANGED, None,
        [AddWorkers(slots=(3, 4)), move(0, None, 3), move(1, None, 4)],
    ),
    "no partitions at all": ({}, state(HALF), policy(), Reason.NOT_READY, None, []),
    "nothing measured while all are placed": (
        {tp(0): None, tp(1): None}, state(HALF), policy(), Reason.NOT_READY, None, [],
    ),
    "partitions in motion arrive first": (
        rates(30, 30), pending(state(HALF), 1), policy(), Reason.HANDOVER_IN_PROGRESS, None, [],
    ),
    "overload while partitions move asks for consumers and moves nothing": (
        rates(50, 50, 60), pending(state(owned([0, 1], [2])), 2), policy(),
        Reason.RATE_ABOVE_CAPACITY, Reason.HANDOVER_IN_PROGRESS, [AddWorkers(slots=(2,))],
    ),
    "too many consumers give up what they hold": (
        rates(30, 30), state(HALF), policy(), Reason.UNDERUSED, None, [move(1, 1, 0)],
    ),
    "an idle consumer goes without a move": (
        rates(30, 30), state(owned([0, 1]), live=[0, 1]), policy(), Reason.UNDERUSED, None, [RemoveWorkers(slots=(1,))],
    ),
    "the requested consumer that never started is not awaited for ever": (
        rates(30, 30), state(owned([0, 1]), requested=[0, 1]), policy(), Reason.UNDERUSED, None, [],
    ),
    "who holds nothing and is not requested may end": (
        rates(70, 10), state(owned([0, 1]), live=[0, 3], requested=[0]), policy(),
        Reason.UNDERUSED, None, [RemoveWorkers(slots=(3,))],
    ),
    "who still holds something may not end": (
        rates(70, 10),
        state(owned([0, 1]), requested=[0], workers=(worker(0, [tp(0)]), worker(1, [tp(1)])), pending=frozenset({tp(1)})),
        policy(), Reason.HANDOVER_IN_PROGRESS, None, [],
    ),
    "the minimum holds": (
        rates(30, 30), state(HALF), policy(min_consumers=2), Reason.UNDERUSED, Reason.AT_MINIMUM, [],
    ),
    "the minimum was raised": (
        rates(30, 30), state(owned([0, 1])), policy(min_consumers=2), Reason.AT_MINIMUM, None, [AddWorkers(slots=(1,))],
    ),
    "the raised minimum is filled": (
        rates(30, 30), state(owned([0, 1]), live=[0, 1]), policy(min_consumers=2), Reason.AT_MINIMUM, None, [move(1, 0, 1)],
    ),
    "the maximum was lowered: down at once, whatever the window says": (
        rates(70, 69, 68), state(owned([0], [1], [2])), policy(max_consumers=2), Reason.AT_MAXIMUM, None, [move(2, 2, 1)],
    ),
    "a consumer about to end is not packed around": (
        rates(30, 30),
        state(HALF, workers=(worker(0, [tp(0)]), worker(1, [tp(1)], WorkerPhase.DRAINING))),
        policy(), Reason.UNDERUSED, Reason.NOT_READY, [],
    ),
    "nor when the maximum was lowered": (
        rates(30, 30),
        state(HALF, workers=(worker(0, [tp(0)]), worker(1, [tp(1)], WorkerPhase.DRAINING))),
        policy(max_consumers=1), Reason.AT_MAXIMUM, Reason.NOT_READY, [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", ROWS)
def test_managed_group(why: str) -> None:
    loads, group, rules, reason, limited_by, actions = ROWS[why]
    decision = answer(loads, group, rules)
    assert (decision.reason, decision.limited_by, list(decision.actions)) == (reason, limited_by, actions), decision.detail
    assert decision.detail
    assert decision.consumers == len(decision.requested)


@pytest.mark.parametrize("algorithm", ["MWF", "BFD", "MMR", "HFD", "GOALS", "PACE", "EXACT"])
def test_overload_never_takes_consumers_away_though_fewer_would_do(algorithm: str) -> None:
    group = state(owned([0, 1], [2], [3], [4]))
    mode = "advise" if algorithm == "EXACT" else "act"
    decision = answer(rates(50, 40, 20, 1, 1), group, policy(algorithm=algorithm, mode=mode))
    assert (decision.reason, decision.recommended) == (Reason.RATE_ABOVE_CAPACITY, 2)
    assert sorted(set(decision.target.values())) == [0, 1, 2, 3], "who is paid for works"


def test_the_requested_consumer_that_never_started_is_dropped() -> None:
    decision = answer(rates(30, 30), state(owned([0, 1]), requested=[0, 1]))
    assert decision.requested == {0}


def test_applying_twice_is_applying_once() -> None:
    """What a decision asked for, once observed, is not asked for again."""
    before = state(owned([0, 1], [2]))
    grown = answer(rates(50, 50, 60), before)
    again = answer(rates(50, 50, 60), replace(before, requested=grown.requested))
    assert grown.actions
    assert again.actions == ()
    assert again.requested == grown.requested


# --- growing and waiting ---------------------------------------------------------------------------------------------


def test_after_the_start_timeout_the_others_go_on() -> None:
    history = replace(LONG_AGO, waiting_since=T0 - 30)
    group = state(owned([0, 1, 2, 3], [4], []), live=[0, 1], requested=[0, 1, 2])
    decision = answer(rates(50, 40, 40, 40, 10), group, history=history)
    assert (decision.reason, decision.limited_by) == (Reason.RATE_ABOVE_CAPACITY, Reason.NOT_READY)
    assert {a.target for a in decision.actions if isinstance(a, MovePartition)} == {1}
    assert says(decision, What.NOT_STARTED, consumers=(2,), waited_s=30)


def test_before_the_start_timeout_nothing_moves() -> None:
    history = replace(LONG_AGO, waiting_since=T0 - 29)
    group = state(owned([0, 1, 2, 3], [4], []), live=[0, 1], requested=[0, 1, 2])
    assert answer(rates(50, 40, 40, 40, 10), group, history=history).actions == ()


def test_waiting_begins_with_the_request_and_ends_with_the_consumer() -> None:
    overload = rates(50, 50, 60)
    _, asked = decide(observation(overload, state(owned([0, 1], [2]))), LONG_AGO, policy(), moment(T0))
    assert asked.waiting_since == T0
    _, waiting = decide(observation(overload, state(owned([0, 1], [2]), requested=[0, 1, 2])), asked, policy(), moment(T0 + 5))
    assert waiting.waiting_since == T0
    _, there = decide(observation(overload, state(owned([0, 1], [2]), live=[0, 1, 2])), waiting, policy(), moment(T0 + 6))
    assert there.waiting_since is None


@pytest.mark.parametrize(
    ("since_move_s", "since_scale_s", "loads", "limited_by", "why"),
    [
        (9, 999, rates(50, 50, 20), Reason.COOLING_DOWN, "moves at the same number rest"),
        (10, 999, rates(50, 50, 20), None, "the rest is over"),
        (0, 0, rates(50, 50, 60), None, "growing never rests"),
        (999, 0, rates(50, 50, 20), None, "a change of the number does not hold moves"),
    ],
)
def test_only_moves_at_the_same_number_rest(
    since_move_s: float, since_scale_s: float, loads: dict[TopicPartition, float], limited_by: Reason | None, why: str
) -> None:
    history = replace(LONG_AGO, last_move_at=T0 - since_move_s, last_scale_at=T0 - since_scale_s)
    decision = answer(loads, state(owned([0, 1], [2])), history=history)
    assert decision.limited_by == limited_by, why
    assert bool(decision.actions) == (limited_by is None), why


def test_sixty_four_partitions_reach_sixty_four_consumers_and_never_one_more() -> None:
    loads = rates(*[500.0] * 64)
    decision = answer(loads, state(owned(range(64))), policy(max_consumers=1000))
    assert (decision.consumers, decision.limited_by) == (64, Reason.AT_PARTITION_CEILING)
    placed = answer(loads, state({p: p.partition for p in loads}), policy(max_consumers=1000))
    assert (placed.consumers, placed.actions, placed.limited_by) == (64, (), Reason.AT_PARTITION_CEILING)


def test_the_partitions_that_drove_the_decision_are_named_hottest_first() -> None:
    decision = answer(rates(20, 70, 10, 60), state(owned([0, 1, 2], [3])))
    assert decision.hot == (tp(1), tp(0), tp(2))


# --- what a consumer is worth ----------------------------------------------------------------------------------------

# 90, 60 and 65 of 80 usable: they fit on three consumers if 85 B/s change hands, on four if 25 do.
TIGHT = rates(65, 25, 25, 35, 30, 35)
TIGHT_HELD = owned([0, 1], [2, 3], [4, 5])


@pytest.mark.parametrize(
    ("asked", "consumers", "why"),
    [
        ({}, 4, "1.06 consumers' loads moved are more than .31 and a consumer at .7"),
        ({"preset": "quiet"}, 4, "a consumer is cheaper still"),
        ({"preset": "even"}, 3, "a consumer is worth two consumers' loads moved"),
        ({"preset": "lean"}, 3, "no move is worth a consumer"),
        ({"consumer_price": 1.2}, 3, "the price alone decides: .31 and 1.2 are more than 1.06"),
        ({"preset": "lean", "consumer_price": 0.7}, 4, "a price that is given wins over the preset's"),
    ],
)
def test_the_price_of_a_consumer_decides_between_moving_and_asking(asked: dict[str, object], consumers: int, why: str) -> None:
    decision = answer(TIGHT, state(TIGHT_HELD), policy(**asked))
    assert (decision.reason, decision.consumers) == (Reason.RATE_ABOVE_CAPACITY, consumers), why
    if consumers == 4:
        assert decision.actions == (AddWorkers(slots=(3,)),), why
    else:
        assert decision.r_score == pytest.approx(85 / 80), why


def test_what_is_asked_for_already_costs_nothing_more() -> None:
    """Otherwise noise about the price would ask for a consumer in one cycle and do without it in the next."""
    asked = answer(TIGHT, state(TIGHT_HELD, requested=range(4)), policy(preset="even"))
    assert (asked.limited_by, asked.consumers, asked.actions) == (Reason.NOT_READY, 4, ())
    there = answer(TIGHT, state(TIGHT_HELD, live=range(4)), policy(preset="even"))
    assert list(there.actions) == [move(1, 0, 3)]


def test_beyond_the_maximum_a_preference_for_consumers_is_no_overload() -> None:
    """Balanced would ask for a fourth; three do without anybody above what is usable."""
    decision = answer(TIGHT, state(TIGHT_HELD), policy(max_consumers=3))
    assert (decision.reason, decision.limited_by, decision.consumers) == (Reason.RATE_ABOVE_CAPACITY, None, 3)
    assert max(consumer_loads(TIGHT, decision.target).values()) <= 80
    assert not says(decision, What.TAKES_MORE)


def test_shrinking_does_not_weigh_moves_against_consumers() -> None:
    """Ten consumers at 75 % move .75 of a load for each that goes, more than one is worth when growing: gone is gone for long."""
    loads = rates(*[10.0] * 60)
    held = owned(*[range(6 * c, 6 * c + 6) for c in range(10)])
    decision = answer(loads, state(held))
    assert (decision.reason, decision.consumers, decision.r_score) == (Reason.UNDERUSED, 9, 60 / 80)


# --- drift -----------------------------------------------------------------------------------------------------------


def measured(history: History, at: float, loads: Iterable[PartitionLoad]) -> History:
    return decide(observation(snapshot(loads, at=at), state(HALF)), history, policy(), moment(at))[1]


def test_drift_is_learned_once_from_each_measurement() -> None:
    first = measured(History(), T0, [load(tp(0), 30.0), load(tp(1), 40.0)])
    assert (first.drift.sigma, first.consumption.at) == (0, T0)
    second = measured(first, T0 + 1, [load(tp(0), 33.0), load(tp(1), 44.0)])
    assert second.drift.sigma == pytest.approx(12.5**0.5), "the root of the mean of 9 and 16"
    assert measured(second, T0 + 1, [load(tp(0), 33.0), load(tp(1), 44.0)]).drift == second.drift, "the same one again"


@pytest.mark.parametrize(
    ("times", "horizon", "why"),
    [
        ((), 1, "nothing is known of their pace"),
        ((T0, T0 + 1, T0 + 2), 10, "ten seconds of rest are ten measurements"),
        ((T0, T0 + 4), 2.5, "less often measured, fewer of them"),
        ((T0, T0 + 60), 1, "never less than the coming one"),
        ((T0, T0 + 1e-6), 1e6, "no planner looks further"),
    ],
)
def test_a_placement_is_to_hold_while_partitions_rest(times: tuple[float, ...], horizon: float, why: str) -> None:
    history = History()
    for at in times:
        history = history.measured(history.consumption.measured(snapshot(rates(30, 40), at), moment(at)), rates(30, 40))
    assert Planner.of(policy(cooldown_s=10), history).options["horizon"] == horizon, why


def test_carried_rates_teach_no_drift() -> None:
    """Their increment is 0, and the first after them is that of several measurements."""
    before = measured(
        measured(History(), T0, [load(tp(0), 30.0), load(tp(1), 40.0)]), T0 + 1, [load(tp(0), 32.0), load(tp(1), 42.0)]
    )
    away = measured(before, T0 + 2, [load(tp(p), 32.0 + 10 * p, known=False, age_s=1.0) for p in (0, 1)])
    back = measured(away, T0 + 3, [load(tp(0), 90.0), load(tp(1), 90.0)])
    assert (before.drift.sigma, away.drift.sigma, back.drift.sigma) == (2, 2, 2)
    again = measured(back, T0 + 4, [load(tp(0), 90.0), load(tp(1), 90.0)])
    assert again.drift.sigma == pytest.approx(1.8)


# --- shrinking -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("history", "changes", "limited_by", "why"),
    [
        (replace(LONG_AGO, recommendations=((T0 - 119, 1),)), {}, Reason.STABILISING, "the window is not full"),
        (History(), {}, Reason.STABILISING, "nothing is remembered"),
        (
            replace(LONG_AGO, recommendations=((T0 - 120, 1), (T0 - 60, 2), (T0 - 1, 1))),
            {},
            Reason.STABILISING,
            "two were needed a minute ago",
        ),
        (replace(LONG_AGO, last_scale_at=T0 - 59), {}, Reason.COOLING_DOWN, "the number changed a minute ago"),
        (LONG_AGO, {"lag_s": 5.1}, Reason.BACKLOG, "what lies there needs the consumers"),
        (LONG_AGO, {"lag_s": 5.0}, None, "this much lag is ordinary"),
        (LONG_AGO, {"lag_s": None}, None, "no traffic, so no lag in seconds"),
        (LONG_AGO, {"known": False, "age_s": 4.0}, Reason.STALE_INPUT, "unknown is not zero"),
    ],
)
def test_what_holds_shrinking(history: History, changes: dict[str, object], limited_by: Reason | None, why: str) -> None:
    loads = [load(tp(0), 10.0), load(tp(1), 10.0, **changes)]
    decision = answer(loads, state(HALF), history=history)
    assert (decision.reason, decision.limited_by) == (Reason.UNDERUSED, limited_by), why
    assert bool(decision.actions) == (limited_by is None), why
    assert decision.requested == ({0, 1} if limited_by else {0}), why


def test_shrinking_goes_to_the_highest_recommendation_of_the_window() -> None:
    history = replace(LONG_AGO, recommendations=((T0 - 120, 1), (T0 - 60, 3)))
    decision = answer(rates(10, 10, 10, 10, 10), state(owned([0], [1], [2], [3], [4])), history=history)
    assert len(decision.requested) == 3


def test_shrinking_keeps_a_tolerance_free() -> None:
    """Two times 37 fit on 80, but a little noise on top of that would ask for the second consumer again."""
    decision = answer(rates(37, 37), state(HALF))
    assert (decision.reason, decision.actions, decision.recommended) == (Reason.WITHIN_TARGET, (), 1)


def test_shrinking_moves_only_what_the_removed_consumers_hold() -> None:
    decision = answer(rates(30, 20, 10, 5), state(owned([0], [1], [2], [3])))
    assert decision.requested == {0}
    assert decision.r_score == pytest.approx((20 + 10 + 5) / 80)


# --- stale input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age_s", "reason", "why"),
    [(10.0, Reason.RATE_ABOVE_CAPACITY, "still good enough"), (10.1, Reason.STALE_INPUT, "too old to move anything by")],
)
def test_old_rates_move_nothing(age_s: float, reason: Reason, why: str) -> None:
    old = [load(tp(i), 50.0, known=False, age_s=age_s, error="broker 3 does not answer") for i in range(2)]
    decision = answer([*old, load(tp(2), 20.0)], state(owned([0, 1], [2])))
    assert decision.reason == reason, why
    if reason is Reason.STALE_INPUT:
        assert decision.actions == ()
        assert says(decision, What.STALE, error="broker 3 does not answer")


def test_old_rates_still_place_what_a_lost_consumer_left() -> None:
    old = [load(tp(i), 50.0, known=False, age_s=99.0) for i in range(3)]
    decision = answer(old, with_orphans(state(owned([0], [1])), 2))
    assert list(decision.actions) == [move(2, None, 0)]


def test_old_rates_start_the_window_anew() -> None:
    old = [load(tp(i), 5.0, known=False, age_s=99.0) for i in range(2)]
    _, history = decide(observation(snapshot(old), state(HALF)), LONG_AGO, policy(), moment(T0))
    assert history.recommendations == ()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0])
def test_a_rate_that_is_none_is_unknown(bad: float) -> None:
    decision = answer([load(tp(0), bad), load(tp(1), 10.0)], state(HALF))
    assert (decision.reason, decision.limited_by) == (Reason.UNDERUSED, Reason.STALE_INPUT)
