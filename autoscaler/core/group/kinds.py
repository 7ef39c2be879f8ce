"""What kind of group this is: what decides which consumer holds what, and whether consumers are started here.

Rules, guards and sizing ask the kind instead of which of control log, members and started consumers were observed. Which rules
hold for which kind says ``core.rules.tables``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from autoscaler.core.assignors.group_model import PLAN_ASSIGNORS
from autoscaler.model import (
    GroupMembers,
    GroupState,
    HandoverDone,
    Member,
    Observation,
    Parked,
    Started,
    TopicPartition,
    WorkerView,
)

_STABLE = "STABLE"
_TAIL = 8  # of a member id, where client id and host are not enough to tell members apart


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """What every kind says of itself; here for consumers that are members of Kafka's own group membership.

    Attributes:
        native: It is configured so.
        by_plan: Workers take their partitions from plans.
        follows: Members take their partitions from the placement that this controller publishes.
        counted: Only the number of consumers can be set.
        members: As the coordinator lists them, in a managed group those that follow no plan; ``None`` if they were not read.
        started: The consumers of a native group that this controller starts and ends; ``None`` where it only advises.
    """

    native: ClassVar[bool] = True
    by_plan: ClassVar[bool] = False
    follows: ClassVar[bool] = False
    counted: ClassVar[bool] = False
    members: GroupMembers | None = None
    started: Started | None = None

    @property
    def listed(self) -> tuple[Member, ...]:
        """Return the members; none where they were not read."""
        return self.members.members if self.members is not None else ()

    @property
    def phase(self) -> str:
        """Return the group's state as Kafka names it, in capitals; empty where it was not read, and where plans place."""
        return self.members.state.upper() if self.members is not None and not self.by_plan else ""

    @property
    def stable(self) -> bool:
        """Say whether every member has what the group's assignor gave it."""
        return self.phase == _STABLE

    @property
    def nowhere(self) -> bool:
        """Say whether Kafka knows no group of this id."""
        return self.phase == "DEAD" and not self.listed

    @property
    def complete(self) -> bool:
        """Say whether the consumers that should run do, and Kafka calls the group stable with as many members."""
        started = self.started
        if started is None or started.running != started.requested:
            return False
        return len(self.listed) == len(started.running) and self.stable

    @property
    def acting(self) -> bool:
        """Say whether consumers are started and ended here."""
        return self.by_plan or self.started is not None

    @property
    def places(self) -> bool:
        """Say whether who holds what is decided here, and carried out."""
        return self.by_plan or (self.follows and self.acting)

    @property
    def workers(self) -> tuple[WorkerView, ...]:
        """Return the workers that live: only those of a plan send heartbeats."""
        return ()

    @property
    def held(self) -> frozenset[TopicPartition]:
        """Return the partitions that a live consumer has taken and may work on."""
        return frozenset(p for m in self.listed for p in m.assigned)

    @property
    def parked(self) -> Mapping[TopicPartition, Parked]:
        """Return the partitions that no consumer gets until an operator releases them: only plans park."""
        return {}

    @property
    def handed_over(self) -> tuple[HandoverDone, ...]:
        """Return the handovers between workers that have finished since the cycle before."""
        return ()

    def called(self, consumer: int) -> str | None:
        """Return what people know a consumer by that has no slot: its client id and host; ``None`` of one that has a slot.

        Args:
            consumer: Its number in ``Present``: the place of its member id among all.
        """
        if self.by_plan or (self.follows and self.started is not None) or not 0 <= consumer < len(self.listed):
            return None
        alike = [(m.client_id, m.host) for m in self.listed]
        member = sorted(self.listed, key=lambda m: m.member_id)[consumer]
        end = f", {member.member_id[-_TAIL:]}" if alike.count((member.client_id, member.host)) > 1 else ""
        return f"{member.client_id} ({member.host.removeprefix('/')}{end})"

    @property
    def owners(self) -> Mapping[TopicPartition, int | str]:
        """Return who holds each partition, for the record: a slot where it is known, or a member's id."""
        slots = self.started.slots if self.follows and self.started is not None else {}
        return {p: slots.get(m.member_id, m.member_id) for m in self.listed for p in m.assigned}


@dataclass(frozen=True, slots=True, kw_only=True)
class Managed(_Kind):
    """Workers take their partitions from the plans in the control log.

    Attributes:
        state: What the control log and the heartbeats say.
    """

    native: ClassVar[bool] = False
    by_plan: ClassVar[bool] = True
    state: GroupState

    @property
    def workers(self) -> tuple[WorkerView, ...]:
        """Return the workers that live."""
        return self.state.workers

    @property
    def held(self) -> frozenset[TopicPartition]:
        """Return the partitions that a live consumer has taken and may work on."""
        return frozenset(self.state.owner) - self.state.pending

    @property
    def parked(self) -> Mapping[TopicPartition, Parked]:
        """Return the partitions that no consumer gets until an operator releases them."""
        return self.state.parked

    @property
    def handed_over(self) -> tuple[HandoverDone, ...]:
        """Return the handovers that have finished since the cycle before."""
        return self.state.completed

    @property
    def owners(self) -> Mapping[TopicPartition, int | str]:
        """Return the slot that the latest plan gives each partition to."""
        return dict(self.state.owner)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflicting(Managed):
    """A group configured as native, under whose id workers of a plan live."""

    native: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Native(_Kind):
    """One of Kafka's own assignors places the partitions; only the number of consumers can be set."""

    counted: ClassVar[bool] = True
    members: GroupMembers


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed(Native):
    """A stable native group whose members take their partitions from the placement that this controller publishes."""

    counted: ClassVar[bool] = False
    follows: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread(_Kind):
    """A native group whose members have not been read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmanaged(_Kind):
    """A group that is to be managed and has no plan yet: it is advised by the consumers that are members now."""

    native: ClassVar[bool] = False


Kind = Managed | Native | Unread | Unmanaged  # and what these are more precisely: Conflicting, Placed


def kind_of(observation: Observation, assignment: str) -> Kind:
    """Return the kind of an observed group.

    Args:
        observation: What was read of it.
        assignment: Of its policy, ``managed`` or ``native``.
    """
    state, members, started = observation.state, observation.members, observation.started
    if state is not None:
        kind = Managed if assignment == "managed" else Conflicting
        return kind(state=state, members=members, started=started)
    if assignment == "managed":
        return Unmanaged(members=members)
    if members is None:
        return Unread(started=started)
    if members.state.upper() == _STABLE and members.assignor in PLAN_ASSIGNORS:
        return Placed(members=members, started=started)
    return Native(members=members, started=started)
