"""The figures that a decision carries, what is remembered after it, and what is unknown and not none."""

from dataclasses import replace

import pytest

from autoscaler.core.decide import History, decide, hold
from autoscaler.core.group.history import Intent
from autoscaler.core.rules.rest import rest, rest_counted
from autoscaler.core.rules.tables import MANAGED, NATIVE, PLACED, UNMANAGED
from autoscaler.model import Finding, LoadSnapshot, Reason, WorkerPhase
from autoscaler.model.findings import What
from tests.builders import T0, load, members, moment, observation, owned, policy, rates, says, snapshot, state, tp, worker
from tests.core.answers import HALF, LONG_AGO, answer


def test_figures_are_those_of_the_cycle() -> None:
    decision = answer(
        [load(tp(0), 30.0, lag_records=7), load(tp(1), 60.0, lag_records=5), load(tp(2), 0.0)], state(owned([0], [1, 2]))
    )
    assert decision.decision_id == f"g/{int(T0 * 1000)}"
    assert (decision.group, decision.at, decision.mode, decision.epoch) == ("g", T0, "act", 7)
    assert (decision.total_bytes_per_s, decision.total_lag_records) == (90, 12)
    assert (decision.usable_bytes_per_s, decision.capacity_bytes_per_s) == (80, 100)
    assert (decision.consumers_now, decision.consumers, decision.recommended, decision.lower_bound) == (2, 2, 2, 2)
    assert decision.imbalance == pytest.approx(60 / 45)
    assert (decision.r_score, decision.oversized) == (0, ())
    assert (decision.algorithm, decision.policy_fingerprint) == ("PACE balanced", policy().fingerprint)


def test_consumers_that_were_not_looked_at_are_unknown_and_not_none() -> None:
    assert answer(rates(50), None, policy(mode="advise")).consumers_now is None
    assert answer(rates(50), None, policy(mode="advise"), foreign=members()).consumers_now == 0
    assert answer(rates(50), state({})).consumers_now == 0


def test_an_unknown_lag_makes_the_sum_unknown() -> None:
    assert answer([load(tp(0), 30.0, lag_records=None), load(tp(1), 60.0, lag_records=5)], state(HALF)).total_lag_records is None


def test_doing_nothing_leaves_the_target_as_observed() -> None:
    group = state({**HALF, tp(9): 1})  # a partition that the measurement does not list is still owned
    decision = answer(rates(70, 70), group)
    assert decision.actions == ()
    assert dict(decision.target) == dict(group.owner)


def test_holding_carries_the_figures_and_does_nothing() -> None:
    decision = hold(
        observation(rates(90, 90), state(owned([0, 1]))),
        History(),
        policy(),
        moment(T0),
        Reason.NOT_READY,
        Finding.of(What.FAILED, error="the log cannot be read"),
    )
    assert (decision.reason, decision.actions, decision.detail) == (Reason.NOT_READY, (), "the log cannot be read")
    assert (decision.total_bytes_per_s, sorted(decision.requested)) == (180, [0])


@pytest.mark.parametrize(
    ("epoch", "scaled_at", "moved_at", "why"),
    [
        (8, T0 - 1, T0 - 1, "the plan was published: its time counts"),
        (7, None, None, "the plan was not published: nothing has happened"),
    ],
)
def test_only_what_was_published_counts_as_done(epoch: int, scaled_at: float | None, moved_at: float | None, why: str) -> None:
    history = History(intent=Intent(epoch=7, scales=True, moves=True))
    group = state(HALF, epoch=epoch, plan_at=T0 - 1)
    _, after = decide(observation(rates(70, 70), group), history, policy(), moment(T0))
    assert (after.last_scale_at, after.last_move_at) == (scaled_at, moved_at), why


def test_a_restart_assumes_that_the_latest_plan_did_everything() -> None:
    history = History.from_plan(T0)
    assert (history.last_scale_at, history.last_move_at, history.recommendations) == (T0, T0, ())
    assert History.from_plan(None) == History()


def test_the_window_is_bounded_and_reaches_back_to_its_start() -> None:
    history = LONG_AGO
    for second in range(500):
        _, history = decide(observation(rates(70, 70), state(HALF)), history, policy(), moment(T0 + second))
    times = [t - T0 for t, _ in history.recommendations]
    assert (times[0], times[-1], len(times)) == (499 - 120, 499, 121)


def test_a_consumer_owed_a_partition_that_is_not_listed_comes_before_one_that_only_still_holds() -> None:
    """Both must not end; the one that the plan names is paid for, so that the maximum is not passed."""
    joining = tuple(worker(slot, [tp(0), tp(1), tp(2)], WorkerPhase.JOINING) for slot in (0, 1))
    group = state({tp(2): 1}, workers=joining, requested=(), pending=frozenset({tp(2)}), epoch=0, plan_at=None)
    decision, _ = decide(observation(rates(0.0), group), History(), policy(max_consumers=1), moment(T0))
    assert (decision.reason, decision.requested) == (Reason.PARTITIONS_CHANGED, frozenset({1}))


def test_a_lost_partition_waits_for_the_consumer_that_is_owed_one_that_is_not_listed() -> None:
    """It is paid for: neither another one is asked for beside it, nor one given something that nobody asked for."""
    nobody = state({tp(1): 1}, workers=(), requested=(), orphans=frozenset({tp(0)}), epoch=0, plan_at=None)
    decision, _ = decide(observation(rates(0.0), nobody), History(), policy(max_consumers=1), moment(T0))
    assert (decision.reason, decision.limited_by, decision.requested) == (Reason.WORKER_LOST, Reason.NOT_READY, frozenset({1}))
    assert says(decision, What.NO_TAKER, consumers=(1,))

    there = (worker(1, [], WorkerPhase.JOINING), worker(2, [tp(0)]))
    unasked = replace(nobody, workers=there)
    decision, _ = decide(observation(rates(0.0), unasked), History(), policy(max_consumers=1), moment(T0))
    assert (decision.reason, decision.requested) == (Reason.WORKER_LOST, frozenset({1}))
    assert decision.target == {tp(1): 1}


def test_the_rules_end_with_one_that_always_answers() -> None:
    for rules in (MANAGED, UNMANAGED, PLACED, NATIVE):
        assert rules[-1] in {rest, rest_counted}


def test_records_of_unknown_age_keep_a_group_from_shrinking() -> None:
    idle = [load(tp(p), 0.0, lag_records=1_000_000, lag_s=None) for p in range(4)]
    history = History(recommendations=tuple((T0 - 200 + 10 * i, 1) for i in range(20)))
    answer, _ = decide(observation(snapshot(idle), state(owned([0], [1], [2], [3]))), history, policy(), moment(T0))
    assert (answer.reason, answer.limited_by) == (Reason.UNDERUSED, Reason.BACKLOG)
    assert not answer.actions
    assert says(answer, What.BEHIND_UNKNOWN)


def test_a_load_that_was_never_measured_is_not_recorded_as_none() -> None:
    answer, _ = decide(observation({tp(0): None, tp(1): None}, state(owned([0, 1]))), History(), policy(), moment(T0))
    assert answer.total_bytes_per_s is None
    measured, _ = decide(observation(rates(0.0, 0.0), state(owned([0, 1]))), History(), policy(), moment(T0))
    assert measured.total_bytes_per_s == 0.0


def test_a_topic_that_cannot_be_described_is_no_topic_without_load() -> None:
    two = policy(topics=("orders", "gone"))
    history = History(recommendations=tuple((T0 - 200 + 10 * i, 1) for i in range(20)))
    seen = snapshot(rates(5.0, 5.0, 5.0, 5.0), error="gone: TOPIC_AUTHORIZATION_FAILED")
    answer, after = decide(observation(seen, state(owned([0], [1], [2], [3]))), history, two, moment(T0))
    assert (answer.reason, answer.limited_by) == (Reason.UNDERUSED, Reason.STALE_INPUT)
    assert not answer.actions
    assert says(answer, What.TOPICS_NOT_MEASURED, topics="gone", error="gone: TOPIC_AUTHORIZATION_FAILED")
    assert (T0, 1) not in after.recommendations  # what was recommended without it counts for nothing later


def test_a_broker_that_cannot_be_reached_is_named_before_anything_else_is_missing() -> None:
    native = policy(mode="advise", assignment="native")
    seen = snapshot({}, error="no broker answers at 127.0.0.1:9")
    answer, _ = decide(observation(seen, None, None), History(), native, moment(T0))
    assert answer.reason is Reason.NOT_READY
    assert "no broker answers at 127.0.0.1:9" in answer.detail


def _partly_read(*, unread: int, age_s: float = 2.0) -> LoadSnapshot:
    """Return four partitions at a quarter of a consumer each, of which so many could not be read."""
    away = {"known": False, "age_s": age_s, "error": "broker 1 does not answer"}
    return snapshot([load(tp(n), 20.0, **(away if n < unread else {})) for n in range(4)])


@pytest.mark.parametrize("unread", [4, 3, 0])
def test_a_cluster_of_which_nothing_can_be_read_is_said_while_its_last_rates_are_still_good(unread: int) -> None:
    answer, _ = decide(observation(_partly_read(unread=unread), state(owned([0, 1, 2, 3]))), History(), policy(), moment(T0))
    assert answer.reason is Reason.WITHIN_TARGET
    assert says(answer, What.NOTHING_MEASURED, listed=4, error="broker 1 does not answer") is (unread == 4)


def test_what_could_not_be_read_is_said_once() -> None:
    answer, _ = decide(
        observation(_partly_read(unread=4, age_s=900.0), state(owned([0, 1, 2, 3]))), History(), policy(), moment(T0)
    )
    assert answer.reason is Reason.STALE_INPUT
    assert answer.detail.count("broker 1 does not answer") == 1
