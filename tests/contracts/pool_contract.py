"""One contract for ``WorkerPool``: a class of tests that each pool inherits, on what it calls its world.

A module inherits it as a class whose name begins with ``Test``, and has a fixture ``world``. Pools take a step with each call and
are called in each cycle, so the tests call until what is meant is there.
"""

from typing import Protocol

import pytest

from autoscaler.errors import TransientError
from autoscaler.ports import PoolState, WorkerPool
from tests.until import until

NOBODY: frozenset[int] = frozenset()


class World(Protocol):
    """A pool, and what may happen to its workers."""

    @property
    def pool(self) -> WorkerPool: ...
    def name_of(self, slot: int) -> str:
        """Return what the worker that runs in a slot calls itself."""
        ...

    def kill(self, slot: int) -> None:
        """Let a slot's worker end unasked, and return once the pool shows it."""
        ...

    def passes(self) -> None: ...
    def close(self) -> None: ...


def slots(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


def look(world: World) -> PoolState:
    """Return what the pool sees, once it sees anything."""
    return until("the pool sees", world.pool.observe, passing=TransientError)


def call(world: World, *numbers: int, releasable: frozenset[int] = NOBODY) -> PoolState:
    """Ask once for these slots, as a cycle does, and look."""
    before = look(world)
    try:
        world.pool.apply(slots(*numbers), expected=frozenset(before.running), releasable=releasable)
    except TransientError as e:  # the next cycle tries again
        print(e)
    return world.pool.observe()


def run(world: World, *numbers: int) -> PoolState:
    """Ask for these slots until they run and nothing keeps them."""
    return until(
        f"{numbers} run",
        lambda: call(world, *numbers),
        lambda s: slots(*numbers) <= set(s.running) and not s.restarting and not s.hindered,
    )


def end(world: World, *numbers: int, releasable: frozenset[int]) -> PoolState:
    """Ask for these slots until no others run."""
    return until(
        f"only {numbers} run", lambda: call(world, *numbers, releasable=releasable), lambda s: set(s.running) == {*numbers}
    )


class PoolContract:
    def test_nothing_runs_before_it_is_requested(self, world: World) -> None:
        assert look(world) == PoolState(running={}, ended=frozenset(), restarting={})

    def test_a_name_tells_the_slot_and_foreign_names_do_not(self, world: World) -> None:
        run(world, 0, 3)
        assert [world.pool.slot_of(world.name_of(slot)) for slot in (0, 3)] == [0, 3]
        assert [world.pool.slot_of(name) for name in ("g-", "g", "h-1", "g-x", "g--1", "xg-1")] == [None] * 6

    def test_each_requested_slot_runs_one_instance_of_its_own(self, world: World) -> None:
        state = run(world, 0, 1, 5)
        assert set(state.running) == {0, 1, 5}
        assert len(set(state.running.values())) == 3

    def test_applying_twice_equals_once(self, world: World) -> None:
        once = run(world, 0, 1)
        assert call(world, 0, 1) == once

    def test_nothing_is_done_when_others_run_than_expected(self, world: World) -> None:
        before = run(world, 0, 1)
        with pytest.raises(TransientError, match=r"\[1\]"):
            world.pool.apply(slots(0, 2), expected=slots(0), releasable=slots(1))
        assert world.pool.observe() == before

    def test_a_slot_that_still_holds_something_is_left_alone(self, world: World) -> None:
        before = run(world, 0, 1)
        assert run(world, 0) == before

    def test_a_releasable_slot_that_is_not_requested_ends(self, world: World) -> None:
        before = run(world, 0, 1)
        state = end(world, 0, releasable=slots(1))
        assert state.running[0] == before.running[0]
        assert state.ended == {before.running[1]}
        assert not state.restarting

    def test_a_death_is_told_with_its_instance_and_the_slot_runs_again_as_another_one(self, world: World) -> None:
        before = run(world, 0, 1)
        world.kill(1)
        dead = world.pool.observe()
        assert set(dead.running) == {0}
        assert dead.ended == {before.running[1]}
        assert set(dead.restarting) == {1}

        def again() -> PoolState:
            world.passes()
            return call(world, 0, 1)

        state = until("it runs again", again, lambda s: 1 in s.running)
        assert state.running[1] not in {before.running[1], before.running[0]}
        assert before.running[1] in state.ended
        assert not state.restarting

    def test_one_that_died_and_is_not_wanted_any_more_stays_away(self, world: World) -> None:
        run(world, 0, 1)
        world.kill(1)
        run(world, 0)
        world.passes()
        state = run(world, 0)
        assert set(state.running) == {0}
        assert not state.restarting
