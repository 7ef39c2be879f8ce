"""Other processes for long calculations: they leave Ctrl-C to the command, which ends them."""

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Processes:
    """Some processes that functions can be given to."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        """Start none yet."""
        self._pool = pool

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Let a function be called there.

        A process that this starts never gets a Ctrl-C of the terminal, which is for all: it would end with a stack of its own. So
        it would if the command left it half started: a Ctrl-C that comes meanwhile counts once it is there.

        Raises:
            KeyboardInterrupt: One came meanwhile.
        """
        came = list[int]()
        handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            future = self._pool.submit(function, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            signal.signal(signal.SIGINT, handler)
        if came:
            raise KeyboardInterrupt
        return future


@contextmanager
def processes(count: int) -> Iterator[Processes]:
    """Return so many processes; if what they are needed for fails, or is interrupted, they end at once."""
    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"))  # the tables' reader has threads
    try:
        yield Processes(pool)
    except BaseException:
        for child in active_children():
            child.terminate()
        pool.shutdown(cancel_futures=True)  # and waits: Python would tell a thread that is just ending to end, with a stack
        raise
    finally:
        pool.shutdown()
