"""How a worker gains and loses partitions, and what must hold whatever happens in whatever order."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.handover.records import Expired, Grant, Incarnation, Left, Plan, Released, Reset, Tp
from autoscaler.handover.worker_events import (
    Drained,
    Effect,
    Elapsed,
    Event,
    HeartbeatAcked,
    Lapse,
    Leave,
    OffsetsRead,
    OffsetsUnread,
    OutOfRange,
    ReadOffsets,
    ReleaseLost,
    SendLeft,
    SendReleased,
    Start,
    StopFetching,
    Taking,
)
from autoscaler.handover.worker_state import NOWHERE
from tests.handover.worker_driver import P0, P1, A, B, C, Driven, G, L, T, X, plan, released, sent

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
    assert w.state.out_of_range == {P0: NOWHERE}
    w.feed(HeartbeatAcked(stamp=w.beats[-1].stamp, offset=1), 0.1)
    w.feed(Elapsed(), 0.2)
    assert w.beats[-1].out_of_range == ((P0, NOWHERE),)
    told = replace(plan(2, {P0: (A, 1)}), resets={P0: Reset(offset=NOWHERE, start=7, epoch=2)})
    assert w.read(told) == [ReadOffsets(asked=((P0, 1),))]
    taking = Taking(tp=P0, epoch=1, offset=7, unclaimed=True)
    assert w.feed(OffsetsRead(offsets=((P0, 1, None),))) == [Start(takings=(taking,))]
    assert w.state.out_of_range == {}


def test_a_partition_that_goes_elsewhere_is_no_longer_said_to_stand_still() -> None:
    w = Driven().joined()
    w.read(plan(1, {P0: (A, 1)}))
    w.feed(OffsetsRead(offsets=((P0, 1, None),)))
    w.read(plan(2, {P0: (B, 2)}, {P0: {A: 2}}))
    assert w.state.out_of_range == {}


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


# --- whatever happens ---

WORKERS = st.sampled_from([A, B, X])
TPS = st.sampled_from([P0, P1])


@st.composite
def events(draw: st.DrawFn) -> list[tuple[str, object]]:
    kinds = st.sampled_from(
        ["plan", "plan", "released", "over", "ack", "drained", "offsets", "time", "time", "leave", "lost", "out_of_range"]
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
            case "out_of_range" if owns:
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
