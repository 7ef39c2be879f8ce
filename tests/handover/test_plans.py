"""What a plan says, whom it waits for and what it must not forget."""

from dataclasses import replace

import pytest

from autoscaler.handover.controller_state import ControllerState
from autoscaler.handover.planning import next_plan
from autoscaler.handover.records import Epoch, Grant, Incarnation, Left, Plan, Tp, Wait
from tests.handover.controller_driver import CONTROL, LEASE, P0, P1, P2, TOPIC, A, B, C, G, Log, alive, intended, waits

# --- plans ---


def test_a_plan_says_who_owns_what_since_when_and_what_an_epoch_needs() -> None:
    plan = alive(A, B).plan({P0: A, P1: B}, starts={P2: 17})
    assert plan.epoch == Epoch(CONTROL, 2)
    assert plan.grants == {P0: Grant(owner=A, epoch=2), P1: Grant(owner=B, epoch=2)}
    assert plan.waits == {}
    assert plan.starts == {P2: 17}
    assert plan.leases_s == {A: LEASE, B: LEASE}
    assert (plan.topics, plan.requested, plan.summary, plan.at) == ({TOPIC: "orders"}, (0, 1), "why", 5.0)


def test_who_keeps_a_partition_keeps_its_fencing_token() -> None:
    log = alive(A, B)
    log.plan({P0: A, P1: A})
    plan = log.plan({P0: A, P1: B})
    assert plan.grants == {P0: Grant(owner=A, epoch=2), P1: Grant(owner=B, epoch=3)}


def test_a_partition_that_the_intent_does_not_name_keeps_its_owner() -> None:
    log = alive(A)
    log.plan({P0: A})
    assert log.plan({}).grants == {P0: Grant(owner=A, epoch=2)}


def test_the_previous_planned_owner_is_waited_for_at_the_new_epoch() -> None:
    log = alive(A, B)
    log.plan({P0: A})
    assert waits(log.plan({P0: B}), P0) == {(A, 3)}


def test_a_planned_owner_that_never_started_is_waited_for_too() -> None:
    log = alive(A, B, C)
    log.plan({P0: A})
    log.plan({P0: B})
    log.released(P0, A, 3)  # b may start now, and has not said so
    assert waits(log.plan({P0: C}), P0) == {(B, 4)}


def test_an_unsatisfied_wait_is_carried_forward() -> None:
    log = alive(A, B)
    log.plan({P0: A})
    log.plan({P0: B})
    assert waits(log.plan({P1: A}), P0) == {(A, 3)}


@pytest.mark.parametrize(("epoch", "expected"), [(2, {(A, 3)}), (3, set()), (4, set())])
def test_only_a_release_at_that_epoch_or_later_satisfies_a_wait(epoch: int, expected: set[tuple[Incarnation, int]]) -> None:
    log = alive(A, B)
    log.plan({P0: A})
    log.plan({P0: B})
    log.released(P0, A, epoch)
    assert waits(log.plan({}), P0) == expected


def test_a_late_release_of_an_earlier_epoch_does_not_undo_a_later_one() -> None:
    log = alive(A, B)
    log.plan({P0: A})
    log.plan({P0: B})
    log.released(P0, A, 3)
    log.released(P0, A, 2)
    assert log.state.unreleased(P0) == ()


def test_a_wait_for_somebody_over_is_satisfied() -> None:
    log = alive(A, B)
    log.plan({P0: A})
    log.plan({P0: B})
    log.expired(A)
    assert waits(log.plan({}), P0) == set()


def test_a_wait_for_somebody_who_left_is_satisfied() -> None:
    log = alive(A, B)
    log.plan({P0: A})
    log.plan({P0: B})
    log.say(Left(group=G, worker=A, control_id=CONTROL))
    assert log.state.unreleased(P0) == ()


def test_an_unreleased_partition_is_not_moved_again() -> None:
    log = alive(A, B, C)
    log.plan({P0: A})
    log.plan({P0: B})
    plan = log.plan({P0: C})
    assert plan.grants[P0] == Grant(owner=B, epoch=3)
    assert waits(plan, P0) == {(A, 3)}


def test_an_unreleased_partition_whose_new_owner_is_gone_is_moved_and_still_waits_for_the_old_one() -> None:
    log = alive(A, B, C)
    log.plan({P0: A})
    log.plan({P0: B})
    log.expired(B)
    plan = log.plan({P0: C})
    assert plan.grants[P0] == Grant(owner=C, epoch=4)
    assert waits(plan, P0) == {(A, 3)}


def test_a_partition_that_goes_back_before_it_was_released_does_not_wait_for_its_own_owner() -> None:
    log = alive(A, B)
    log.plan({P0: A})
    log.plan({P0: B})
    log.expired(B)
    plan = log.plan({P0: A})
    assert plan.grants[P0].owner == A
    assert plan.waits == {}


def test_nothing_is_granted_to_somebody_over() -> None:
    log = alive(A, B)
    log.plan({P0: A})
    log.expired(B)
    assert log.plan({P0: B, P1: B}).grants == {P0: Grant(owner=A, epoch=2)}


def test_an_orphan_goes_to_its_new_owner_without_a_wait() -> None:
    log = alive(A, B)
    log.plan({P0: A})
    log.expired(A)
    assert log.state.orphans() == {P0}
    assert log.plan({P0: B}).waits == {}


def test_partitions_of_a_topic_made_anew_are_other_partitions() -> None:
    log = alive(A)
    log.plan({P0: A})
    plan = next_plan(log.state, intended({Tp("new-id", 0): A}, topics={"new-id": "orders"}, partitions=[Tp("new-id", 0)]))
    assert set(plan.grants) == {Tp("new-id", 0)}


def test_a_start_once_published_stays_until_something_is_committed() -> None:
    log = alive(A)
    log.plan({}, starts={P0: 100, P1: 5})
    plan = log.plan({P0: A}, starts={P0: 900})
    assert plan.starts == {P0: 100}


def test_the_first_plan_waits_for_everybody_in_the_heartbeat_log_for_every_partition() -> None:
    log = Log()
    for worker in (A, B, C):
        log.beat(worker)
    log.expired(C)
    plan = log.plan({P0: A})
    assert plan.epoch.number == 1
    assert waits(plan, P0) == {(B, 1)}
    assert waits(plan, P1) == waits(plan, P2) == {(A, 1), (B, 1)}


def test_the_first_plans_waits_hold_for_owners_that_come_with_later_plans() -> None:
    log = Log()
    log.beat(A)
    log.plan({})
    log.beat(B)
    assert waits(log.plan({P0: B}), P0) == {(A, 1)}


def test_epochs_only_grow_and_a_plan_of_another_control_topic_is_none() -> None:
    log = alive(A)
    second = log.plan({P0: A})
    foreign = next_plan(ControllerState(G, "another-id", LEASE), intended({}))
    for number in (1, 99):
        old = Plan(
            group=G,
            epoch=Epoch("another-id" if number == 99 else CONTROL, number),
            topics=foreign.topics,
            grants={},
            waits={P0: (Wait(worker=A, epoch=1),)},
            starts={},
            leases_s={},
            requested=(),
            summary="old",
            at=0.0,
        )
        log.say(old)
        assert log.state.plan == second


@pytest.mark.parametrize(("control", "group"), [("another-id", G), (CONTROL, "another-group")])
def test_records_of_another_control_topic_or_group_say_nothing(control: str, group: str) -> None:
    log = alive(A, B)
    log.plan({P0: A})
    log.plan({P0: B})
    log.released(P0, A, 3, control=control, group=group)
    log.expired(B, control=control, group=group)
    assert waits(log.plan({}), P0) == {(A, 3)}
    assert log.state.orphans() == set()


# --- what a plan must not forget -------------------------------------------------------------------------------------


def test_a_topic_that_is_not_seen_for_one_plan_loses_nobodys_wait() -> None:
    """One answer of a broker misses it: the old owner may still be at its batch when the topic is seen again."""
    log = alive(A, B)
    log.plan({P0: A})
    unseen = next_plan(log.state, intended({}, topics={}, partitions=()))
    log.say(unseen)
    assert (unseen.grants, unseen.waits) == ({}, {P0: (Wait(worker=A, epoch=unseen.epoch.number),)})
    again = log.plan({P0: B})
    assert again.grants[P0].owner == B
    assert [w.worker for w in again.waits[P0]] == [A]
    log.released(P0, A, unseen.epoch.number)
    assert log.state.unreleased(P0) == ()


def test_tokens_go_on_when_the_control_topic_is_made_anew() -> None:
    """A heartbeat, or what stands beside a committed offset, still names the epochs of the old one."""
    log = Log()
    log.beat(A, {P0: 41}, epoch=44)
    assert log.plan({P0: A}).epoch.number == 45
    fresh = Log()
    fresh.beat(A)
    assert next_plan(fresh.state, replace(intended({P0: A}), epochs_before=5000)).epoch.number == 5001


def test_a_log_that_has_lost_its_end_is_as_good_as_none() -> None:
    """Workers have read plan 9, which is no more: its number is not used again, and whoever it told something is waited for."""
    log = alive(A, B)
    log.plan({P0: A})
    log.beat(B, {P0: 9}, epoch=9)
    plan = next_plan(log.state, intended({P0: A}))
    assert plan.epoch.number == 10
    assert [w.worker for w in plan.waits[P0]] == [B]
