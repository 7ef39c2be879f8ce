"""What a group has committed, read without joining it, and where its partitions begin and end.

Used by ``control_log/publisher``, which decides what it means.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from autoscaler.adapters.kafka.control_topics import LATEST, Connection, client, translated
from autoscaler.errors import TransientError
from autoscaler.handover.commit_metadata import is_of_topic
from autoscaler.handover.records import Tp

_CALL_S = 5.0


class GroupOffsets:
    """A consumer of the group that never joins: the admin client's call crashes when the coordinator is loading."""

    def __init__(self, connection: Connection, group: str) -> None:
        self._connection, self._group = connection, group
        self._consumer: Any = None

    def committed(self, tps: Sequence[Tp], names: Mapping[str, str], *, timeout_s: float = _CALL_S) -> dict[Tp, TopicPartition]:
        """Return what is committed, metadata included; an offset of another topic of the same name is left out (rule 14).

        Raises:
            TransientError: The coordinator does not answer, or an offset cannot be read right now.
        """
        by_name = {(names[tp.topic_id], tp.partition): tp for tp in tps}
        with translated(f"read committed offsets of group {self._group}"):
            found = self._open().committed([TopicPartition(t, p) for t, p in by_name], timeout=timeout_s)
        if failed := [tp for tp in found if tp.error is not None]:
            raise TransientError(f"read committed offsets of group {self._group}: {failed[0].error.name()}")
        named = {by_name[tp.topic, tp.partition]: tp for tp in found if tp.offset >= 0}
        return {tp: x for tp, x in named.items() if is_of_topic(x.metadata, tp.topic_id)}

    def metadata(self) -> Any:
        """Return the client's object that names the group in a transaction."""
        return self._open().consumer_group_metadata()

    def close(self) -> None:
        """Release the connection; the next call makes another."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _open(self) -> Any:
        if self._consumer is None:
            self._consumer = client(Consumer, self._connection, {"group.id": self._group, "enable.auto.commit": False})
        return self._consumer


def edges(admin: Any, tps: Sequence[Tp], names: Mapping[str, str], spec: Any) -> dict[Tp, int]:
    """Return the first (``EARLIEST``) or the next (``LATEST``) offset of partitions.

    Raises:
        TransientError: A leader does not answer right now.
    """
    wanted = {TopicPartition(names[tp.topic_id], tp.partition): tp for tp in tps}
    if not wanted:
        return {}
    with translated(f"read the {'end' if spec is LATEST else 'start'} of topics {', '.join(sorted({t.topic for t in wanted}))}"):
        futures = admin.list_offsets(dict.fromkeys(wanted, spec), request_timeout=_CALL_S)
        return {wanted[tp]: int(future.result(_CALL_S + 1).offset) for tp, future in futures.items()}
