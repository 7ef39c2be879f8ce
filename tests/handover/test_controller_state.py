"""What a controller makes of its logs: who is over, what has arrived, what may go."""

import pytest

from autoscaler.handover.planning import next_plan
from autoscaler.handover.records import Incarnation, Left
from tests.handover.controller_driver import CONTROL, P0, P1, SPAN, TOPIC, A, B, C, G, Log, alive, intended

# --- who is over ---


def test_an_ended_instance_is_over_by_the_platform_whenever_it_is_told() -> None:
    log = alive()
    log.beat(A, instance="i-1")
    log.state.ended(["i-1", "i-2"])
    log.beat(B, instance="i-2")  # read after it was told
    log.beat(C, instance="i-3")
    assert log.state.to_expire() == {A: "platform", B: "platform"}


def test_every_life_of_an_ended_process_is_over() -> None:
    log = alive()
    again = Incarnation(A.name, "second-life")
    log.beat(A, instance="i-1")
    log.beat(again, instance="i-1")
    log.state.ended(["i-1"])
    assert set(log.state.to_expire()) == {A, again}


def test_silence_that_the_controllers_own_ticks_measure_is_the_end() -> None:
    log = alive(A)
    log.tick(0.0, None)
    log.tick(1.0, log.offset - 1)
    log.tick(0.9 + SPAN, log.offset - 1)
    assert log.state.to_expire() == {}
    log.tick(1.0 + SPAN, log.offset - 1)
    assert log.state.to_expire() == {A: "heartbeats"}
    log.expired(A)
    assert log.state.to_expire() == {}


def test_one_heartbeat_in_between_begins_the_lease_anew() -> None:
    log = alive(A)
    log.tick(0.0, None)
    log.tick(1.0, log.offset - 1)
    log.beat(A, stamp=9.0)
    log.tick(1.0 + SPAN, log.offset - 2)
    assert log.state.to_expire() == {}


def test_other_workers_stamps_count_so_a_restarted_controller_does_not_start_over() -> None:
    log = alive(A)
    log.beat(B, stamp=0.0)
    log.beat(B, stamp=1.0, acked=log.offset - 1)
    log.beat(B, stamp=1.0 + SPAN, acked=log.offset - 1)
    assert log.state.to_expire() == {A: "heartbeats"}


def test_another_groups_workers_measure_time_and_are_nobody_here() -> None:
    log = alive(A)
    log.beat(B, stamp=0.0, group="another")
    log.beat(B, stamp=1.0, acked=log.offset - 1, group="another")
    log.beat(B, stamp=1.0 + SPAN, acked=log.offset - 1, group="another")
    assert log.state.to_expire() == {A: "heartbeats"}
    assert set(log.state.beats) == {A}


def test_a_worker_that_only_the_plan_names_is_not_forgotten() -> None:
    before = alive(A)
    plan = before.plan({P0: A})
    log = Log()  # restarted; the heartbeats of a are gone
    log.say(plan)
    log.tick(0.0, None)
    log.tick(1.0, 0)
    assert log.state.to_expire() == {}
    log.tick(1.0 + SPAN, 1)
    assert log.state.to_expire() == {A: "heartbeats"}


def test_a_gap_in_the_heartbeats_begins_everything_anew() -> None:
    log = alive(A)
    log.tick(0.0, None)
    log.tick(1.0, log.offset - 1)
    log.offset = 50
    log.state.log.started(50)
    log.tick(1.0 + SPAN, 2)
    assert log.state.to_expire() == {}


def test_silence_of_the_unknown_is_proven_only_by_a_whole_span_of_an_own_record() -> None:
    log = Log()
    log.tick(0.0, None)
    log.tick(1.0, 0)
    assert not log.state.silence_proven()
    log.tick(1.0 + SPAN, 1)
    assert log.state.silence_proven()


# --- what has arrived ---


def test_a_partition_is_pending_until_its_owner_says_that_it_holds_it() -> None:
    log = alive(A)
    log.plan({P0: A})
    assert log.state.pending() == {P0}
    log.beat(A, {P0: 1}, epoch=1)  # an earlier grant's
    assert log.state.pending() == {P0}
    log.beat(A, {P0: 2}, epoch=2)
    assert log.state.pending() == frozenset()


def test_who_kept_a_partition_that_was_given_back_holds_it_once_it_has_read_that_plan() -> None:
    log = alive(A, B)
    log.plan({P0: A})
    log.beat(A, {P0: 2}, epoch=2)
    log.plan({P0: B})
    log.expired(B)
    log.plan({P0: A})
    assert log.state.pending() == {P0}
    log.beat(A, {P0: 2}, epoch=4)
    assert log.state.pending() == frozenset()


def test_an_arrival_is_told_once_with_the_brokers_times_of_release_and_taking() -> None:
    log = alive(A, B)
    log.plan({P0: A})
    log.beat(A, {P0: 2}, epoch=2, taken=((P0, 2, 5),))
    (first,) = log.state.moved()
    assert (first.source, first.owner, first.released_at, first.offset) == (None, A, None, 5)
    log.plan({P0: B})
    log.at = 2000.0
    log.released(P0, A, 3)
    log.at = 2000.03
    log.beat(B, {P0: 3}, epoch=3, taken=((P0, 3, 9),))
    log.at = 2001.0
    log.beat(B, {P0: 3}, epoch=3, taken=((P0, 3, 9),))
    (moved,) = log.state.moved()
    assert (moved.tp, moved.topic, moved.epoch, moved.source, moved.owner, moved.offset) == (P0, "orders", 3, A, B, 9)
    assert (moved.released_at, moved.taken_at) == (2000.0, 2000.03)
    assert log.state.moved() == ()


def test_the_release_of_an_earlier_move_is_not_taken_for_this_ones() -> None:
    log = alive(A, B)
    log.plan({P0: A})
    log.plan({P0: B})
    log.released(P0, A, 3)
    log.plan({P0: A})
    log.released(P0, B, 4)
    log.plan({P0: B})  # a is told again, and dies before it answers
    log.expired(A)
    log.beat(B, {P0: 5}, epoch=5)
    (moved,) = log.state.moved()
    assert (moved.source, moved.released_at) == (A, None)


def test_what_was_held_before_the_log_begins_is_no_arrival() -> None:
    before = alive(A)
    plan = before.plan({P0: A})
    log = Log()
    log.say(plan)
    log.beat(A, {P0: 2}, epoch=2)
    log.beat(A, {P0: 2}, epoch=2)
    assert log.state.moved() == ()
    assert log.state.pending() == frozenset()


def test_after_compaction_the_waits_tell_where_a_partition_came_from() -> None:
    before = alive(A, B)
    before.plan({P0: A})
    plan = before.plan({P0: B})
    log = Log()
    log.say(plan)
    log.released(P0, A, 3)
    log.beat(B, {P0: 3}, epoch=3, taken=((P0, 3, 9),))
    (moved,) = log.state.moved()
    assert (moved.source, moved.released_at) == (A, 1000.0)


# --- clean-up ---


def test_records_of_somebody_over_go_once_no_plan_names_it_and_its_heartbeats_have_left_the_log() -> None:
    log = alive(A, B)
    log.plan({P0: A})
    log.released(P1, A, 2)
    log.expired(A)
    assert log.state.forgettable(100) == (), "the plan names it as owner"
    log.plan({P0: B})
    assert log.state.forgettable(0) == (), "a retained heartbeat would bring a ghost back"
    keys = log.state.forgettable(100)
    assert keys == (("expired", G, "a", "a-uuid"), ("left", G, "a", "a-uuid"), ("released", G, TOPIC, 1, "a", "a-uuid"))
    for key in keys:
        log.state.forget(key)
    assert log.state.forgettable(100) == ()
    assert A not in log.state.named()
    assert A not in log.state.over


@pytest.mark.parametrize("came", ["expired", "left"])
def test_a_tombstone_that_came_without_the_other_is_followed_by_both(came: str) -> None:
    """A transaction that was sent by half may be committed by the next one: what it did not delete must not stay."""
    log = alive(A, B)
    log.plan({P0: B})
    log.say(Left(group=G, worker=A, control_id=CONTROL))
    log.expired(A)
    keys = log.state.forgettable(100)
    log.state.forget((came, G, "a", "a-uuid"))
    assert log.state.forgettable(100) == keys
    for key in keys:
        log.state.forget(key)
    assert log.state.forgettable(100) == ()


def test_who_is_waited_for_is_not_forgotten() -> None:
    log = alive(A, B)
    log.plan({P0: A})
    log.plan({P0: B})
    log.expired(A)
    assert log.state.forgettable(100) == ()
    log.plan({})
    assert log.state.forgettable(100) != ()


def test_other_groups_tombstones_are_not_ours() -> None:
    log = alive(A)
    log.expired(A)
    log.state.forget(("expired", "another", "a", "a-uuid"))
    log.state.forget(("plan", G))
    assert A in log.state.over


def test_the_same_records_give_the_same_state_after_a_restart() -> None:
    first, second = alive(A, B), alive(A, B)
    for log in (first, second):
        log.plan({P0: A, P1: B})
        log.released(P0, A, 2)
        log.expired(B)
    assert next_plan(first.state, intended({P1: A})) == next_plan(second.state, intended({P1: A}))


def test_releases_of_who_died_with_the_heartbeat_log_are_deleted_once_silence_is_proven() -> None:
    """Nobody can expire an incarnation of which no heartbeat is left and that no plan names; its releases must not stay."""
    log = alive(B)
    log.released(P0, A, 1)
    assert log.state.forgettable(10) == ()
    log.tick(0.0, 0)
    log.tick(SPAN, 1)
    assert ("released", G, TOPIC, 0, "a", "a-uuid") in log.state.forgettable(10)
    assert {key[3] for key in log.state.forgettable(10) if key[0] != "released"} == {"a-uuid"}  # and nobody else's


def test_a_release_goes_with_the_plan_after_the_one_that_does_not_wait_for_it_any_more() -> None:
    log = alive(A, B, C)
    log.plan({P0: A, P1: A})
    number = log.plan({P0: B, P1: A}).epoch.number
    log.released(P0, A, number)
    assert log.state.spent() == (), "the partition has not arrived"
    log.beat(B, {P0: number})
    assert log.state.spent() == (), "the latest plan waits for it"
    log.plan({P0: B, P1: C})
    assert log.state.spent() == (("released", G, TOPIC, 0, "a", "a-uuid"),)
    log.state.forget(log.state.spent()[0])
    assert log.state.spent() == ()


def test_an_owners_own_release_stays() -> None:
    """Who is told to end releases what it owns: whether it lost it is looked at when its end is seen."""
    log = alive(A, B)
    number = log.plan({P0: A}).epoch.number
    log.beat(A, {P0: number})
    log.released(P0, A, number)
    assert log.state.spent() == ()
    log.expired(A)
    assert log.state.lost() == {}


def test_without_a_plan_no_release_is_spent() -> None:
    log = Log()
    log.released(P0, A, 1)
    assert log.state.spent() == ()
