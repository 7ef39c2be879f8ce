"""What was measured: partitions, their rates and backlog, and how long topics keep records."""

from dataclasses import dataclass
from typing import NamedTuple

from autoscaler.model.reasons import RateSource


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
    """One group's load as one cycle measured it."""

    group: str
    sample_ts: float
    # One entry per partition of the group's topics, ordered by partition; a failed read is an entry with ``known=False`` and its
    # last value, never a missing entry
    loads: tuple[PartitionLoad, ...]
    known: bool  # every partition is known, and at least one exists
    error: str | None = None
    lost: frozenset[str] = frozenset()  # topics of the group that could not be read as a whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long a topic keeps a record: for ``seconds``, and within ``bytes`` per partition; infinite: any number of them."""

    seconds: float
    bytes: float
