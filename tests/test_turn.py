"""Whose turn it is at a start: by the Lease first, by ticks then."""

import socket
import threading
from concurrent.futures import Future
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autoscaler import turn
from autoscaler.adapters.control_log import others
from autoscaler.config.settings import Settings, load
from tests.config.files import MINIMAL, write
from tests.until import until

KUBERNETES = {"kubernetes": {"lease": "autoscaler"}}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(write(tmp_path / "c.yaml", {**MINIMAL, **KUBERNETES}))


@pytest.mark.parametrize(
    ("had", "lapsed", "listens", "why"),
    [
        (True, False, True, "it was free: a job elsewhere may act without one"),
        (True, True, False, "who let it expire may tick still, cut off from Kubernetes, and is replaced"),
        (False, False, False, "told to end"),
    ],
)
def test_ticks_are_listened_to_unless_the_lease_was_let_expire(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, *, had: bool, lapsed: bool, listens: bool, why: str
) -> None:
    asked: list[str] = []
    lease: Any = SimpleNamespace(take=lambda _: had, lapsed=lapsed)

    def acted_on(_: object, job: str) -> tuple[str, ...]:
        assert job == "me"
        asked.append("listened")
        return ("orders",)

    monkeypatch.setattr(others, "acted_on", acted_on)
    monkeypatch.setattr(others, "wait_for_end", lambda _s, _j, found, _e: asked.extend(found))
    turn.take(settings, "me", lease, threading.Event())
    assert asked == ["listened", "orders"] * listens, why


def test_a_job_that_waits_answers_for_whom_until_its_turn_has_come() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    its_turn = Future[None]()
    lease: Any = SimpleNamespace(waits_for="pod a")
    waits = threading.Thread(target=turn.wait_for, args=(its_turn, ("127.0.0.1", port), lease))
    waits.start()

    def ask(path: str) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    assert until("it answers", lambda: ask("/readyz"), passing=OSError) == (503, '{"waits_for": "pod a"}')
    lease.waits_for = ""
    assert ask("/healthz") == (200, '{"waits_for": "another controller that acts on a group of this job"}')
    its_turn.set_result(None)
    waits.join(10)
    with pytest.raises(OSError, match="refused"):
        ask("/healthz")


def test_what_keeps_the_turn_from_coming_ends_the_start() -> None:
    its_turn = Future[None]()
    its_turn.set_exception(ValueError("a defect"))
    with pytest.raises(ValueError, match="a defect"):
        turn.wait_for(its_turn, None, None)


def test_a_job_keeps_its_id_over_restarts_and_no_two_have_the_same(tmp_path: Path) -> None:
    first = turn.job_id(tmp_path / "one")
    assert turn.job_id(tmp_path / "one") == first
    assert turn.job_id(tmp_path / "two") != first
