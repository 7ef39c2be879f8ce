"""What jobs must be allowed to do on a cluster, for a group or to balance brokers: rows of ``docs/reference/permissions.md``."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from autoscaler.config.settings import Group
from autoscaler.handover.records import CONTROL_TOPIC, HEARTBEAT_TOPIC

EVERY = "*"  # each topic, those that are made later too
CLUSTER_NAME = "kafka-cluster"  # what Kafka calls the one resource of its kind
OWN_IDS = f"{CONTROL_TOPIC}/"  # what the job's transactional ids begin with
OWN = (CONTROL_TOPIC, HEARTBEAT_TOPIC)


class Resource(StrEnum):
    """What a permission is given on, as ``kafka-acls.sh`` calls it."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One permission of the job.

    Attributes:
        operation: As ``kafka-acls.sh`` writes it.
        name: The resource's; of transactional ids, what theirs begin with.
        without: What happens without it, in words.
        required: The job cannot do its work for the group without it.
    """

    operation: str
    on: Resource
    name: str
    without: str
    required: bool = True


def needed(group: Group, topics: Sequence[str], *, placed: bool) -> tuple[Need, ...]:
    """Return what the job needs for a group, in the order in which it needs it.

    Args:
        group: Its settings.
        topics: Those that it consumes: named ones, and what its patterns mean now.
        placed: Its members follow a placement that the job writes.
    """
    return tuple(_needed(group, topics, writes=group.mode == "act" and (group.assignment == "managed" or placed)))


def needed_to_balance(*, acts: bool) -> tuple[Need, ...]:
    """Return what the job that balances brokers needs, in the order in which it needs it; ``acts``: its mode is act."""
    return tuple(_to_balance(acts=acts))


def _to_balance(*, acts: bool) -> Iterator[Need]:
    topic, cluster = Resource.TOPIC, Resource.CLUSTER
    yield Need(
        operation="Describe", on=cluster, name=CLUSTER_NAME, without="reassignments and the sizes of replicas cannot be read"
    )
    unseen = "its topics are not seen: their load does not count, and they do not move"
    yield Need(operation="Describe", on=topic, name=EVERY, without=unseen)
    if not acts:
        return
    yield Need(operation="Alter", on=cluster, name=CLUSTER_NAME, without="nothing can be reassigned")
    for on, name in ((cluster, CLUSTER_NAME), (topic, EVERY)):
        yield Need(operation="AlterConfigs", on=on, name=name, without="no throttle can be set")
    begun = "what is begun cannot be written down"
    for name in OWN:
        for operation in ("Create", "Describe", "DescribeConfigs"):
            yield Need(operation=operation, on=topic, name=name, without=begun)
    for operation in ("Read", "Write"):
        yield Need(operation=operation, on=topic, name=CONTROL_TOPIC, without=begun)
    yield Need(operation="Write", on=Resource.TRANSACTIONAL_ID, name=OWN_IDS, without=begun)


def _needed(group: Group, topics: Sequence[str], *, writes: bool) -> Iterator[Need]:
    topic, of_group, cluster = Resource.TOPIC, Resource.GROUP, Resource.CLUSTER
    for name in topics:
        yield Need(operation="Describe", on=topic, name=name, without="its partitions and their ends cannot be read")
    unknown = "what it has committed, and its members, cannot be read"
    yield Need(operation="Describe", on=of_group, name=group.group, without=unknown)
    mean = "rates are records times their mean size, in place of the growth of the log"
    yield Need(operation="Describe", on=cluster, name=CLUSTER_NAME, without=mean, required=False)
    for name in topics:
        markers = "transaction markers and aborted records at a partition's end count as a lag"
        yield Need(operation="Read", on=topic, name=name, without=markers, required=False)
        lost = "records that are about to be deleted unread are not seen coming"
        yield Need(operation="DescribeConfigs", on=topic, name=name, without=lost, required=False)
    if not writes:
        for name in OWN:
            yield Need(operation="Read", on=topic, name=name, without="managed workers of the group are not seen", required=False)
        return
    for name in OWN:
        for operation in ("Create", "Read", "Write", "Describe", "DescribeConfigs"):
            yield Need(operation=operation, on=topic, name=name, without="no plan can be published")
    yield Need(operation="Write", on=Resource.TRANSACTIONAL_ID, name=OWN_IDS, without="no plan can be published")
    expire = "offsets of parked partitions expire as the brokers are set to"
    yield Need(operation="Read", on=of_group, name=group.group, without=expire, required=False)
