"""Recorded cycles decided again: the same comes out, and a difference is found and shown."""

from dataclasses import replace
from unittest.mock import patch

import pytest

from autoscaler.controller import group_controller
from autoscaler.controller.managed_actuator import ManagedConsumers
from autoscaler.errors import TransientError
from autoscaler.replay.redecide import redecide
from tests.builders import members, rates, snapshot
from tests.controller.test_controller import World
from tests.replay.recorded import remade, written
from tests.scenarios.native_world import NativeWorld, Work, even
from tests.scenarios.placed_world import PlacedWorld


def eventful() -> World:
    """Return a world that has grown, rebalanced, lost and parked, failed to write, met a defect, restarted, and shrunk."""
    world = World()
    world.settle(40, 40, 40)
    world.settle(75, 75, 60, 30, cycles=12)
    world.publisher.die(1)
    world.publisher.expire()
    world.settle(75, 75, 60, 30, cycles=8)
    world.publisher.refuse = True
    world.settle(90, 90, 90, 90, cycles=4)
    world.publisher.refuse = False
    world.publisher.fails = TransientError("the broker is away")
    world.settle(90, 90, 90, 90, cycles=8)
    with patch.object(ManagedConsumers, "act", side_effect=RuntimeError("a defect")):
        world.cycle(90, 90, 90, 90, 90)
    world.settle(90, 90, 90, 90, 90, cycles=8)
    world.controller = world.new_controller()
    world.settle(10, 10, 10, 10, cycles=25)
    return world


def test_every_recorded_decision_comes_out_the_same() -> None:
    cycles, decisions = written(eventful().audit.entries)
    found = redecide(cycles, decisions)
    assert found.differences == ()
    assert (found.cycles, found.differing, found.unconnected) == (len(cycles), 0, 0)
    assert (found.held, found.undecided) == (1, 1)
    assert found.same == found.cycles - found.held - found.undecided
    assert found.plans > 10
    assert len({c["consumers"] for c in cycles}) > 2


def test_what_is_remembered_is_recorded_as_a_whole_now_and_then_and_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_controller, "START_EVERY_S", 5.0)
    cycles, decisions = written(eventful().audit.entries)
    found = redecide(cycles, decisions)
    assert found.differences == ()
    later = redecide(cycles[12:], decisions)
    assert 0 < later.unconnected < 5
    assert later.differing == 0


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"target_utilisation": 0.4}, "consumers"), ({"algorithm": "NF"}, "algorithm"), ({"max_consumers": 2}, "limited_by")],
)
def test_another_policy_is_found(changes: dict[str, object], field: str) -> None:
    cycles, decisions = written(remade(eventful().audit.entries, **changes))
    found = redecide(cycles, decisions)
    assert found.differing
    assert field in {d.field for d in found.differences}
    assert len({d.decision_id for d in found.differences}) == 1


def test_a_changed_plan_is_shown_by_its_first_partition() -> None:
    cycles, decisions = written(eventful().audit.entries)
    changed = next(d for d in decisions if len(d["assignment_after"]) > 2)
    changed["assignment_after"][1]["owner"] = "9"
    (only,) = redecide(cycles, decisions).differences
    assert (only.field, only.decision_id) == ("assignment_after", changed["decision_id"])
    assert only.recorded == changed["assignment_after"][1]
    assert only.again == {**changed["assignment_after"][1], "owner": only.again["owner"]}  # type: ignore[index]


def test_a_memory_that_is_another_is_shown_by_its_field(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_controller, "START_EVERY_S", 5.0)
    entries = eventful().audit.entries
    at = next(i for i, e in enumerate(entries) if i and e.inputs and e.inputs.start and e.inputs.start.follows)
    inputs = entries[at].inputs
    assert inputs is not None
    assert inputs.start is not None
    wrong = replace(inputs, start=replace(inputs.start, history=replace(inputs.start.history, direction=-1)))
    found = redecide(*written([*entries[:at], replace(entries[at], inputs=wrong), *entries[at + 1 :]]))
    assert found.differences[0].field == "history.direction"
    assert (found.differences[0].recorded, found.differences[0].again) == (-1, inputs.start.history.direction)


def test_a_cycle_that_is_missing_leaves_the_next_ones_alone() -> None:
    cycles, decisions = written(eventful().audit.entries)
    found = redecide([*cycles[:10], *cycles[11:]], decisions)
    assert found.differing == 0
    assert found.unconnected > 1


def test_rows_of_a_release_that_recorded_no_inputs_are_counted() -> None:
    cycles, decisions = written(eventful().audit.entries)
    old = [c | {"inputs": None} for c in cycles]
    assert redecide(old, decisions).undecided == len(cycles)


def test_a_group_that_is_only_advised_is_decided_again() -> None:
    world = World(mode="advise", subscribed=([0, 1], [2]))
    world.controller.reader.groups["g"] = members([0, 1], [2])  # type: ignore[attr-defined]
    for n in range(30):
        world.clock.advance(1.0)
        world.controller.cycle(n, snapshot(rates(40 + n, 40, 40), at=world.clock.now()), {})
    cycles, decisions = written(world.audit.entries)
    found = redecide(cycles, decisions)
    assert (found.same, found.differing) == (30, 0)


def test_groups_on_kafkas_own_membership_are_decided_again() -> None:
    ranged = Work(world=NativeWorld(partitions=16, changes={}), rates={})
    ranged.rates = even(ranged.world, 300)
    ranged.run(40)
    ranged.rates = even(ranged.world, 700)
    ranged.run(60)
    placed = PlacedWorld(partitions=6, changes={})
    placed.run(rates(*[10.0] * 6), 10)
    placed.run(rates(*[30.0] * 6), 40)
    for world, seconds in ((ranged.world, 100), (placed, 50)):
        cycles, decisions = written(world.audit.entries)
        found = redecide(cycles, decisions)
        assert found.differences == ()
        assert (found.cycles, found.differing, found.unconnected, found.undecided) == (seconds, 0, 0, 0)
        assert len({c["consumers"] for c in cycles}) > 1
