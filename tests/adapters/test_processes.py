"""Workers as real processes: adoption, crashes at the worst moment, zombies, back-off, drains that take too long."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.workers.process_pool import ProcessPool
from autoscaler.config.settings import ProcessWorkers
from autoscaler.errors import PermanentError, TransientError
from autoscaler.model import AddWorkers, RemoveWorkers
from tests.contracts.pool_contract import NOBODY, slots
from tests.contracts.test_pool import carrying, process_pool
from tests.fakes import FakeClock
from tests.scenarios.native_world import NativeWorld, even
from tests.until import until

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Return a pool's directory; whatever still runs from it at the end is killed."""
    place = tmp_path / "workers"
    yield place
    pool = process_pool(place)
    pool.stop_all(0.0)
    left = pool.observe().running
    pool.close()
    assert left == {}


def test_a_worker_knows_its_name_its_instance_and_what_it_was_given(directory: Path) -> None:
    script = "import json, os, sys; print(json.dumps(dict(os.environ))); print(sys.executable, file=sys.stderr)"
    settings = ProcessWorkers(command=("{python}", "-c", script), environment={"B": "settings", "C": "3"})
    pool = ProcessPool(
        group="g", settings=settings, directory=directory, environment={"A": "1", "B": "pool"}, clock=SystemClock()
    )
    pool.apply(slots(4), expected=NOBODY, releasable=NOBODY)
    until("4 has ended", lambda: 4 not in pool.observe().running)
    (instance,) = pool.observe().ended
    pool.close()
    said, python = (directory / "worker-4.log").read_text(encoding="utf-8").splitlines()
    environment = json.loads(said)
    assert (environment["AUTOSCALER_WORKER_NAME"], environment["AUTOSCALER_INSTANCE"]) == ("g-4", instance)
    assert (environment["A"], environment["B"], environment["C"]) == ("1", "settings", "3")
    assert python == sys.executable


def test_logs_of_several_lives_are_appended(directory: Path) -> None:
    pool = process_pool(directory, "{python}", "-c", "print('a life')")

    def lives() -> int:
        pool.apply(slots(0), expected=frozenset(pool.observe().running), releasable=NOBODY)
        log = directory / "worker-0.log"
        return log.read_text(encoding="utf-8").count("a life") if log.exists() else 0

    until("two live", lambda: lives() >= 2)
    pool.close()


def test_a_restarted_pool_adopts_what_runs_and_starts_nothing_twice(directory: Path) -> None:
    first = process_pool(directory)
    first.apply(slots(0, 1), expected=NOBODY, releasable=NOBODY)
    before = first.observe()
    first.close()
    second = process_pool(directory)
    assert second.observe() == before
    second.apply(slots(0, 1), expected=slots(0, 1), releasable=NOBODY)
    assert second.observe() == before
    assert [len(carrying(i)) for i in before.running.values()] == [1, 1]
    second.close()


def test_two_pools_never_act_at_once(directory: Path) -> None:
    first, second = process_pool(directory), process_pool(directory)
    first.apply(slots(0), expected=NOBODY, releasable=NOBODY)
    with pytest.raises(TransientError, match="another controller"):
        second.apply(NOBODY, expected=slots(0), releasable=slots(0))
    first.close()
    assert set(second.observe().running) == {0}
    second.close()


@pytest.mark.parametrize("known", ["written ahead", "not started"])
def test_a_crash_between_writing_ahead_and_noting_the_process_doubles_nothing(directory: Path, known: str) -> None:
    first = process_pool(directory)
    first.apply(slots(0), expected=NOBODY, releasable=NOBODY)
    instance = first.observe().running[0]
    first.close()
    (record,) = directory.glob("worker-0.json")
    data = json.loads(record.read_text(encoding="utf-8"))
    if known == "not started":
        psutil.Process(data["pid"]).kill()
        until("it is gone", lambda: not carrying(instance))
    record.write_text(json.dumps({**data, "pid": None, "created": None}), encoding="utf-8")
    second = process_pool(directory)
    state = second.observe()
    if known == "written ahead":
        assert state.running == {0: instance}
        assert json.loads(record.read_text(encoding="utf-8"))["pid"] == data["pid"]
    else:
        assert not state.running
        assert state.ended == {instance}
    second.close()


def test_a_death_during_the_controllers_absence_is_told_by_its_successor(directory: Path) -> None:
    first = process_pool(directory)
    first.apply(slots(0), expected=NOBODY, releasable=NOBODY)
    instance = first.observe().running[0]
    first.close()
    (process,) = carrying(instance)
    process.kill()
    os.waitpid(process.pid, 0)
    second = process_pool(directory)
    assert second.observe().ended == {instance}
    second.close()
    third = process_pool(directory)
    assert third.observe().ended == {instance}, "whoever had to be told may have crashed in between"
    third.close()


def test_a_process_that_took_over_the_number_is_not_the_worker(directory: Path) -> None:
    directory.mkdir()
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        record = {"slot": 0, "instance": "ours", "pid": stranger.pid, "created": 1.0, "ended": []}
        (directory / "worker-0.json").write_text(json.dumps(record), encoding="utf-8")
        pool = process_pool(directory)
        assert pool.observe().ended == {"ours"}
        assert pool.observe().running == {}
        pool.stop_all(0.0)
        pool.close()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_an_adopted_worker_that_became_a_zombie_has_ended(directory: Path) -> None:
    """Its parent lives and never waits; signals still reach a zombie, so they prove nothing."""
    script = f"""
import sys, time
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.contracts.pool_contract import slots, NOBODY
from tests.contracts.test_pool import process_pool
pool = process_pool(Path({str(directory)!r}))
pool.apply(slots(0), expected=NOBODY, releasable=NOBODY)
pool.close()
print("started", flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"started\n"
        pool = process_pool(directory)
        instance = pool.observe().running[0]
        (process,) = carrying(instance)
        process.kill()
        until("it is a zombie", lambda: process.status() == psutil.STATUS_ZOMBIE)
        os.kill(process.pid, 0)
        state = pool.observe()
        pool.close()
        parent.kill()
    assert not state.running
    assert state.ended == {instance}


def test_one_that_keeps_dying_is_started_ever_more_seldom_and_not_beyond_the_limit(directory: Path) -> None:
    clock = FakeClock()
    settings = ProcessWorkers(command=("{python}", "-c", ""), restart_backoff_s=1.0, restart_backoff_max_s=5.0)
    pool = ProcessPool(group="g", settings=settings, directory=directory, environment={}, clock=clock)
    pauses = []
    for _ in range(5):
        pool.apply(slots(0), expected=frozenset(pool.observe().running), releasable=NOBODY)
        until("all have ended", lambda: not pool.observe().running)
        pause_s = pool.observe().restarting[0]
        pauses.append(pause_s)
        clock.advance(pause_s - 0.01)
        pool.apply(slots(0), expected=NOBODY, releasable=NOBODY)
        assert not pool.observe().running, "too early"
        clock.advance(0.01)
    assert pauses == pytest.approx([1.0, 2.0, 4.0, 5.0, 5.0])
    pool.close()


def test_half_a_minute_of_health_begins_the_pauses_anew(directory: Path) -> None:
    clock = FakeClock()
    settings = ProcessWorkers(command=("{python}", "-c", "import time; time.sleep(600)"), restart_backoff_s=1.0)
    pool = ProcessPool(group="g", settings=settings, directory=directory, environment={}, clock=clock)
    pauses = []
    for lived_s in (0.0, 1.0, 31.0):
        pool.apply(slots(0), expected=frozenset(pool.observe().running), releasable=NOBODY)
        clock.advance(lived_s)
        (process,) = carrying(pool.observe().running[0])
        process.kill()
        until("all have ended", lambda: not pool.observe().running)
        pauses.append(pool.observe().restarting[0])
        clock.advance(pauses[-1])
    assert pauses == pytest.approx([1.0, 2.0, 1.0])
    pool.stop_all(0.0)
    pool.close()


def test_one_that_does_not_end_in_time_is_killed_with_what_it_started(directory: Path) -> None:
    script = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
        "while True: time.sleep(1)\n"
    )
    clock = FakeClock()
    settings = ProcessWorkers(command=("{python}", "-c", script), drain_timeout_s=5.0)
    pool = ProcessPool(group="g", settings=settings, directory=directory, environment={}, clock=clock)
    pool.apply(slots(0), expected=NOBODY, releasable=NOBODY)
    log = directory / "worker-0.log"
    until("a whole line", lambda: log.read_text(encoding="utf-8").endswith("\n"))
    child = psutil.Process(int(log.read_text(encoding="utf-8")))
    pool.apply(NOBODY, expected=slots(0), releasable=slots(0))
    clock.advance(4.9)
    pool.apply(NOBODY, expected=slots(0), releasable=slots(0))  # told again; its time goes on
    assert set(pool.observe().running) == {0}
    clock.advance(0.2)
    until("all have ended", lambda: not pool.observe().running)
    until("the child has ended", lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
    assert not pool.observe().restarting
    pool.close()


def test_a_slot_asked_for_again_while_it_drains_runs_anew_at_once_when_it_has_ended(directory: Path) -> None:
    pool = process_pool(directory)
    pool.apply(slots(0), expected=NOBODY, releasable=NOBODY)
    first = pool.observe().running[0]
    pool.apply(NOBODY, expected=slots(0), releasable=slots(0))

    def again() -> bool:
        pool.apply(slots(0), expected=slots(0), releasable=NOBODY)
        return pool.observe().running.get(0, first) != first

    until("it runs again", again)
    assert pool.observe().ended == {first}
    pool.stop_all(5.0)
    assert pool.observe().running == {}
    pool.close()


def test_a_command_that_does_not_exist_is_named(directory: Path) -> None:
    pool = process_pool(directory, "no-such-command")
    with pytest.raises(PermanentError, match=r"g-0 cannot be started: no-such-command.*workers.command"):
        pool.apply(slots(0), expected=NOBODY, releasable=NOBODY)
    assert pool.observe().running == {}
    pool.close()


def test_workers_take_signals_that_the_controller_ignores_and_are_in_a_session_of_their_own(directory: Path) -> None:
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pool = process_pool(directory, "{python}", "-c", "import time; time.sleep(600)")
        pool.apply(slots(0), expected=NOBODY, releasable=NOBODY)
        (process,) = carrying(pool.observe().running[0])
        assert os.getsid(process.pid) == process.pid

        def interrupted() -> bool:
            process.send_signal(signal.SIGINT)
            return 0 not in pool.observe().running

        until("it ends of an interrupt", interrupted, every_s=0.05)
        pool.close()
    finally:
        signal.signal(signal.SIGINT, previous)


BEHIND_A_SHELL = """
import os, signal, sys, time
from pathlib import Path
def told(*_):
    print("told", flush=True)
    while not Path(sys.argv[1]).exists():
        time.sleep(0.01)
    print("done", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, told if len(sys.argv) > 1 else signal.SIG_IGN)
print(os.getpid(), flush=True)
while True:
    time.sleep(0.01)
"""


def behind_a_shell(directory: Path, *arguments: str, clock: FakeClock | None = None) -> ProcessPool:
    """Return a pool whose workers are children of a shell, which ends by SIGTERM at once and tells nobody."""
    directory.mkdir(exist_ok=True)
    script = directory / "worker.py"
    script.write_text(BEHIND_A_SHELL, encoding="utf-8")
    line = shlex.join([sys.executable, str(script), *arguments])
    settings = ProcessWorkers(command=("sh", "-c", f"{line}; exit 0"), drain_timeout_s=60.0 if clock is None else 5.0)
    return ProcessPool(group="g", settings=settings, directory=directory, environment={}, clock=clock or SystemClock())


def worker_of(directory: Path) -> psutil.Process:
    log = directory / "worker-0.log"
    until("a whole line", lambda: log.exists() and log.read_text(encoding="utf-8").endswith("\n"))
    return psutil.Process(int(log.read_text(encoding="utf-8").split()[0]))


def test_a_worker_behind_a_shell_is_told_to_end_and_has_ended_when_it_has(directory: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    pool = behind_a_shell(directory, str(go))
    pool.apply(slots(0), expected=NOBODY, releasable=NOBODY)
    instance = pool.observe().running[0]
    worker = worker_of(directory)
    shell = worker.parent()
    assert shell is not None
    pool.apply(NOBODY, expected=slots(0), releasable=slots(0))

    def said(what: str) -> bool:
        state = pool.observe()
        assert (state.running, state.ended) == ({0: instance}, frozenset()), "it still works off what it has"
        return what in (directory / "worker-0.log").read_text(encoding="utf-8")

    until("it is told", lambda: said("told"))
    assert not shell.is_running() or shell.status() == psutil.STATUS_ZOMBIE
    go.touch()
    until("all have ended", lambda: not pool.observe().running)
    assert pool.observe().ended == {instance}
    assert (directory / "worker-0.log").read_text(encoding="utf-8").split()[1:] == ["told", "done"]
    pool.close()


def test_what_a_killed_shell_leaves_behind_is_ended_before_the_slot_runs_anew(directory: Path) -> None:
    clock = FakeClock()
    pool = behind_a_shell(directory, clock=clock)
    pool.apply(slots(0), expected=NOBODY, releasable=NOBODY)
    first = pool.observe().running[0]
    worker = worker_of(directory)
    shell = worker.parent()
    assert shell is not None
    shell.kill()
    until("the shell has ended", lambda: not shell.is_running() or shell.status() == psutil.STATUS_ZOMBIE)
    for advance in (0.0, 4.9):
        clock.advance(advance)
        pool.apply(slots(0), expected=slots(0), releasable=NOBODY)
        assert (pool.observe().running, pool.observe().ended) == ({0: first}, frozenset()), "it may still act"
        assert worker.is_running()
    clock.advance(0.2)
    until("all have ended", lambda: not pool.observe().running)
    assert pool.observe().ended == {first}
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE
    assert set(pool.observe().restarting) == {0}, "it ended unasked"
    pool.close()


def test_what_a_shell_has_left_behind_is_killed_with_all_others_when_all_are_stopped(directory: Path) -> None:
    pool = behind_a_shell(directory)
    pool.apply(slots(0), expected=NOBODY, releasable=NOBODY)
    worker = worker_of(directory)
    shell = worker.parent()
    assert shell is not None
    shell.kill()
    until("the shell has ended", lambda: not shell.is_running() or shell.status() == psutil.STATUS_ZOMBIE)
    assert set(pool.observe().running) == {0}, "told to end, and ignores it"
    pool.stop_all(0.0)
    assert pool.observe().running == {}
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE
    pool.close()


def test_a_worker_whose_shell_ended_while_nobody_looked_is_adopted(directory: Path) -> None:
    first = behind_a_shell(directory)
    first.apply(slots(0), expected=NOBODY, releasable=NOBODY)
    before = first.observe()
    worker = worker_of(directory)
    first.close()
    shell = worker.parent()
    assert shell is not None
    shell.kill()
    os.waitpid(shell.pid, 0)
    second = behind_a_shell(directory)
    assert second.observe() == before
    worker.kill()
    until("all have ended", lambda: not second.observe().running)
    assert second.observe().ended == set(before.running.values())
    second.close()


CLOSES_SLOWLY = ("bash", "-c", 'trap "sleep 1; exit 0" TERM; echo ready; while :; do sleep 0.1; done')
NEVER_CLOSES = ("bash", "-c", 'trap "" TERM; echo ready; while :; do sleep 0.1; done')


def ready(directory: Path, *numbers: int) -> None:
    """Wait until these processes have set their traps."""
    logs = [directory / f"worker-{n}.log" for n in numbers]
    until("the traps are set", lambda: all("ready" in log.read_text(encoding="utf-8") for log in logs))


def test_who_was_told_to_end_is_known_to_be_ending_after_a_restart(directory: Path) -> None:
    pool = process_pool(directory, *CLOSES_SLOWLY)
    pool.apply(slots(0, 1), expected=NOBODY, releasable=NOBODY)
    ready(directory, 0, 1)
    pool.apply(slots(0), expected=slots(0, 1), releasable=slots(1))
    assert pool.observe().draining == slots(1)
    pool.close()
    again = process_pool(directory, *CLOSES_SLOWLY)
    seen = again.observe()
    assert (set(seen.running), seen.draining) == ({0, 1}, slots(1))
    until("0 runs again", lambda: set(again.observe().running) == {0})
    assert again.observe().draining == NOBODY
    again.apply(slots(0, 1), expected=slots(0), releasable=NOBODY)
    assert (set(again.observe().running), again.observe().draining) == ({0, 1}, NOBODY), "asked for again"
    again.close()


def test_who_was_told_to_end_and_does_not_is_killed_after_a_restart_too(directory: Path) -> None:
    settings = ProcessWorkers(command=NEVER_CLOSES, drain_timeout_s=1.0)

    def pool() -> ProcessPool:
        return ProcessPool(group="g", settings=settings, directory=directory, environment={}, clock=SystemClock())

    first = pool()
    first.apply(slots(0), expected=NOBODY, releasable=NOBODY)
    ready(directory, 0)
    first.apply(NOBODY, expected=slots(0), releasable=slots(0))
    first.close()
    second = pool()
    until("all have ended", lambda: not second.observe().running)
    second.close()


def test_consumers_of_a_native_group_that_are_ending_are_not_asked_for_by_a_restarted_job(directory: Path) -> None:
    world = NativeWorld()
    pool = process_pool(directory, *CLOSES_SLOWLY)

    def start() -> None:
        world.pool = pool  # type: ignore[assignment]
        world.controller = world.new_controller()

    start()
    world.run(even(world, 280), 30)
    assert len(pool.observe().running) == 4
    until(
        "consumers are to end",
        lambda: world.tick(even(world, 40)).actions,
        lambda found: any(isinstance(a, RemoveWorkers) for a in found),
    )
    told = set(world.decisions[-1].requested)
    pool.close()  # the job ends, and is back at once
    pool = process_pool(directory, *CLOSES_SLOWLY)
    start()
    until("those told to run do", lambda: world.tick(even(world, 40), 0.2) is not None and set(pool.observe().running) == told)
    assert not any(isinstance(a, AddWorkers) for d in world.decisions[-20:] for a in d.actions)
    pool.close()
