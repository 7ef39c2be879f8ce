"""What ``make chaos`` puts together: parts that fit the minutes it has, and what was done is judged when it is told to end."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.chaos import SLOW_MINUTES, Part, Run, parts
from tests.until import until

WAITS = """
import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: (print("judged"), sys.exit({code})))
print("begun", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(("minutes", "names"), [(10, 4), (2 * SLOW_MINUTES, 6), (60, 6)])
def test_parts_fit_the_minutes_and_all_are_drawn_by_the_seed(minutes: float, names: int, tmp_path: Path) -> None:
    wanted = parts(minutes, 7, tmp_path)
    assert len(wanted) == names
    given = [float(a.split("=")[1]) for p in wanted for a in p.command if a.startswith("--minutes=")]
    assert sum(given) < minutes
    drawn = [a for p in wanted[:4] for a in p.command if a.startswith(("--seed=", "--first="))]
    assert drawn == ["--seed=7", "--first=7000000", "--first=7000000", "--seed=7"]


@pytest.mark.parametrize("code", [0, 1])
def test_told_to_end_the_part_that_runs_judges_and_no_other_begins(code: int, tmp_path: Path) -> None:
    run = Run(tmp_path)
    log = tmp_path / "1-waits.log"

    def tell() -> None:
        until("it has begun", lambda: log.exists() and "begun" in log.read_text(encoding="utf-8"))
        run.stop()

    teller = threading.Thread(target=tell)
    teller.start()
    waits = Part("waits", (sys.executable, "-c", WAITS.format(code=code)))
    assert run.run([waits, Part("never", ("false",))]) == (code == 0)
    teller.join()
    assert run.results == {"waits": code}
    assert "judged" in log.read_text(encoding="utf-8")


@pytest.mark.parametrize("module", ["tests.handover.soak", "tests.properties.long_run"])
def test_a_long_run_that_is_told_to_end_says_what_it_has_done(module: str) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", module, "--minutes", "60", "--processes", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True) as running:
        try:
            until("it takes signals", lambda: _takes(running.pid))
            running.send_signal(signal.SIGINT)
            said = running.communicate(timeout=300)[0]
        finally:
            running.kill()
    assert running.returncode == 0
    assert " broke a " in said


def _takes(pid: int) -> bool:
    """Return whether the process has a child that works: its handler of signals was there before."""
    return any(Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split())
