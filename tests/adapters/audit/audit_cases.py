"""Cycles for the tests of the audit: real decisions of the core over a group that grows, moves and is left unmeasured."""

from collections.abc import Mapping

from autoscaler.core.decide import History, decide
from autoscaler.model import Decision, GroupState, HandoverDone, LoadSnapshot, PartitionLoad, TopicPartition
from autoscaler.ports import ActionOutcome
from tests import builders as b

T0 = b.T0


def decided(
    rates: Mapping[TopicPartition, float | None] | list[PartitionLoad], state: GroupState, at: float
) -> tuple[Decision, LoadSnapshot]:
    """Return what the core decides on these rates, and the snapshot that it looked at."""
    snapshot = b.snapshot(rates, at=at)
    return decide(b.observation(snapshot, state), History(), b.policy(), b.moment(at + 0.25))[0], snapshot


def calm(at: float = T0) -> tuple[Decision, LoadSnapshot, GroupState]:
    """Return a cycle that does nothing."""
    state = b.state(b.owned([0], [1]))
    return *decided(b.rates(50.0, 40.0), state, at), state


def alone(at: float = T0) -> tuple[Decision, LoadSnapshot, GroupState]:
    """Return a cycle of one consumer that does nothing."""
    state = b.state(b.owned([0, 1, 2]))
    return *decided(b.rates(20.0, 20.0, 10.0), state, at), state


def grown(at: float = T0) -> tuple[Decision, LoadSnapshot, GroupState]:
    """Return a cycle that adds consumer 1."""
    state = b.state(b.owned([0, 1, 2]))
    return *decided(b.rates(60.0, 50.0, 10.0), state, at), state


def hot(at: float = T0) -> tuple[Decision, LoadSnapshot, GroupState]:
    """Return a cycle that moves two partitions to consumer 1, which has joined."""
    state = b.state(b.owned([0, 1, 2]), live=[0, 1], epoch=8)
    return *decided(b.rates(75.0, 50.0, 10.0), state, at), state


def blind(at: float = T0) -> tuple[Decision, LoadSnapshot, GroupState]:
    """Return a cycle that cannot decide: a partition has not been measured for long."""
    state = b.state(b.owned([0], [1]))
    stale = b.load(b.tp(1), 40.0, known=False, age_s=25.0, error="broker 3: timed out")
    return *decided([b.load(b.tp(0), 50.0), stale], state, at), state


def outcomes(decision: Decision, *, epoch: int | None = 8, status: str = "done") -> tuple[ActionOutcome, ActionOutcome]:
    """Return the intent and the outcome of a decision that published a plan."""
    told = {"decision_id": decision.decision_id, "group": decision.group, "error": None}
    return (
        ActionOutcome(**told, at=decision.at, epoch=None, phase="intent", status="planned"),  # type: ignore[arg-type]
        ActionOutcome(**told, at=decision.at + 0.1, epoch=epoch, phase="outcome", status=status),  # type: ignore[arg-type]
    )


def handover(
    partition: int, *, epoch: int = 8, at: float = T0, pause_s: float | None = 0.04, to_uuid: str = "g-1-1"
) -> HandoverDone:
    """Return the hand-over of a partition from consumer 0 to consumer 1."""
    return HandoverDone(
        partition=b.tp(partition),
        topic_id="id-of-orders",
        from_worker="g-0",
        from_uuid="g-0-1",
        to_worker="g-1",
        to_uuid=to_uuid,
        epoch=epoch,
        offset=1234,
        pause_s=pause_s,
        at=at,
    )
