"""One cycle of one group against fakes of every port: what is acted on, what is recorded, and what a failure does."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from autoscaler.adapters.audit.decision_json import restore, summarise
from autoscaler.config.policy import Policy
from autoscaler.controller.actuator import Actuator
from autoscaler.controller.group_controller import GroupController
from autoscaler.controller.managed_actuator import ManagedConsumers
from autoscaler.errors import FencedError, TransientError
from autoscaler.model import (
    CapacitySource,
    Decision,
    Hindered,
    Hindrance,
    LoadSnapshot,
    Observation,
    ParkPartition,
    Reason,
    ResetOffset,
    Retention,
    Span,
    TopicPartition,
)
from autoscaler.model.findings import What
from autoscaler.ports import PlanIntent
from tests.builders import CAPACITY, TOPIC, load, members, rates, says, snapshot, tp
from tests.fakes import FakeAudit, FakeClock, FakePool, FakePublisher, FakeReader, FakeRetention

LINES = tuple[int, Decision]


class RefusingPublisher(FakePublisher):
    """A control log that can be read while it cannot be written."""

    refuse = False

    def publish(self, intent: PlanIntent) -> int:
        if self.refuse:
            msg = "the broker is away"
            raise TransientError(msg)
        return super().publish(intent)


@dataclass
class World:
    """A controller and everything around it."""

    mode: str = "act"
    clock: FakeClock = field(default_factory=FakeClock)
    audit: FakeAudit = field(default_factory=FakeAudit)
    lines: list[LINES] = field(default_factory=list)
    connects: list[Exception] = field(default_factory=list)
    number: int = 0
    subscribed: tuple[list[int], ...] = ()  # partitions of each member that uses Kafka's own protocol

    def __post_init__(self) -> None:
        self.publisher = RefusingPublisher(group="g", clock=self.clock)
        self.pool = FakePool(group="g", clock=self.clock, on_start=self.publisher.join, on_stop=self.publisher.leave)
        self.controller = self.new_controller()

    def watched(self) -> "World":
        """Set the group back to advise: the same control log is only looked at."""
        self.mode = "advise"
        self.controller = self.new_controller()
        self.controller.actuator.watch = self.publisher
        return self

    def new_controller(self) -> GroupController:
        policy = Policy(group="g", topics=(TOPIC,), mode=self.mode, capacity_bytes_per_s=CAPACITY, shrink_stabilisation_s=5,
                        shrink_cooldown_s=5, cooldown_s=1)  # fmt: skip
        return GroupController(
            policy=policy,
            actuator=ManagedConsumers(connect=self.connect, summarise=summarise) if self.mode == "act" else Actuator(),
            reader=FakeReader(groups={"g": members(*self.subscribed)}),
            audit=self.audit,
            clock=self.clock,
            sink=self.line,
        )

    def connect(self) -> tuple[FakePublisher, FakePool]:
        if self.connects:
            raise self.connects.pop()
        return self.publisher, self.pool

    def line(
        self, *, cycle: int, decision: Decision, snapshot: LoadSnapshot, observation: Observation, stages: Mapping[str, float]
    ) -> None:
        assert snapshot.group == observation.group == "g"
        assert stages["record_s"] >= 0
        self.lines.append((cycle, decision))

    def cycle(self, *loads: float) -> Decision:
        self.number += 1
        self.clock.advance(1.0)
        return self.controller.cycle(self.number, snapshot(rates(*loads), at=self.clock.now()), {"read_s": 0.01})

    def settle(self, *loads: float, cycles: int = 6) -> Decision:
        for _ in range(cycles):
            decision = self.cycle(*loads)
        return decision


def test_a_group_reaches_its_target_and_rests_there() -> None:
    world = World()
    assert world.settle(40, 40, 40).reason is Reason.WITHIN_TARGET
    state = world.publisher.observe()
    assert set(state.owner.values()) == set(world.pool.observe().running)
    plans = len(world.publisher.published)
    world.settle(40, 40, 40, cycles=20)
    assert len(world.publisher.published) == plans


def test_every_cycle_is_recorded_and_shown_and_only_acting_ones_have_outcomes() -> None:
    world = World()
    world.settle(40, 40, 40, cycles=10)
    assert [n for n, _ in world.lines] == list(range(1, 11))
    assert [e.decision for e in world.audit.entries] == [d for _, d in world.lines]
    for entry in world.audit.entries:
        phases = [(o.phase, o.status) for o in entry.outcomes]
        assert phases == ([("intent", "planned"), ("outcome", "done")] if entry.decision.actions else [])
    assert any(e.handovers for e in world.audit.entries)


def test_a_plan_that_only_takes_back_what_was_asked_for_has_its_outcome() -> None:
    world = World()
    world.settle(40, 40, 40)
    state = world.publisher.observe()
    world.pool.on_start = lambda *_: None  # it runs, and is not heard of
    world.publisher.publish(PlanIntent(target=state.owner, requested=frozenset(state.owner.values()) | {7}, summary=""))
    plans = len(world.publisher.published)
    world.settle(30, 30, 30, cycles=40)
    assert len(world.publisher.published) == plans + 1, "7 never came"
    (entry,) = (e for e in world.audit.entries[-40:] if e.outcomes)
    assert not entry.decision.actions
    assert [(o.phase, o.status, o.epoch is not None) for o in entry.outcomes] == [
        ("intent", "planned", False),
        ("outcome", "done", True),
    ]


@dataclass
class Markers:
    """Knows of some partitions that what is unread of them is nothing."""

    nothing: frozenset[TopicPartition] = frozenset()
    asked: Mapping[TopicPartition, Span] = field(default_factory=dict)

    def ask(self, spans: Mapping[TopicPartition, Span]) -> None:
        self.asked = spans

    def empty(self) -> Mapping[TopicPartition, Span]:
        return {p: span for p, span in self.asked.items() if p in self.nothing}

    def close(self) -> None:
        self.asked = {}


def test_markers_behind_the_last_record_are_no_lag_in_what_is_decided_on_and_written_down() -> None:
    world = World()
    world.controller.markers = Markers(frozenset({tp(0)}))
    for _ in range(10):
        world.number += 1
        world.clock.advance(1.0)
        loads = [load(tp(0), 40.0, lag_records=1, log_end=101, lag_s=99.0), load(tp(1), 40.0, lag_records=2, log_end=102)]
        decision = world.controller.cycle(world.number, snapshot(loads, at=world.clock.now()), {})
    assert decision.total_lag_records == 2
    assert [(x.lag_records, x.lag_s) for x in world.audit.entries[-1].snapshot.loads] == [(0, 0.0), (2, 0.0)]
    assert [x.lag_records for x in world.audit.entries[0].snapshot.loads] == [1, 2], "before anybody looked it is a lag"


@pytest.mark.parametrize("by", [0.0, -3600.0, 3600.0])
def test_what_is_unread_is_looked_at_as_soon_whatever_the_wall_clock_is_set_to(by: float) -> None:
    world = World()
    world.controller.markers = markers = Markers()
    asked = []
    for second in range(7):
        world.clock.wall += by if second == 2 else 0.0
        world.clock.advance(1.0)
        loads = [load(tp(0), 40.0, lag_records=1, log_end=101)]
        world.controller.cycle(second, snapshot(loads, at=world.clock.now()), {})
        asked.append(bool(markers.asked))
    assert asked == [False] * 5 + [True] * 2


def test_what_is_known_of_retention_is_decided_on() -> None:
    world = World()
    world.settle(40, 40, 40)
    world.controller.retention = FakeRetention({TOPIC: Retention(seconds=1000.0, bytes=math.inf)})
    late = [load(tp(0), 40.0, lag_records=3800, lag_bytes=38_000.0, lag_s=950.0), load(tp(1), 40.0), load(tp(2), 40.0)]
    world.clock.advance(1.0)
    decision = world.controller.cycle(100, snapshot(late, at=world.clock.now()), {})
    assert decision.reason is Reason.RETENTION_AT_RISK
    assert says(decision, What.RETENTION_RISK, partitions=(tp(0),), loss_s=50)


def test_advise_computes_the_same_and_touches_nothing() -> None:
    world = World(mode="advise", connects=[AssertionError("connected")], subscribed=([0, 1, 2],))
    decision = world.settle(40, 40, 40)
    assert decision.limited_by is Reason.ADVISORY
    assert decision.consumers == 2
    assert not world.publisher.published
    assert not world.pool.observe().running


def test_a_group_set_back_to_advise_still_shows_who_consumes_what_and_what_would_be_done() -> None:
    world = World()
    world.settle(40, 40, 40)
    plans, owner = len(world.publisher.published), dict(world.publisher.observe().owner)
    decision = world.watched().settle(40, 40, 40)
    assert (decision.reason, decision.limited_by) == (Reason.WITHIN_TARGET, Reason.ADVISORY)
    assert (decision.consumers_now, decision.consumers, dict(decision.target)) == (2, 2, owner)
    assert world.audit.entries[-1].owner == owner
    decision = world.settle(90, 90, 90)
    assert (decision.reason, decision.consumers_now, decision.consumers) == (Reason.RATE_ABOVE_CAPACITY, 2, 3)
    assert len(world.publisher.published) == plans
    assert dict(world.publisher.observe().owner) == owner


def test_in_advise_a_control_log_that_cannot_be_read_leaves_the_consumers_unknown_and_the_advice_standing() -> None:
    world = World()
    world.settle(40, 40, 40)
    world.watched().publisher.fails = TransientError("the broker is away")
    decision = world.cycle(40, 40, 40)
    assert (decision.consumers_now, decision.recommended) == (None, 2)
    assert says(decision, What.CONSUMERS_NOT_KNOWN, error="the broker is away")
    assert world.cycle(40, 40, 40).consumers_now == 2


def test_a_newer_controller_ends_this_one_and_the_record_says_so() -> None:
    world = World()
    world.settle(50, 50)
    world.publisher.fenced = True
    with pytest.raises(FencedError):
        world.cycle(50, 50)
    assert [o.status for o in world.audit.entries[-1].outcomes] == ["fenced"]


def test_a_plan_that_could_not_be_published_changes_no_worker_and_is_tried_again() -> None:
    world = World()
    world.settle(50, 50)
    running = world.pool.observe().running
    world.publisher.refuse = True
    decision = world.cycle(50, 50, 70)
    assert [(o.phase, o.status) for o in world.audit.entries[-1].outcomes] == [("intent", "planned"), ("outcome", "failed")]
    assert says(decision, What.NOT_CARRIED_OUT, error="the broker is away")
    assert world.audit.entries[-1].decision == decision, "what is shown is what is recorded"
    assert world.pool.observe().running == running
    world.publisher.refuse = False
    assert decision.actions
    assert world.settle(50, 50, 70).reason is Reason.WITHIN_TARGET


def test_an_unreadable_control_log_is_no_load_and_no_action() -> None:
    world = World()
    world.settle(50, 50)
    plans, running = len(world.publisher.published), world.pool.observe().running
    world.publisher.fails = TransientError("control log cannot be read: broker 1 timed out")
    decision = world.cycle(0, 0)
    assert decision.reason is Reason.NOT_READY
    assert "broker 1 timed out" in decision.detail
    assert decision.consumers_now is None, "who consumes was not read"
    assert decision.consumers == len(running), "those stay asked for"
    assert (len(world.publisher.published), world.pool.observe().running) == (plans, running)


def test_a_broker_that_is_away_at_the_start_delays_the_group_and_nothing_else() -> None:
    world = World(connects=[TransientError("no broker answers"), TransientError("no broker answers")])
    assert world.cycle(50).reason is Reason.NOT_READY
    assert world.cycle(50).reason is Reason.NOT_READY
    assert world.settle(50).reason is Reason.WITHIN_TARGET


def test_a_defect_in_one_cycle_is_held_reported_and_over_in_the_next() -> None:
    world = World()
    world.settle(50, 50)
    world.publisher.fails = ZeroDivisionError("a defect")  # type: ignore[assignment]
    decision = world.cycle(50, 50)
    assert not decision.actions
    assert "ZeroDivisionError: a defect" in decision.detail
    assert world.cycle(50, 50).reason is Reason.WITHIN_TARGET


def test_a_dead_worker_is_replaced_within_a_cycle_and_started_again() -> None:
    world = World()
    world.settle(40, 40, 40)
    slot = next(iter(world.pool.observe().running))
    world.publisher.die(slot)
    world.pool.die(slot)
    decision = world.cycle(40, 40, 40)
    assert decision.reason is Reason.WORKER_LOST
    assert says(decision, What.WORKER_RESTARTED, consumers=(slot,))
    world.settle(40, 40, 40)
    assert slot in world.pool.observe().running


def test_what_keeps_workers_from_running_is_said_with_the_platforms_words() -> None:
    world = World()
    world.settle(40, 40, 40)
    no_room = Hindered(why=Hindrance.UNSCHEDULABLE, said="0/2 nodes are available")
    world.pool.hindered = {8: no_room, 7: no_room, 2: Hindered(why=Hindrance.UNREADY)}
    decision = world.cycle(40, 40, 40)
    assert says(decision, What.WORKER_HINDERED, consumers=(7, 8), why="unschedulable", said="0/2 nodes are available")
    assert says(decision, What.WORKER_HINDERED, consumers=(2,), why="unready")


def test_a_restarted_controller_completes_the_audit_once_and_does_not_shrink_at_once() -> None:
    world = World()
    world.settle(40, 40, 40)
    summary = world.publisher.last_summary()
    world.controller = world.new_controller()
    world.settle(10, 10, 10, cycles=3)
    assert world.audit.completed == [summary]
    assert len(world.pool.observe().running) == 2
    world.settle(10, 10, 10, cycles=15)
    assert len(world.pool.observe().running) == 1


@pytest.mark.parametrize(
    ("source", "summary", "used"),
    [
        (CapacitySource.MEASURED, None, (CapacitySource.MEASURED, 64.0)),
        (CapacitySource.PRIOR, None, (CapacitySource.PRIOR, 500.0)),
        (CapacitySource.CONFIGURED, None, (CapacitySource.PRIOR, 500.0)),
        (CapacitySource.MEASURED, "of another release", (CapacitySource.PRIOR, 500.0)),
    ],
)
def test_a_restarted_controller_goes_on_with_the_capacity_that_was_measured(
    source: CapacitySource, summary: str | None, used: tuple[CapacitySource, float]
) -> None:
    world = World()
    decision = replace(world.settle(40, 40, 40), capacity_source=source, capacity_bytes_per_s=64.0)
    target, requested = decision.target, decision.requested
    world.publisher.publish(PlanIntent(target=target, requested=requested, summary=summary or summarise(decision)))
    world.controller = world.new_controller()
    world.controller.restore = restore
    world.controller.policy = world.controller.policy.model_copy(
        update={"capacity_bytes_per_s": None, "capacity_prior_bytes_per_s": 500.0}
    )
    first = world.cycle(40, 40, 40)
    assert (first.capacity_source, first.capacity_bytes_per_s) == used
    assert says(first, What.CAPACITY_KEPT) == (used[0] is CapacitySource.MEASURED)
    world.publisher.fails = TransientError("the broker is away")
    held = world.cycle(40, 40, 40)
    assert (held.reason, held.capacity_source, held.capacity_bytes_per_s) == (Reason.NOT_READY, *used)


@pytest.mark.parametrize("failure", [TransientError("other workers run"), OSError("no more processes")])
def test_a_plan_that_is_out_is_recorded_whatever_happens_to_the_workers(failure: Exception) -> None:
    world = World()
    world.settle(40, 40)
    world.pool.fails = failure  # type: ignore[assignment]
    decision = world.cycle(40, 40, 70)
    entry = world.audit.entries[-1]
    assert entry.decision == decision
    assert decision.actions
    assert [(o.phase, o.status) for o in entry.outcomes] == [("intent", "planned"), ("outcome", "failed")]
    assert entry.outcomes[-1].epoch == len(world.publisher.published)
    assert str(failure) in str(entry.outcomes[-1].error)
    assert world.settle(40, 40, 70).reason is Reason.WITHIN_TARGET


def test_a_partition_that_ends_every_worker_is_parked_once_with_rows_and_stays_so_over_a_restart() -> None:
    world = World()
    world.settle(40, 40, 40)
    stuck = tp(1)
    world.publisher.behind.add(stuck)
    for _ in range(8):
        slot = world.publisher.observe().owner.get(stuck)
        if slot is None:
            break
        world.publisher.die(slot)
        world.pool.die(slot)
        world.settle(40, 40, 40, cycles=8)
    parking = [e for e in world.audit.entries if any(isinstance(a, ParkPartition) for a in e.decision.actions)]
    assert [[o.status for o in e.outcomes] for e in parking] == [["planned", "done"]]
    assert parking[0].decision.actions[0] == ParkPartition(partition=stuck, owners=3, offset=-1)
    assert world.publisher.published[-1].parked == {stuck}
    world.controller = world.new_controller()
    decision = world.settle(40, 40, 40)
    assert (decision.parked, set(decision.target)) == ((stuck,), {tp(0), tp(2)})
    world.publisher.release(stuck)
    assert set(world.settle(40, 40, 40).target) == {tp(0), tp(1), tp(2)}


def test_a_partition_out_of_range_is_reset_with_a_row_that_says_from_where_to_where() -> None:
    world = World()
    world.settle(40, 40, 40)
    world.publisher.out_of_range[tp(1)] = 150
    world.settle(40, 40, 40)
    resets = [e for e in world.audit.entries if any(isinstance(a, ResetOffset) for a in e.decision.actions)]
    assert [(e.decision.actions, [o.status for o in e.outcomes]) for e in resets] == [
        ((ResetOffset(partition=tp(1), offset=150, start=0),), ["planned", "done"])
    ]
    assert [i.resets for i in world.publisher.published if i.resets] == [{tp(1): (150, 0)}]


def test_nobodys_group_is_taken_over_before_its_members_have_been_read() -> None:
    world = World()
    world.controller.reader = FakeReader(groups={})
    decision = world.cycle(10.0)
    assert (decision.reason, decision.actions) == (Reason.NOT_READY, ())
    assert says(decision, What.MEMBERS_NOT_READ)
    assert world.publisher.published == []
    world.controller.reader = FakeReader(groups={"g": members()})
    assert world.cycle(10.0).actions


def test_who_joins_under_a_name_that_no_plan_can_bind_to_is_named_in_every_decision() -> None:
    world = World()
    world.settle(CAPACITY / 2)
    world.publisher.join(7)
    stranger = world.publisher._lives[-1]
    stranger.view = replace(stranger.view, name="host-12-ab34", slot=None)
    for _ in range(2):
        assert says(world.cycle(CAPACITY / 2), What.NO_SUCH_SLOT, workers="host-12-ab34")
    world.publisher._lives.remove(stranger)
    assert "host-12-ab34" not in world.cycle(CAPACITY / 2).detail


def test_an_earlier_incarnation_of_a_slot_is_no_stranger() -> None:
    world = World()
    world.settle(CAPACITY / 2)
    world.publisher.join(0)
    assert not says(world.cycle(CAPACITY / 2), What.NO_SUCH_SLOT)


def test_the_cycle_that_sees_a_consumer_end_places_its_partitions_on_the_living() -> None:
    """One cycle, not one to notice and one to act."""
    world = World()
    world.settle(*(CAPACITY * 0.6,) * 3, cycles=12)
    before = world.publisher.observe()
    gone = max(before.owner.values())
    world.pool.die(gone)
    plans = len(world.publisher.published)
    world.cycle(*(CAPACITY * 0.6,) * 3)
    after = world.publisher.observe()
    assert len(before.owner) == len(after.owner) == 3
    assert len(world.publisher.published) == plans + 1
    assert (after.orphans, gone in after.owner.values()) == (frozenset(), False)


def test_a_line_that_cannot_be_written_ends_no_other_groups_cycle() -> None:
    world = World()

    def fails(**_: object) -> None:
        "\ud800".encode()

    world.controller.sink = fails
    world.cycle(40.0)
    assert len(world.audit.entries) == 1


@pytest.mark.parametrize("by", [0.0, -3600.0, 3600.0, -5.0])
def test_a_clock_that_is_set_changes_no_duration(by: float) -> None:
    world = World()
    world.settle(40, 40, 40, cycles=4)
    world.settle(40, 40, 40, 40, 40, 40, cycles=3)
    world.clock.wall += by
    shrunk = None
    for second in range(25):
        world.cycle(5, 5, 5, 5, 5, 5)
        if shrunk is None and len(world.publisher.published[-1].requested) == 1:
            shrunk = second
    assert shrunk == 5
