"""A worker's machine fed by hand, for the tests of its rules."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from autoscaler.handover.records import Epoch, Expired, Grant, Heartbeat, Incarnation, Left, Plan, Released, Tp, Wait
from autoscaler.handover.worker_events import (
    Effect,
    Elapsed,
    Event,
    HeartbeatAcked,
    LogRead,
    OffsetsRead,
    ReadOffsets,
    SendHeartbeat,
    SendReleased,
    Start,
    Taking,
)
from autoscaler.handover.worker_state import WorkerState, step

G, C, T, L = "g", "control-id", "topic-id", 10.0
A, B, X = (Incarnation(n, f"{n}-uuid") for n in "abx")
P0, P1 = Tp(T, 0), Tp(T, 1)


def plan(
    number: int,
    owners: dict[Tp, tuple[Incarnation, int]],
    waits: dict[Tp, dict[Incarnation, int]] | None = None,
    starts: dict[Tp, int] | None = None,
) -> Plan:
    return Plan(
        group=G,
        epoch=Epoch(C, number),
        topics={T: "topic"},
        grants={tp: Grant(owner=w, epoch=e) for tp, (w, e) in owners.items()},
        waits={tp: tuple(Wait(worker=w, epoch=e) for w, e in ws.items()) for tp, ws in (waits or {}).items()},
        starts=starts or {},
        leases_s={},
        requested=(),
        summary="",
        at=0.0,
    )


def released(worker: Incarnation, epoch: int, tp: Tp = P0) -> Released:
    return Released(group=G, tp=tp, worker=worker, control_id=C, epoch=epoch, offset=5)


@dataclass
class Driven:
    """A worker fed by hand; ``did`` collects everything but heartbeats."""

    state: WorkerState = field(default_factory=lambda: WorkerState(group=G, me=A, control_id=C, lease_s=L, max_batch_s=50.0))
    now: float = 0.0
    beats: list[Heartbeat] = field(default_factory=list)

    def feed(self, event: Event, at: float | None = None) -> list[Effect]:
        self.now = self.now if at is None else at
        self.state, effects = step(self.state, event, self.now)
        self.beats += [e.heartbeat for e in effects if isinstance(e, SendHeartbeat)]
        return [e for e in effects if not isinstance(e, SendHeartbeat)]

    def read(self, *records: Plan | Expired | Released | Left | tuple[str | int, ...]) -> list[Effect]:
        return self.feed(LogRead(records=records))

    def joined(self) -> "Driven":
        self.feed(Elapsed())
        self.feed(HeartbeatAcked(stamp=self.beats[-1].stamp, offset=0))
        return self

    def holding(self, tp: Tp = P0, number: int = 1) -> "Driven":
        assert self.read(plan(number, {tp: (A, number)})) == [ReadOffsets(asked=((tp, number),))]
        taking = Taking(tp=tp, epoch=number, offset=5, unclaimed=False)
        assert self.feed(OffsetsRead(offsets=((tp, number, 5),))) == [Start(takings=(taking,))]
        return self


def sent(effects: Iterable[Effect]) -> list[tuple[Tp, int, int]]:
    return [(e.released.tp, e.released.epoch, e.released.offset) for e in effects if isinstance(e, SendReleased)]
