"""Who consumes, unknown, late or absurd, while the group should grow, rest or shrink: the other half of the fault matrix.

docs/reference/fault-matrix.md shows this as a table, with what fails of the load (``test_fault_matrix.py``).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from autoscaler.core.assignors.group_model import Assignor
from autoscaler.model import CapacitySource, Decision, GroupMembers, Member, Observation, Reason, WorkerView
from tests.builders import CAPACITY, TOPIC, policy, rates, tp
from tests.fakes import FakeReader
from tests.scenarios.native_world import NativeWorld, even
from tests.scenarios.placed_world import PlacedWorld
from tests.scenarios.test_fault_matrix import BEGINS, CHANGES, ENDS, LASTS, LEVELS, NEEDED
from tests.scenarios.world import World, moves, scalings

Fault = Callable[[Observation, list[Observation]], Observation]
LATE_S = 20
MEASURED = {"capacity_bytes_per_s": None, "capacity_prior_bytes_per_s": CAPACITY}
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "fault-matrix.md").read_text(encoding="utf-8")


def workers(change: Callable[[WorkerView, WorkerView | None], WorkerView]) -> Fault:
    """Return a fault of what each worker says of itself, by what it says now and what it said a while ago."""

    def fault(now: Observation, before: list[Observation]) -> Observation:
        assert now.state is not None
        then = {w.uuid: w for o in before[-LATE_S : -LATE_S + 1] for w in (o.state.workers if o.state else ())}
        return replace(now, state=replace(now.state, workers=tuple(change(w, then.get(w.uuid)) for w in now.state.workers)))

    return fault


def late(now: WorkerView, then: WorkerView | None) -> WorkerView:
    """Return a worker whose heartbeats are not read: its figures are those of a while ago."""
    return now if then is None else replace(now, records=then.records, payload_bytes=then.payload_bytes, busy_s=then.busy_s)


def subscribed(now: Observation, _before: list[Observation]) -> Observation:
    """Return a group that somebody subscribes with."""
    stranger = Member(
        member_id="s", client_id="s", host="/h", assigned=frozenset({tp(0)}), topics=frozenset({TOPIC}), instance=None
    )
    members = GroupMembers(state="STABLE", kind="CLASSIC", assignor="range", members=(stranger,), at=now.snapshot.sample_ts)
    return replace(now, members=members)


MANAGED: Mapping[str, Fault] = {
    "heartbeats are late": workers(late),
    "a consumer's figures go back": workers(lambda w, _: replace(w, records=0, busy_s=0.0)),
    "a consumer's busy time is not a number": workers(lambda w, _: replace(w, busy_s=math.nan)),
    "a consumer's busy time is negative": workers(lambda w, _: replace(w, busy_s=-1e9)),
    "a consumer has processed more than can be": workers(lambda w, _: replace(w, records=10**15)),
    "a consumer says it holds what does not exist": workers(lambda w, _: replace(w, owned=w.owned | {tp(999)})),
    "a consumer subscribes with the group's id": subscribed,
}
HOLDS = {"a consumer subscribes with the group's id"}


@dataclass(slots=True, kw_only=True)
class Half(World):
    """A world whose capacity is measured, and in which consumers are not seen as they are for a while."""

    fault: Fault
    seen: list[Observation] = field(default_factory=list)

    def _observe(self, now: float) -> Observation:
        self.seen.append(World._observe(self, now))
        return self.fault(self.seen[-1], self.seen) if BEGINS <= self.t < ENDS else self.seen[-1]


@pytest.mark.parametrize("phase", LEVELS)
@pytest.mark.parametrize("name", MANAGED)
def test_no_consumer_that_is_seen_wrongly_leads_to_a_wrong_step(name: str, phase: str) -> None:
    before, after = LEVELS[phase]
    world = Half(
        policy=policy(**MEASURED, shrink_stabilisation_s=20, shrink_cooldown_s=5, move_payback_s=None),
        traffic=lambda t: rates(*[before if t < CHANGES else after] * 16), fault=MANAGED[name],
        downstream=lambda _: 1e9, each=lambda _: CAPACITY,
    )  # fmt: skip
    calm, faulty, healed = world.run(BEGINS), world.run(ENDS - BEGINS), world.run(LASTS - ENDS)
    assert (calm[-1].consumers, calm[-1].capacity_source) == (4, CapacitySource.MEASURED)
    held = name in HOLDS or phase == "steady"
    assert scalings([calm[-1], *faulty]) == ([] if held else [NEEDED[phase]]), "the load is known"
    if held:
        assert moves(faulty) == []
    rests(healed, phase)


def rests(healed: list[Decision], phase: str) -> None:
    assert (healed[-1].consumers, healed[-1].reason) == (NEEDED[phase], Reason.WITHIN_TARGET)
    assert not [d for d in healed[-20:] if d.actions], "and rests"


@pytest.mark.parametrize("phase", LEVELS)
def test_what_was_not_decided_while_the_control_log_could_not_be_read_is_made_up_for(phase: str) -> None:
    """No cycle of such a group decides anything; the first that does goes by what is known then, and by no more."""
    before, after = LEVELS[phase]
    world = World(
        policy=policy(shrink_stabilisation_s=20, shrink_cooldown_s=5, move_payback_s=None),
        traffic=lambda t: rates(*[before if t < CHANGES else after] * 16),
    )  # fmt: skip
    world.run(BEGINS)
    world.t = float(ENDS)
    healed = world.run(LASTS - ENDS)
    if phase == "shrinking":
        assert all(d.consumers == 4 for d in healed[:20]), "nobody has seen so few to be enough for long"
    rests(healed, phase)


def late_members(told: list[GroupMembers]) -> GroupMembers:
    return told[max(0, len(told) - LATE_S)]


def twice(told: list[GroupMembers]) -> GroupMembers:
    """Return members of which each holds what the first one does, too."""
    first, *others = told[-1].members
    return replace(told[-1], members=(first, *(replace(m, assigned=m.assigned | first.assigned) for m in others)))


def elsewhere(told: list[GroupMembers]) -> GroupMembers:
    """Return members that hold what does not exist."""
    return replace(told[-1], members=tuple(replace(m, assigned=frozenset({tp(900 + n)})) for n, m in enumerate(told[-1].members)))


NATIVE: Mapping[str, Callable[[list[GroupMembers]], GroupMembers | None]] = {
    "the members cannot be read": lambda _told: None,
    "the members are told late": late_members,
    "members hold a partition twice": twice,
    "members hold what does not exist": elsewhere,
    "the group rebalances and does not end": lambda told: replace(told[-1], state="PREPARING_REBALANCING"),
    "an assignor that is not known": lambda told: replace(told[-1], assignor="zebra"),
}


def test_the_page_has_a_row_for_each() -> None:
    assert [name for name in (*MANAGED, *NATIVE, "the control log cannot be read") if f"| {name} |" not in PAGE] == []


@dataclass(slots=True, kw_only=True)
class Lens(FakeReader):
    """Shows a world's members as they are, and otherwise for a while."""

    world: NativeWorld
    fault: Callable[[list[GroupMembers]], GroupMembers | None]
    told: list[GroupMembers] = field(default_factory=list)

    def members(self, group: str) -> GroupMembers | None:
        self.told.append(self.world.reader.groups[group])
        return self.fault(self.told) if BEGINS <= len(self.world.decisions) < ENDS else self.told[-1]


# Of the assignors that look alike from here, make chaos looks at the others too.
CLASSIC = [
    pytest.param(NativeWorld, a, marks=[] if a in {Assignor.RANGE, Assignor.COOPERATIVE_STICKY} else [pytest.mark.slow])
    for a in Assignor
    if a is not Assignor.UNIFORM
]


@pytest.mark.parametrize(("make", "assignor"), [*CLASSIC, (PlacedWorld, Assignor.RANGE)])
@pytest.mark.parametrize("phase", LEVELS)
@pytest.mark.parametrize("name", NATIVE)
def test_no_member_that_is_seen_wrongly_leads_a_native_group_to_a_wrong_step(
    name: str, phase: str, make: type[NativeWorld], assignor: Assignor
) -> None:
    before, after = LEVELS[phase]
    world = make(assignor=assignor, changes={"shrink_cooldown_s": 5})
    world.controller.reader = Lens(world=world, fault=NATIVE[name])
    for t in range(LASTS):
        world.tick(even(world, 16 * (before if t < CHANGES else after)))
    assert world.decisions[BEGINS - 1].consumers == 4
    during = [n for t, n in world.scalings if BEGINS <= t < ENDS]
    assert during in (([],) if phase == "steady" else ([], [NEEDED[phase]])), "one right step, or none"
    last = world.decisions[-1]
    assert (last.consumers, last.reason) == (NEEDED[phase], Reason.WITHIN_TARGET)
    assert not [t for t, _ in world.scalings if t >= LASTS - 20], "and rests"
