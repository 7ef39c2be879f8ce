"""Follows logs with one client of Kafka, from their start to their end and on; the worker and the adapters use it.

The client and the thread are the caller's; others may wait on ``progress``. What a record means is the caller's business, and
when an end is reached that of ``handover/log_progress.py``.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from autoscaler.handover.log_progress import Log, LogProgress

FOLLOWER_SETTINGS: Mapping[str, str | bool] = {
    "group.id": "__autoscaler_reader",  # demanded by the client; no consumer joins it and nothing is committed under it
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
}
_CALL_S = 5.0
_UNKNOWN = {KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART}  # noqa: SLF001  as below
_AT_ONCE = 500


def is_unknown(error: KafkaException) -> bool:
    """Say whether a client, or its broker, does not know of a log."""
    return error.args[0].code() in _UNKNOWN


def is_end(message: Message) -> bool:
    """Say whether a message is no record and no error, but tells that its log was read to the present end."""
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001  the client's own name for it


class LogFollower:
    """Reads logs and knows how far; the caller makes the consumer, with ``FOLLOWER_SETTINGS``, and closes it."""

    def __init__(self, consumer: Consumer) -> None:
        self.reached = LogProgress()  # how far each log has been read
        self.progress = threading.Condition()  # notified when that has changed; held meanwhile
        self._consumer = consumer

    def edges(self, log: Log, *, timeout_s: float) -> tuple[int, int]:
        """Return where a log begins, and where it ends now for a reader of what is committed.

        A broker that has just come back may not know its topics yet, and a client believes that until it asks again by itself,
        five minutes later or never: until then it neither fetches nor tells an end. A client that does not know the log is made
        to ask, which helps as a rule; the caller replaces one that goes on not knowing it.

        Raises:
            KafkaException: Its broker does not answer, or refuses.
        """
        try:
            return self._consumer.get_watermark_offsets(TopicPartition(*log), timeout=timeout_s, cached=False)
        except KafkaException as e:
            if is_unknown(e):
                with suppress(KafkaException):
                    self._consumer.list_topics(log[0], timeout=timeout_s)
            raise

    def begin(self, logs: Iterable[Log], *, timeout_s: float) -> dict[Log, KafkaException]:
        """Follow logs from their start on; return those whose edges no broker tells yet, with the reason: try these again."""
        found, failed = dict[Log, tuple[int, int]](), dict[Log, KafkaException]()
        for log in logs:
            try:
                found[log] = self.edges(log, timeout_s=timeout_s)
            except KafkaException as e:
                failed[log] = e
        if found:  # not one by one: a broker answers nothing on a connection on which a fetch waits for records
            self.follow(found)
        return failed

    def follow(self, edges: Mapping[Log, tuple[int, int]]) -> None:
        """Read logs, also anew, from the first of two offsets on; the second is the end that is to be reached."""
        for topic in {topic for topic, _ in edges}:
            with suppress(KafkaException):  # without it the first fetch waits half a second for a refresh of its own
                self._consumer.list_topics(topic, timeout=_CALL_S)
        if read := [tp for tp in self._consumer.assignment() if (tp.topic, tp.partition) in edges]:
            self._consumer.incremental_unassign(read)
        self._consumer.incremental_assign([TopicPartition(*log, start) for log, (start, _) in edges.items()])
        with self.progress:
            for log, (start, end) in edges.items():
                self.reached.begin(log, start, end)
            self.progress.notify_all()

    def fetch(self, wait_s: float) -> list[Message]:
        """Return what has come: records, ends and errors. It counts as read when it is noted."""
        first = self._consumer.poll(wait_s)  # consume() alone would wait for a full batch or the whole time
        return [] if first is None else [first, *self._consumer.consume(_AT_ONCE, 0)]

    def note(self, messages: Sequence[Message]) -> None:
        """Note how far everything has been read, now that what was fetched has been taken; also when that was nothing."""
        with self.progress:
            for message in messages:
                log, offset = (message.topic() or "", message.partition() or 0), message.offset() or 0
                if message.error() is None:
                    self.reached.record(log, offset)
                elif is_end(message):
                    self.reached.end(log, offset)
            for tp in self._consumer.position(self._consumer.assignment()):
                self.reached.position((tp.topic, tp.partition), tp.offset)
            self.progress.notify_all()
