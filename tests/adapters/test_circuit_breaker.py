"""A cluster that does not answer is asked once for all of its groups."""

import time

import pytest

from autoscaler.adapters.kafka.circuit_breaker import CircuitBreaker
from autoscaler.adapters.kafka.control_topics import admin_client, answering
from autoscaler.errors import TransientError, UnreachableError


class Made:
    """Counts how often it is made."""

    def __init__(self, *answers: Exception | str) -> None:
        self.answers, self.calls = list(answers), 0

    def __call__(self) -> str:
        self.calls += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_the_others_do_not_wait_for_a_cluster_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    breaker, first, second = CircuitBreaker(), Made(UnreachableError("no answer at b:1"), "connected"), Made("connected")
    for make in (first, second, second, first):
        with pytest.raises(UnreachableError, match="no answer at b:1"):
            breaker.connect(make)
    assert (first.calls, second.calls) == (1, 0)
    later = time.monotonic() + 60
    monkeypatch.setattr("autoscaler.adapters.kafka.circuit_breaker.time.monotonic", lambda: later)
    assert [breaker.connect(second), breaker.connect(first)] == ["connected", "connected"]


def test_what_goes_wrong_with_one_group_is_its_own_business() -> None:
    breaker, one, other = CircuitBreaker(), Made(TransientError("its log is being taken over"), "connected"), Made("connected")
    with pytest.raises(TransientError, match="taken over"):
        breaker.connect(one)
    assert [breaker.connect(other), breaker.connect(one)] == ["connected", "connected"]


def test_a_cluster_without_brokers_is_unreachable() -> None:
    connection: dict[str, str | int | float | bool] = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    with pytest.raises(UnreachableError, match=r"no broker answers at 127\.0\.0\.1:1"):
        answering(admin_client(connection), connection, timeout_s=0.2)
