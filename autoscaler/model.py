"""Values on the path from a measurement to an action.

Every type is frozen and compares by value. Rates are bytes (or records) per second, times are seconds since the Unix epoch
unless a name says otherwise, ``None`` means unknown and is never the same as zero. Nothing here reads a clock or does I/O.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from autoscaler.findings import What

_NAMED = 5  # partitions and consumers in a finding: as many as one reads


class Reason(StrEnum):
    """Why a decision was taken, or why nothing was done; ``docs/reasons.md`` explains each."""

    WITHIN_TARGET = "WITHIN_TARGET"
    RATE_ABOVE_CAPACITY = "RATE_ABOVE_CAPACITY"
    LATENCY_AT_RISK = "LATENCY_AT_RISK"
    BACKLOG = "BACKLOG"
    IMBALANCE = "IMBALANCE"
    UNDERUSED = "UNDERUSED"
    WORKER_LOST = "WORKER_LOST"
    WORKER_JOINED = "WORKER_JOINED"
    PARTITIONS_CHANGED = "PARTITIONS_CHANGED"
    PARTITION_EXCEEDS_CAPACITY = "PARTITION_EXCEEDS_CAPACITY"
    NOT_READY = "NOT_READY"
    STALE_INPUT = "STALE_INPUT"
    STABILISING = "STABILISING"
    COOLING_DOWN = "COOLING_DOWN"
    NOT_WORTH_MOVING = "NOT_WORTH_MOVING"
    AT_MINIMUM = "AT_MINIMUM"
    AT_MAXIMUM = "AT_MAXIMUM"
    AT_PARTITION_CEILING = "AT_PARTITION_CEILING"
    STEP_LIMIT = "STEP_LIMIT"
    PINNED = "PINNED"
    FLAPPING = "FLAPPING"
    FROZEN = "FROZEN"
    PAUSED = "PAUSED"
    ADVISORY = "ADVISORY"
    HANDOVER_IN_PROGRESS = "HANDOVER_IN_PROGRESS"
    SCALING_DID_NOT_HELP = "SCALING_DID_NOT_HELP"
    RETENTION_AT_RISK = "RETENTION_AT_RISK"
    STUCK_PARTITION = "STUCK_PARTITION"
    OFFSET_OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"
    ASSIGNOR_UNPREDICTABLE = "ASSIGNOR_UNPREDICTABLE"
    ASSIGNOR_LIMIT = "ASSIGNOR_LIMIT"
    GROUP_DIFFERS = "GROUP_DIFFERS"
    STATIC_MEMBERS = "STATIC_MEMBERS"
    FALLBACK = "FALLBACK"


class RateSource(StrEnum):
    """How a byte rate was obtained."""

    LOG_DIRS = "log_dirs"  # growth of the partition's log size
    OFFSET_X_MEAN = "offset_x_mean"  # records times the learned bytes per record
    OFFSET_X_DEFAULT = "offset_x_default"  # records times the configured bytes per record
    NONE = "none"  # no rate yet


class CapacitySource(StrEnum):
    """Where the capacity comes from that a decision goes by."""

    CONFIGURED = "CONFIGURED"
    MEASURED = "MEASURED"
    PRIOR = "PRIOR"  # assumed, until something was measured


class TopicPartition(NamedTuple):
    """One partition of one topic, ordered by name and number.

    A tuple, because a decision about a thousand partitions hashes and compares them some thirty thousand times: as a dataclass
    this took half of its time.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        """Return ``topic-partition``, as Kafka prints it."""
        return f"{self.topic}-{self.partition}"


class Span(NamedTuple):
    """Offsets of a partition from where its group goes on to where it could read to, the end left out."""

    position: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLoad:
    """What is known of one partition for one group at one time."""

    partition: TopicPartition
    topic_id: str
    bytes_per_s: float | None
    records_per_s: float | None
    lag_records: int | None
    lag_bytes: float | None
    lag_s: float | None
    committed: int | None  # -1: the group never committed here; None: unknown
    log_start: int | None
    log_end: int | None
    known: bool  # rate and lag are both fresh
    age_s: float  # since the last good sample of this partition
    window_s: float  # the span that the rates cover
    rate_source: RateSource
    error: str | None = None
    last_stable: int | None = None  # where a group that reads what is committed could read to; None for any other


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSnapshot:
    """One group's load as one cycle measured it.

    Attributes:
        loads: One entry per partition of the group's topics, ordered by partition; a failed read is an entry with
            ``known=False`` and its last value, never a missing entry.
        known: Every partition is known, and at least one exists.
        lost: Topics of the group that could not be read as a whole.
    """

    group: str
    sample_ts: float
    loads: tuple[PartitionLoad, ...]
    known: bool
    error: str | None = None
    lost: frozenset[str] = frozenset()


class WorkerPhase(StrEnum):
    """Where a worker's incarnation stands, as its heartbeats say."""

    JOINING = "joining"
    ACTIVE = "active"
    DRAINING = "draining"
    STUCK = "stuck"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """One live incarnation of a worker (expired and left ones are not listed).

    Attributes:
        slot: The consumer index this worker fills in a plan; ``None`` if it fills none.
        instance: Identity of the process or container, as the platform that started it named it.
        latency_p50_s: Median of append-to-processed over the recent heartbeats; ``None`` without records.
    """

    name: str
    uuid: str
    slot: int | None
    phase: WorkerPhase
    instance: str | None
    owned: frozenset[TopicPartition]
    records: int = 0
    payload_bytes: int = 0
    busy_s: float = 0.0
    latency_p50_s: float | None = None
    latency_p99_s: float | None = None


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
    pause_s: float | None  # released to taken, both stamped by the broker; None where nobody released (first owner, expiry)
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """Why nobody gets a partition: owners in a row that it was lost by at one committed offset.

    Attributes:
        offset: The committed one; -1: nothing was ever committed.
        planned: The latest plan parks it already.
    """

    owners: int
    offset: int
    planned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Astray:
    """A partition that stands still because its committed ``offset`` is out of range; ``start``: where a plan lets it go on."""

    offset: int
    start: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """What the control log and the heartbeats say about a managed group.

    Attributes:
        epoch: Number of the latest committed plan; 0 if there is none.
        owner: Planned owner's slot of every planned partition whose owner is alive.
        orphans: Planned partitions whose owner has expired or left.
        pending: Partitions whose planned owner has not taken them yet.
        requested: Slots that the latest plan asks to run; ``None`` without a plan.
        plan_at: When the latest plan was published; ``None`` without a plan.
        completed: Handovers finished since the previous observation.
        parked: Partitions that nobody gets until an operator releases them.
        astray: Partitions that stand still at their consumer because their committed offset is out of range.
    """

    epoch: int
    workers: tuple[WorkerView, ...]
    owner: Mapping[TopicPartition, int]
    orphans: frozenset[TopicPartition]
    pending: frozenset[TopicPartition]
    requested: frozenset[int] | None
    plan_at: float | None
    completed: tuple[HandoverDone, ...] = ()
    parked: Mapping[TopicPartition, Parked] = field(default_factory=dict)
    astray: Mapping[TopicPartition, Astray] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member of a native group and what Kafka assigned to it.

    Attributes:
        topics: What it subscribes to; ``None`` if that is not known, or a pattern.
        instance: Its ``group.instance.id``; ``None`` for a dynamic member.
        library: What its way of joining looks like: java, librdkafka or kafka-python; empty if that is not known.
        name: What it calls itself in placements; empty if it does not.
        rack: Where it says it is, if the assignor may go by that (classic protocol); empty if it does not say it.
        place: Where the coordinator's list of members has it, from 0; ``None`` if that is not known.
    """

    member_id: str
    client_id: str
    host: str
    assigned: frozenset[TopicPartition]
    topics: frozenset[str] | None = None
    instance: str | None = None
    library: str = ""
    name: str = ""
    rack: str = ""
    place: int | None = None


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
    """Consumers of a native group that this controller starts and ends; its pool numbers them from 0.

    Attributes:
        requested: Those that should run; ``None`` as long as nobody was asked for.
        running: Those that do.
        leaving: Those of them that were told to end because they hold nothing.
        slots: Consumer by member id, of members that call themselves what one that is started here is called.
        placement: Who was last told to hold what, in a group that takes its partitions from a placement; ``None``: nothing yet.
    """

    requested: frozenset[int] | None
    running: frozenset[int]
    leaving: frozenset[int] = frozenset()
    slots: Mapping[str, int] = field(default_factory=dict)
    placement: Mapping[TopicPartition, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long a topic keeps a record: for ``seconds``, and within ``bytes`` per partition; infinite: any number of them."""

    seconds: float
    bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Everything that one decision may look at.

    Attributes:
        state: For a managed group; ``None`` for a native one, and for one that the control log knows nothing of.
        members: For a native group; ``None`` if not read (yet). For a managed group: its foreign members, if any.
        unread: Why the control log could not be read; ``None`` if it was, or need not be.
        unread_members: Why the members could not be read; ``None`` if they were, or have not been asked for yet.
        started: For a native group that acts; ``None`` for any other.
        retention: By topic; of one that is missing it is not known.
    """

    group: str
    snapshot: LoadSnapshot
    state: GroupState | None
    members: GroupMembers | None = None
    unread: str | None = None
    unread_members: str | None = None
    started: Started | None = None
    retention: Mapping[str, Retention] = field(default_factory=dict)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class AddWorkers:
    """Start a worker for each of these slots."""

    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePartition:
    """Give a partition to a slot; ``source`` is ``None`` if nobody alive holds it."""

    partition: TopicPartition
    source: int | None
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveWorkers:
    """Let the workers of these slots, which hold nothing any more, end."""

    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkPartition:
    """Hand a partition to nobody until an operator releases it: so many owners in a row were lost at this offset."""

    partition: TopicPartition
    owners: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffset:
    """Let a partition go on at ``start`` instead of its committed ``offset``, which is out of range."""

    partition: TopicPartition
    offset: int
    start: int


Action = ParkPartition | ResetOffset | AddWorkers | MovePartition | RemoveWorkers  # in this order


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a rule or a guard has found; ``core/messages.py`` says it in words.

    Attributes:
        reason: What the decision gives as its reason for it; ``None`` for what is only said beside.
        limit: The limit that it is; ``None`` if it limits nothing.
        partitions: The first few that it is about; ``numbers["partitions"]`` says how many there are.
        consumers: The first few that it is about, by slot; ``numbers["consumers"]`` says how many there are.
        numbers: By name, with the unit in the name.
        texts: Names by what they are of: a setting, a topic, an assignor, an error.
    """

    what: What
    reason: Reason | None = None
    limit: Reason | None = None
    partitions: tuple[TopicPartition, ...] = ()
    consumers: tuple[int, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        what: What,
        *,
        partitions: Collection[TopicPartition] = (),
        consumers: Collection[int] = (),
        numbers: Mapping[str, float] = MappingProxyType({}),
        **values: float | str | None,
    ) -> "Finding":
        """Return a finding about the first few of these partitions and consumers, in their order.

        Args:
            what: What it is about.
            partitions: All of them.
            consumers: All of them, by slot.
            numbers: Numbers whose names are not known here.
            values: Numbers and texts by name; ``None`` is left out.
        """
        many = {name: len(x) for name, x in (("partitions", partitions), ("consumers", consumers)) if x}
        return cls(
            what=what,
            partitions=tuple(partitions)[:_NAMED],
            consumers=tuple(consumers)[:_NAMED],
            numbers={**many, **numbers, **{name: v for name, v in values.items() if not isinstance(v, str | None)}},
            texts={name: str(v) for name, v in values.items() if isinstance(v, str)},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One cycle's answer for one group, complete enough to explain it and to decide it again.

    Attributes:
        decision_id: Unique; ``{group}/{sample_ts in ms}``.
        actions: Ordered park, reset, add, move, remove; empty when nothing is to be done.
        target: Wanted owner slot of every partition; equals what is observed when nothing is to be done.
        requested: Slots that should run from now on.
        consumers_now: Live consumers before acting; ``None``: who is there has not been read.
        consumers: Consumers asked for, or in a group that is only advised those that would be; 0: none are asked for yet,
            which is told as unknown, because no rule asks for none.
        lower_bound: No placement needs fewer consumers than this (sum of rates, and partitions above half a capacity); ``None``:
            nothing is measured yet.
        r_score: Moved rate over usable capacity (equation 11 of Landau et al. 2024).
        recommended: Consumers that the load takes, whatever the guards say: of the placement that is advised, or the fewest. The
            last known number where this cycle tells none; ``None``: none was ever known.
        recommended_age_s: Age of the oldest measurement that ``recommended`` goes by.
        imbalance: Hottest consumer's load over the mean; ``None`` without load.
        oversized: Partitions above one consumer's usable capacity.
        parked: Partitions that nobody gets until an operator releases them; they count for nothing else here but the lag.
        capacity_samples: Windows that the capacity was measured in; 0 if it was not.
        capacity_age_s: Seconds since the last of them ended; ``None`` if it was not measured here.
        capacity_records_per_s: What one consumer processes when records and not bytes keep it; ``None``: no such limit.
        own_bytes_per_s: By slot, what those are taken for instead that were measured to be slower or faster than the group.
        findings: What was found, the step's own first; empty in a decision that an older release has written down.
        detail: The findings in words, for a human at 3 a.m.
    """

    decision_id: str
    group: str
    at: float
    mode: str
    reason: Reason
    limited_by: Reason | None
    actions: tuple[Action, ...]
    target: Mapping[TopicPartition, int]
    requested: frozenset[int]
    consumers_now: int | None
    consumers: int
    recommended: int | None
    lower_bound: int | None
    r_score: float
    imbalance: float | None
    oversized: tuple[TopicPartition, ...]
    usable_bytes_per_s: float  # what packing may put on one consumer: capacity times target utilisation
    capacity_bytes_per_s: float  # what one consumer processes when it never waits
    total_bytes_per_s: float | None  # None: nothing is measured yet
    total_lag_records: int | None
    algorithm: str
    policy_fingerprint: str
    epoch: int
    detail: str
    hot: tuple[TopicPartition, ...] = field(default=())
    parked: tuple[TopicPartition, ...] = field(default=())
    capacity_source: CapacitySource = CapacitySource.CONFIGURED
    capacity_samples: int = 0
    capacity_age_s: float | None = None
    capacity_records_per_s: float | None = None
    own_bytes_per_s: Mapping[int, float] = field(default_factory=dict)
    recommended_age_s: float | None = None
    findings: tuple[Finding, ...] = ()
