"""The watchdog with a real process that stops making progress."""

import subprocess
import sys

from autoscaler.errors import Exit

PROGRAM = """
import threading, time
from autoscaler.streaming.watchdog import Watchdog
dog = Watchdog(0.5, start_timeout_s={start}).start()
def hang_in_here():
    threading.Event().wait({hang})
for _ in range({beats}):
    dog.alive(); time.sleep(0.1)
{stop}
hang_in_here()
"""


def _run(*, start: float, beats: int, hang: float, stop: str = "") -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(start=start, beats=beats, hang=hang, stop=stop)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)


def test_a_job_that_stalls_says_where_and_ends() -> None:
    done = _run(start=0.5, beats=3, hang=60)
    assert done.returncode == Exit.STALLED
    assert "no batch has completed for 0.5 s" in done.stderr
    assert "hang_in_here" in done.stderr  # the stack that an operator needs


def test_a_job_that_completes_batches_is_left_alone() -> None:
    assert _run(start=0.5, beats=15, hang=0.01).returncode == 0


def test_a_slow_start_is_no_stall() -> None:
    assert _run(start=30, beats=0, hang=1.5).returncode == 0


def test_a_job_that_was_told_to_stop_is_left_alone() -> None:
    assert _run(start=0.5, beats=1, hang=1.5, stop="dog.stop()").returncode == 0
