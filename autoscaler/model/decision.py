"""What a cycle answers: actions, findings, and the decision that holds both."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import TypeVar

from autoscaler.model.findings import What
from autoscaler.model.load import TopicPartition
from autoscaler.model.reasons import CapacitySource, Reason

_T = TypeVar("_T")
FEW = 5  # of a long list: as many as one reads


def few(values: Iterable[_T]) -> tuple[_T, ...]:
    """Return the first few values of a list that people read: ``FEW`` at most."""
    return tuple(islice(values, FEW))


@dataclass(frozen=True, slots=True, kw_only=True)
class AddWorkers:
    """Start a worker for each of these slots."""

    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePartition:
    """Give a partition to a slot; ``source`` is ``None`` if no live worker holds it."""

    partition: TopicPartition
    source: int | None
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveWorkers:
    """Let the workers of these slots, which hold nothing any more, end."""

    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkPartition:
    """Hand a partition to no worker until an operator releases it: so many owners in a row were lost at this offset."""

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
    """One thing that a rule or a guard has found; ``core/messages.py`` says it in words."""

    what: What
    reason: Reason | None = None  # what the decision gives as its reason for it; ``None`` for what is only said beside
    limit: Reason | None = None  # the limit that it is; ``None`` if it limits nothing
    # The first few that it is about; ``numbers["partitions"]`` says how many there are
    partitions: tuple[TopicPartition, ...] = ()
    consumers: tuple[int, ...] = ()  # the first few that it is about, by slot; ``numbers["consumers"]`` says how many there are
    numbers: Mapping[str, float] = field(default_factory=dict)  # by name, with the unit in the name
    # Names by what they are of: a setting as in the file, an assignor, an error; of a list the first few, with commas between
    # them, and ``numbers`` has under the same name how many there are
    texts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        what: What,
        *,
        partitions: Collection[TopicPartition] = (),
        consumers: Collection[int] = (),
        numbers: Mapping[str, float] = MappingProxyType({}),
        **values: float | str | Sequence[str] | None,
    ) -> "Finding":
        """Return a finding about the first few of all these partitions and consumers (by slot), in their order.

        ``numbers`` are those whose names are not known here; ``values`` are numbers, texts and lists of texts by name, of which
        ``None`` is left out.
        """
        lists = {name: v for name, v in values.items() if isinstance(v, list | tuple)}
        texts = {name: str(v) for name, v in values.items() if isinstance(v, str)}
        counted: dict[str, Collection[object]] = {"partitions": partitions, "consumers": consumers, **lists}
        return cls(
            what=what,
            partitions=few(partitions),
            consumers=few(consumers),
            numbers={name: len(x) for name, x in counted.items() if x}
            | {**numbers, **{name: v for name, v in values.items() if isinstance(v, int | float)}},
            texts=texts | {name: ", ".join(few(x)) for name, x in lists.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One cycle's answer for one group, complete enough to explain it and to decide it again."""

    decision_id: str  # unique; ``{group}/{sample_ts in ms}``
    group: str
    at: float
    mode: str
    reason: Reason
    limited_by: Reason | None
    actions: tuple[Action, ...]  # ordered park, reset, add, move, remove; empty when nothing is to be done
    # Wanted owner slot of every partition; equals what is observed when nothing is to be done
    target: Mapping[TopicPartition, int]
    requested: frozenset[int]  # slots that should run from now on
    consumers_now: int | None  # live consumers before acting; ``None``: that has not been read
    # Consumers asked for, or in a group that is only advised those that would be; 0: none are asked for yet, which is told as
    # unknown, because no rule asks for none
    consumers: int
    # Consumers that the load takes, whatever the guards say: of the placement that is advised, or the fewest. The last known
    # number where this cycle tells none; ``None``: none was ever known.
    recommended: int | None
    # No placement needs fewer consumers than this (sum of rates, and partitions above half a capacity); ``None``: nothing is
    # measured yet
    lower_bound: int | None
    r_score: float  # moved rate over usable capacity (equation 11 of Landau et al. 2024)
    imbalance: float | None  # hottest consumer's load over the mean; ``None`` without load
    oversized: tuple[TopicPartition, ...]  # partitions above one consumer's usable capacity
    usable_bytes_per_s: float  # what packing may put on one consumer: capacity times target utilisation
    capacity_bytes_per_s: float  # what one consumer processes when it never waits
    total_bytes_per_s: float | None  # None: nothing is measured yet
    total_lag_records: int | None
    algorithm: str
    policy_fingerprint: str
    epoch: int
    detail: str  # the findings in words, for a human at 3 a.m.
    hot: tuple[TopicPartition, ...] = field(default=())
    # Partitions that no worker gets until an operator releases them; they count for nothing else here but the lag
    parked: tuple[TopicPartition, ...] = field(default=())
    capacity_source: CapacitySource = CapacitySource.CONFIGURED
    capacity_samples: int = 0  # windows that the capacity was measured in; 0 if it was not
    capacity_age_s: float | None = None  # seconds since the last of them ended; ``None`` if it was not measured here
    # What one consumer processes when records and not bytes keep it; ``None``: no such limit
    capacity_records_per_s: float | None = None
    # By slot, what those are taken for instead that were measured to be slower or faster than the group
    own_bytes_per_s: Mapping[int, float] = field(default_factory=dict)
    recommended_age_s: float | None = None  # age of the oldest measurement that ``recommended`` goes by
    # What was found, the step's own first; empty in a decision that an older release has written down
    findings: tuple[Finding, ...] = ()
