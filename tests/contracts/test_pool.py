"""One contract for ``WorkerPool``, kept by the fake and by real processes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil
import pytest

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.workers.process_pool import ProcessPool
from autoscaler.config.settings import ProcessWorkers
from autoscaler.errors import TransientError
from autoscaler.ports import PoolState, WorkerPool
from tests.fakes import FakeClock, FakePool
from tests.until import let_pass, until

NOBODY: frozenset[int] = frozenset()
WORKER = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\nwhile True: time.sleep(1)"


class World(Protocol):
    @property
    def pool(self) -> WorkerPool: ...
    def kill(self, slot: int) -> None: ...
    def passes(self) -> None: ...
    def close(self) -> None: ...


class FakeWorld:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.pool = FakePool(group="g", clock=self.clock)

    def kill(self, slot: int) -> None:
        self.pool.die(slot)

    def passes(self) -> None:
        self.clock.advance(0.1)

    def close(self) -> None:
        self.pool.close()


@dataclass
class ProcessWorld:
    directory: Path

    def __post_init__(self) -> None:
        self.pool = process_pool(self.directory)

    def kill(self, slot: int) -> None:
        instance = self.pool.observe().running[slot]
        (process,) = carrying(instance)
        process.kill()
        until(f"{slot} has ended", lambda: slot not in self.pool.observe().running)

    def passes(self) -> None:
        let_pass(0.02)

    def close(self) -> None:
        self.pool.stop_all(5.0)
        self.pool.close()


def process_pool(directory: Path, *command: str, **more: float) -> ProcessPool:
    settings = ProcessWorkers(command=command or ("{python}", "-c", WORKER), restart_backoff_s=0.3, **more)
    return ProcessPool(group="g", settings=settings, directory=directory, environment={}, clock=SystemClock())


def carrying(instance: str) -> list[psutil.Process]:
    """Return the living processes that were started as this instance."""
    out = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("AUTOSCALER_INSTANCE") == instance and process.status() != psutil.STATUS_ZOMBIE:
                out.append(process)
        except (psutil.Error, OSError):
            continue
    return out


@pytest.fixture(params=["fake", "processes"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made: World = FakeWorld() if request.param == "fake" else ProcessWorld(tmp_path / "workers")
    yield made
    made.close()


def slots(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


def run(world: World, *numbers: int) -> PoolState:
    world.pool.apply(slots(*numbers), expected=frozenset(world.pool.observe().running), releasable=NOBODY)
    return world.pool.observe()


@pytest.mark.parametrize(("name", "slot"), [
    ("g-0", 0), ("g-12", 12), ("g-", None), ("g", None), ("h-1", None), ("g-x", None), ("g--1", None), ("xg-1", None),
])  # fmt: skip
def test_a_name_tells_the_slot_and_foreign_names_do_not(world: World, name: str, slot: int | None) -> None:
    assert world.pool.slot_of(name) == slot


def test_nothing_runs_before_it_is_requested(world: World) -> None:
    assert world.pool.observe() == PoolState(running={}, ended=frozenset(), restarting={})


def test_each_requested_slot_runs_one_instance_of_its_own(world: World) -> None:
    state = run(world, 0, 1, 5)
    assert set(state.running) == {0, 1, 5}
    assert len(set(state.running.values())) == 3


def test_applying_twice_equals_once(world: World) -> None:
    once = run(world, 0, 1)
    assert run(world, 0, 1) == once


def test_nothing_is_done_when_others_run_than_expected(world: World) -> None:
    before = run(world, 0, 1)
    with pytest.raises(TransientError, match=r"\[1\]"):
        world.pool.apply(slots(0, 2), expected=slots(0), releasable=slots(1))
    assert world.pool.observe() == before


def test_a_slot_that_still_holds_something_is_left_alone(world: World) -> None:
    before = run(world, 0, 1)
    assert run(world, 0) == before


def test_a_releasable_slot_that_is_not_requested_ends(world: World) -> None:
    before = run(world, 0, 1)
    world.pool.apply(slots(0), expected=slots(0, 1), releasable=slots(1))
    until("0 runs again", lambda: world.pool.observe().running, lambda running: set(running) == {0})
    state = world.pool.observe()
    assert state.running[0] == before.running[0]
    assert state.ended == {before.running[1]}
    assert not state.restarting


def test_a_death_is_told_with_its_instance_and_the_slot_runs_again_as_another_one(world: World) -> None:
    before = run(world, 0, 1)
    world.kill(1)
    dead = world.pool.observe()
    assert set(dead.running) == {0}
    assert dead.ended == {before.running[1]}
    assert set(dead.restarting) == {1}

    def again() -> bool:
        world.passes()
        return 1 in run(world, 0, 1).running

    until("it runs again", again)
    state = world.pool.observe()
    assert state.running[1] not in {before.running[1], before.running[0]}
    assert before.running[1] in state.ended
    assert not state.restarting


def test_one_that_died_and_is_not_wanted_any_more_stays_away(world: World) -> None:
    run(world, 0, 1)
    world.kill(1)
    run(world, 0)
    world.passes()
    state = run(world, 0)
    assert set(state.running) == {0}
    assert not state.restarting
