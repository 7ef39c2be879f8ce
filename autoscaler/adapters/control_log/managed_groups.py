"""Which groups the control log knows, read once for all groups of a cluster that are only watched.

Most groups in advise mode have never been managed: nothing in the control log is theirs. One client that looks at the keys of
both logs tells them from the others, so that what a cluster is asked does not grow with the number of its groups.
"""

import threading
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from autoscaler.adapters.kafka.control_topics import DENIED, Connection, client, client_log
from autoscaler.errors import TransientError
from autoscaler.handover.codec import PARTITIONS, decode, partition_for
from autoscaler.handover.records import CONTROL_TOPIC, HEARTBEAT_TOPIC

_READ_S = 5.0  # at most, from the beginning: then groups wait for later cycles
_POLL_S = 0.2
_CALL_S = 1.0
_AGAIN_S = 1.0  # before a log is asked for again whose broker did not answer
_REMEMBERED = 20_000  # keys that need not be taken apart again
_THEIRS = frozenset({"plan", "heartbeat"})  # of a group that has a plan or a worker
_LOGS = (CONTROL_TOPIC, HEARTBEAT_TOPIC)


class KnownGroups:
    """Reads the keys of both logs from their start, in a thread of its own.

    Args:
        connection: librdkafka's connection settings.
        partitions: How many partitions the logs have.

    Attributes:
        failures: Why a log cannot be read, and what to do, by topic; empty if all can.
        failed_at: When (monotonic) that began.

    Raises:
        SettingsError: A connection setting is unknown to the client or impossible.
    """

    def __init__(self, connection: Connection, partitions: int) -> None:
        self.failures: dict[str, str] = {}
        self.failed_at = 0.0
        self._partitions = min(partitions, PARTITIONS)
        self._groups: set[str] = set()
        self._keys: set[bytes] = set()
        self._ends: dict[tuple[str, int], tuple[int, int]] = {}  # where logs began and ended that are read for the first time
        self._read: set[tuple[str, int]] = set()  # those of which everything has been read once
        self._progress, self._stop = threading.Condition(), threading.Event()
        self._until = time.monotonic() + _READ_S
        self._consumer = client(Consumer, connection, {
            "group.id": "__autoscaler_reader", "enable.auto.commit": False, "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        })  # fmt: skip
        self._thread = threading.Thread(target=self._run, name="control-log-keys", daemon=True)
        self._thread.start()

    def knows(self, group: str) -> bool:
        """Say whether the logs hold a plan or a heartbeat of a group; the first call waits a moment until they have been read.

        Raises:
            TransientError: They have not been read to their ends yet, or may not be.
        """
        partition = partition_for(group, self._partitions)
        wanted = {(topic, partition) for topic in _LOGS}
        with self._progress:
            done = self._progress.wait_for(
                lambda: group in self._groups or self.failures or wanted <= self._read, max(0.0, self._until - time.monotonic())
            )
            if group in self._groups:
                return True
            if self.failures:
                raise TransientError("; ".join(self.failures.values()))
            if not done:
                unread = ", ".join(sorted(t for t, p in wanted - self._read))
                raise TransientError(f"{unread} has not been read to its end yet: partition {partition}")
            return False

    def close(self) -> None:
        """Stop reading; called while a broker is away it waits for nobody."""
        self._stop.set()
        threading.Thread(target=self._let_go, daemon=True).start()

    def _let_go(self) -> None:
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        begin_at, left = 0.0, [TopicPartition(t, p) for t in _LOGS for p in range(self._partitions)]
        while not self._stop.is_set():
            try:
                if left and time.monotonic() >= begin_at:
                    left, begin_at = self._begin(left), time.monotonic() + _AGAIN_S
                first = self._consumer.poll(_POLL_S)  # consume() alone would wait for a full batch or the whole time
                self._note([] if first is None else [first, *self._consumer.consume(500, 0)])
            except KafkaException as e:
                client_log.info("keys of the control log: %s", e)
                self._stop.wait(_POLL_S)
            except Exception as e:  # noqa: BLE001  what came with a defect was not looked at: another one reads it all again
                client_log.exception("keys of the control log could not be read")
                with self._progress:
                    self._fail(CONTROL_TOPIC, f"{CONTROL_TOPIC} could not be read: {type(e).__name__}: {e}")
                return

    def _begin(self, logs: list[TopicPartition]) -> list[TopicPartition]:
        """Begin to read, each from its start, up to its present end at first; return those of which nobody tells these yet."""
        left, begun = [], []
        for log in logs:
            try:
                found = self._consumer.get_watermark_offsets(log, timeout=_CALL_S, cached=False)
            except KafkaException as e:
                with self._progress:
                    self._refuse(log.topic, e.args[0])
                found = None
            if found is None:
                left.append(log)
                continue
            log.offset = found[0]
            self._ends[log.topic, log.partition] = found
            begun.append(log)
        if begun:  # not one by one: a broker answers nothing on a connection on which a fetch waits for records
            self._consumer.incremental_assign(begun)
            self._note([])
        return left

    def _note(self, messages: Sequence[Any]) -> None:
        """Take what has come, and note how far everything has been read: where records come all the time, no end is ever told."""
        with self._progress:
            for message in messages:
                self._take(message)
            for log in self._consumer.position(self._consumer.assignment()) if self._ends else ():
                first, end = self._ends.get((log.topic, log.partition), (0, 0))
                if max(log.offset, first) >= end:
                    self._ends.pop((log.topic, log.partition), None)
                    self._read.add((log.topic, log.partition))
            self._progress.notify_all()

    def _refuse(self, topic: str, error: KafkaError) -> None:
        if error.code() in DENIED and topic in _LOGS:  # without a topic it is the client's group, which is never used
            self._fail(topic, f"this user may not read {topic}: give it the permission, see docs/operations.md")

    def _fail(self, topic: str, why: str) -> None:
        self.failed_at = self.failed_at if self.failures else time.monotonic()
        self.failures[topic] = why
        self._progress.notify_all()

    def _take(self, message: Any) -> None:
        error, topic = message.error(), message.topic()
        if error is not None:
            self._refuse(topic, error)
            return
        self.failures.pop(topic, None)
        if message.value() is not None:
            self._know(message.key())

    def _know(self, key: bytes | None) -> None:
        if key is None or key in self._keys:
            return
        if len(self._keys) >= _REMEMBERED:
            self._keys.clear()
        self._keys.add(key)
        parts = decode(key, None).key
        if parts is not None and parts[0] in _THEIRS:
            self._groups.add(str(parts[1]))
