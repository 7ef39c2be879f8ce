"""Short ways to make values for tests of the pure parts; everything not named is ordinary."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from autoscaler.config.policy import Policy
from autoscaler.model import (
    Decision,
    GroupMembers,
    GroupState,
    LoadSnapshot,
    Member,
    Moment,
    Observation,
    PartitionLoad,
    RateSource,
    TopicPartition,
    WorkerPhase,
    WorkerView,
)
from autoscaler.model.findings import What

T0 = 1_700_000_000.0
TOPIC = "orders"
CAPACITY = 100.0  # bytes/s of one consumer; with the policy below 80 are usable, 88 is overload, 72 is calm


def tp(partition: int | str) -> TopicPartition:
    """Return a partition by number of one topic, or by the name of a topic of its own."""
    if isinstance(partition, str):
        return TopicPartition(topic=partition, partition=0)
    return TopicPartition(topic=TOPIC, partition=partition)


def rates(*values: float) -> dict[TopicPartition, float]:
    """Return rates of partitions 0, 1, 2 …"""
    return {tp(i): v for i, v in enumerate(values)}


def named(**values: float) -> dict[TopicPartition, float]:
    """Return rates of partitions a, b, c …"""
    return {tp(k): v for k, v in values.items()}


def owners(**values: int) -> dict[TopicPartition, int]:
    """Return owners of partitions a, b, c …"""
    return {tp(k): v for k, v in values.items()}


def owned(*consumers: Iterable[int]) -> dict[TopicPartition, int]:
    """Return owners from what consumers 0, 1, 2 … hold."""
    return {tp(p): c for c, ps in enumerate(consumers) for p in ps}


def load(partition: TopicPartition, bytes_per_s: float | None, **changes: object) -> PartitionLoad:
    """Return one partition's load, fresh and without lag."""
    values: dict[str, object] = {
        "partition": partition,
        "topic_id": f"id-of-{partition.topic}",
        "bytes_per_s": bytes_per_s,
        "records_per_s": None if bytes_per_s is None else bytes_per_s / 10,
        "lag_records": 0,
        "lag_bytes": 0.0,
        "lag_s": 0.0,
        "committed": 100,
        "log_start": 0,
        "log_end": 100,
        "known": bytes_per_s is not None,
        "age_s": 0.0,
        "window_s": 30.0,
        "rate_source": RateSource.NONE if bytes_per_s is None else RateSource.LOG_DIRS,
    }
    return PartitionLoad(**{**values, **changes})  # type: ignore[arg-type]


def snapshot(
    loads: Mapping[TopicPartition, float | None] | Iterable[PartitionLoad],
    at: float = T0,
    error: str | None = None,
    lost: frozenset[str] = frozenset(),
) -> LoadSnapshot:
    """Return a snapshot of rates, or of ready-made loads."""
    items = [load(p, r) for p, r in loads.items()] if isinstance(loads, Mapping) else list(loads)
    ordered = tuple(sorted(items, key=lambda x: x.partition))
    return LoadSnapshot(
        group="g", sample_ts=at, loads=ordered, known=bool(ordered) and all(x.known for x in ordered), error=error, lost=lost
    )


def worker(slot: int | None, holds: Iterable[TopicPartition] = (), phase: WorkerPhase = WorkerPhase.ACTIVE) -> WorkerView:
    """Return a live worker of a slot."""
    name = f"g-{slot}"
    return WorkerView(name=name, uuid=f"{name}-1", slot=slot, phase=phase, instance=name, owned=frozenset(holds))


def state(
    owner: Mapping[TopicPartition, int],
    *,
    live: Iterable[int] | None = None,
    requested: Iterable[int] | None = None,
    **changes: object,
) -> GroupState:
    """Return a managed group at rest: every owner lives, is requested and holds what is planned."""
    slots = sorted(set(owner.values()) if live is None else live)
    values: dict[str, object] = {
        "epoch": 7,
        "workers": tuple(worker(s, [p for p, c in owner.items() if c == s]) for s in slots),
        "owner": dict(owner),
        "orphans": frozenset(),
        "pending": frozenset(),
        "requested": frozenset(slots if requested is None else requested),
        "plan_at": T0 - 1000,
    }
    return GroupState(**{**values, **changes})  # type: ignore[arg-type]


def unplanned(live: Iterable[int] = ()) -> GroupState:
    """Return a managed group before its first plan."""
    return replace(state({}, live=live), requested=None, epoch=0, plan_at=None)


def members(*holds: Iterable[int], at: float = T0, group_state: str = "STABLE") -> GroupMembers:
    """Return a native group whose members m0, m1 … hold these partitions."""
    return GroupMembers(
        state=group_state,
        kind="CLASSIC",
        assignor="range",
        members=tuple(
            Member(
                member_id=f"m{i}",
                client_id=f"app-{i}",
                host=f"/10.0.0.{i}",
                assigned=frozenset(tp(p) for p in ps),
                topics=frozenset({TOPIC}),
            )
            for i, ps in enumerate(holds)
        ),
        at=at,
    )


def observation(
    loads: Mapping[TopicPartition, float | None] | LoadSnapshot,
    group_state: GroupState | None = None,
    group_members: GroupMembers | None = None,
) -> Observation:
    """Return what a cycle sees."""
    measured = loads if isinstance(loads, LoadSnapshot) else snapshot(loads)
    return Observation(group="g", snapshot=measured, state=group_state, members=group_members)


def moment(at: float = T0) -> Moment:
    """Return a moment at which both clocks happen to show the same."""
    return Moment(now=at, wall=at)


def policy(**changes: object) -> Policy:
    """Return a policy that acts, with 80 bytes/s usable per consumer."""
    values: dict[str, object] = {
        "group": "g",
        "topics": (TOPIC,),
        "mode": "act",
        "capacity_bytes_per_s": CAPACITY,
        "target_utilisation": 0.8,
    }
    return Policy.model_validate({**values, **changes})


def says(decision: Decision, what: What, **expected: object) -> bool:
    """Say whether a decision has a finding of this kind with these partitions, consumers, numbers and texts."""
    found = (f for f in decision.findings if f.what is what)
    values = ({**f.numbers, **f.texts, "partitions": f.partitions, "consumers": f.consumers} for f in found)
    return any(all(name in v and _alike(v[name], x) for name, x in expected.items()) for v in values)


def _alike(value: object, expected: object) -> bool:
    return bool(value == (pytest.approx(expected) if isinstance(expected, int | float) else expected))
