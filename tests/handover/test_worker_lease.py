"""The worker's rules of time: its lease, heartbeats, and an application or a log that does not answer."""

import pytest

from autoscaler.handover.records import Expired, Left, Phase
from autoscaler.handover.worker_events import Elapsed, HeartbeatAcked, HeartbeatFailed, Lapse, Leave, Ready
from autoscaler.handover.worker_state import WorkerState
from tests.handover.worker_driver import P0, A, B, C, Driven, G, L, plan

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
