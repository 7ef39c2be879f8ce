"""What becomes of the handler of SIGTERM: the consumer's while it runs, the application's afterwards."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

import pytest

from autoscaler.worker import ManagedConsumer
from tests.until import let_pass

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


def theirs(_number: int, _frame: FrameType | None) -> None:
    raise AssertionError


@pytest.fixture(params=[signal.SIG_DFL, signal.SIG_IGN, theirs])
def before(request: pytest.FixtureRequest) -> Iterator[object]:
    at_first = signal.signal(signal.SIGTERM, request.param)
    yield request.param
    signal.signal(signal.SIGTERM, at_first)


def test_afterwards_it_is_what_it_was(before: object) -> None:
    with ManagedConsumer(NOWHERE, group="g") as consumer:
        signal.raise_signal(signal.SIGTERM)
        assert consumer.stopping
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_consumer_may_come_to_its_end_in_another_thread(before: object) -> None:
    with ManagedConsumer(NOWHERE, group="g") as consumer, ThreadPoolExecutor(1) as other:
        consumer.stop()
        assert other.submit(list, consumer).result(30) == []
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_consumer_made_in_another_thread_leaves_signals_alone(before: object) -> None:
    with ThreadPoolExecutor(1) as other:
        made = other.submit(ManagedConsumer, NOWHERE, group="g").result(30)
    with made:
        assert signal.getsignal(signal.SIGTERM) == before


def test_two_consumers_of_one_process_are_both_told() -> None:
    at_first = signal.getsignal(signal.SIGTERM)
    with ManagedConsumer(NOWHERE, group="g") as one, ManagedConsumer(NOWHERE, group="h") as other:
        signal.raise_signal(signal.SIGTERM)
        assert (one.stopping, other.stopping) == (True, True)
    assert signal.getsignal(signal.SIGTERM) == at_first


def test_a_forked_child_ends_when_it_is_told_to() -> None:
    with ManagedConsumer(NOWHERE, group="g") as consumer:
        there, says = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover
            os.write(says, b"x")
            let_pass(60)
            os._exit(1)
        assert os.read(there, 1) == b"x"  # Python forgets a signal that comes before the child has begun
        os.kill(child, signal.SIGTERM)
        _, status = os.waitpid(child, 0)
        os.close(there)
        os.close(says)
        assert os.WTERMSIG(status) == signal.SIGTERM
        assert not consumer.stopping
