"""Membership of consumer groups, read in the background: implements ``ports.GroupReader`` on Kafka.

One thread asks for all groups every few seconds; a cycle takes the latest answer and never waits. Used for native groups, and to
refuse a managed group that somebody else subscribes with (``docs/handover.md``, rule 13).
"""

import threading
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from autoscaler.adapters.kafka_topics import Connection, admin_client, client_log
from autoscaler.model import GroupMembers, Member, TopicPartition
from autoscaler.ports import Clock

_CALL_S = 5.0
_STALE_READS = 3.0
_STALE_S = 10.0


class KafkaGroupReader:
    """Reads the membership of groups; ``members`` answers from the latest read.

    Args:
        connection: librdkafka's connection settings, secrets resolved.
        groups: Ids of the groups.
        clock: Time.
        every_s: Seconds between reads.

    Raises:
        SettingsError: A connection setting is unknown to the client or impossible.
    """

    def __init__(self, connection: Connection, groups: Sequence[str], clock: Clock, every_s: float = 2.0) -> None:
        self._admin = admin_client(connection)
        self._groups, self._clock, self._every_s = tuple(groups), clock, every_s
        self._latest: dict[str, tuple[float, GroupMembers]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="group-reader", daemon=True)
        self._thread.start()

    def members(self, group: str) -> GroupMembers | None:
        """Return the latest membership, ``None`` before the first read or when reads fail for long."""
        read_at, found = self._latest.get(group, (0.0, None))
        if found is None or self._clock.monotonic() - read_at > max(_STALE_S, _STALE_READS * self._every_s):
            return None
        return found

    def close(self) -> None:
        """Stop reading."""
        self._stop.set()
        self._thread.join(2 * _CALL_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._read()
            self._stop.wait(self._every_s)

    def _read(self) -> None:
        try:
            self._admin.list_topics(timeout=_CALL_S)  # an admin request whose broker is away can abort the process in librdkafka
            futures = self._admin.describe_consumer_groups(list(self._groups), request_timeout=_CALL_S) if self._groups else {}
        except KafkaException as e:
            client_log.info("membership of %s could not be read: %s", self._groups, e)
            return
        for group, future in futures.items():
            try:
                found = _members(future.result(_CALL_S + 1), self._clock.now())
            except KafkaException as e:
                if e.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                    client_log.info("membership of group %s could not be read: %s", group, e)
                    continue
                found = GroupMembers(state="DEAD", kind="UNKNOWN", assignor="", members=(), at=self._clock.now())
            except TimeoutError:
                client_log.info("membership of group %s could not be read in %s s", group, _CALL_S)
                continue
            self._latest[group] = (self._clock.monotonic(), found)


def _members(found: Any, at: float) -> GroupMembers:
    members = [
        Member(
            member_id=m.member_id,
            client_id=m.client_id,
            host=m.host,
            assigned=frozenset(
                TopicPartition(topic=p.topic, partition=p.partition)
                for p in (m.assignment.topic_partitions if m.assignment else ())
            ),
        )
        for m in found.members
    ]
    return GroupMembers(
        state=found.state.name,
        kind=found.type.name,
        assignor=found.partition_assignor,
        members=tuple(sorted(members, key=lambda m: m.member_id)),
        at=at,
    )
