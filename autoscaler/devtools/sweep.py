"""Ends every process that a demo run started, however far removed from it, and whatever became of the demo itself.

Each of them carries the run's directory in its environment, which children inherit: the broker, the load generator, the job
with its JVM and Python workers, the consumers that the job started. ``python -m autoscaler.devtools.sweep DIR`` is the watcher
that a demo starts beside itself: it reads its standard input, which only the demo holds open, and sweeps when that closes.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

MARK = "AUTOSCALER_DEMO_RUN"

_GRACE_S = 5.0
_AGAIN_S = 0.3
_ROUNDS = 5  # a process that is just being started is found by the next look


def marked(run: Path) -> Iterator[psutil.Process]:
    """Yield this user's processes that belong to the run, without the caller and its watchers."""
    own = os.getpid()
    for process in psutil.process_iter():
        if process.pid == own:
            continue
        with contextlib.suppress(psutil.Error, OSError):  # another user's, or gone since
            if process.environ().get(MARK) == str(run) and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def sweep(run: Path, *, grace_s: float = _GRACE_S) -> int:
    """End the run's processes, by force after ``grace_s`` seconds, and return how many there were."""
    ended: set[int] = set()
    for attempt in range(_ROUNDS):
        found = list(marked(run)) or _late(run)
        if not found:
            break
        ended |= {p.pid for p in found}
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.terminate() if attempt == 0 and grace_s > 0 else process.kill()
        psutil.wait_procs(found, timeout=grace_s if attempt == 0 else _GRACE_S)
    return len(ended)


def _late(run: Path) -> list[psutil.Process]:
    """Look once more: while a process becomes another program it shows no environment."""
    time.sleep(_AGAIN_S)
    return list(marked(run))


def watch(run: Path) -> "subprocess.Popen[bytes]":
    """Start the watcher; it sweeps when the returned process's ``stdin`` is closed, by this process or by its death.

    A line written to it before tells it that there is nothing left to do.
    """
    environment = {k: v for k, v in os.environ.items() if k != MARK}  # or it would end itself
    return subprocess.Popen(
        [sys.executable, "-m", "autoscaler.devtools.sweep", str(run)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,  # a Ctrl-C in the terminal must not end the watcher first
    )


def main() -> None:
    """Wait for the end of standard input, then sweep."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if not sys.stdin.readline():
        sweep(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
