"""The worker's rules one by one, and what must hold whatever happens in whatever order."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.handover.messages import (
    Drained,
    Effect,
    Elapsed,
    Event,
    HeartbeatAcked,
    HeartbeatFailed,
    Lapse,
    Leave,
    LogRead,
    OffsetsRead,
    OffsetsUnread,
    OutOfRange,
    ReadOffsets,
    Ready,
    ReleaseLost,
    SendHeartbeat,
    SendLeft,
    SendReleased,
    Start,
    StopFetching,
    Taking,
)
from autoscaler.handover.records import (
    RECOMMIT_S,
    Epoch,
    Expired,
    Grant,
    Heartbeat,
    Incarnation,
    Left,
    Phase,
    Plan,
    Released,
    Reset,
    Tp,
    Wait,
    recommit_s,
)
from autoscaler.handover.worker_state import NOWHERE, WorkerState, step

G, C, T, L = "g", "control-id", "topic-id", 10.0
A, B, X = (Incarnation(n, f"{n}-uuid") for n in "abx")
P0, P1 = Tp(T, 0), Tp(T, 1)


def plan(
    number: int,
    owners: dict[Tp, tuple[Incarnation, int]],
    waits: dict[Tp, dict[Incarnation, int]] | None = None,
    starts: dict[Tp, int] | None = None,
) -> Plan:
    return Plan(
        group=G,
        epoch=Epoch(C, number),
        topics={T: "topic"},
        grants={tp: Grant(owner=w, epoch=e) for tp, (w, e) in owners.items()},
        waits={tp: tuple(Wait(worker=w, epoch=e) for w, e in ws.items()) for tp, ws in (waits or {}).items()},
        starts=starts or {},
        leases_s={},
        requested=(),
        summary="",
        at=0.0,
    )


def released(worker: Incarnation, epoch: int, tp: Tp = P0) -> Released:
    return Released(group=G, tp=tp, worker=worker, control_id=C, epoch=epoch, offset=5)


@dataclass
class Driven:
    """A worker fed by hand; ``did`` collects everything but heartbeats."""

    state: WorkerState = field(default_factory=lambda: WorkerState(group=G, me=A, control_id=C, lease_s=L, max_batch_s=50.0))
    now: float = 0.0
    beats: list[Heartbeat] = field(default_factory=list)

    def feed(self, event: Event, at: float | None = None) -> list[Effect]:
        self.now = self.now if at is None else at
        self.state, effects = step(self.state, event, self.now)
        self.beats += [e.heartbeat for e in effects if isinstance(e, SendHeartbeat)]
        return [e for e in effects if not isinstance(e, SendHeartbeat)]

    def read(self, *records: Plan | Expired | Released | Left | tuple[str | int, ...]) -> list[Effect]:
        return self.feed(LogRead(records=records))

    def joined(self) -> "Driven":
        self.feed(Elapsed())
        self.feed(HeartbeatAcked(stamp=self.beats[-1].stamp, offset=0))
        return self

    def holding(self, tp: Tp = P0, number: int = 1) -> "Driven":
        assert self.read(plan(number, {tp: (A, number)})) == [ReadOffsets(asked=((tp, number),))]
        taking = Taking(tp=tp, epoch=number, offset=5, unclaimed=False)
        assert self.feed(OffsetsRead(offsets=((tp, number, 5),))) == [Start(takings=(taking,))]
        return self


def sent(effects: Iterable[Effect]) -> list[tuple[Tp, int, int]]:
    return [(e.released.tp, e.released.epoch, e.released.offset) for e in effects if isinstance(e, SendReleased)]


# --- rule 6: the lease ---


def test_heartbeats_go_out_ten_times_a_lease_and_one_at_a_time() -> None:
    w = Driven()
    w.feed(Elapsed(), 0.0)
    w.feed(Elapsed(), 3.0)
    assert [h.stamp for h in w.beats] == [0.0]  # the first is still in flight
    w.feed(HeartbeatAcked(stamp=0.0, offset=7))
    w.feed(Elapsed(), 3.5)
    assert [(h.stamp, h.acked) for h in w.beats] == [(0.0, None), (3.0, 7)]
    w.feed(HeartbeatAcked(stamp=3.0, offset=9), 3.6)
    for t in (3.9, 4.0, 4.5):
        w.feed(Elapsed(), t)
    assert [h.stamp for h in w.beats] == [0.0, 3.0, 4.0]


def test_a_lease_counts_from_the_stamp_of_the_acknowledged_heartbeat() -> None:
    w = Driven()
    w.feed(Elapsed(), 1.0)
    assert w.state.valid_until == float("-inf")  # not before the first acknowledgement
    w.feed(HeartbeatAcked(stamp=1.0, offset=0), 9.0)
    assert w.state.valid_until == 1.0 + L


def test_a_lease_lapses_without_a_first_acknowledgement_and_a_late_one_does_not_revive_it() -> None:
    w = Driven()
    w.feed(Elapsed(), 1.0)
    assert [type(e) for e in w.feed(Elapsed(), 1.0 + L)] == [Lapse]
    assert w.feed(HeartbeatAcked(stamp=1.0, offset=0)) == []
    assert w.state.valid_until == float("-inf")


def test_offsets_of_a_heartbeat_log_made_anew_replace_those_of_the_old_one() -> None:
    """A high offset of a log that is no more would soon pass for evidence in the new one: its own records there are others."""
    w = Driven()
    w.feed(Elapsed(), 0.0)
    w.feed(HeartbeatAcked(stamp=0.0, offset=500), 0.1)
    w.feed(Elapsed(), 2.0)
    w.feed(HeartbeatAcked(stamp=2.0, offset=3), 2.1)
    w.feed(Elapsed(), 4.0)
    assert w.beats[-1].acked == 3


def test_an_acknowledgement_that_comes_after_the_lease_is_itself_the_lapse() -> None:
    w = Driven().joined().holding()
    w.feed(Elapsed(), 2.0)
    assert [type(e) for e in w.feed(HeartbeatAcked(stamp=2.0, offset=1), L)] == [Lapse]
    beats = len(w.beats)
    w.feed(Elapsed(), L + 1)
    assert len(w.beats) == beats  # a lapsed incarnation sends no heartbeat
    assert w.read(plan(2, {P0: (B, 2)}, {P0: {A: 2}})) == []  # nor a release


@pytest.mark.parametrize(
    "record", [Expired(group=G, worker=A, control_id=C, evidence="x"), Left(group=G, worker=A, control_id=C)]
)
def test_reading_of_the_own_end_is_a_lapse(record: Expired | Left) -> None:
    w = Driven().joined().holding()
    assert [type(e) for e in w.read(record)] == [Lapse]


def test_a_heartbeat_that_failed_is_sent_again_at_once() -> None:
    w = Driven()
    w.feed(Elapsed(), 0.0)
    w.feed(HeartbeatFailed(stamp=0.0), 0.2)
    assert [h.stamp for h in w.beats] == [0.0, 0.2]


# --- rule 4: gaining ---


@pytest.mark.parametrize(
    ("records", "starts"),
    [
        pytest.param((released(B, 2),), False, id="released before it was told to"),
        pytest.param((released(B, 3, P1),), False, id="released another partition"),
        pytest.param((released(X, 3),), False, id="released by somebody else"),
        pytest.param((Left(group=G, worker=X, control_id=C),), False, id="somebody else left"),
        pytest.param((released(B, 3),), True, id="released at that epoch"),
        pytest.param((released(B, 4),), True, id="released later"),
        pytest.param((released(B, 3), ("released", G, T, 0, B.name, B.uuid)), False, id="a release whose key was deleted"),
        pytest.param((released(B, 4), released(B, 2)), True, id="an older release read again"),
        pytest.param((Left(group=G, worker=B, control_id=C),), True, id="left"),
        pytest.param((Expired(group=G, worker=B, control_id=C, evidence="platform"),), True, id="expired"),
    ],
)
def test_a_partition_is_taken_only_when_its_waits_are_over(
    records: tuple[Released | Left | Expired, ...], *, starts: bool
) -> None:
    w = Driven().joined()
    assert w.read(plan(3, {P0: (A, 3)}, {P0: {B: 3}})) == []
    assert w.read(*records) == ([ReadOffsets(asked=((P0, 3),))] if starts else [])


def test_every_wait_counts() -> None:
    w = Driven().joined()
    w.read(plan(3, {P0: (A, 3)}, {P0: {B: 3, X: 2}}))
    assert w.read(released(B, 3)) == []
    assert w.read(released(X, 2)) == [ReadOffsets(asked=((P0, 3),))]


def test_nothing_is_taken_before_the_first_acknowledgement() -> None:
    w = Driven()
    w.feed(Elapsed())
    assert w.read(plan(1, {P0: (A, 1)})) == []
    assert w.feed(HeartbeatAcked(stamp=0.0, offset=0)) == [ReadOffsets(asked=((P0, 1),))]


def test_an_offset_that_arrives_after_the_plan_changed_starts_nothing() -> None:
    w = Driven().joined()
    w.read(plan(1, {P0: (A, 1)}))
    assert sent(w.read(plan(2, {P0: (B, 2)}, {P0: {A: 2}}))) == [(P0, 2, -1)]  # not held: answered at once
    assert w.feed(OffsetsRead(offsets=((P0, 1, 5),))) == []


def test_an_offset_asked_under_an_older_grant_is_not_used_for_a_newer_one() -> None:
    w = Driven().joined()
    w.read(plan(1, {P0: (A, 1)}))
    assert w.read(plan(3, {P0: (A, 3)}, {P0: {B: 3}})) == []
    assert w.feed(OffsetsRead(offsets=((P0, 1, 5),))) == []
    assert w.read(released(B, 3)) == [ReadOffsets(asked=((P0, 3),))]


def test_an_offset_that_arrives_after_the_lease_or_while_leaving_starts_nothing() -> None:
    w = Driven().joined()
    w.read(plan(1, {P0: (A, 1)}))
    assert [type(e) for e in w.feed(OffsetsRead(offsets=((P0, 1, 5),)), L)] == [Lapse]
    w = Driven().joined()
    w.read(plan(1, {P0: (A, 1)}))
    assert [type(e) for e in w.feed(Leave())] == [SendLeft]
    assert w.feed(OffsetsRead(offsets=((P0, 1, 5),))) == []


def test_the_first_owner_starts_where_the_plan_says_and_claims_it() -> None:
    w = Driven().joined()
    w.read(plan(1, {P0: (A, 1)}, starts={P0: 42}))
    taking = Taking(tp=P0, epoch=1, offset=42, unclaimed=True)
    assert w.feed(OffsetsRead(offsets=((P0, 1, None),))) == [Start(takings=(taking,))]


def test_a_committed_offset_wins_over_the_plans_start() -> None:
    w = Driven().joined()
    w.read(plan(1, {P0: (A, 1)}, starts={P0: 42}))
    taking = Taking(tp=P0, epoch=1, offset=7, unclaimed=False)
    assert w.feed(OffsetsRead(offsets=((P0, 1, 7),))) == [Start(takings=(taking,))]


@pytest.mark.parametrize("answer", [OffsetsRead(offsets=((P0, 1, None),)), OffsetsUnread(asked=((P0, 1),))])
def test_without_a_start_or_an_answer_it_asks_again_later(answer: Event) -> None:
    w = Driven().joined()
    w.read(plan(1, {P0: (A, 1)}))
    assert w.feed(answer) == []
    assert w.feed(Elapsed(), 0.5) == []
    assert w.feed(Elapsed(), 1.5) == [ReadOffsets(asked=((P0, 1),))]


def test_where_neither_an_offset_nor_a_start_is_known_the_controller_learns_it_and_says_where_to_begin() -> None:
    """An operator has deleted the group's offsets, or a late commit on a topic that is no more hides them."""
    w = Driven().joined()
    w.read(plan(1, {P0: (A, 1)}))
    w.feed(OffsetsRead(offsets=((P0, 1, None),)))
    assert w.state.astray == {P0: NOWHERE}
    w.feed(HeartbeatAcked(stamp=w.beats[-1].stamp, offset=1), 0.1)
    w.feed(Elapsed(), 0.2)
    assert w.beats[-1].astray == ((P0, NOWHERE),)
    told = replace(plan(2, {P0: (A, 1)}), resets={P0: Reset(offset=NOWHERE, start=7, epoch=2)})
    assert w.read(told) == [ReadOffsets(asked=((P0, 1),))]
    taking = Taking(tp=P0, epoch=1, offset=7, unclaimed=True)
    assert w.feed(OffsetsRead(offsets=((P0, 1, None),))) == [Start(takings=(taking,))]
    assert w.state.astray == {}


def test_a_partition_that_goes_elsewhere_is_no_longer_said_to_stand_still() -> None:
    w = Driven().joined()
    w.read(plan(1, {P0: (A, 1)}))
    w.feed(OffsetsRead(offsets=((P0, 1, None),)))
    w.read(plan(2, {P0: (B, 2)}, {P0: {A: 2}}))
    assert w.state.astray == {}


def test_a_take_is_told_at_once_and_in_several_heartbeats() -> None:
    w = Driven().joined().holding()
    for t in range(1, 7):
        w.feed(HeartbeatAcked(stamp=w.beats[-1].stamp, offset=t), float(t))
        w.feed(Elapsed())
    told = [h for h in w.beats if h.taken]
    assert told[0].stamp == 0.0
    assert {h.taken for h in told} == {((P0, 1, 5),)}
    assert len(told) > 1
    assert not w.beats[-1].taken
    assert w.beats[-1].owned == {P0: 1}


# --- rule 3: losing ---


def test_a_partition_is_released_after_it_was_drained_and_others_go_on() -> None:
    w = Driven().joined().holding(P0, 1)
    assert w.read(plan(2, {P0: (A, 1), P1: (A, 2)})) == [ReadOffsets(asked=((P1, 2),))]
    w.feed(OffsetsRead(offsets=((P1, 2, 0),)))
    assert w.read(plan(3, {P0: (B, 3), P1: (A, 2)}, {P0: {A: 3}})) == [StopFetching(tps=(P0,))]
    assert w.read(plan(4, {P0: (B, 3), P1: (A, 2)}, {P0: {A: 3}})) == []  # draining: not answered yet
    assert sent(w.feed(Drained(offsets=((P0, 9),)))) == [(P0, 4, 9)]
    assert w.state.active == {P1: 2}


def test_a_wait_is_answered_once_and_again_when_told_at_a_later_epoch() -> None:
    w = Driven().joined()
    assert sent(w.read(plan(2, {P0: (B, 2)}, {P0: {A: 2}}))) == [(P0, 2, -1)]
    assert sent(w.read(plan(3, {P0: (B, 2)}, {P0: {A: 2}}))) == []
    assert sent(w.read(plan(4, {P0: (X, 4)}, {P0: {A: 4}}))) == [(P0, 4, -1)]


def test_a_release_that_did_not_arrive_is_sent_again() -> None:
    w = Driven().joined()
    w.read(plan(2, {P0: (B, 2)}, {P0: {A: 2}}))
    assert sent(w.feed(ReleaseLost(tp=P0, epoch=2))) == [(P0, 2, -1)]
    assert sent(w.feed(ReleaseLost(tp=P0, epoch=1))) == []  # a later one is on its way


def test_given_back_before_it_noticed_it_keeps_the_partition_without_a_pause() -> None:
    w = Driven().joined().holding()
    assert w.read(plan(2, {P0: (B, 2)}, {P0: {A: 2}}), plan(3, {P0: (A, 3)}, {P0: {B: 3}})) == []
    assert w.state.active == {P0: 3}


def test_given_back_while_draining_it_keeps_the_partition_although_the_other_never_answers() -> None:
    w = Driven().joined().holding()
    w.read(plan(2, {P0: (B, 2)}, {P0: {A: 2}}))
    assert w.read(plan(3, {P0: (A, 3)}, {P0: {B: 3}})) == []
    assert w.feed(Drained(offsets=((P0, 9),))) == [ReadOffsets(asked=((P0, 3),))]  # and no release
    taking = Taking(tp=P0, epoch=3, offset=9, unclaimed=False)
    assert w.feed(OffsetsRead(offsets=((P0, 3, 9),))) == [Start(takings=(taking,))]


def test_kept_and_taken_away_again_it_is_released() -> None:
    w = Driven().joined().holding()
    w.read(plan(2, {P0: (B, 2)}, {P0: {A: 2}}))
    w.read(plan(3, {P0: (A, 3)}, {P0: {B: 3}}))
    w.feed(Drained(offsets=((P0, 9),)))
    assert sent(w.read(plan(4, {P0: (B, 4)}, {P0: {A: 4}}))) == [(P0, 4, -1)]
    assert w.feed(OffsetsRead(offsets=((P0, 3, 9),))) == []


def test_given_back_after_the_release_was_sent_it_waits_like_anybody() -> None:
    w = Driven().joined().holding()
    w.read(plan(2, {P0: (B, 2)}, {P0: {A: 2}}))
    assert sent(w.feed(Drained(offsets=((P0, 9),)))) == [(P0, 2, 9)]
    assert w.read(plan(3, {P0: (A, 3)}, {P0: {B: 3}})) == []
    assert w.read(released(B, 3)) == [ReadOffsets(asked=((P0, 3),))]


def test_leaving_releases_everything_and_says_so_last() -> None:
    w = Driven().joined().holding()
    assert w.feed(Leave()) == [StopFetching(tps=(P0,))]
    done = w.feed(Drained(offsets=((P0, 9),)))
    assert sent(done) == [(P0, 1, 9)]
    assert isinstance(done[-1], SendLeft)
    assert w.read(plan(2, {P0: (A, 2)})) == []


def test_leaving_after_an_error_says_in_which_partition_it_was() -> None:
    w = Driven().joined().holding()
    w.read(plan(2, {P0: (A, 1), P1: (A, 2)}))
    w.feed(OffsetsRead(offsets=((P1, 2, 5),)))
    w.feed(Leave(failed=frozenset({P1})))
    done = w.feed(Drained(offsets=((P0, 9), (P1, 5))))
    assert [(e.released.tp, e.released.failed) for e in done if isinstance(e, SendReleased)] == [(P0, False), (P1, True)]


# --- rule 10: idle partitions ---


@pytest.mark.parametrize(
    ("retention_s", "every_s", "why"),
    [(60.0, 15.0, "a quarter"), (7 * 86_400.0, RECOMMIT_S, "never seldom"), (None, RECOMMIT_S, "nobody may say")],
)
def test_what_stands_still_is_committed_again_in_good_time(retention_s: float | None, every_s: float, why: str) -> None:
    w = Driven().joined()
    assert w.state.recommit_s == RECOMMIT_S
    said = None if retention_s is None else recommit_s(retention_s)
    w.read(replace(plan(2, {}), recommit_s=said))
    assert w.state.recommit_s == every_s, why


# --- rule 5: out of range ---


def astray() -> Driven:
    """Return a worker that holds a partition whose next offset, 9, the log does not hold; the clock stands at 1 s."""
    w = Driven().joined().holding()
    assert w.feed(OutOfRange(tp=P0, offset=9), 1.0) == []
    return w


def reset(number: int, start: int, offset: int = 9, owner: Incarnation = A) -> Plan:
    made = plan(number, {P0: (owner, 1 if owner == A else number)})
    return replace(made, resets={P0: Reset(offset=offset, start=start, epoch=number)})


def test_an_offset_out_of_range_is_told_and_the_partition_stands_still_and_stays_owned() -> None:
    w = astray()
    w.feed(HeartbeatAcked(stamp=w.beats[-1].stamp, offset=9))
    w.feed(Elapsed(), 1.5)
    assert (w.beats[-1].astray, w.beats[-1].owned) == (((P0, 9),), {P0: 1})
    assert w.feed(Elapsed(), 2.1) == [ReadOffsets(asked=((P0, 1),))], "somebody may have reset it by hand"
    assert w.feed(OffsetsRead(offsets=((P0, 1, 9),))) == []


def test_it_goes_on_where_the_plan_says_and_claims_that_first() -> None:
    w = astray()
    assert w.read(reset(2, 40)) == [ReadOffsets(asked=((P0, 1),))]
    (start,) = w.feed(OffsetsRead(offsets=((P0, 1, 9),)))
    assert start == Start(takings=(Taking(tp=P0, epoch=1, offset=40, unclaimed=True),))
    assert w.state.astray == {}


def test_a_reset_of_another_offset_than_the_committed_one_is_not_followed() -> None:
    w = astray()
    w.read(reset(2, 40, offset=8))
    assert w.feed(OffsetsRead(offsets=((P0, 1, 9),))) == []
    assert w.feed(Elapsed(), 5.0) == [ReadOffsets(asked=((P0, 1),))]
    found = w.feed(OffsetsRead(offsets=((P0, 1, 30),)))
    assert found == [Start(takings=(Taking(tp=P0, epoch=1, offset=30, unclaimed=False),))], "an operator has committed 30"


def test_the_next_owner_begins_where_the_plan_says_without_trying_the_old_offset() -> None:
    w = Driven().joined()
    assert w.read(reset(2, 40, owner=A)) == [ReadOffsets(asked=((P0, 1),))]
    (start,) = w.feed(OffsetsRead(offsets=((P0, 1, 9),)))
    assert start == Start(takings=(Taking(tp=P0, epoch=1, offset=40, unclaimed=True),))


def test_a_partition_out_of_range_that_is_taken_away_is_released_at_once() -> None:
    w = astray()
    assert sent(w.read(plan(2, {P0: (B, 2)}, {P0: {A: 2}}))) == [(P0, 2, -1)]
    assert w.state.astray == {}


def test_out_of_range_and_told_to_give_it_up_at_once_it_is_drained() -> None:
    w = Driven().joined().holding()
    w.read(plan(2, {P0: (B, 2)}, {P0: {A: 2}}))
    assert sent(w.feed(OutOfRange(tp=P0, offset=9))) == [(P0, 2, 9)]


def test_an_older_plan_changes_nothing() -> None:
    w = Driven().joined().holding(P0, 5)
    assert w.read(plan(4, {P0: (B, 4)}, {P0: {A: 4}})) == []


# --- rule 7: progress ---


def test_an_application_that_does_not_return_is_stuck_and_then_silent() -> None:
    w = Driven().joined().holding()
    for t in range(1, 130):
        w.feed(HeartbeatAcked(stamp=w.beats[-1].stamp, offset=t), float(t))
        w.feed(Elapsed(busy_since=0.0))
    assert [h.phase for h in w.beats].count(Phase.STUCK) > 1
    assert w.state.lapsed
    assert w.beats[-1].stamp <= 2 * w.state.max_batch_s + 1


def test_a_control_log_that_cannot_be_read_makes_it_stuck_and_then_silent_until_it_is_read_again() -> None:
    w = Driven(state=WorkerState(group=G, me=A, control_id=C, lease_s=100.0, max_batch_s=50.0)).joined()
    w.feed(Ready())
    w.feed(HeartbeatAcked(stamp=w.beats[-1].stamp, offset=2))
    for at, phase in ((50.0, Phase.ACTIVE), (60.0, Phase.STUCK)):
        w.feed(Elapsed(read_at=0.0), at)
        assert w.beats[-1].phase is phase
        w.feed(HeartbeatAcked(stamp=w.beats[-1].stamp, offset=int(at)))
    sent = len(w.beats)
    w.feed(Elapsed(read_at=0.0), 101.0)
    assert len(w.beats) == sent
    w.feed(Elapsed(read_at=101.5), 102.0)
    assert w.beats[-1].phase is Phase.ACTIVE


def test_phases_follow_readiness_and_leaving() -> None:
    w = Driven().joined()
    w.feed(Ready(), 1.0)
    w.feed(HeartbeatAcked(stamp=1.0, offset=1))
    w.holding()
    w.feed(HeartbeatAcked(stamp=w.beats[-1].stamp, offset=2))
    w.feed(Leave(), 2.0)
    assert [h.phase for h in w.beats] == [Phase.JOINING, Phase.ACTIVE, Phase.ACTIVE, Phase.DRAINING]


# --- whatever happens ---

WORKERS = st.sampled_from([A, B, X])
TPS = st.sampled_from([P0, P1])


@st.composite
def events(draw: st.DrawFn) -> list[tuple[str, object]]:
    kinds = st.sampled_from(
        ["plan", "plan", "released", "over", "ack", "drained", "offsets", "time", "time", "leave", "lost", "astray"]
    )
    return [(kind, draw(st.integers(0, 2**16))) for kind in draw(st.lists(kinds, max_size=60))]


@settings(max_examples=400, deadline=None)
@given(events(), st.data())
def test_it_never_fetches_before_its_waits_are_over_nor_acts_after_its_lease(  # noqa: C901, PLR0912, PLR0915  (one case per kind)
    script: list[tuple[str, object]], data: st.DataObject
) -> None:
    """A model of the rules beside the machine: who has released what, and what this worker still owns."""
    w = Driven()
    number, epochs, over, answered = 0, dict[tuple[Tp, Incarnation], int](), set[Incarnation](), dict[Tp, int]()
    owns: set[Tp] = set()  # from the start until its release is sent
    fetching: set[Tp] = set()
    standing: set[Tp] = set()  # because 3, which is committed, is out of range
    asked: list[tuple[Tp, int]] = []
    newest: Plan | None = None
    dead = False
    for kind, _ in script:
        effects: list[Effect] = []
        match kind:
            case "plan":
                number += data.draw(st.integers(1, 2))
                owners = {tp: (data.draw(WORKERS), number) for tp in (P0, P1) if data.draw(st.booleans())}
                waits = {
                    tp: {x: data.draw(st.integers(1, number)) for x in data.draw(st.sets(WORKERS)) if x != o}
                    for tp, (o, _) in owners.items()
                }
                newest = plan(number, owners, {tp: ws for tp, ws in waits.items() if ws}, starts={P0: 0, P1: 0})
                reset = data.draw(st.sets(st.sampled_from((P0, P1))))
                newest = replace(newest, resets={tp: Reset(offset=3, start=7, epoch=number) for tp in reset})
                effects = w.read(newest)
            case "released":
                tp, by = data.draw(TPS), data.draw(st.sampled_from([B, X]))
                epoch = data.draw(st.integers(0, number + 1))
                epochs[tp, by] = max(epoch, epochs.get((tp, by), epoch))
                effects = w.read(released(by, epoch, tp))
            case "over":
                by = data.draw(st.sampled_from([B, X, X, X, A]))
                over.add(by)
                effects = w.read(Left(group=G, worker=by, control_id=C))
            case "ack" if w.beats:
                effects = w.feed(HeartbeatAcked(stamp=w.beats[-1].stamp, offset=len(w.beats)))
            case "drained":
                effects = w.feed(Drained(offsets=tuple((tp, 1) for tp in sorted(owns - fetching))))
            case "offsets":
                effects = w.feed(OffsetsRead(offsets=tuple((tp, e, data.draw(st.none() | st.just(3))) for tp, e in asked)))
                asked = []
            case "time":
                effects = w.feed(Elapsed(), w.now + data.draw(st.floats(0, 4)))
            case "lost":
                tp = data.draw(TPS)
                effects = w.feed(ReleaseLost(tp=tp, epoch=answered.get(tp, 0)))
            case "astray" if owns:
                tp = data.draw(st.sampled_from(sorted(owns)))
                standing |= {tp} & fetching
                fetching.discard(tp)
                effects = w.feed(OutOfRange(tp=tp, offset=3))
            case "leave" if data.draw(st.integers(0, 5)) == 0:
                effects = w.feed(Leave())
            case _:
                pass
        for effect in effects:
            assert not dead, f"{effect} after the end"
            match effect:
                case ReadOffsets(asked=more):
                    asked += more
                case Start(takings=takings):
                    assert w.now < w.state.valid_until
                    for t in takings:
                        assert newest is not None
                        assert newest.grants[t.tp] == Grant(owner=A, epoch=t.epoch)
                        assert t.tp not in fetching
                        assert (t.offset == 7) <= (t.tp in newest.resets), "a jump that no plan says"
                        assert (t.tp in standing) <= (t.offset != 3), "out of range again"
                        standing.discard(t.tp)
                        waits_now = newest.waits.get(t.tp, ())
                        assert t.tp in owns or all(
                            x.worker in over or epochs.get((t.tp, x.worker), -1) >= x.epoch for x in waits_now
                        )
                        owns.add(t.tp)
                        fetching.add(t.tp)
                case StopFetching(tps=tps):
                    assert set(tps) <= fetching
                    fetching -= set(tps)
                case SendReleased(released=r):
                    assert r.tp not in fetching
                    assert r.epoch == number
                    owns.discard(r.tp)
                    standing.discard(r.tp)
                    answered[r.tp] = r.epoch
                case SendLeft():
                    assert not owns
                    dead = True
                case Lapse():
                    dead = True
                case _:
                    pass
        if not dead and w.state.acked_stamp is not None and newest is not None and not w.state.leaving:
            for tp, ws in newest.waits.items():  # whoever waits for this worker is answered as soon as it can be
                if tp not in owns and any(x.worker == A for x in ws):
                    assert answered.get(tp, -1) >= max(x.epoch for x in ws if x.worker == A)
