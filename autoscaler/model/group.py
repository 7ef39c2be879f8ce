"""Which consumers are there and hold what: workers and members of a group, and everything that one decision may look at."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from autoscaler.model.load import LoadSnapshot, Retention, TopicPartition


class WorkerPhase(StrEnum):
    """Where a worker's incarnation stands, as its heartbeats say."""

    JOINING = "joining"
    ACTIVE = "active"
    DRAINING = "draining"
    STUCK = "stuck"


class Hindrance(StrEnum):
    """What keeps a worker that was asked for from running or from being ready, whatever its platform calls it."""

    PENDING = "pending"  # the platform has not started it yet
    UNSCHEDULABLE = "unschedulable"  # no machine takes it
    QUOTA = "quota"  # a quota is used up
    REFUSED = "refused"  # the platform does not accept it
    IMAGE = "image"  # its image cannot be had
    CONFIGURATION = "configuration"  # what it is to be started with is not there
    CRASH_LOOP = "crash_loop"  # it ends again and again
    OUT_OF_MEMORY = "out_of_memory"
    EVICTED = "evicted"
    ENDED = "ended"  # unasked, for another reason
    UNREADY = "unready"  # it runs, and does not say that it is ready
    NODE_LOST = "node_lost"  # its machine is not heard
    TERMINATING = "terminating"  # it was told to end, not from here
    TAKEN = "taken"  # the platform has ended it in place of the one that was to end
    KEPT = "kept"  # it is to end, and the platform would take another one now


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindered:
    """Why a worker does not run or is not ready."""

    why: Hindrance
    said: str = ""  # the platform's own words


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """One live incarnation of a worker (expired and left ones are not listed)."""

    name: str
    uuid: str
    slot: int | None  # the consumer index this worker fills in a plan; ``None`` if it fills none
    phase: WorkerPhase
    instance: str | None  # identity of the process or container, as the platform that started it named it
    owned: frozenset[TopicPartition]
    records: int = 0
    payload_bytes: int = 0
    busy_s: float = 0.0
    latency_p50_s: float | None = None  # median of append-to-processed over the recent heartbeats; ``None`` without records
    latency_p99_s: float | None = None
    # Records processed since the observation before, by age: (index of the bound in ``AGE_BOUNDS_S``, how many)
    ages: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverDone:
    """A partition that has changed hands since the last observation."""

    partition: TopicPartition
    topic_id: str
    from_worker: str | None  # worker name; None for a first owner
    from_uuid: str | None
    to_worker: str
    to_uuid: str
    epoch: int
    offset: int
    pause_s: float | None  # released to taken, both stamped by the broker; None where no worker released it (first owner, expiry)
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """Why no worker gets a partition: so many owners in a row lost it at one committed offset."""

    owners: int
    offset: int  # the committed one; -1: nothing was ever committed
    planned: bool  # the latest plan parks it already


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfRange:
    """A partition that stands still because its committed ``offset`` is out of range; ``start``: where a plan lets it go on."""

    offset: int
    start: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """What the control log and the heartbeats say about a managed group."""

    epoch: int  # number of the latest committed plan; 0 if there is none
    workers: tuple[WorkerView, ...]
    owner: Mapping[TopicPartition, int]  # planned owner's slot of every planned partition whose owner is alive
    orphans: frozenset[TopicPartition]  # planned partitions whose owner has expired or left
    pending: frozenset[TopicPartition]  # partitions whose planned owner has not taken them yet
    requested: frozenset[int] | None  # slots that the latest plan asks to run; ``None`` without a plan
    plan_at: float | None  # when the latest plan was published; ``None`` without a plan
    completed: tuple[HandoverDone, ...] = ()  # handovers finished since the previous observation
    # Partitions that no worker gets until an operator releases them
    parked: Mapping[TopicPartition, Parked] = field(default_factory=dict)
    # Partitions that stand still at their consumer because their committed offset is out of range
    out_of_range: Mapping[TopicPartition, OutOfRange] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member of a native group and what Kafka assigned to it."""

    member_id: str
    client_id: str
    host: str
    assigned: frozenset[TopicPartition]
    topics: frozenset[str] | None = None  # what it subscribes to; ``None`` if that is not known, or a pattern
    instance: str | None = None  # its ``group.instance.id``; ``None`` for a dynamic member
    library: str = ""  # what its way of joining looks like: java, librdkafka or kafka-python; empty if that is not known
    name: str = ""  # what it calls itself in placements; empty if it does not
    rack: str = ""  # where it says it is, if the assignor may go by that (classic protocol); empty if it does not say it
    place: int | None = None  # where the coordinator's list of members has it, from 0; ``None`` if that is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMembers:
    """The membership of a group on Kafka's own protocol."""

    state: str  # EMPTY, STABLE, PREPARING_REBALANCING, COMPLETING_REBALANCING, ASSIGNING, RECONCILING, DEAD, UNKNOWN
    kind: str  # CLASSIC, CONSUMER, SHARE, STREAMS, OTHER (not of consumers: Connect, a schema registry), UNKNOWN
    assignor: str
    members: tuple[Member, ...]
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Consumers of a native group that this controller starts and ends; its pool numbers them from 0."""

    requested: frozenset[int] | None  # those that should run; ``None`` until consumers were asked for
    running: frozenset[int]  # those that do
    leaving: frozenset[int] = frozenset()  # those of them that were told to end because they hold nothing
    # Consumer by member id, of members that call themselves what one that is started here is called
    slots: Mapping[str, int] = field(default_factory=dict)
    # Which member was last told to hold what, in a group that takes its partitions from a placement; ``None``: nothing yet
    placement: Mapping[TopicPartition, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Everything that one decision may look at."""

    group: str
    snapshot: LoadSnapshot
    state: GroupState | None  # for a managed group; ``None`` for a native one, and for one that the control log knows nothing of
    # For a native group; ``None`` if not read (yet). For a managed group: its foreign members, if any.
    members: GroupMembers | None = None
    unread: str | None = None  # why the control log could not be read; ``None`` if it was, or need not be
    unread_members: str | None = None  # why the members could not be read; ``None`` if they were, or have not been asked for yet
    started: Started | None = None  # for a native group that acts; ``None`` for any other
    retention: Mapping[str, Retention] = field(default_factory=dict)  # by topic; of one that is missing it is not known

    @property
    def why_unread(self) -> str | None:
        """Return why it could not be read who consumes; ``None`` if it was, or has not been asked for yet."""
        return self.unread_members or self.unread

    @property
    def consumers_known(self) -> bool:
        """Say whether it is known who consumes.

        While members of the classic protocol join anew, those that are gone are listed beside those that came, for up to their
        session: after an outage a group would have twice its consumers. Those that are started here are known.
        """
        if self.state is not None:
            return True
        if self.members is None or (self.started is None and self.members.state.upper() == "PREPARING_REBALANCING"):
            return False
        return bool(self.members.members) or self.unread is None
