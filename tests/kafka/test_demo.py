"""The demo as a user runs it: whatever happens to it, nothing of it stays, and one runs at a time."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from autoscaler.devtools.rundir import RunDir, lock
from autoscaler.devtools.sweep import MARK, marked, sweep, watch
from autoscaler.errors import PermanentError
from tests.until import until

ROOT = Path(__file__).resolve().parents[2]
BROKER_UP = "broker on free ports"
JOB_STARTS = "partitions"


class Running:
    """A demo in a process group of its own, as in a terminal, and what it has said so far."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.run = directory / "demo-run"
        self.log = directory / "output.txt"
        command = [sys.executable, "-m", "autoscaler.cli", "demo", "--dir", str(self.run), *arguments]
        with self.log.open("w") as out:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)

    @property
    def said(self) -> str:
        return self.log.read_text()

    def wait_until(self, condition: Callable[[], object], timeout_s: float = 240) -> None:
        def look() -> object:
            found = condition()
            assert found or self.process.poll() is None, self.said
            return found

        until("what the demo is to do", look, bool, explain=lambda: self.said, within_s=timeout_s)

    def interrupt(self) -> None:
        """Press Ctrl-C: the terminal sends it to the whole foreground group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def ports(self) -> list[int]:
        return [int(p) for p in re.findall(r"127\.0\.0\.1:(\d+)", self.said)]


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start(*arguments: str) -> Running:
        started.append(Running(tmp_path, *arguments))
        return started[-1]

    yield start
    for running in started:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait()
        sweep(running.run, grace_s=0)


def assert_nothing_stays(running: Running) -> None:
    assert list(marked(running.run)) == []
    assert not (running.run.parent / "demo.lock").exists()
    for port in running.ports():
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0


def deaf() -> subprocess.Popen[bytes]:
    """Start a process that ignores SIGTERM and returns once it does."""
    code = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=os.environ)
    assert process.stdout is not None
    assert process.stdout.readline() == b"deaf\n"
    process.stdout.close()
    return process


def test_a_sweep_ends_everything_of_a_run_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = subprocess.Popen(["sleep", "600"])
    monkeypatch.setenv(MARK, str(tmp_path))
    obedient = subprocess.Popen(["sh", "-c", "sleep 600 & setsid sleep 601 & wait"])
    stubborn = deaf()
    until("four are marked", lambda: list(marked(tmp_path)), lambda found: len(found) >= 4)
    assert sweep(tmp_path, grace_s=0.2) == 4
    for child in (obedient, stubborn):
        child.wait(timeout=30)
    assert list(marked(tmp_path)) == []
    assert other.poll() is None
    other.kill()
    other.wait()


def test_the_watcher_sweeps_when_its_demo_is_gone_and_not_when_it_has_ended_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARK, str(tmp_path))
    child = subprocess.Popen(["sleep", "600"])
    watcher = watch(tmp_path)
    watcher.communicate(b"\n")
    assert watcher.returncode == 0
    assert child.poll() is None
    watcher = watch(tmp_path)
    watcher.communicate()  # closes its input without a word, as a death does
    assert child.wait(timeout=30) == -signal.SIGTERM


def test_one_demo_runs_at_a_time(tmp_path: Path) -> None:
    with lock(tmp_path), pytest.raises(PermanentError, match=rf"process {os.getpid()}"), lock(tmp_path):
        pass
    assert not (tmp_path / "demo.lock").exists()
    with lock(tmp_path):
        pass


def test_a_lock_goes_with_the_process_that_held_it(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from autoscaler.devtools.rundir import lock\n"
        "with lock(Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(PermanentError, match=f"process {holder.pid}"), lock(tmp_path):
            pass
        holder.kill()
        holder.wait()
    with lock(tmp_path):
        pass


def test_a_second_demo_says_that_one_runs(demo: Callable[..., Running], tmp_path: Path) -> None:
    with lock(tmp_path):
        second = demo()
        assert second.process.wait(timeout=60) == 1
    assert f"a demo runs already (process {os.getpid()}" in second.said
    assert not second.run.exists()


@pytest.mark.broker
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("until", "presses"),
    [("run directory", 1), (BROKER_UP, 1), (JOB_STARTS, 2)],
    ids=["while the broker starts", "when the broker is up", "twice while the job starts"],
)
def test_ctrl_c_during_set_up_leaves_nothing(until: str, presses: int, demo: Callable[..., Running]) -> None:
    running = demo()
    running.wait_until(lambda: until in running.said)
    for _ in range(presses):
        running.interrupt()
    assert running.process.wait(timeout=60) == 130
    assert "interrupted" in running.said
    assert "Traceback" not in running.said
    assert_nothing_stays(running)


@pytest.mark.broker
@pytest.mark.timeout(600)
def test_sigterm_counts_like_ctrl_c(demo: Callable[..., Running]) -> None:
    running = demo()
    running.wait_until(lambda: BROKER_UP in running.said)
    running.process.terminate()
    assert running.process.wait(timeout=60) == 130
    assert_nothing_stays(running)


@pytest.mark.broker
@pytest.mark.timeout(600)
def test_a_killed_demo_takes_everything_with_it_and_the_next_one_starts(demo: Callable[..., Running], tmp_path: Path) -> None:
    running = demo()
    running.wait_until(lambda: any("spark-submit" in c for c in commands(running.run)))
    running.process.kill()
    running.process.wait()
    calm_at = time.monotonic() + 2

    def left() -> list[psutil.Process]:
        nonlocal calm_at
        found = list(marked(running.run))
        calm_at = time.monotonic() + 2 if found else calm_at
        return found

    until("nothing is seen for two seconds: the watcher is through with it", left, lambda _: time.monotonic() > calm_at)
    with lock(tmp_path):
        pass
    assert_nothing_stays(running)


def alive(run: Path) -> list[psutil.Process]:
    found = []
    for process in marked(run):
        try:
            process.cmdline()
        except psutil.Error:
            continue
        found.append(process)
    return found


def commands(run: Path) -> list[str]:
    """Return the command lines of what lives; a process may end while it is looked at."""
    found = []
    for process in marked(run):
        with suppress(psutil.Error):
            found.append(" ".join(process.cmdline()))
    return found


def test_a_run_directory_keeps_everything_below_it(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "run")
    run.make()
    run.describe({"topic": "t"})
    assert all(d.is_dir() for d in (run.state, run.processed, run.logs, run.broker))
    assert (run.root / "run.json").exists()


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_a_whole_run_is_green_and_can_be_checked_again(demo: Callable[..., Running]) -> None:
    running = demo("--duration", "150", "--seed", "3", "--keep")
    assert running.process.wait(timeout=600) == 0, running.said
    assert "✓ all holds" in running.said
    assert "all came out the same" in running.said
    assert_nothing_stays(running)
    again = subprocess.run(
        [sys.executable, "-m", "autoscaler.cli", "recheck", "--run-dir", str(running.run)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert again.returncode == 0, again.stdout + again.stderr
    assert "✓ all holds" in again.stdout


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_group_of_ordinary_consumers_is_advised_and_left_alone(demo: Callable[..., Running]) -> None:
    running = demo("--duration", "40", "--advise")
    assert running.process.wait(timeout=500) == 0, running.said
    assert "ADVISORY" in running.said
    assert "placed by load" in running.said
    assert "all came out the same" in running.said
    assert_nothing_stays(running)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_ordinary_consumers_are_scaled_up_and_down_with_nothing_lost(demo: Callable[..., Running]) -> None:
    running = demo("--duration", "120", "--native")
    assert running.process.wait(timeout=800) == 0, running.said
    assert "✓ all holds" in running.said
    assert "all came out the same" in running.said
    assert_nothing_stays(running)
