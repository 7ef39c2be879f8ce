"""The matrix of inputs that fail or make no sense, for groups that keep Kafka's membership: foretold, and told a placement."""

from collections.abc import Callable

import pytest

from autoscaler.core.assignors.group_model import Assignor
from autoscaler.model import Reason
from tests.builders import load
from tests.fakes import FakeRetention
from tests.scenarios.native_world import NativeWorld, even
from tests.scenarios.placed_world import PlacedWorld
from tests.scenarios.test_fault_matrix import (
    BEGINS,
    CHANGES,
    ENDS,
    FAULTS,
    GROWS_MEANWHILE,
    KEPT,
    LASTS,
    LEVELS,
    NEEDED,
    UNREADABLE,
)


def _foretold(**changes: object) -> NativeWorld:
    return NativeWorld(assignor=Assignor.RANGE, changes=changes)


def _placed(**changes: object) -> NativeWorld:
    return PlacedWorld(changes=changes)


@pytest.mark.parametrize("make", [_foretold, _placed])
@pytest.mark.parametrize("phase", LEVELS)
@pytest.mark.parametrize("name", FAULTS)
def test_no_input_that_fails_or_makes_no_sense_leads_a_native_group_to_a_wrong_step(
    name: str, phase: str, make: Callable[..., NativeWorld]
) -> None:
    before, after = LEVELS[phase]
    fault, here = FAULTS[name]
    world = make(shrink_cooldown_s=5)
    for t in range(LASTS):
        rates = even(world, 16 * (before if t < CHANGES else after))
        faulty = here if BEGINS <= t < ENDS else frozenset()
        world.controller.retention = FakeRetention({} if faulty and name == UNREADABLE else KEPT)
        world.tick([fault(load(p, r)) if p in faulty else load(p, r) for p, r in rates.items()])
    during = [(t, n) for t, n in world.scalings if BEGINS <= t < ENDS]
    assert world.decisions[BEGINS - 1].consumers == 4
    if name != UNREADABLE:
        assert all(n > 4 for _, n in during), "it never shrinks on what it does not know"
    if phase == "growing":
        assert [n for _, n in during] == ([NEEDED[phase]] if name in GROWS_MEANWHILE else []), (
            "what is known is enough to grow by"
        )
    elif name == UNREADABLE and phase == "shrinking":
        assert [n for _, n in during] == [NEEDED[phase]], "the load is known"
    else:
        assert during == []
    last = world.decisions[-1]
    assert (last.consumers, last.reason) == (NEEDED[phase], Reason.WITHIN_TARGET)
    assert not [t for t, _ in world.scalings if t >= LASTS - 20], "and rests"
