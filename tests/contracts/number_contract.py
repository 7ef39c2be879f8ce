"""One contract for a number of consumers that is set and read back: a class of tests on what each of them calls its world."""

from contextlib import suppress
from typing import Protocol

import pytest

from autoscaler.errors import AutoscalerError, PermanentError, TransientError
from autoscaler.ports import PoolState, WorkerPool
from tests.until import throughout, until


class NumberWorld(Protocol):
    """A pool of consumers whose number is set elsewhere."""

    @property
    def pool(self) -> WorkerPool: ...
    def number(self) -> int:
        """Return the number as it stands outside."""
        ...

    def sets(self, number: int) -> None:
        """Let another one set it."""
        ...

    def restart(self) -> None:
        """Let another controller take over."""
        ...

    def close(self) -> None: ...


def look(world: NumberWorld) -> PoolState:
    return until("the number is known", world.pool.observe, passing=TransientError)


def ask(world: NumberWorld, number: int) -> None:
    """Ask once for so many, as a cycle does."""
    running = frozenset(look(world).running)
    world.pool.apply(frozenset(range(number)), expected=running, releasable=running)


def asked(world: NumberWorld, number: int) -> PoolState | None:
    """Ask once, as a cycle that may fail, and look."""
    with suppress(AutoscalerError):  # the next cycle tries again
        ask(world, number)
        return look(world)
    return None


def run(world: NumberWorld, number: int) -> PoolState:
    """Ask until so many run and no others."""

    def there(state: PoolState | None) -> bool:
        return state is not None and set(state.running) == {*range(number)} and not state.draining

    state = until(f"{number} run", lambda: asked(world, number), there)
    assert state is not None
    return state


def refusal(world: NumberWorld, number: int) -> str | None:
    """Return what keeps the number from being set, ``None`` if nothing does."""
    try:
        ask(world, number)
    except AutoscalerError as e:
        return str(e)
    return None


class NumberContract:
    def test_consumers_that_run_already_are_taken_over(self, world: NumberWorld) -> None:
        world.sets(2)
        state = until("both run", lambda: look(world), lambda s: set(s.running) == {0, 1})
        assert not state.restarting
        run(world, 2)
        assert world.number() == 2

    def test_the_number_follows_what_is_asked_for_both_ways(self, world: NumberWorld) -> None:
        for number in (3, 1, 2, 0):
            run(world, number)
            assert world.number() == number

    def test_nothing_is_set_while_others_run_than_expected(self, world: NumberWorld) -> None:
        run(world, 2)
        with pytest.raises(TransientError, match=r"\[1\]"):
            world.pool.apply(frozenset({0}), expected=frozenset({0}), releasable=frozenset({1}))
        assert world.number() == 2

    def test_what_still_holds_something_is_kept(self, world: NumberWorld) -> None:
        state = run(world, 3)
        world.pool.apply(frozenset({0}), expected=frozenset(state.running), releasable=frozenset({2}))
        until("one less is asked for", world.number, lambda n: n == 2)

    def test_while_another_one_sets_it_too_it_is_refused_until_the_number_is_back(self, world: NumberWorld) -> None:
        run(world, 2)
        world.sets(3)
        said = until(
            "it is said", lambda: refusal(world, 1), lambda s: s is not None and "to 3, where this controller had set 2" in s
        )
        assert said is not None
        throughout("it is not set", lambda: (refusal(world, 1), world.number()), lambda seen: seen[1] == 3, for_s=0.3)
        with pytest.raises(PermanentError):
            ask(world, 1)
        world.sets(2)
        run(world, 1)

    def test_after_a_restart_the_number_is_taken_as_it_is(self, world: NumberWorld) -> None:
        run(world, 2)
        world.restart()
        assert set(until("both run", lambda: look(world), lambda s: len(s.running) == 2).running) == {0, 1}
        run(world, 3)

    def test_no_name_tells_a_slot(self, world: NumberWorld) -> None:
        run(world, 1)
        assert world.pool.slot_of("g-0") is None
