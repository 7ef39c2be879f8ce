"""Rule 9: what counts as a loss, when a partition is parked, and what an operator's release does."""

from dataclasses import replace

import pytest

from autoscaler.handover.controller_state import ControllerState
from autoscaler.handover.planning import next_plan
from autoscaler.handover.poison_partitions import Reached, counted, poisonous, uncounted
from autoscaler.handover.records import Incarnation, Left, Loss, Plan, Released, Tp, Unparked
from tests.handover.controller_driver import CONTROL, LEASE, P0, P1, TOPIC, A, B, C, G, Log, alive, intended

D, E = (Incarnation(n, f"{n}-uuid") for n in "de")
PARK_AFTER = 3


def behind(*tps: Tp, committed: int = 5, end: int = 9) -> dict[Tp, Reached]:
    return dict.fromkeys(tps, Reached(committed=committed, end=end))


def lose(log: Log, tp: Tp, owner: Incarnation, *, committed: int = 5) -> frozenset[Tp]:
    """Give a partition to an owner that takes it and expires, and return what is to be parked then."""
    log.beat(owner)
    log.say(next_plan(log.state, intended({tp: owner})))
    log.beat(owner, {tp: log.state.plan.epoch.number if log.state.plan else 0})
    log.expired(owner)
    return publish(log, {}, committed=committed)


def publish(log: Log, owners: dict[Tp, Incarnation], *, committed: int = 5) -> frozenset[Tp]:
    """Publish as the adapter does: losses counted, poison parked."""
    losses = counted(log.state, behind(*uncounted(log.state), committed=committed))
    parked = poisonous(losses, PARK_AFTER)
    log.say(next_plan(log.state, replace(intended(owners), losses=losses, parked=parked)))
    return parked


def plan_of(log: Log) -> Plan:
    assert log.state.plan is not None
    return log.state.plan


def test_the_third_owner_in_a_row_that_is_lost_at_one_offset_parks_the_partition() -> None:
    log = alive(E)
    assert [lose(log, P0, w) for w in (A, B, C)] == [frozenset(), frozenset(), {P0}]
    plan = plan_of(log)
    assert plan.parked == {P0: plan.epoch.number}
    assert P0 not in plan.grants
    assert log.state.orphans() == frozenset()


def test_an_offset_that_advanced_starts_the_count_anew() -> None:
    log = alive(E)
    lost = [lose(log, P0, w, committed=at) for w, at in ((A, 5), (B, 5), (C, 6), (D, 6))]
    assert lost == [frozenset()] * 4
    assert plan_of(log).losses[P0].owners == 2


def test_a_partition_without_anything_to_process_is_not_poison() -> None:
    log = alive(E)
    for worker in (A, B, C, D):
        assert lose(log, P0, worker, committed=9) == frozenset()
    assert plan_of(log).losses == {}


@pytest.mark.parametrize(("start", "parks"), [({P0: 9}, False), ({P0: 8}, True), ({}, True)])
def test_where_nothing_was_ever_committed_its_start_says_whether_there_is_something_to_process(
    start: dict[Tp, int],
    parks: bool,  # noqa: FBT001
) -> None:
    log = alive(A)
    log.plan({P0: A}, starts=start)
    log.expired(A)
    assert (P0 in counted(log.state, behind(P0, committed=-1))) is parks


def test_an_owner_is_counted_once_however_many_plans_find_it_gone() -> None:
    log = alive(E)
    lose(log, P0, A)
    for _ in range(4):
        assert publish(log, {}) == frozenset()
    assert plan_of(log).losses[P0].owners == 1


def test_a_loss_whose_offset_could_not_be_read_is_not_counted() -> None:
    log = alive(E)
    lose(log, P0, A)
    log.beat(B)
    log.plan({P0: B})
    log.expired(B)
    assert uncounted(log.state) == {P0}
    assert counted(log.state, {}) == {}


def test_who_releases_and_leaves_has_lost_nothing() -> None:
    """A rolling deployment: every owner goes in order, and nothing was processed because nothing came."""
    log = alive(E)
    for worker in (A, B, C, D):
        log.beat(worker)
        log.plan({P0: worker})
        log.beat(worker, {P0: plan_of(log).epoch.number})
        log.released(P0, worker, plan_of(log).epoch.number)
        log.say(Left(group=G, worker=worker, control_id=CONTROL))
        assert publish(log, {}) == frozenset()
    assert plan_of(log).losses == {}


def test_a_planned_move_is_no_loss() -> None:
    log = alive(A, B, E)
    log.plan({P0: A})
    log.beat(A, {P0: plan_of(log).epoch.number})
    log.plan({P0: B})
    log.released(P0, A, plan_of(log).epoch.number)
    log.expired(A)
    assert log.state.lost() == {}


def test_who_leaves_before_it_took_the_partition_has_not_lost_it() -> None:
    log = alive(A)
    log.plan({P0: A})
    log.say(Left(group=G, worker=A, control_id=CONTROL))
    assert log.state.lost() == {}


def test_who_lapses_has_lost_what_it_held_although_it_says_that_it_has_left() -> None:
    log = alive(A)
    log.plan({P0: A})
    log.beat(A, {P0: plan_of(log).epoch.number})
    log.say(Left(group=G, worker=A, control_id=CONTROL))
    assert set(log.state.lost()) == {P0}


@pytest.mark.parametrize("told", ["expired", "left"])
def test_who_was_heard_last_before_nobody_was_has_lost_nothing(told: str) -> None:
    """The brokers were away: they took no commit either, time and again, and everybody's lease ended."""
    log = alive(E)
    for worker in (A, B, C, D):
        log.beat(worker)
        log.plan({P0: worker})
        log.beat(worker, {P0: plan_of(log).epoch.number})
        log.at += LEASE
        log.tick(0.0, None)
        log.expired(worker) if told == "expired" else log.say(Left(group=G, worker=worker, control_id=CONTROL))
        assert publish(log, {}) == frozenset()
    assert plan_of(log).losses == {}


def test_who_falls_silent_while_others_are_heard_has_lost_what_it_held() -> None:
    log = alive(A, E)
    log.plan({P0: A})
    for _ in range(8):
        log.at += LEASE / 4
        log.beat(E)
    log.expired(A)
    assert set(log.state.lost()) == {P0}


def test_an_error_of_the_application_is_a_loss_although_the_brokers_were_away_then() -> None:
    log = alive(A)
    log.plan({P0: A})
    log.at += LEASE
    log.tick(0.0, None)
    log.say(Released(group=G, tp=P0, worker=A, control_id=CONTROL, epoch=plan_of(log).epoch.number, offset=5, failed=True))
    log.say(Left(group=G, worker=A, control_id=CONTROL))
    assert set(log.state.lost()) == {P0}


def test_who_expires_while_another_still_holds_the_partition_has_not_lost_it() -> None:
    log = alive(A, B, E)
    log.plan({P0: A})
    log.beat(A, {P0: plan_of(log).epoch.number})
    log.plan({P0: B})  # and A does not let go
    log.expired(B)
    assert log.state.lost() == {}


def test_who_expires_before_a_heartbeat_names_the_partition_may_have_been_killed_by_it() -> None:
    log = alive(A)
    log.plan({P0: A})
    log.expired(A)
    assert set(log.state.lost()) == {P0}


@pytest.mark.parametrize("failed", [{P1}, set()])
def test_an_error_of_the_application_is_a_loss_of_the_partition_in_work_only(failed: set[Tp]) -> None:
    log = alive(A)
    log.plan({P0: A, P1: A})
    number = plan_of(log).epoch.number
    log.beat(A, {P0: number, P1: number})
    for tp in (P0, P1):
        said = Released(group=G, tp=tp, worker=A, control_id=CONTROL, epoch=number, offset=5, failed=tp in failed)
        log.say(said)
    log.say(Left(group=G, worker=A, control_id=CONTROL))
    assert set(log.state.lost()) == failed


def test_what_is_parked_stays_so_from_plan_to_plan_whatever_is_wanted() -> None:
    log = alive(E)
    for worker in (A, B, C):
        lose(log, P0, worker)
    at = plan_of(log).parked[P0]
    publish(log, {P0: E, P1: E})
    assert plan_of(log).parked == {P0: at}
    assert set(plan_of(log).grants) == {P1}


def test_a_restarted_controller_goes_on_counting_from_what_the_log_holds_after_compaction() -> None:
    log = alive(E)
    lose(log, P0, A)
    lose(log, P0, B)
    again = Log()
    again.say(plan_of(log))
    again.expired(B)  # its record stays as long as the plan names it
    again.beat(E)
    assert lose(again, P0, C) == {P0}


def test_an_operator_releases_a_partition_which_then_begins_at_nothing() -> None:
    log = alive(E)
    for worker in (A, B, C):
        lose(log, P0, worker)
    log.say(Unparked(group=G, tp=P0, control_id=CONTROL, epoch=plan_of(log).parked[P0]))
    assert not log.state.parked()
    assert log.state.unparked() == {P0}
    publish(log, {P0: E})
    assert (plan_of(log).grants[P0].owner, plan_of(log).parked, plan_of(log).losses) == (E, {}, {})
    assert ("unparked", G, TOPIC, 0) in log.state.forgettable(0)


def test_a_release_of_an_earlier_parking_does_not_release_the_next_one() -> None:
    log = alive(E)
    for worker in (A, B, C):
        lose(log, P0, worker)
    late = Unparked(group=G, tp=P0, control_id=CONTROL, epoch=plan_of(log).parked[P0])
    log.say(late)
    again = [Incarnation(f"w{n}", f"w{n}-uuid") for n in range(3)]
    assert [lose(log, P0, w) for w in again] == [frozenset(), frozenset(), {P0}]
    log.say(late)
    assert set(log.state.parked()) == {P0}


def test_a_release_that_is_waited_for_is_not_forgotten() -> None:
    log = alive(E)
    for worker in (A, B, C):
        lose(log, P0, worker)
    log.say(Unparked(group=G, tp=P0, control_id=CONTROL, epoch=plan_of(log).parked[P0]))
    assert not [k for k in log.state.forgettable(0) if k[0] == "unparked"]
    log.state.forget(("unparked", G, TOPIC, 0))
    assert set(log.state.parked()) == {P0}


def test_a_release_of_another_group_or_control_topic_counts_for_nothing() -> None:
    log = alive(E)
    for worker in (A, B, C):
        lose(log, P0, worker)
    log.say(Unparked(group="other", tp=P0, control_id=CONTROL, epoch=99))
    log.say(Unparked(group=G, tp=P0, control_id="other", epoch=99))
    assert set(log.state.parked()) == {P0}


def test_what_is_parked_or_has_lost_its_owner_is_kept_by_the_controller_alone() -> None:
    log = alive(D, E)
    for worker in (A, B, C):
        lose(log, P0, worker)
    log.plan({P1: D})
    assert log.state.unattended() == {P0}
    log.expired(D)
    assert log.state.unattended() == {P0, P1}


def test_nothing_is_parked_where_the_setting_says_never() -> None:
    assert poisonous({P0: Loss(owners=99, offset=0, epoch=1)}, None) == frozenset()


def test_a_topic_made_anew_is_another_topic() -> None:
    log = alive(E)
    for worker in (A, B, C):
        lose(log, P0, worker)
    plan = next_plan(log.state, intended({}, topics={"new-id": "orders"}, partitions=()))
    assert (plan.parked, plan.losses) == ({}, {})


def test_without_a_plan_nobody_has_lost_anything() -> None:
    state = ControllerState(G, CONTROL, LEASE)
    assert (state.lost(), state.parked(), state.unparked(), uncounted(state)) == ({}, {}, frozenset(), frozenset())


def test_what_is_parked_stays_so_while_its_topic_is_not_seen_and_is_forgotten_with_it() -> None:
    log = alive(E)
    for worker in (A, B, C):
        lose(log, P0, worker)
    parked_at = plan_of(log).parked[P0]
    log.say(next_plan(log.state, replace(intended({}), topics={}, partitions=frozenset())))
    assert (plan_of(log).parked, plan_of(log).losses[P0].owners) == ({P0: parked_at}, 3)
    log.beat(D)
    log.say(next_plan(log.state, intended({P0: D})))
    assert (plan_of(log).parked, plan_of(log).grants) == ({P0: parked_at}, {})
    log.say(next_plan(log.state, replace(intended({}), topics={"another-id": next(iter(plan_of(log).topics.values()))})))
    assert (plan_of(log).parked, plan_of(log).losses) == ({}, {}), "a topic made anew is another one"
