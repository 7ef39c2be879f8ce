"""What the two logs say about a group, and the next plan: rules 2, 4, 8, 11 and 12, each with what a wrong reading would do."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from autoscaler.handover.controller_state import ControllerState
from autoscaler.handover.expiry import margin_s
from autoscaler.handover.planning import Intended, next_plan
from autoscaler.handover.records import (
    Epoch,
    Expired,
    Grant,
    Heartbeat,
    Incarnation,
    Left,
    Phase,
    Plan,
    Released,
    Tick,
    Tp,
    Unparked,
    Wait,
)

G, CONTROL, TOPIC = "g", "control-id", "topic-id"
LEASE = 10.0
SPAN = LEASE + margin_s(LEASE)
A, B, C = (Incarnation(n, f"{n}-uuid") for n in "abc")
P0, P1, P2 = (Tp(TOPIC, n) for n in range(3))


class Log:
    """Feeds a state as the adapter does, with offsets that grow; ``at`` is the broker's time."""

    def __init__(self, *, group: str = G) -> None:
        self.state = ControllerState(group, CONTROL, LEASE)
        self.state.log.started(0)
        self.offset = self.control = 0
        self.at = 1000.0

    def beat(
        self,
        worker: Incarnation,
        owned: Mapping[Tp, int] | None = None,
        *,
        epoch: int = 0,
        taken: tuple[tuple[Tp, int, int], ...] = (),
        instance: str | None = None,
        stamp: float = 0.0,
        acked: int | None = None,
        group: str = G,
        exactly_once: bool = False,
    ) -> None:
        record = Heartbeat(
            group=group,
            worker=worker,
            stamp=stamp,
            boot_id="boot",
            acked=acked,
            lease_s=LEASE,
            epoch=epoch,
            phase=Phase.ACTIVE,
            owned=dict(owned or {}),
            taken=taken,
            instance=instance,
            exactly_once=exactly_once,
        )
        self.state.fold(record, offset=self.offset, at=self.at)
        self.offset += 1

    def tick(self, stamp: float, acked: int | None) -> None:
        self.state.fold(
            Tick(group=G, incarnation="controller", stamp=stamp, boot_id="boot", acked=acked), offset=self.offset, at=self.at
        )
        self.offset += 1

    def say(self, record: Plan | Expired | Released | Left | Unparked) -> None:
        self.state.fold(record, offset=self.control, at=self.at)
        self.control += 1

    def released(self, tp: Tp, worker: Incarnation, epoch: int, *, control: str = CONTROL, group: str = G) -> None:
        self.say(Released(group=group, tp=tp, worker=worker, control_id=control, epoch=epoch, offset=7))

    def expired(self, worker: Incarnation, *, control: str = CONTROL, group: str = G) -> None:
        self.say(Expired(group=group, worker=worker, control_id=control, evidence="platform"))

    def plan(self, owners: Mapping[Tp, Incarnation], *, starts: Mapping[Tp, int] | None = None) -> Plan:
        plan = next_plan(self.state, intended(owners, starts=starts))
        self.say(plan)
        return plan


def intended(
    owners: Mapping[Tp, Incarnation],
    *,
    topics: Mapping[str, str] | None = None,
    partitions: Iterable[Tp] = (P0, P1, P2),
    starts: Mapping[Tp, int] | None = None,
) -> Intended:
    return Intended(
        owners=owners,
        topics={TOPIC: "orders"} if topics is None else topics,
        partitions=frozenset(partitions),
        starts=starts or {},
        requested=(0, 1),
        summary="why",
        at=5.0,
    )


def alive(*workers: Incarnation) -> Log:
    """Return a group whose first plan is behind it, with these workers."""
    log = Log()
    log.plan({})
    for worker in workers:
        log.beat(worker)
    return log


def waits(plan: Plan, tp: Tp) -> set[tuple[Incarnation, int]]:
    return {(w.worker, w.epoch) for w in plan.waits.get(tp, ())}


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
