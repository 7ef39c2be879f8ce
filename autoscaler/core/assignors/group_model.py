"""What the simulated assignors take: a group as its description shows it. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from autoscaler.model import TopicPartition

Assigned = dict[str, tuple[TopicPartition, ...]]  # member id -> what it gets


class Assignor(StrEnum):
    """The assignors that can be followed, by the name that a group's description gives them."""

    RANGE = "range"  # the classic one and that of KIP-848, which does the same since Kafka 4.0
    ROUND_ROBIN = "roundrobin"
    STICKY = "sticky"
    COOPERATIVE_STICKY = "cooperative-sticky"
    UNIFORM = "uniform"  # KIP-848 only


PLAN_ASSIGNORS = frozenset({"autoscaler-plan", "autoscaler-plan-cooperative"})  # of autoscaler.assignor: they follow a placement


class Client(StrEnum):
    """Whose code assigns in a classic group; the sticky assignors of these libraries keep different partitions."""

    JAVA = "java"
    LIBRDKAFKA = "librdkafka"
    KAFKA_PYTHON = "kafka-python"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """One member as an assignor sees it.

    Attributes:
        instance: Its ``group.instance.id``; ``None`` if it is a dynamic member.
        owned: What it holds before the rebalance; only sticky assignors look at it.
        place: Where the coordinator's list of members has it; ``None`` if that is not known, or it is still to join.
    """

    member_id: str
    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    instance: str | None = None
    place: int | None = None

    @property
    def order(self) -> tuple[bool, str]:
        """Return where assignors that sort their members put this one: static ones first, by their instance id."""
        return (self.instance is None, self.member_id if self.instance is None else self.instance)


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeGroup:
    """A group on Kafka's own protocol, complete enough to predict it.

    Attributes:
        partitions: Number of partitions of every topic that a member subscribes to.
        topic_ids: Kafka's id of a topic, as its 22 characters; those not listed are ordered by name.
        clients: Libraries that may be the one that assigns.
        leaving: Members in the order in which they would be ended; empty if that is not known.
        ties: Which of the possible orders is followed of topics whose ids share a bucket of the coordinator's maps. They come as
            they were put in: those that are dealt out by their names, and those of a member as it has got them.
    """

    assignor: Assignor
    consumers: tuple[Consumer, ...]
    partitions: Mapping[str, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    clients: tuple[Client, ...] = tuple(Client)
    leaving: tuple[str, ...] = ()
    ties: int = 0

    @property
    def alike(self) -> bool:
        """Say whether all members subscribe to the same topics."""
        return len({c.topics for c in self.consumers}) <= 1


def listed(partitions: Mapping[str, int], topics: frozenset[str]) -> list[TopicPartition]:
    """Return every partition of these topics, by topic and number."""
    return [TopicPartition(t, n) for t in sorted(topics) for n in range(partitions.get(t, 0))]
