"""How long a partition is without an owner at most, counted in what the protocol does: steps, plans, ticks and heartbeats.

That it takes no less than a lease where nobody saw the end is shown in ``test_expiry``; here, that it takes no more.
"""

from dataclasses import replace
from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.handover.controller_state import BY_HEARTBEATS, BY_PLATFORM, ControllerState
from autoscaler.handover.expiry import margin_s
from autoscaler.handover.planning import Intended, next_plan
from autoscaler.handover.records import Expired, Heartbeat, Incarnation, Phase, Plan, Tick, Tp
from autoscaler.handover.worker_events import Drained, LogRead, OffsetsRead, ReadOffsets, SendReleased, Start, StopFetching
from autoscaler.handover.worker_state import HEARTBEATS_PER_LEASE, WorkerState
from tests.handover.worker_driver import Driven

G, C, T = "g", "control-id", "topic-id"
OLD, NEW = Incarnation("g-0", "old"), Incarnation("g-1", "new")
P0 = Tp(T, 0)


def heartbeat(worker: Incarnation, lease_s: float, *, stamp: float = 0.0, acked: int | None = None) -> Heartbeat:
    return Heartbeat(
        group=G, worker=worker, stamp=stamp, boot_id="b", acked=acked, lease_s=lease_s, epoch=0, phase=Phase.ACTIVE, owned={},
        instance=f"i-{worker.uuid}",
    )  # fmt: skip


def to(owner: Incarnation) -> Intended:
    return Intended(
        owners={P0: owner}, topics={T: "orders"}, partitions=frozenset({P0}), starts={}, requested=(0, 1), summary="", at=0.0
    )


def group(lease_s: float = 10.0) -> ControllerState:
    """Return a group of two workers, the older of which owns the partition."""
    state = ControllerState(G, C, lease_s)
    state.log.started(0)
    state.fold(replace(next_plan(state, to(OLD)), grants={}), offset=0, at=0.0)
    for offset, worker in enumerate((OLD, NEW)):
        state.fold(heartbeat(worker, lease_s), offset=offset, at=0.0)
    state.fold(next_plan(state, to(OLD)), offset=1, at=0.0)
    return state


def ready(me: Incarnation) -> Driven:
    return Driven(state=WorkerState(group=G, me=me, control_id=C, lease_s=10.0)).joined()


leases = st.floats(1.0, 60.0)


def most(lease_s: float, every_s: float) -> int:
    """Return how many ticks or heartbeats may pass: lease and margin's, and two.

    Two, because the first one after the last sign of life may have been stamped before it, and the second begins the span.
    """
    return 2 + ceil((lease_s + margin_s(lease_s)) / every_s + 1e-9)


@settings(deadline=None)
@given(lease_s=leases, ticks_per_s=st.floats(0.5, 20.0), phase=st.floats(0.0, 0.99))
def test_a_silent_end_is_known_two_ticks_after_lease_and_margin_at_the_latest(
    lease_s: float, ticks_per_s: float, phase: float
) -> None:
    state, every_s = group(lease_s), 1.0 / ticks_per_s
    last = 1  # NEW's heartbeat; from here on only the controller is heard
    limit, ticks = most(lease_s, every_s), 0
    while not {OLD, NEW} <= state.overdue().keys():
        ticks += 1
        assert ticks <= limit
        offset = last + ticks
        tick = Tick(
            group=G, incarnation="c", stamp=(ticks + phase) * every_s, boot_id="b", acked=offset - 1 if ticks > 1 else None
        )
        state.fold(tick, offset=offset, at=0.0)
    assert set(state.overdue().values()) == {BY_HEARTBEATS}


@settings(deadline=None)
@given(lease_s=leases)
def test_the_others_heartbeats_tell_it_as_soon_without_any_controller(lease_s: float) -> None:
    """Whoever comes back reads what was written meanwhile, and waits for nothing more."""
    state, every_s = group(lease_s), lease_s / HEARTBEATS_PER_LEASE
    for n in range(1, most(lease_s, every_s) + 1):
        beat = heartbeat(NEW, lease_s, stamp=n * every_s, acked=n if n > 1 else None)
        state.fold(beat, offset=1 + n, at=0.0)
    assert state.overdue() == {OLD: BY_HEARTBEATS}


def test_an_end_that_the_platform_saw_costs_one_plan() -> None:
    state, worker = group(), ready(NEW)
    state.ended({"i-old"})
    assert state.to_expire() == {OLD: BY_PLATFORM}, "at this very look"
    expired = Expired(group=G, worker=OLD, control_id=C, evidence=BY_PLATFORM)
    state.fold(expired, offset=2, at=0.0)
    plan = next_plan(state, to(NEW))
    assert starts_at_once(worker, expired, plan)


def test_a_planned_move_waits_for_no_heartbeat_and_no_cycle() -> None:
    """Each side acts in the very step in which it learns that it may: between them lie the drain and one read of the log."""
    state, old, new = group(), ready(OLD), ready(NEW)
    first = state.plan
    assert first is not None
    old.feed(LogRead(records=(first,)))
    old.feed(OffsetsRead(offsets=((P0, first.epoch.number, 5),)))
    moved = next_plan(state, to(NEW))
    assert old.feed(LogRead(records=(moved,))) == [StopFetching(tps=(P0,))]
    new.feed(LogRead(records=(moved,)))
    (released,) = (e.released for e in old.feed(Drained(offsets=((P0, 9),))) if isinstance(e, SendReleased))
    beats = len(new.beats)
    assert new.feed(LogRead(records=(released,))) == [ReadOffsets(asked=((P0, moved.epoch.number),))]
    assert len(new.beats) == beats
    assert starts(new, moved)


def starts_at_once(worker: Driven, expired: Expired, plan: Plan) -> bool:
    assert worker.feed(LogRead(records=(expired, plan))) == [ReadOffsets(asked=((P0, plan.epoch.number),))]
    return starts(worker, plan)


def starts(worker: Driven, plan: Plan) -> bool:
    return any(isinstance(e, Start) for e in worker.feed(OffsetsRead(offsets=((P0, plan.epoch.number, 9),))))
