"""What a worker says that has nothing to do: once per stretch, and the reason that it can know."""

from dataclasses import replace

import pytest

from autoscaler.handover.records import Epoch, Grant, Incarnation, Plan, Tp
from autoscaler.handover.worker_state import WorkerState
from autoscaler.worker.idle_reason import LONG_S, Waiting
from autoscaler.worker.settings import worker_settings

ME, TP = Incarnation("host-12", "u"), Tp("t", 0)
READY = WorkerState(group="g", me=ME, control_id="c", lease_s=3.0, ready=True)
PLAN = Plan(
    group="g", epoch=Epoch("c", 1), topics={}, grants={TP: Grant(owner=Incarnation("g-0", "v"), epoch=1)}, waits={}, starts={},
    leases_s={}, requested=(0,), summary="", at=0.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("state", "named", "why"),
    [
        (READY, True, "no plan of this group was ever read"),
        (READY, False, "no plan of this group was ever read"),
        (replace(READY, plan=PLAN), False, "AUTOSCALER_WORKER_NAME is not set"),
        (replace(READY, plan=PLAN), True, "the controller has no consumer of this name"),
    ],
)
def test_the_reason_is_said_once(state: WorkerState, named: bool, why: str) -> None:  # noqa: FBT001  (a case)
    waiting = Waiting(named=named)
    assert waiting.look(state, 100.0) is None
    assert waiting.look(state, 100.0 + LONG_S - 1) is None
    said = waiting.look(state, 100.0 + LONG_S)
    assert said is not None
    assert why in said
    assert waiting.look(state, 100.0 + 10 * LONG_S) is None


@pytest.mark.parametrize(
    "busy",
    [
        replace(READY, wanted={TP: 1}),
        replace(READY, active={TP: 1}),
        replace(READY, draining={TP: 1}),
        replace(READY, ready=False),
        replace(READY, leaving=True),
        replace(READY, lapsed=True),
    ],
)
def test_whoever_has_or_is_owed_something_or_is_not_there_waits_for_nothing(busy: WorkerState) -> None:
    waiting = Waiting(named=True)
    assert waiting.look(busy, 0.0) is None
    assert waiting.look(busy, 2 * LONG_S) is None
    assert waiting.look(READY, 3 * LONG_S) is None, "its time begins now"
    assert waiting.look(READY, 4 * LONG_S) is not None


def test_after_something_to_do_it_is_said_again() -> None:
    waiting = Waiting(named=True)
    waiting.look(READY, 0.0)
    assert waiting.look(READY, LONG_S) is not None
    waiting.look(replace(READY, active={TP: 1}), LONG_S)
    waiting.look(READY, 2 * LONG_S)
    assert waiting.look(READY, 3 * LONG_S) is not None


@pytest.mark.parametrize(
    ("name", "environment", "named"), [("g-0", {}, True), (None, {"AUTOSCALER_WORKER_NAME": "g-0"}, True), (None, {}, False)]
)
def test_a_name_that_nobody_gave_is_known_for_one(name: str | None, environment: dict[str, str], named: bool) -> None:  # noqa: FBT001  (a case)
    made = worker_settings(
        {"bootstrap.servers": "127.0.0.1:9"}, group="g", topics=[], name=name, instance=None, lease_s=None, limits={},
        environment=environment,
    )  # fmt: skip
    assert made.named is named
