"""Calls in threads of their own: one that never returns holds up no other. Standard library only."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

T = TypeVar("T")


def started(call: Callable[[], T], name: str) -> Future[T]:
    """Begin a call in a daemon thread of its own: those of a pool that hang with their brokers would be missed by the others."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            result = call()
        except BaseException as e:  # noqa: BLE001  (raised by who asks for the result)
            future.set_exception(e)
        else:
            future.set_result(result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


def bounded(call: Callable[[], T], timeout_s: float) -> T:
    """Return the result of a call that may never return although it was given a time.

    librdkafka's sending of offsets to a transaction does so while a group's coordinator is away (docs/decisions/0009).

    Raises:
        TimeoutError: It has not returned; its client is not to be used any more; its thread is left behind.
    """
    future = started(call, "autoscaler-bounded")
    if not wait([future], timeout_s).done:
        msg = f"no answer within {timeout_s:.0f} s"
        raise TimeoutError(msg)
    return future.result()
