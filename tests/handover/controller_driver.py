"""The controller's state fed by hand with records, for the tests of its rules."""

from collections.abc import Iterable, Mapping

from autoscaler.handover.controller_state import ControllerState
from autoscaler.handover.expiry import margin_s
from autoscaler.handover.planning import Intended, next_plan
from autoscaler.handover.records import Expired, Heartbeat, Incarnation, Left, Phase, Plan, Released, Tick, Tp, Unparked

G, CONTROL, TOPIC = "g", "control-id", "topic-id"
LEASE = 10.0
SPAN = LEASE + margin_s(LEASE)
A, B, C = (Incarnation(n, f"{n}-uuid") for n in "abc")
P0, P1, P2 = (Tp(TOPIC, n) for n in range(3))


class Log:
    """Feeds a state as the adapter does, with offsets that grow; ``at`` is the broker's time."""

    def __init__(self, *, group: str = G) -> None:
        self.state = ControllerState(group, CONTROL, LEASE)
        self.state.log.started(0)
        self.offset = self.control = 0
        self.at = 1000.0

    def beat(
        self,
        worker: Incarnation,
        owned: Mapping[Tp, int] | None = None,
        *,
        epoch: int = 0,
        taken: tuple[tuple[Tp, int, int], ...] = (),
        instance: str | None = None,
        stamp: float = 0.0,
        acked: int | None = None,
        group: str = G,
        exactly_once: bool = False,
    ) -> None:
        record = Heartbeat(
            group=group,
            worker=worker,
            stamp=stamp,
            boot_id="boot",
            acked=acked,
            lease_s=LEASE,
            epoch=epoch,
            phase=Phase.ACTIVE,
            owned=dict(owned or {}),
            taken=taken,
            instance=instance,
            exactly_once=exactly_once,
        )
        self.state.fold(record, offset=self.offset, at=self.at)
        self.offset += 1

    def tick(self, stamp: float, acked: int | None) -> None:
        self.state.fold(
            Tick(group=G, incarnation="controller", stamp=stamp, boot_id="boot", acked=acked), offset=self.offset, at=self.at
        )
        self.offset += 1

    def say(self, record: Plan | Expired | Released | Left | Unparked) -> None:
        self.state.fold(record, offset=self.control, at=self.at)
        self.control += 1

    def released(self, tp: Tp, worker: Incarnation, epoch: int, *, control: str = CONTROL, group: str = G) -> None:
        self.say(Released(group=group, tp=tp, worker=worker, control_id=control, epoch=epoch, offset=7))

    def expired(self, worker: Incarnation, *, control: str = CONTROL, group: str = G) -> None:
        self.say(Expired(group=group, worker=worker, control_id=control, evidence="platform"))

    def plan(self, owners: Mapping[Tp, Incarnation], *, starts: Mapping[Tp, int] | None = None) -> Plan:
        plan = next_plan(self.state, intended(owners, starts=starts))
        self.say(plan)
        return plan


def intended(
    owners: Mapping[Tp, Incarnation],
    *,
    topics: Mapping[str, str] | None = None,
    partitions: Iterable[Tp] = (P0, P1, P2),
    starts: Mapping[Tp, int] | None = None,
) -> Intended:
    return Intended(
        owners=owners,
        topics={TOPIC: "orders"} if topics is None else topics,
        partitions=frozenset(partitions),
        starts=starts or {},
        requested=(0, 1),
        summary="why",
        at=5.0,
    )


def alive(*workers: Incarnation) -> Log:
    """Return a group whose first plan is behind it, with these workers."""
    log = Log()
    log.plan({})
    for worker in workers:
        log.beat(worker)
    return log


def waits(plan: Plan, tp: Tp) -> set[tuple[Incarnation, int]]:
    return {(w.worker, w.epoch) for w in plan.waits.get(tp, ())}
