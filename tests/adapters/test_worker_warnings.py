"""What an operator is told of workers that the plan cannot reach, or that go by another lease: once per incarnation."""

import pytest

from autoscaler.adapters.control_log.worker_warnings import DRIFT_OVER_S, WorkerWarnings
from autoscaler.handover.controller_state import ControllerState
from autoscaler.handover.records import Heartbeat, Incarnation, Left, Phase

NAMES = {"g-0": 0}


def heartbeat(worker: Incarnation, lease_s: float = 3.0, *, stamp: float = 1.0) -> Heartbeat:
    return Heartbeat(
        group="g", worker=worker, stamp=stamp, boot_id="b", acked=None, lease_s=lease_s, epoch=0, phase=Phase.ACTIVE, owned={}
    )


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [r.getMessage() for r in caplog.records]
    caplog.clear()
    return found


def test_a_worker_of_no_slot_is_named_once_per_incarnation(caplog: pytest.LogCaptureFixture) -> None:
    state, warnings = ControllerState("g", "c", 3.0), WorkerWarnings("g", NAMES.get, 3.0)
    known, stranger, again = Incarnation("g-0", "1"), Incarnation("host-12", "2"), Incarnation("host-12", "3")
    state.fold(heartbeat(known), offset=0, at=0.0)
    warnings.say(state)
    assert said(caplog) == []
    state.fold(heartbeat(stranger), offset=1, at=0.0)
    for _ in range(3):
        warnings.say(state)
    (line,) = said(caplog)
    assert "host-12/2" in line
    assert "no slot of this group has its name" in line
    assert "AUTOSCALER_WORKER_NAME" in line
    state.fold(Left(group="g", worker=stranger, control_id="c"), offset=2, at=0.0)
    state.fold(heartbeat(again), offset=3, at=0.0)
    warnings.say(state)
    (line,) = said(caplog)
    assert "host-12/3" in line


def test_who_is_over_already_is_not_remarked_upon(caplog: pytest.LogCaptureFixture) -> None:
    state, warnings, stranger = ControllerState("g", "c", 3.0), WorkerWarnings("g", NAMES.get, 3.0), Incarnation("host-12", "2")
    state.fold(heartbeat(stranger), offset=1, at=0.0)
    state.fold(Left(group="g", worker=stranger, control_id="c"), offset=2, at=0.0)
    warnings.say(state)
    assert said(caplog) == []


def test_a_lease_other_than_the_configured_one_is_said(caplog: pytest.LogCaptureFixture) -> None:
    state, warnings = ControllerState("g", "c", 3.0), WorkerWarnings("g", NAMES.get, 3.0)
    state.fold(heartbeat(Incarnation("g-0", "1"), lease_s=90.0), offset=0, at=0.0)
    for _ in range(2):
        warnings.say(state)
    (line,) = said(caplog)
    assert "its lease is 90 s and handover.lease is 3 s" in line


def test_a_worker_of_no_slot_with_another_lease_gets_one_line_that_says_both(caplog: pytest.LogCaptureFixture) -> None:
    state, warnings = ControllerState("g", "c", 3.0), WorkerWarnings("g", NAMES.get, 3.0)
    state.fold(heartbeat(Incarnation("host-12", "1"), lease_s=90.0), offset=0, at=0.0)
    warnings.say(state)
    (line,) = said(caplog)
    assert "no slot of this group has its name" in line
    assert "its lease is 90 s" in line


@pytest.mark.parametrize(("ratio", "slow"), [(0.9, True), (0.94, True), (0.96, False), (1.0, False), (1.2, False)])
def test_a_clock_that_goes_slowly_beside_the_brokers_is_said_once(
    ratio: float,
    slow: bool,  # noqa: FBT001  (a case)
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A slow clock makes a lease too long; a fast one only too short."""
    state, warnings, worker = ControllerState("g", "c", 3.0), WorkerWarnings("g", NAMES.get, 3.0), Incarnation("g-0", str(ratio))
    for n, passed_s in enumerate((0.0, 0.5, 0.99, 1.0, 2.0)):
        at = passed_s * DRIFT_OVER_S
        state.fold(heartbeat(worker, stamp=7.0 + ratio * at), offset=n, at=5000.0 + at)
        warnings.say(state)
        if passed_s < 1:
            assert said(caplog) == [], "too near for a heartbeat that was late"
    assert len(said(caplog)) == slow
