"""What a cluster has of some groups, and what this user may do there: asked once, for ``autoscaler check``.

Brokers say themselves what a user may do with the cluster, and with each topic and group that he may see. Of transactional ids
they say nothing: one is taken that nothing else uses. It asks with kafka-python, as ``membership`` does and for the same reason.
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Producer
from kafka import KafkaAdminClient
from kafka.errors import CoordinatorNotAvailableError, GroupAuthorizationFailedError, TopicAuthorizationFailedError
from kafka.errors import UnknownTopicOrPartitionError as Absent

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.kafka.control_topics import Connection, client, translated
from autoscaler.adapters.kafka.membership import Described, describe, operations_on
from autoscaler.clients.kafka_python import ClientError, connect, named
from autoscaler.concurrency import started
from autoscaler.errors import SettingsError, TransientError
from autoscaler.topic_selection import wanted

_PAUSE_S = 0.2
_ANSWER_S = 20.0  # to connect, for a coordinator, and for a transactional id


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTopic:
    """A topic as the cluster shows it to this user.

    Attributes:
        partitions: How many it has; ``None``: it is not there, or he may not see it.
        allowed: What he may do with it, as ``READ``; ``None``: not told, as it is not there.
    """

    partitions: int | None
    allowed: frozenset[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenGroup:
    """A group as its coordinator shows it to this user: who is in it, or why that is not known, and what he may do with it."""

    members: Described
    allowed: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was found; ``ids`` says whether he may use transactional ids, ``None`` where that was not tried."""

    cluster: frozenset[str]
    topics: dict[str, SeenTopic]
    groups: dict[str, SeenGroup]
    ids: bool | None


def look(
    connection: Connection, topics: Sequence[tuple[str, ...]], groups: Sequence[str], *, own: Collection[str], take: str | None
) -> Seen:
    """Ask a cluster.

    Args:
        connection: Of this cluster.
        topics: What each group consumes, as it is configured.
        groups: Their ids.
        own: Further topics.
        take: Transactional id to take; ``None``: none.

    Raises:
        SettingsError: The connection cannot be used, or the cluster refuses this user altogether.
        TransientError: The cluster does not answer in time.
    """
    deadline = time.monotonic() + _ANSWER_S
    admin = connect(connection, deadline)
    try:
        described = admin.describe_cluster()
        listed = admin.list_topics()
        names = sorted(set(own).union(*(wanted(t, listed) for t in topics)))
        return Seen(
            cluster=frozenset(described["authorized_operations"] or ()),
            topics=_topics(admin, names),
            groups={g: _group(admin, g, deadline) for g in groups},
            ids=None if take is None else _may_take(connection, take, deadline),
        )
    except (ClientError, OSError, TimeoutError) as e:
        raise TransientError(f"{connection.get('bootstrap.servers')}: {named(e)}") from e
    finally:
        started(admin.close, "kafka-close")  # it waits for a broker that may be away


def _topics(admin: KafkaAdminClient, names: Sequence[str]) -> dict[str, SeenTopic]:
    found = {}
    for topic in admin.describe_topics(list(names)) if names else ():
        code = topic["error_code"]
        if code == TopicAuthorizationFailedError.errno:
            found[topic["name"]] = SeenTopic(partitions=None, allowed=frozenset())
        elif code == Absent.errno:
            found[topic["name"]] = SeenTopic(partitions=None, allowed=None)
        else:
            allowed = frozenset(topic["authorized_operations"] or ())
            found[topic["name"]] = SeenTopic(partitions=len(topic["partitions"]), allowed=allowed)
    return found


def _group(admin: KafkaAdminClient, group: str, deadline: float) -> SeenGroup:
    """Ask for a group; a cluster that never had one makes its internal topic first, and knows no coordinator until then."""
    while True:
        members = describe(admin, [group], SystemClock().now())[group]
        if members != named(CoordinatorNotAvailableError.errno) or time.monotonic() > deadline:
            break
        time.sleep(_PAUSE_S)
    if members == named(GroupAuthorizationFailedError.errno):
        return SeenGroup(members=members, allowed=frozenset())
    return SeenGroup(members=members, allowed=operations_on(admin, group))


def _may_take(connection: Connection, transactional_id: str, deadline: float) -> bool:
    producer: Any = client(Producer, connection, {"transactional.id": transactional_id})
    try:
        with translated("take a transactional id"):
            producer.init_transactions(max(1.0, deadline - time.monotonic()))
    except SettingsError:
        return False
    return True
