"""One decision, and what it is made from, in few words."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from autoscaler.config.policy import Policy
from autoscaler.core.decide import History, decide
from autoscaler.model import Decision, GroupMembers, GroupState, LoadSnapshot, MovePartition, PartitionLoad, TopicPartition
from tests.builders import T0, moment, observation, owned, policy, snapshot, tp

LONG_AGO = History(recommendations=((T0 - 120, 1),), last_scale_at=T0 - 1000, last_move_at=T0 - 1000)


def answer(
    loads: Mapping[TopicPartition, float | None] | LoadSnapshot | Iterable[PartitionLoad],
    group: GroupState | None,
    rules: Policy | None = None,
    history: History = LONG_AGO,
    foreign: GroupMembers | None = None,
) -> Decision:
    seen = loads if isinstance(loads, LoadSnapshot | Mapping) else snapshot(loads)
    return decide(observation(seen, group, foreign), history, rules or policy(), moment(T0))[0]


def move(partition: int, source: int | None, target: int) -> MovePartition:
    return MovePartition(partition=tp(partition), source=source, target=target)


def with_orphans(group: GroupState, *partitions: int) -> GroupState:
    return replace(group, orphans=frozenset(tp(p) for p in partitions))


def pending(group: GroupState, *partitions: int) -> GroupState:
    return replace(group, pending=frozenset(tp(p) for p in partitions))


HALF = owned([0], [1])
