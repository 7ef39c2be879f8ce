"""The guards' table, row by row: does it hold a native group? docs/reference/native.md says the same."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from autoscaler.config.setting_paths import path_of
from autoscaler.core.assignors.group_model import Assignor
from autoscaler.core.guards.table import GUARDS, Guard
from autoscaler.model import Decision, MovePartition, PartitionLoad, Retention, TopicPartition
from tests.builders import TOPIC, load
from tests.fakes import FakeRetention
from tests.scenarios.native_world import NativeWorld, Work, even

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "native.md").read_text(encoding="utf-8")
Measured = Callable[[TopicPartition, float], PartitionLoad]
HIGH, LOW = 600.0, 100.0  # of 16 partitions, 80 bytes/s to a consumer; before it, 300: four consumers


def step(changes: Mapping[str, object], total: float, seconds: int, measured: Measured) -> NativeWorld:
    """Return a group of four, so many seconds after another load has begun."""
    world = NativeWorld(assignor=Assignor.RANGE)
    world.controller.retention = FakeRetention({TOPIC: Retention(seconds=1000.0, bytes=math.inf)})
    world.run(even(world, 300), 30)
    assert len(world.consumers) == 4
    world.set(**changes)
    for _ in range(seconds):
        world.tick([measured(p, rate) for p, rate in even(world, total).items()])
    return world


def static(changes: Mapping[str, object], total: float, seconds: int, measured: Measured) -> NativeWorld:
    """Return a group whose members are static."""
    world = NativeWorld(static=True, assignor=Assignor.RANGE)
    world.run(even(world, 300), 30)
    world.set(**changes)
    for _ in range(seconds):
        world.tick([measured(p, rate) for p, rate in even(world, total).items()])
    return world


def in_vain(changes: Mapping[str, object], total: float, seconds: int, measured: Measured) -> NativeWorld:
    """Return a group whose database takes as much as before, after its load has risen twice."""
    world = step({}, 300, 1, measured)
    work = Work(world=world, rates=even(world, 300), downstream=31.0)
    work.run(40)
    world.set(**changes)
    for rate in (480, total):
        work.rates = even(world, rate)
        work.run(seconds)
    return world


def back_again(changes: Mapping[str, object], total: float, seconds: int, measured: Measured) -> NativeWorld:
    """Return a group whose load has gone down, up, and down again."""
    world = step({**QUICK, **changes}, LOW, seconds, measured)
    world.run(even(world, 300), seconds)
    world.run(even(world, total), seconds)
    return world


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """How a row is shown to hold.

    Attributes:
        changes: Settings under which it objects.
        free: Others under which it does not, and the number changes further; ``None``: there are none.
        total: Bytes/s that arrive in the end.
        seconds: For how long.
        consumers: How many are asked for then.
        measured: What is measured, from a partition and its rate.
        play: What happens.
    """

    changes: Mapping[str, object] = field(default_factory=dict)
    free: Mapping[str, object] | None = field(default_factory=dict)
    total: float = LOW
    seconds: int = 40
    consumers: int = 4
    measured: Measured = load
    play: Callable[[Mapping[str, object], float, int, Measured], NativeWorld] = step

    def after(self, changes: Mapping[str, object]) -> Decision:
        """Return the last decision under some settings."""
        return self.play(changes, self.total, self.seconds, self.measured).decisions[-1]


FREEZE = {"cron": "0 22 * * *", "duration_min": 60, "paused": "all"}  # the clock begins at 22:13:20
QUICK = {"shrink_stabilisation_s": 5, "shrink_cooldown_s": 0}
ROWS: Mapping[str, Held | None] = {
    "paused": Held(changes={"paused": "all"}, total=HIGH),
    "windows": Held(changes={"windows": [FREEZE]}, total=HIGH),
    "pinned": Held(changes={"pinned": 4}, total=HIGH),
    "max_consumers": Held(changes={"max_consumers": 4}, total=HIGH),
    "partitions": Held(free=None, total=16 * 100.0, consumers=16),
    "min_consumers": Held(changes={"min_consumers": 4}),
    "static_members": Held(free=None, play=static),
    "measured": Held(free=None, measured=lambda p, rate: load(p, rate, known=p.partition > 0, age_s=5.0)),
    "settled": None,
    "give_up_after": Held(changes={"give_up_after": 1}, free={"give_up_after": None}, total=900, consumers=8, play=in_vain),
    "grow_step": Held(changes={"grow_step": 2}, total=HIGH, seconds=1, consumers=6),
    "grow_stabilisation_s": Held(changes={"grow_stabilisation_s": 60}, total=HIGH),
    "retention_risk_s": Held(
        changes={"backlog_s": 1000},
        free={"backlog_s": 1000, "retention_risk_s": None},
        measured=lambda p, rate: load(p, rate, lag_records=1, lag_bytes=1.0, lag_s=950.0),
    ),
    "backlog_s": Held(free={"backlog_s": 10}, measured=lambda p, rate: load(p, rate, lag_s=9.0)),
    "shrink_stabilisation_s": Held(changes={"shrink_stabilisation_s": 60}, free=QUICK),
    "shrink_cooldown_s": Held(changes={"shrink_cooldown_s": 100}, free=QUICK),
    "turns_per_hour": Held(changes={"turns_per_hour": 2}, free={"turns_per_hour": 3}, seconds=20, play=back_again),
    "shrink_step": Held(changes={**QUICK, "shrink_step": 1}, free=QUICK, seconds=6, consumers=3),
    "cooldown_s": None,
    "move_payback_s": None,
}


def test_every_row_is_decided_and_the_page_says_the_same() -> None:
    assert list(ROWS) == [g.name for g in GUARDS]
    said = re.findall(r"^\| `([\w.]+)` \| (yes|no) \|", PAGE, re.MULTILINE)
    assert said == [(path_of(name), "no" if row is None else "yes") for name, row in ROWS.items()]


@pytest.mark.parametrize("guard", [g for g in GUARDS if ROWS.get(g.name)], ids=lambda g: g.name)
def test_a_row_holds_the_number_of_consumers(guard: Guard) -> None:
    row = ROWS[guard.name]
    assert row is not None
    held = row.after(row.changes)
    assert (held.limited_by, held.consumers) == (guard.reason, row.consumers), held.detail
    if row.free is not None:
        free = row.after(row.free)
        assert free.limited_by is not guard.reason
        assert (free.consumers > row.consumers) == (row.total > LOW), free.detail
        assert free.consumers != row.consumers


@pytest.mark.parametrize("guard", [g for g in GUARDS if not ROWS.get(g.name)], ids=lambda g: g.name)
def test_a_row_about_moves_or_one_that_is_ending_finds_nothing_to_hold(guard: Guard) -> None:
    """Kafka moves partitions, and a member that is ending is one that does not count: nothing is decided until it is gone."""
    longest = {} if guard.name == "settled" else {guard.name: 1e6 if guard.name == "cooldown_s" else 1e-6}
    world = step({**QUICK, **longest}, HIGH, 20, load)
    grown = len(world.consumers)
    world.run(even(world, LOW), 20)
    assert grown > 4 > len(world.consumers)
    assert guard.reason not in {d.limited_by for d in world.decisions}
    assert not [a for d in world.decisions for a in d.actions if isinstance(a, MovePartition)]
