"""Which groups the control log knows, read once for all groups of a cluster that are only watched.

Most groups in advise mode have never been managed: nothing in the control log is theirs. One client that looks at the keys of
both logs tells them from the others, so that what a cluster is asked does not grow with the number of its groups.
"""

import threading
import time
from collections.abc import Sequence
from functools import lru_cache

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from autoscaler.adapters.kafka.control_topics import DENIED, Connection, client, client_log
from autoscaler.clients.log_follower import FOLLOWER_SETTINGS, LogFollower, is_end
from autoscaler.concurrency import started
from autoscaler.errors import TransientError
from autoscaler.handover.codec import PARTITIONS, decode, partition_for
from autoscaler.handover.log_progress import Log
from autoscaler.handover.records import CONTROL_TOPIC, HEARTBEAT_TOPIC

_READ_S = 5.0  # at most, from the beginning: then groups wait for later cycles
_POLL_S = 0.2
_CALL_S = 1.0
_AGAIN_S = 1.0  # before a log is asked for again whose broker did not answer
_THEIRS = frozenset({"plan", "heartbeat"})  # of a group that has a plan or a worker
_LOGS = (CONTROL_TOPIC, HEARTBEAT_TOPIC)


class KnownGroups:
    """Reads the keys of both logs, of so many partitions, from their start, in a thread of its own.

    Raises:
        SettingsError: A connection setting is unknown to the client or impossible.
    """

    def __init__(self, connection: Connection, partitions: int) -> None:
        self.failures: dict[str, str] = {}  # by topic: why it cannot be read, and what to do
        self.failed_at = 0.0  # when (monotonic) that began
        self._partitions = min(partitions, PARTITIONS)
        self._groups: set[str] = set()
        self._stop = threading.Event()
        self._until = time.monotonic() + _READ_S
        self._consumer = client(Consumer, connection, {**FOLLOWER_SETTINGS, "auto.offset.reset": "earliest"})
        self._follower = LogFollower(self._consumer)
        started(self._run, "control-log-keys")

    def knows(self, group: str) -> bool:
        """Say whether the logs hold a plan or a heartbeat of a group; the first call waits a moment until they have been read.

        Raises:
            TransientError: They have not been read to their ends yet, or may not be.
        """
        wanted = [(topic, partition_for(group, self._partitions)) for topic in _LOGS]
        with self._follower.progress:
            self._follower.progress.wait_for(
                lambda: group in self._groups or self.failures or not self._unread(wanted),
                max(0.0, self._until - time.monotonic()),
            )
            if group in self._groups:
                return True
            if self.failures:
                raise TransientError("; ".join(self.failures.values()))
            if unread := self._unread(wanted):
                raise TransientError(f"{', '.join(f'{t}-{p}' for t, p in unread)} has not been read to its end yet")
            return False

    def _unread(self, wanted: Sequence[Log]) -> list[Log]:
        return [log for log in wanted if not self._follower.reached.caught_up(log)]

    def close(self) -> None:
        """Stop reading; while a broker is away this does not wait for it."""
        self._stop.set()

    def _run(self) -> None:
        begin_at, left = 0.0, [(t, p) for t in _LOGS for p in range(self._partitions)]
        while not self._stop.is_set():
            try:
                if left and time.monotonic() >= begin_at:
                    failed = self._follower.begin(left, timeout_s=_CALL_S)
                    left, begin_at = list(failed), time.monotonic() + _AGAIN_S
                    for (topic, _), e in failed.items():
                        self._refuse(topic, e.args[0])
                self._take(self._follower.fetch(_POLL_S))
            except KafkaException as e:
                client_log.info("keys of the control log: %s", e)
                self._stop.wait(_POLL_S)
            except Exception as e:  # noqa: BLE001  what came with a defect was not looked at: another one reads it all again
                client_log.exception("keys of the control log could not be read")
                self._fail(CONTROL_TOPIC, f"{CONTROL_TOPIC} could not be read: {type(e).__name__}: {e}")
                break
        self._consumer.close()

    def _take(self, messages: Sequence[Message]) -> None:
        with self._follower.progress:
            for message in messages:
                error, topic = message.error(), message.topic()
                if error is not None and not is_end(message):
                    self._refuse(topic, error)
                    continue
                self.failures.pop(topic or "", None)
                if error is None and message.value() is not None and (group := _group_of(message.key())) is not None:
                    self._groups.add(group)
            self._follower.note(messages)

    def _refuse(self, topic: str | None, error: KafkaError) -> None:
        if error.code() in DENIED and topic:  # without a topic it is the client's group, which is never used
            self._fail(topic, f"this user may not read {topic}: give it the permission, see docs/reference/permissions.md")

    def _fail(self, topic: str, why: str) -> None:
        with self._follower.progress:
            self.failed_at = self.failed_at if self.failures else time.monotonic()
            self.failures[topic] = why
            self._follower.progress.notify_all()


@lru_cache(maxsize=20_000)  # or the same keys would be taken apart again and again
def _group_of(key: bytes | None) -> str | None:
    """Return the group whose plan or worker a record with this key tells of."""
    parts = decode(key, None).key
    return str(parts[1]) if parts is not None and parts[0] in _THEIRS else None
