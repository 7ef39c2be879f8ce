"""Which cycles are told, and how often."""

from typing import Any

import pytest

from autoscaler.adapters.notifications.events import Event, Watch
from autoscaler.config.notify import Notify

RULES = Notify(url="http://127.0.0.1/", held_for_s=600, every_s=60)
STEP = ({"kind": "add", "what": "add 1"},)


def line(t: float, **fields: object) -> dict[str, Any]:
    calm = {
        "t": t, "cycle": int(t), "cluster": "c", "group": "g", "mode": "act", "reason": "WITHIN_TARGET", "limited_by": None,
        "detail": "fine", "consumers": 2, "consumers_now": 2, "known": True, "actions": (), "parked": [],
    }  # fmt: skip
    return calm | fields


def told(watch: Watch, *lines: dict[str, Any]) -> list[Event]:
    return [e for x in lines for e in watch.take(x)]


def test_a_step_is_told_and_rest_is_not() -> None:
    watch = Watch(RULES)
    (event,) = told(watch, line(0), line(1, actions=STEP, reason="RATE_ABOVE_CAPACITY", detail="too much"), line(2))
    assert (event.kind, event.at, event.cycle) == ("changed", 1, 1)
    assert event.fields["reason"] == "RATE_ABOVE_CAPACITY"


def test_steps_that_follow_at_once_are_one_message_of_the_latest() -> None:
    watch = Watch(RULES)
    events = told(watch, *(line(t, actions=STEP, detail=f"step {t}") for t in range(5)), *(line(t) for t in range(5, 70)))
    assert [(e.fields["detail"], e.others, e.at) for e in events] == [("step 0", 0, 0), ("step 4", 3, 4)]


def test_advice_is_told_when_its_number_changes_and_is_known() -> None:
    watch = Watch(RULES)
    advised = [(0, 2, True), (100, 2, True), (200, 3, False), (300, None, True), (400, 3, True), (500, 3, True)]
    lines = [line(t, mode="advise", actions=STEP, consumers=n, known=k, limited_by="ADVISORY") for t, n, k in advised]
    assert [(e.kind, e.at) for e in told(watch, *lines)] == [("changed", 400)]


def test_a_limit_is_told_once_when_it_has_held_for_long() -> None:
    watch = Watch(RULES)
    lines = [line(t, limited_by="AT_MAXIMUM" if t != 700 else "COOLING_DOWN") for t in range(0, 2000, 50)]
    assert [(e.kind, e.at) for e in told(watch, *lines)] == [("held", 600), ("held", 1350)]


@pytest.mark.parametrize("reason", ["STUCK_PARTITION", "RETENTION_AT_RISK"])
def test_what_an_operator_should_see_is_told_when_it_begins_and_when_it_comes_back(reason: str) -> None:
    watch = Watch(RULES)
    there = [*range(100, 400, 10), *range(2000, 2100, 10)]
    lines = [line(t, reason=reason if t in there else "WITHIN_TARGET") for t in range(0, 2200, 10)]
    assert [(e.kind, e.at) for e in told(watch, *lines)] == [("attention", 100), ("attention", 2000)]


def test_each_parked_partition_is_told_once() -> None:
    watch = Watch(RULES)
    lines = [line(t, parked=["t-1"] if t < 300 else ["t-1", "t-2"]) for t in range(0, 1000, 10)]
    assert [(e.kind, e.at) for e in told(watch, *lines)] == [("attention", 0), ("attention", 300)]


def test_kinds_that_are_not_asked_for_are_not_told() -> None:
    watch = Watch(RULES.model_copy(update={"kinds": ("attention",)}))
    assert told(watch, line(0, actions=STEP), line(700, limited_by="AT_MAXIMUM"), line(1400, limited_by="AT_MAXIMUM")) == []
