"""Keeps calls that never return away from who makes them. Standard library only."""

import queue
import threading
from collections.abc import Callable


def bounded(call: Callable[[], object], timeout_s: float) -> None:
    """Make a call that may never return although it was given a time.

    librdkafka's sending of offsets to a transaction does so while a group's coordinator is away (docs/decisions/0009).

    Raises:
        TimeoutError: It has not returned; its client is not to be used any more, and a thread stays behind that nobody waits for.
    """
    ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            call()
        except BaseException as e:  # noqa: BLE001  (raised again by who called)
            ended.put(e)
        else:
            ended.put(None)

    threading.Thread(target=run, name="autoscaler-bounded", daemon=True).start()
    try:
        error = ended.get(timeout=timeout_s)
    except queue.Empty:
        msg = f"no answer within {timeout_s:.0f} s"
        raise TimeoutError(msg) from None
    if error is not None:
        raise error
