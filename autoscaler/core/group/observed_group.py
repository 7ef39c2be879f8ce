"""Who is there and holds what, by consumer index: one view of managed and native groups, where every decision starts."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from autoscaler.core.group.kinds import Kind, Managed, Placed
from autoscaler.model import GroupMembers, GroupState, Member, OutOfRange, Parked, Started, TopicPartition, WorkerPhase


@dataclass(frozen=True, kw_only=True)  # no slots: what rules ask again and again is kept
class Present:
    """The observed group.

    Attributes:
        owner: Consumer of every listed partition that has a live one, planned ones included.
        planned: The same, with the partitions that a plan names and no measurement lists.
        orphans: Listed partitions whose consumer is gone.
        unplaced: Listed partitions that no plan names yet.
        pending: Listed partitions that their planned consumer has not taken yet.
        live: Consumers that live.
        ready: Consumers that live and may be given partitions: those that have joined, to which a plan can bind.
        owed: Consumers that the latest plan gives a partition to, listed or not.
        occupied: Consumers that must not end: those and who still holds one.
        requested: Consumers asked for; ``None`` before the first plan.
        epoch: Of the latest plan; 0 without one.
        plan_at: When the latest plan was published; ``None`` without one.
        parked: Partitions that no consumer gets, listed or not.
        out_of_range: Partitions whose committed offset is out of range.
    """

    owner: Mapping[TopicPartition, int]
    planned: Mapping[TopicPartition, int]
    orphans: tuple[TopicPartition, ...]
    unplaced: tuple[TopicPartition, ...]
    pending: tuple[TopicPartition, ...]
    live: frozenset[int]
    ready: frozenset[int]
    owed: frozenset[int]
    occupied: frozenset[int]
    requested: frozenset[int] | None
    epoch: int
    plan_at: float | None
    parked: Mapping[TopicPartition, Parked] = field(default_factory=dict)
    out_of_range: Mapping[TopicPartition, OutOfRange] = field(default_factory=dict)

    @cached_property
    def holders(self) -> frozenset[int]:
        """Return the consumers that own a listed partition."""
        return frozenset(self.owner.values())

    @cached_property
    def slots(self) -> frozenset[int]:
        """Return the consumers that are requested or hold something listed."""
        return self.holders | (self.requested or frozenset())

    @cached_property
    def paid_for(self) -> frozenset[int]:
        """Return the consumers that must run: ``slots``, and those that are owed a partition which is not listed right now."""
        return self.slots | self.owed

    @property
    def receivers(self) -> frozenset[int]:
        """Return the consumers that partitions without one go to: ready and paid for; any that is ready if none is paid for."""
        return self.ready & self.paid_for if self.paid_for else self.ready

    @property
    def welcome(self) -> list[int]:
        """Return consumers to use before new ones: those paid for, the ones that could start at once first, then any that live.

        One that still holds what it is not owed must not end either, but that may change.
        """
        paid_for, ready = self.paid_for, self.ready
        others = ready - paid_for
        return [*sorted(paid_for & ready), *sorted(paid_for - ready), *sorted(others), *sorted(self.occupied - paid_for - others)]


def read_present(kind: Kind, partitions: tuple[TopicPartition, ...]) -> Present:
    """Return who is there: from the control log, from what members were told, or from what Kafka lists."""
    match kind:
        case Managed(state=state):
            return _managed(state, partitions)
        case Placed(members=members, started=Started() as started):
            return _placed(members, started, partitions)
        case _:
            return _native(kind.listed, partitions)


def numbered(started: Started | None, count: int) -> frozenset[int]:
    """Return so many consumers of a native group: those that were asked for, the highest numbers ended or free ones added.

    Their numbers may have gaps, as when one was given up, and who stays is not to be ended for another.
    """
    there = sorted(started.requested or started.running) if started is not None else []
    return pad(there[:count], count)


def pad(slots: Collection[int], count: int) -> frozenset[int]:
    """Return the consumers, with the lowest free indices added until there are at least ``count``."""
    free = (c for c in range(len(slots) + count) if c not in slots)
    return frozenset(slots) | {next(free) for _ in range(count - len(slots))}


def _managed(state: GroupState, partitions: tuple[TopicPartition, ...]) -> Present:
    owner, owed = {p: state.owner[p] for p in partitions if p in state.owner}, frozenset(state.owner.values())
    return Present(
        owner=owner,
        planned=state.owner,
        orphans=tuple(p for p in partitions if p in state.orphans and p not in owner),
        unplaced=tuple(p for p in partitions if p not in owner and p not in state.orphans),
        pending=tuple(p for p in partitions if p in state.pending),
        live=frozenset(w.slot for w in state.workers if w.slot is not None),
        ready=frozenset(w.slot for w in state.workers if w.slot is not None and w.phase is WorkerPhase.ACTIVE),
        owed=owed,
        occupied=owed | {w.slot for w in state.workers if w.slot is not None and w.owned},
        requested=state.requested,
        epoch=state.epoch,
        plan_at=state.plan_at,
        parked=state.parked,
        out_of_range=state.out_of_range,
    )


def _placed(members: GroupMembers, started: Started, partitions: tuple[TopicPartition, ...]) -> Present:
    """Return a group that follows a placement: who is told to hold a partition owns it, who held it before that otherwise.

    A partition that its member has not got yet is pending only while another one has it: one that no member has is on its way, or
    the leader has yet to hear of it.
    """
    here = {started.slots[m.member_id]: m for m in members.members if m.member_id in started.slots}
    holder = {p: slot for slot, m in here.items() for p in m.assigned}
    told = holder if started.placement is None else started.placement
    owner = {p: told[p] for p in partitions if told.get(p) in here}
    ready = frozenset(here) - started.leaving
    return Present(
        owner=owner,
        planned=owner,
        orphans=tuple(p for p in partitions if p in told and p not in owner),
        unplaced=tuple(p for p in partitions if p not in told),
        pending=tuple(p for p, slot in owner.items() if holder.get(p, slot) != slot),
        live=ready,
        ready=ready,
        owed=frozenset(owner.values()),
        occupied=frozenset(owner.values()) | frozenset(holder.values()),
        requested=started.requested,
        epoch=0,
        plan_at=None,
    )


def _native(listed: Collection[Member], partitions: tuple[TopicPartition, ...]) -> Present:
    by_id = sorted(listed, key=lambda m: m.member_id)
    holder = {p: index for index, m in reversed(list(enumerate(by_id))) for p in m.assigned}
    everyone = frozenset(range(len(by_id)))
    owner = {p: holder[p] for p in partitions if p in holder}
    return Present(
        owner=owner,
        planned=owner,
        orphans=(),
        unplaced=tuple(p for p in partitions if p not in owner),
        pending=(),
        live=everyone,
        ready=everyone,
        owed=frozenset(owner.values()),
        occupied=frozenset(owner.values()),
        requested=everyone,
        epoch=0,
        plan_at=None,
    )
