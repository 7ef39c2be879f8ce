"""Partitions that nobody gets (rule 9): named in every decision, counted in none."""

from dataclasses import replace

from autoscaler.config.policy import Policy
from autoscaler.core.decide import decide
from autoscaler.model import Decision, GroupState, MovePartition, Parked, ParkPartition, Reason, TopicPartition
from autoscaler.model.findings import What
from tests.builders import T0, load, members, moment, observation, owned, policy, rates, says, snapshot, state, tp
from tests.core.answers import LONG_AGO


def parked(group: GroupState, *partitions: int, planned: bool = True) -> GroupState:
    return replace(group, parked={tp(p): Parked(owners=3, offset=57, planned=planned) for p in partitions})


def answer(loads: dict[TopicPartition, float], group: GroupState, rules: Policy | None = None) -> Decision:
    return decide(observation(loads, group), LONG_AGO, rules or policy(), moment(T0))[0]


def test_the_cycle_that_sees_the_third_loss_parks_and_places_what_else_was_lost() -> None:
    group = replace(state(owned([0], [])), orphans=frozenset({tp(1), tp(2)}))
    decision = answer(rates(70, 10, 10), parked(group, 1, planned=False))
    assert decision.reason is Reason.WORKER_LOST
    assert decision.actions == (
        ParkPartition(partition=tp(1), owners=3, offset=57),
        MovePartition(partition=tp(2), source=None, target=0),
    )
    assert (decision.parked, tp(1) in decision.target) == ((tp(1),), False)
    assert says(decision, What.PARKED, partitions=(tp(1),), offset=57, owners=3)


def test_what_is_parked_is_said_in_every_cycle_and_nothing_is_done_about_it() -> None:
    decision = answer(rates(70, 70, 10), parked(state(owned([0], [1])), 2))
    assert (decision.reason, decision.actions, decision.hot) == (Reason.STUCK_PARTITION, (), (tp(2),))
    assert decision.findings[0].what is What.PARKED
    assert decision.findings[0].partitions == (tp(2),)


def test_a_parked_partition_neither_grows_the_group_nor_keeps_it_large() -> None:
    busy = parked(state(owned([0], [1])), 2)
    assert answer(rates(70, 70, 5000), busy).actions == ()
    calm = answer(rates(30, 30, 70), busy, policy(shrink_stabilisation_s=0, shrink_cooldown_s=0))
    assert (calm.reason, calm.consumers) == (Reason.UNDERUSED, 1)


def test_its_backlog_keeps_no_consumer_and_is_counted() -> None:
    loads = [load(tp(0), 30), load(tp(1), 30), load(tp(2), 5, lag_s=900.0, lag_records=400)]
    group = parked(state(owned([0], [1])), 2)
    rules = policy(shrink_stabilisation_s=0, shrink_cooldown_s=0)
    decision = decide(observation(snapshot(loads), group), LONG_AGO, rules, moment(T0))[0]
    assert (decision.reason, decision.limited_by, decision.total_lag_records) == (Reason.UNDERUSED, None, 400)


def test_its_old_measurement_holds_nobody() -> None:
    loads = [load(tp(0), 70), load(tp(1), 5, known=False, age_s=500.0, error="broker 0 does not answer")]
    decision = decide(observation(snapshot(loads), parked(state(owned([0])), 1)), LONG_AGO, policy(), moment(T0))[0]
    assert decision.reason is Reason.STUCK_PARTITION


def test_a_released_partition_is_placed_like_a_new_one() -> None:
    decision = answer(rates(30, 10), state(owned([0])))
    assert decision.actions == (MovePartition(partition=tp(1), source=None, target=0),)
    assert says(decision, What.PARTITIONS_ADDED)


def test_a_group_with_nothing_else_left_keeps_one_consumer() -> None:
    decision = answer(rates(70, 70), parked(state({}, live=[0, 1, 2]), 0, 1))
    assert (decision.reason, decision.requested) == (Reason.STUCK_PARTITION, frozenset({0}))


def test_foreign_members_are_answered_by_doing_nothing_at_all() -> None:
    group = replace(parked(state(owned([0])), 1, planned=False), orphans=frozenset({tp(1)}))
    decision = decide(observation(rates(70, 10), group, members([1])), LONG_AGO, policy(), moment(T0))[0]
    assert (decision.reason, decision.actions) == (Reason.PAUSED, ())
