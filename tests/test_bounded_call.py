"""A call that never returns holds nobody up; one that returns or raises does so here."""

import threading

import pytest

from autoscaler.concurrency import bounded, started


def test_a_call_that_does_not_return_is_left_behind() -> None:
    gate = threading.Event()
    with pytest.raises(TimeoutError, match="no answer within 0 s"):
        bounded(lambda: gate.wait(5.0), 0.01)
    gate.set()


def test_what_a_bounded_call_raises_is_raised() -> None:
    def fails() -> None:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011  (it says nothing)
        bounded(fails, 10.0)
    assert bounded(lambda: "answer", 10.0) == "answer"


def test_a_call_runs_in_a_thread_that_keeps_no_process_alive() -> None:
    thread = started(threading.current_thread, "by-name").result(10)
    assert (thread.name, thread.daemon) == ("by-name", True)
    assert isinstance(started(lambda: 1 // 0, "fails").exception(10), ZeroDivisionError)
