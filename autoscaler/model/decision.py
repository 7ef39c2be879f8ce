"""What a cycle answers: actions, findings, and the decision that holds both."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from autoscaler.model.findings import What
from autoscaler.model.load import TopicPartition
from autoscaler.model.reasons import CapacitySource, Reason

_NAMED = 5  # partitions and consumers in a finding: as many as one reads


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
