"""A watchdog outside Spark: when no batch completes for long, dump every stack and end the process.

Spark has no bound on a hung Python source or an unanswered callback. The supervisor (``spark-submit.sh``) starts the job
again; workers go on meanwhile. Knows nothing of Spark itself.
"""

import contextlib
import faulthandler
import os
import signal
import sys
import threading
import time

from autoscaler.errors import Exit


class Watchdog:
    """Ends the process with ``Exit.STALLED`` when ``alive`` has not been called for ``timeout_s`` seconds.

    The first call may take ``start_timeout_s``: planning and class loading make the first batch much slower than the rest.
    """

    def __init__(self, timeout_s: float, *, start_timeout_s: float = 180.0, jvm_pid: int | None = None) -> None:
        """Remember the limits; ``jvm_pid`` gets SIGQUIT, which makes a JVM print its threads."""
        self._timeout_s = timeout_s
        self._jvm_pid = jvm_pid
        self._limit = time.monotonic() + max(start_timeout_s, timeout_s)
        self._done = threading.Event()

    def start(self) -> "Watchdog":
        """Start watching in a daemon thread."""
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        return self

    def alive(self) -> None:
        """Say that a batch has completed."""
        self._limit = time.monotonic() + self._timeout_s

    def stop(self) -> None:
        """Stop watching."""
        self._done.set()

    def _watch(self) -> None:
        while not self._done.wait(min(1.0, self._timeout_s / 4)):
            if time.monotonic() > self._limit:
                self._bark()

    def _bark(self) -> None:
        sys.stderr.write(
            f"watchdog: no batch has completed for {self._timeout_s:g} s; all stacks follow, "
            f"then the job ends with exit code {Exit.STALLED} and is started again\n"
        )
        faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
        sys.stderr.flush()
        if self._jvm_pid is not None:
            with contextlib.suppress(OSError):
                os.kill(self._jvm_pid, signal.SIGQUIT)
            time.sleep(1.0)  # the JVM prints its threads before it loses its child
        os._exit(Exit.STALLED)
