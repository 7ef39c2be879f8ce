"""The contract of a number that is set and read back, on programs of the user; ``tests/kubernetes`` has it on resources."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.workers.command_number import CommandNumber
from autoscaler.adapters.workers.counted_pool import CountedPool
from autoscaler.config.settings import CommandWorkers
from autoscaler.controller.native_actuator import NativeConsumers
from autoscaler.errors import PermanentError, TransientError
from autoscaler.model import LoadSnapshot, Observation, Started
from tests.contracts.number_contract import NumberContract, NumberWorld, ask, look, refusal, run
from tests.until import until


class CommandWorld:
    """A file has the number; ``set_count`` and ``read_count`` are shells."""

    def __init__(self, directory: Path) -> None:
        self.file, self.broken = directory / "number", directory / "broken"
        self.file.write_text("0")
        self.pool = self.made()

    def made(self, **more: object) -> CountedPool:
        fails = f'[ -e {self.broken} ] && {{ echo "no quota" >&2; exit 3; }}; '
        said = {
            "set_count": ("sh", "-c", f"{fails} echo $1 > {self.file}.new; mv {self.file}.new {self.file}", "set", "{count}"),
            "read_count": ("cat", str(self.file)),
            "read_every_s": 0.02,
            **more,
        }
        settings = CommandWorkers.model_validate(said)
        clock = SystemClock()
        return CountedPool(group="g", number=CommandNumber(settings=settings, environment={}, clock=clock), clock=clock)

    def number(self) -> int:
        return int(self.file.read_text().split()[0])

    def sets(self, number: int) -> None:
        self.file.write_text(str(number))

    def restart(self) -> None:
        self.pool.close()
        self.pool = self.made()

    def close(self) -> None:
        self.pool.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CommandWorld]:
    made = CommandWorld(tmp_path)
    yield made
    made.close()


class TestCommand(NumberContract):
    """On programs."""


def said(world: NumberWorld) -> str:
    try:
        world.pool.observe()
    except (TransientError, PermanentError) as e:
        return str(e)
    return ""


def test_what_a_program_says_is_told_and_it_is_tried_again_after_a_pause(world: CommandWorld) -> None:
    run(world, 1)
    world.broken.touch()
    assert refusal(world, 2) == "sh ended with 3: no quota"
    again = refusal(world, 2)
    assert again is not None
    assert again.startswith("sh ended with 3: no quota; tried again in ")
    world.broken.unlink()
    run(world, 2)


def test_how_many_run_may_differ_from_how_many_should(world: CommandWorld) -> None:
    world.file.write_text("3 1\n")
    state = look(world)
    assert (set(state.running), set(state.restarting), set(state.hindered)) == ({0}, {1, 2}, {1, 2})
    world.file.write_text("1 2")
    state = until("one ends", lambda: look(world), lambda s: len(s.running) == 2)
    assert state.draining == {1}


def test_a_number_that_does_not_read_as_it_was_set_is_told(world: CommandWorld) -> None:
    world.pool = world.made(set_count=("true", "{count}"))
    assert refusal(world, 4) == "the number of consumers that true sets was set to 4 and reads 0"


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (("echo", "many"), "printed 'many': it must print the number of consumers"),
        (("false",), "false ended with 1: it says nothing on standard error"),
        (("no-such-program",), "cannot be started: No such file or directory; correct workers.read_count"),
    ],
)
def test_a_program_that_cannot_read_it_is_told_by_its_name(world: CommandWorld, read: tuple[str, ...], words: str) -> None:
    world.pool = world.made(read_count=read)
    until("it is said", lambda: said(world), lambda s: words in s)


def test_one_that_does_not_end_is_ended_after_its_time(world: CommandWorld) -> None:
    world.pool = world.made(read_count=("sleep", "60"), count_timeout_s=0.1)
    until("it is said", lambda: said(world), lambda s: "sleep has not ended after 0.1 s" in s)


def test_asking_for_what_is_there_sets_nothing(world: CommandWorld) -> None:
    world.sets(2)
    until("both run", lambda: look(world), lambda s: len(s.running) == 2)
    world.broken.touch()
    ask(world, 2)


def test_a_native_group_goes_on_with_the_number_that_is_there(world: CommandWorld) -> None:
    world.sets(2)
    until("both run", lambda: look(world), lambda s: len(s.running) == 2)
    snapshot = LoadSnapshot(group="g", sample_ts=0.0, loads=(), known=False)
    seen = Observation(group="g", snapshot=snapshot, state=None, members=None)
    consumers = NativeConsumers(group="g", start=lambda: world.pool)
    until("it is read", lambda: consumers.observe(seen).started, lambda s: s == Started(requested=slots(2), running=slots(2)))


def slots(count: int) -> frozenset[int]:
    return frozenset(range(count))
