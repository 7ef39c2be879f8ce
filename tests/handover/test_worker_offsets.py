"""The worker's rules of where to begin, and of offsets that stand still."""

from dataclasses import replace

import pytest

from autoscaler.handover.records import RECOMMIT_S, Incarnation, Plan, Reset, recommit_s
from autoscaler.handover.worker_events import Elapsed, HeartbeatAcked, OffsetsRead, OutOfRange, ReadOffsets, Start, Taking
from tests.handover.worker_driver import P0, A, B, Driven, plan, sent

# --- rule 5: out of range ---


def out_of_range() -> Driven:
    """Return a worker that holds a partition whose next offset, 9, the log does not hold; the clock stands at 1 s."""
    w = Driven().joined().holding()
    assert w.feed(OutOfRange(tp=P0, offset=9), 1.0) == []
    return w


def reset(number: int, start: int, offset: int = 9, owner: Incarnation = A) -> Plan:
    made = plan(number, {P0: (owner, 1 if owner == A else number)})
    return replace(made, resets={P0: Reset(offset=offset, start=start, epoch=number)})


def test_an_offset_out_of_range_is_told_and_the_partition_stands_still_and_stays_owned() -> None:
    w = out_of_range()
    w.feed(HeartbeatAcked(stamp=w.beats[-1].stamp, offset=9))
    w.feed(Elapsed(), 1.5)
    assert (w.beats[-1].out_of_range, w.beats[-1].owned) == (((P0, 9),), {P0: 1})
    assert w.feed(Elapsed(), 2.1) == [ReadOffsets(asked=((P0, 1),))], "somebody may have reset it by hand"
    assert w.feed(OffsetsRead(offsets=((P0, 1, 9),))) == []


def test_it_goes_on_where_the_plan_says_and_claims_that_first() -> None:
    w = out_of_range()
    assert w.read(reset(2, 40)) == [ReadOffsets(asked=((P0, 1),))]
    (start,) = w.feed(OffsetsRead(offsets=((P0, 1, 9),)))
    assert start == Start(takings=(Taking(tp=P0, epoch=1, offset=40, unclaimed=True),))
    assert w.state.out_of_range == {}


def test_a_reset_of_another_offset_than_the_committed_one_is_not_followed() -> None:
    w = out_of_range()
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
    w = out_of_range()
    assert sent(w.read(plan(2, {P0: (B, 2)}, {P0: {A: 2}}))) == [(P0, 2, -1)]
    assert w.state.out_of_range == {}


def test_out_of_range_and_told_to_give_it_up_at_once_it_is_drained() -> None:
    w = Driven().joined().holding()
    w.read(plan(2, {P0: (B, 2)}, {P0: {A: 2}}))
    assert sent(w.feed(OutOfRange(tp=P0, offset=9))) == [(P0, 2, 9)]


def test_an_older_plan_changes_nothing() -> None:
    w = Driven().joined().holding(P0, 5)
    assert w.read(plan(4, {P0: (B, 4)}, {P0: {A: 4}})) == []


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
