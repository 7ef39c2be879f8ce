"""The contract for ``WorkerPool`` on the fake and on real processes; ``tests/kubernetes`` has it on pods."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.workers.process_pool import ProcessPool
from autoscaler.config.settings import ProcessWorkers
from tests.contracts.pool_contract import PoolContract, World
from tests.fakes import FakeClock, FakePool
from tests.until import let_pass, until

WORKER = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\nwhile True: time.sleep(1)"


class FakeWorld:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.pool = FakePool(group="g", clock=self.clock)

    def name_of(self, slot: int) -> str:
        return f"g-{slot}"

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

    def name_of(self, slot: int) -> str:
        return f"g-{slot}"

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


class TestPool(PoolContract):
    """On each of them."""


@pytest.mark.parametrize(("name", "slot"), [
    ("g-0", 0), ("g-12", 12), ("g-", None), ("g", None), ("h-1", None), ("g-x", None), ("g--1", None), ("xg-1", None),
])  # fmt: skip
def test_a_slot_that_never_ran_has_its_name_too(world: World, name: str, slot: int | None) -> None:
    assert world.pool.slot_of(name) == slot
