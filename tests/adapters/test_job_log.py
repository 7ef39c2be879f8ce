"""The job's log: one line for each decision that changes something, as text and as JSON."""

import json
import logging
import sys
from collections.abc import Iterator

import pytest

from autoscaler.adapters.job_log import DecisionLog, JsonLines, as_json
from tests.adapters.audit import audit_cases as cases
from tests.adapters.http.served import Case, cycle


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, logger="autoscale"):
        yield caplog


def take(*lines: tuple[Case, dict[str, object]]) -> None:
    log = DecisionLog()
    for case, changed in lines:
        log.take(cycle(case, cases.T0, **changed).line)


def test_a_decision_that_changes_something_is_one_line(told: pytest.LogCaptureFixture) -> None:
    take((cases.calm, {}), (cases.calm, {}), (cases.grown, {}), (cases.blind, {"consumers": 2, "recommended": 2}))
    (line,) = told.messages
    assert line.startswith("group g: 1 → 2 consumers, RATE_ABOVE_CAPACITY: consumer 0 with 120 B/s is above 88 B/s")
    assert line.endswith("[1 add]")


def test_steps_that_are_only_advised_are_said_with_their_number_once(told: pytest.LogCaptureFixture) -> None:
    advised: dict[str, object] = {"mode": "advise", "limited_by": "ADVISORY"}
    first, more = (cases.grown, advised), (cases.grown, {**advised, "recommended": 3, "consumers": 3})
    take(first, first, first, more, more)
    (line,) = told.messages
    assert line.startswith("group g: 1 → 3 consumers advised, RATE_ABOVE_CAPACITY (ADVISORY)")


def test_a_line_of_json_has_the_figures(told: pytest.LogCaptureFixture) -> None:
    take((cases.hot, {}))
    said = json.loads(JsonLines().format(told.records[0]))
    assert said["message"] == told.messages[0]
    assert (said["level"], said["logger"], said["event"], said["group"], said["steps"]) == (
        "INFO", "autoscale", "decision", "g", {"move": 2},
    )  # fmt: skip
    assert said["time"].endswith("+00:00")
    assert said["detail"].startswith("consumer 0 with 135 B/s")


def test_whatever_is_logged_is_one_line_of_json() -> None:
    try:
        int("two\nlines")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "f", 1, 'a "%s"\n', ("✓",), sys.exc_info())
    line = JsonLines().format(record)
    assert "\n" not in line
    said = json.loads(line)
    assert said["message"] == 'a "✓"\n'
    assert "ValueError: invalid literal" in said["stack"]


def test_the_process_goes_over_to_json(capsys: pytest.CaptureFixture[str]) -> None:
    root, handler = logging.getLogger(), logging.StreamHandler(sys.stdout)
    root.addHandler(handler)
    others = [(h, h.formatter) for h in root.handlers]
    try:
        as_json()
        root.warning("full: %d", 3)
    finally:
        root.removeHandler(handler)
        for other, formatter in others:
            other.setFormatter(formatter)
    assert json.loads(capsys.readouterr().out)["message"] == "full: 3"
