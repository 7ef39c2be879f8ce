"""What a cluster shows of all its consumer groups at a time: the looks that ``core.survey`` judges, for ``autoscaler advise``.

It only reads, and asks with kafka-python, as ``membership`` does and for the same reason. What may not be read of one group or
topic, or is not answered, is said there; the others are read.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaPartition
from kafka.admin import OffsetSpec

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.kafka.control_topics import Connection
from autoscaler.adapters.kafka.membership import describe
from autoscaler.adapters.kafka.retention import ask
from autoscaler.adapters.kafka.transaction_markers import KafkaMarkers
from autoscaler.clients.kafka_python import ClientError, connect, named
from autoscaler.concurrency import started
from autoscaler.core.looks import Ends, GroupLook, Look
from autoscaler.errors import TransientError
from autoscaler.model import GroupMembers, Retention, Span, TopicPartition

_CONNECT_S = 20.0
_T = TypeVar("_T")


class ClusterLooks:
    """Looks at one cluster, as often as it is asked.

    Raises:
        SettingsError: The connection cannot be used.
        TransientError: No broker answers.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection, self._servers = dict(connection), str(connection.get("bootstrap.servers"))
        self._admin: KafkaAdminClient | None = self._connected()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Release the connections."""
        self._drop()

    def look(self) -> Look:
        """Return what is there now.

        Raises:
            TransientError: The cluster does not answer.
        """
        return self._asked(_look)

    def retention(self, topics: Collection[str]) -> Mapping[str, Retention]:
        """Return how long topics keep records, as far as this user may see it.

        Raises:
            TransientError: The cluster does not answer.
        """
        found = self._asked(lambda admin: ask(admin, sorted(topics))) if topics else {}
        return {t: r for t, r in found.items() if isinstance(r, Retention)}

    def without_record(self, spans: Mapping[TopicPartition, Span]) -> frozenset[TopicPartition]:
        """Return the partitions of which it is known that what is unread holds no record that is committed.

        It takes Read on the topic: where this user may not read it, that is not known.
        """
        return KafkaMarkers(self._connection, read_committed=True).empty_now(spans) if spans else frozenset()

    def _connected(self) -> KafkaAdminClient:
        return connect(self._connection, time.monotonic() + _CONNECT_S)

    def _asked(self, question: Callable[[KafkaAdminClient], _T]) -> _T:
        """Return an answer; after a failure the next question is asked over connections made anew."""
        try:
            self._admin = self._admin or self._connected()
            return question(self._admin)
        except (ClientError, OSError, TimeoutError, TransientError) as e:
            self._drop()
            raise TransientError(named(e) if self._servers in named(e) else f"{self._servers}: {named(e)}") from e

    def _drop(self) -> None:
        if self._admin is not None:
            started(self._admin.close, "kafka-close")  # it waits for a broker that may be away
        self._admin = None


def _look(admin: KafkaAdminClient) -> Look:
    names = sorted(g["group_id"] for g in admin.list_groups())
    described = describe(admin, names, SystemClock().now()) if names else {}
    groups = {name: _group(admin, name, described.get(name, "its coordinator says nothing of it")) for name in names}
    topics = sorted(set().union(*(_consumed(g) for g in groups.values())))
    partitions, unread = _partitions(admin, topics)
    at = time.monotonic()
    ends, more = _ends(admin, partitions)
    return Look(at=at, groups=groups, ends=ends, unread=unread | more, sizes=_sizes(admin))


def _group(admin: KafkaAdminClient, name: str, found: GroupMembers | str) -> GroupLook | str:
    if isinstance(found, str):
        return found
    try:
        committed = admin.list_group_offsets({name: None})[name]
    except (ClientError, KeyError) as e:  # or its coordinator left it out
        return f"its committed offsets cannot be read: {named(e)}"
    offsets = {TopicPartition(topic=p.topic, partition=p.partition): int(o.offset) for p, o in committed.items() if o.offset >= 0}
    return GroupLook(at=time.monotonic(), members=found, committed=offsets)


def _consumed(group: GroupLook | str) -> set[str]:
    if isinstance(group, str):
        return set()
    members = group.members.members
    held = {p.topic for m in members for p in m.assigned} | {t for m in members for t in (m.topics or ())}
    return held | {p.topic for p in group.committed}


def _partitions(admin: KafkaAdminClient, topics: Sequence[str]) -> tuple[dict[str, list[KafkaPartition]], dict[str, str]]:
    """Return the partitions of topics, and why some are not known."""
    found: dict[str, list[KafkaPartition]] = {}
    unread: dict[str, str] = {}
    for topic in admin.describe_topics(list(topics)) if topics else ():
        if topic["error_code"]:
            unread[topic["name"]] = named(topic["error_code"])
        else:
            found[topic["name"]] = [KafkaPartition(topic["name"], p["partition_index"]) for p in topic["partitions"]]
    return found, unread


def _ends(
    admin: KafkaAdminClient, partitions: Mapping[str, Sequence[KafkaPartition]]
) -> tuple[dict[TopicPartition, Ends], dict[str, str]]:
    """Return the ends of logs, and why those of some topics could not be read: asked for together, or else by topic."""
    try:
        return _edges(admin, [p for ps in partitions.values() for p in ps]), {}
    except ClientError:
        pass  # of one of them: the others must be read
    found: dict[TopicPartition, Ends] = {}
    unread: dict[str, str] = {}
    for topic, ps in partitions.items():
        try:
            found |= _edges(admin, ps)
        except ClientError as e:
            unread[topic] = named(e)
    return found, unread


def _edges(admin: KafkaAdminClient, partitions: Sequence[KafkaPartition]) -> dict[TopicPartition, Ends]:
    if not partitions:
        return {}
    last = admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    first = admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
    return {
        TopicPartition(topic=p.topic, partition=p.partition): Ends(start=int(first[p].offset), end=int(last[p].offset))
        for p in partitions
    }


def _sizes(admin: KafkaAdminClient) -> dict[TopicPartition, float]:
    """Return the bytes of each partition's largest replica; none where this user may not see them."""
    sizes: dict[TopicPartition, float] = {}
    try:
        found: Sequence[Any] = admin.describe_log_dirs()
    except ClientError:
        return {}
    for topic in (t for broker in found for d in broker["log_dirs"] if not d["error_code"] for t in d["topics"]):
        for p in topic["partitions"]:
            key = TopicPartition(topic=topic["name"], partition=p["partition_index"])
            if not p["is_future_key"]:
                sizes[key] = max(sizes.get(key, 0.0), float(p["partition_size"]))
    return sizes
