"""A client that cannot reach its broker says so all the time; the log says it now and then."""

import logging

import pytest

from autoscaler.adapters.kafka import control_topics
from autoscaler.adapters.kafka.control_topics import Sparing


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(control_topics.time, "monotonic", lambda: now[0])  # type: ignore[attr-defined]
    return now


def _record(client: str, text: str) -> logging.LogRecord:
    return logging.LogRecord("autoscaler.kafka", logging.ERROR, "", 0, "%s [%s] %s", ("FAIL", client, text), None)


def test_the_same_complaint_of_a_client_comes_once_in_ten_seconds(clock: list[float]) -> None:
    sparing = Sparing()
    passed = []
    for tenth in range(250):
        clock[0] = 100 + tenth / 10
        passed.append(sparing.filter(_record("consumer-1", f"refused after {tenth} ms")))
    assert [i / 10 for i, p in enumerate(passed) if p] == [0.0, 10.0, 20.0]


def test_another_client_and_another_message_are_not_spared(clock: list[float]) -> None:
    sparing = Sparing()
    assert sparing.filter(_record("consumer-1", "refused"))
    assert sparing.filter(_record("producer-2", "refused"))
    assert sparing.filter(logging.LogRecord("autoscaler.kafka", logging.INFO, "", 0, "group %s: %s", ("shop", "gone"), None))
    assert not sparing.filter(_record("consumer-1", "refused again"))
