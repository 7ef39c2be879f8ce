"""What kind of group this is: what decides which consumer holds what, and whether consumers are started here.

Rules, guards and sizing ask the kind instead of which of control log, members and started consumers were observed. Which rules
hold for which kind says ``core.rules.tables``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from autoscaler.core.assignors.group_model import PLAN_ASSIGNORS
from autoscaler.model import GroupMembers, GroupState, Member, Observation, Parked, Started, TopicPartition, WorkerView

_STABLE = "STABLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Managed:
    """Workers take their partitions from the plans in the control log.

    Attributes:
        state: What the control log and the heartbeats say.
        listed: Members that subscribe under the same group id; they do not follow a plan.
        started: Consumers that were started here as those of a native group; ``None`` where there are none.
    """

    native: ClassVar[bool] = False
    phase: ClassVar[str] = ""
    state: GroupState
    listed: tuple[Member, ...] = ()
    started: Started | None = None

    @property
    def acting(self) -> bool:
        """Say whether consumers are started and ended here."""
        return True

    @property
    def places(self) -> bool:
        """Say whether who holds what is decided here, and carried out."""
        return True

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflicting(Managed):
    """A group configured as native, under whose id workers of a plan live."""

    native: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _OnMembership:
    """Consumers are members of Kafka's own group membership.

    Attributes:
        members: As the coordinator lists them; ``None`` if they were not read.
        started: The consumers that this controller starts and ends; ``None`` where it only advises.
    """

    native: ClassVar[bool] = True
    members: GroupMembers | None = None
    started: Started | None = None

    @property
    def listed(self) -> tuple[Member, ...]:
        """Return the members; none where they were not read."""
        return self.members.members if self.members is not None else ()

    @property
    def phase(self) -> str:
        """Return the group's state as Kafka names it, in capitals; empty where it was not read."""
        return self.members.state.upper() if self.members is not None else ""

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
        return self.started is not None

    @property
    def places(self) -> bool:
        """Say whether who holds what is decided here, and carried out."""
        return False

    @property
    def workers(self) -> tuple[WorkerView, ...]:
        """Return nothing: only workers of a plan send heartbeats."""
        return ()

    @property
    def held(self) -> frozenset[TopicPartition]:
        """Return the partitions that a live consumer has taken and may work on."""
        return frozenset(p for m in self.listed for p in m.assigned)

    @property
    def parked(self) -> Mapping[TopicPartition, Parked]:
        """Return nothing: only plans park."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Native(_OnMembership):
    """One of Kafka's own assignors places the partitions; only the number of consumers can be set."""

    members: GroupMembers


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed(Native):
    """A stable native group whose members take their partitions from the placement that this controller publishes."""

    @property
    def places(self) -> bool:
        """Say whether who holds what is decided here, and carried out."""
        return self.acting


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread(_OnMembership):
    """A native group whose members have not been read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmanaged(_OnMembership):
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
        listed = members.members if members is not None else ()
        kind = Managed if assignment == "managed" else Conflicting
        return kind(state=state, listed=listed, started=started)
    if assignment == "managed":
        return Unmanaged(members=members)
    if members is None:
        return Unread(started=started)
    if members.state.upper() == _STABLE and members.assignor in PLAN_ASSIGNORS:
        return Placed(members=members, started=started)
    return Native(members=members, started=started)
