"""What an operator is told of workers that the plan cannot reach, or that go by another lease: once per incarnation."""

import pytest

from autoscaler.adapters.remarks import Remarks
from autoscaler.handover.controller_state import ControllerState
from autoscaler.handover.records import Heartbeat, Incarnation, Left, Phase

NAMES = {"g-0": 0}


def heartbeat(worker: Incarnation, lease_s: float = 3.0) -> Heartbeat:
    return Heartbeat(
        group="g", worker=worker, stamp=1.0, boot_id="b", acked=None, lease_s=lease_s, epoch=0, phase=Phase.ACTIVE, owned={}
    )


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [r.getMessage() for r in caplog.records]
    caplog.clear()
    return found


def test_a_worker_of_no_slot_is_named_once_per_incarnation(caplog: pytest.LogCaptureFixture) -> None:
    state, remarks = ControllerState("g", "c", 3.0), Remarks("g", NAMES.get, 3.0)
    known, stranger, again = Incarnation("g-0", "1"), Incarnation("host-12", "2"), Incarnation("host-12", "3")
    state.fold(heartbeat(known), offset=0, at=0.0)
    remarks.say(state)
    assert said(caplog) == []
    state.fold(heartbeat(stranger), offset=1, at=0.0)
    for _ in range(3):
        remarks.say(state)
    (line,) = said(caplog)
    assert "host-12/2" in line
    assert "given nothing" in line
    assert "AUTOSCALER_WORKER_NAME" in line
    state.fold(Left(group="g", worker=stranger, control_id="c"), offset=2, at=0.0)
    state.fold(heartbeat(again), offset=3, at=0.0)
    remarks.say(state)
    (line,) = said(caplog)
    assert "host-12/3" in line


def test_who_is_over_already_is_not_remarked_upon(caplog: pytest.LogCaptureFixture) -> None:
    state, remarks, stranger = ControllerState("g", "c", 3.0), Remarks("g", NAMES.get, 3.0), Incarnation("host-12", "2")
    state.fold(heartbeat(stranger), offset=1, at=0.0)
    state.fold(Left(group="g", worker=stranger, control_id="c"), offset=2, at=0.0)
    remarks.say(state)
    assert said(caplog) == []


def test_a_lease_other_than_the_configured_one_is_said(caplog: pytest.LogCaptureFixture) -> None:
    state, remarks = ControllerState("g", "c", 3.0), Remarks("g", NAMES.get, 3.0)
    state.fold(heartbeat(Incarnation("g-0", "1"), lease_s=90.0), offset=0, at=0.0)
    for _ in range(2):
        remarks.say(state)
    (line,) = said(caplog)
    assert "its lease is 90 s and handover.lease_s is 3 s" in line


def test_a_worker_of_no_slot_with_another_lease_gets_one_line_that_says_both(caplog: pytest.LogCaptureFixture) -> None:
    state, remarks = ControllerState("g", "c", 3.0), Remarks("g", NAMES.get, 3.0)
    state.fold(heartbeat(Incarnation("host-12", "1"), lease_s=90.0), offset=0, at=0.0)
    remarks.say(state)
    (line,) = said(caplog)
    assert "given nothing" in line
    assert "its lease is 90 s" in line
