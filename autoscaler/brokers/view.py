"""A cluster's brokers and replicas as they were read, and the commands that change them. Part of *brokers*."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from autoscaler.model import TopicPartition

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")  # of a broker, bytes/s
LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")  # of a topic: partition:broker


class Setting(NamedTuple):
    """A dynamic configuration key of one broker or topic."""

    kind: str  # broker | topic
    name: str  # a broker's id or a topic's name
    key: str


class Holders(NamedTuple):
    """Which brokers hold a partition."""

    replicas: tuple[int, ...]  # the preferred leader first; while it is reassigned, those that are added and removed as well
    in_sync: frozenset[int]
    leader: int  # -1: none


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """One broker that answers, how long that took, and the bytes of its disks; ``None`` where it does not tell them."""

    rack: str | None = None
    disk_bytes: float | None = None
    free_bytes: float | None = None
    answered_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A cluster at one moment.

    Attributes:
        brokers: Those that answer, by id.
        partitions: Who holds each.
        sizes: Bytes that one replica of a partition stores, the greatest of them; missing: not told.
        running: The replicas that each running reassignment leads to, the preferred leader first.
        throttles: Dynamic throttles of all brokers, and of the topics that were asked about.
    """

    brokers: Mapping[int, Broker]
    partitions: Mapping[TopicPartition, Holders]
    sizes: Mapping[TopicPartition, float] = field(default_factory=dict)
    running: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    throttles: Mapping[Setting, str] = field(default_factory=dict)

    def under_replicated(self) -> tuple[TopicPartition, ...]:
        """Return partitions with a replica that is not in sync, without those that are being reassigned."""
        lacking = (p for p, h in self.partitions.items() if p not in self.running and not h.in_sync >= set(h.replicas))
        return tuple(sorted(lacking))


@dataclass(frozen=True, slots=True, kw_only=True)
class SetThrottle:
    """Set these rates, and add these replicas to lists."""

    values: Mapping[Setting, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearThrottle:
    """Delete these keys, so that what they were before any was set holds again."""

    settings: frozenset[Setting]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortenLists:
    """Take these replicas out of lists; others stay in them."""

    values: Mapping[Setting, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassign:
    """Let these brokers hold each partition, the preferred leader first."""

    replicas: Mapping[TopicPartition, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """End these running reassignments: their partitions stay where they were."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Elect:
    """Let the preferred leader of each partition lead it."""

    partitions: frozenset[TopicPartition]


Command = SetThrottle | ClearThrottle | ShortenLists | Reassign | Cancel | Elect
