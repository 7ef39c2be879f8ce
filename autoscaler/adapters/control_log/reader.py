"""The background reader of one group's two partitions, and the controller's own tick in the heartbeat log.

One thread reads committed records of the control partition and everything of the heartbeat partition into a queue, says how far
each has been read, writes a tick every ``tick_s``, and keeps the ids and sizes of topics fresh. It decides nothing:
``publisher`` takes from the queue in its own thread. A silent one, for ``watch``, writes nothing at all.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from autoscaler.adapters.clock import boot_id
from autoscaler.adapters.control_log.group_view import Latencies
from autoscaler.adapters.kafka.control_topics import (
    DENIED,
    EARLIEST,
    LATEST,
    Connection,
    TopicFacts,
    chosen,
    client,
    client_log,
    facts_of,
    retried,
    translated,
)
from autoscaler.clients.log_follower import FOLLOWER_SETTINGS, LogFollower, is_end
from autoscaler.errors import AutoscalerError, TransientError
from autoscaler.handover.codec import Decoded, decode, encode
from autoscaler.handover.controller_state import ControllerState
from autoscaler.handover.placement_record import is_key
from autoscaler.handover.records import CONTROL_TOPIC, HEARTBEAT_TOPIC, Heartbeat, Tick
from autoscaler.ports import Clock
from autoscaler.topic_selection import names, patterns

_POLL_S = 0.05
_CALL_S = 5.0
_LOG_START_EVERY_S = 15.0
_LIST_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of either log, in log order per log."""

    decoded: Decoded
    offset: int
    at: float


def tick_every_s(lease_s: float) -> float:
    """Return how often a controller stamps the heartbeat log: two of these pass before a silent worker is proven to be over."""
    return min(1.0, max(0.2, lease_s / 30))


@dataclass(frozen=True, slots=True)
class Gap:
    """Heartbeats before ``log_start`` may have been missed."""

    log_start: int


class LogReader:
    """Reads both partitions from their start; call ``drain`` for what came, ``wait_for`` to be sure of a point in a log."""

    silent = False
    fetch_wait_ms = 500  # a broker answers as soon as there is anything

    def __init__(
        self,
        connection: Connection,
        admin: AdminClient,
        *,
        group: str,
        partition: int,
        control_id: str,
        topics: tuple[str, ...],
        tick_s: float,
        clock: Clock,
    ) -> None:
        self.incarnation = str(uuid4())  # of this controller, under which it ticks
        self.number = 0  # that the ticks name, see ``Tick``
        self.opened = time.monotonic()
        self.own_tick_seen: float | None = None  # when (monotonic) the latest was read back: proof that writing and reading work
        self.log_start = 0  # first offset of the heartbeat log, some seconds old
        self.facts: dict[str, TopicFacts] = {}  # topics as last described; those that do not exist are absent
        self.failure: str | None = None  # why topics could not be described lately
        self.lost = False  # the control log ends before what was read of it: a broker came back without its last records
        self._gap = False
        self.refused: dict[str, str] = {}  # what the cluster refuses, and what to do, by topic
        self.refused_at = 0.0  # when (monotonic) it began to refuse
        self._group, self._control_id, self._clock, self._tick_s = group, control_id, clock, tick_s
        self._partition, self._topics = partition, topics
        self._listed: frozenset[str] = frozenset()  # what a pattern has meant, until the brokers know no such name
        self._list_at = 0.0
        self._queue: deque[Entry | Gap] = deque()
        self._stop = threading.Event()
        self._in_flight, self._boot = False, boot_id()
        self._acked: int | None = None
        self._admin = admin  # one that has been used: the first request of a fresh one now and then takes 3 s
        self._strange: set[tuple[str, str]] = set()  # kinds of records that could not be read and were said
        self._unread: Entry | None = None  # a silent reader's tick, until everything before it has been read
        self._producer: Any = None if self.silent else client(Producer, connection, {
            "enable.idempotence": True, "acks": "all", "max.in.flight.requests.per.connection": 1, "linger.ms": 0,
            "message.timeout.ms": 5000,
        })  # fmt: skip
        self._consumer = client(Consumer, connection, {
            **FOLLOWER_SETTINGS, "auto.offset.reset": "error", "fetch.error.backoff.ms": 10,
            "fetch.wait.max.ms": self.fetch_wait_ms,
        })  # fmt: skip
        self._follower = LogFollower(self._consumer)
        self._thread = threading.Thread(target=self._run, name=f"control-log-{group}", daemon=True)

    def start(self) -> None:
        """Begin reading at the start of both logs.

        Raises:
            TransientError: The start of the heartbeat log cannot be asked for.
        """
        self.log_start = self.end(HEARTBEAT_TOPIC, EARLIEST)
        self._queue.append(Gap(self.log_start))
        # Both by number: a fetch of one waits half a second for records, while the other's beginning is still looked up.
        starts = {CONTROL_TOPIC: self.end(CONTROL_TOPIC, EARLIEST), HEARTBEAT_TOPIC: self.log_start}
        self._follower.follow({(topic, self._partition): (start, start) for topic, start in starts.items()})
        self._thread.start()

    def end(self, topic: str, spec: Any = None) -> int:
        """Return the end of a log (or what ``spec`` asks for), open transactions included.

        Raises:
            TransientError: The cluster does not answer.
        """
        return retried(partial(self._end, topic, spec), for_s=_CALL_S)

    def _end(self, topic: str, spec: Any) -> int:
        tp = TopicPartition(topic, self._partition)
        with translated(f"read the offsets of {topic}"):
            futures = self._admin.list_offsets(
                {tp: spec or LATEST}, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=_CALL_S
            )
            return int(futures[tp].result(6.0).offset)

    def wait_for(self, topic: str, offset: int, *, timeout_s: float) -> None:
        """Wait until everything before ``offset`` is in the queue.

        Markers and aborted records have no entry of their own: the position counts, not the records.

        Raises:
            TransientError: Not reached in time.
        """
        with self._follower.progress:
            if not self._follower.progress.wait_for(lambda: self._reached(topic) >= offset, timeout_s):
                reached, why = self._reached(topic), f": {self.refused[topic]}" if topic in self.refused else ""
                raise TransientError(f"{topic} was read to offset {reached} only, not to {offset}, in {timeout_s:g} s{why}")

    def _reached(self, topic: str) -> int:
        return self._follower.reached.offset((topic, self._partition))

    @property
    def silent_s(self) -> float:
        """Return for how many seconds nothing has proved that writing and reading work."""
        return time.monotonic() - (self.opened if self.own_tick_seen is None else self.own_tick_seen)

    def drain(self) -> list[Entry | Gap]:
        """Take everything that has been read."""
        return [self._queue.popleft() for _ in range(len(self._queue))]

    def close(self) -> None:
        """Stop reading and release the connections."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(10.0)
        self._consumer.close()
        if self._producer is not None:
            self._producer.purge()
            self._producer.flush(1.0)

    # --- the thread ---

    def _run(self) -> None:
        tick_at = describe_at = start_at = 0.0
        described: dict[str, Any] = {}
        while not self._stop.is_set():
            self._guarded(self._read)
            if self._gap:
                self._guarded(self._resume_after_gap)
            now = time.monotonic()
            if now >= tick_at and not self._in_flight:
                tick_at = now + self._tick_s
                self._guarded(self._look if self.silent else self._tick)
            if self._producer is not None:
                self._producer.poll(0)
            if described and all(f.done() for f in described.values()):
                self._guarded(partial(self._note_facts, described))
                described = {}
            if now >= describe_at and not described and self._heard(now):
                describe_at = now + max(1.0, self._tick_s)
                self._guarded(self._list)
                asked = [CONTROL_TOPIC, HEARTBEAT_TOPIC, *sorted(self._listed.union(names(self._topics), self.facts))]
                described = dict(self._admin.describe_topics(TopicCollection(list(dict.fromkeys(asked))), request_timeout=5.0))
            if now >= start_at and self._heard(now):
                start_at = now + _LOG_START_EVERY_S
                self._guarded(self._note_log_start)

    def _heard(self, now: float) -> bool:
        """Say whether the broker has just answered; without one, an admin request can make librdkafka abort the process."""
        return self.own_tick_seen is not None and now - self.own_tick_seen < self._tick_s + 1.0

    def _guarded(self, step: Callable[[], None]) -> None:
        """Go on after whatever Kafka says: the broker may be away for a while, and ``observe`` notices by the missing ticks."""
        try:
            step()
        except (KafkaException, AutoscalerError, BufferError) as e:
            client_log.info("control log of group %s: %s", self._group, e)
            self._stop.wait(_POLL_S)

    def _read(self) -> None:
        messages = self._follower.fetch(_POLL_S)
        for message in messages:
            self._take(message)
        self._follower.note(messages)
        if self._unread is not None and self._reached(HEARTBEAT_TOPIC) >= self._unread.offset - 1:
            self._queue.append(self._unread)
            self.own_tick_seen, self._unread = time.monotonic(), None

    def _take(self, message: Any) -> None:
        error = message.error()
        topic, offset = message.topic(), message.offset()
        if error is None or is_end(message):
            self.refused.pop(topic, None)
        if error is None:
            control_id = self._control_id if topic == CONTROL_TOPIC else None
            decoded = decode(message.key(), message.value(), control_id=control_id)
            if decoded.record is not None or decoded.tombstone:
                self._queue.append(Entry(decoded, offset, message.timestamp()[1] / 1000))
            elif not is_key(message.key()):
                self._say_ignored(topic, offset, decoded)
            if isinstance(decoded.record, Tick) and decoded.record.incarnation == self.incarnation:
                self.own_tick_seen = time.monotonic()
        elif error.code() in DENIED and topic:  # without a topic it is the client's group, which is never used
            self._denied("read", topic)
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001  the client's own name for it
            if topic == HEARTBEAT_TOPIC:
                self._gap = True  # what was read with it comes first
            else:
                self.lost = True

    def _say_ignored(self, topic: str, offset: int, decoded: Decoded) -> None:
        """Say the first record of each kind that cannot be read: what a newer worker writes would be missed in silence."""
        what = decoded.key[0] if decoded.key else "record"
        kind = (f"{topic}-{self._partition}", f"{what} ({decoded.ignored.partition(':')[0].split()[0]})")
        if kind not in self._strange:
            self._strange.add(kind)
            client_log.warning(
                "%s: a %s at offset %d is ignored, more of the kind are not said: %s", *kind, offset, decoded.ignored
            )

    def _resume_after_gap(self) -> None:
        """Go on where the heartbeat log begins now; tried again until it is done."""
        start = self.end(HEARTBEAT_TOPIC, EARLIEST)
        self._queue.append(Gap(start))  # before the publisher is told that more has been read
        self._follower.follow({(HEARTBEAT_TOPIC, self._partition): (start, start)})  # less where its end was lost
        self.log_start, self._gap = start, False

    def _stamped(self) -> Tick:
        return Tick(
            group=self._group,
            incarnation=self.incarnation,
            stamp=self._clock.monotonic(),
            boot_id=self._boot,
            acked=self._acked,
            number=self.number,
        )

    def _look(self) -> None:
        """Ask where the heartbeat log ends instead of writing to it: as good a tick, once everything before the end is read.

        It is stamped before the question, and the end that it calls acknowledged is the answer to the question before it.
        """
        if self._unread is None:
            tick = self._stamped()
            _, end = self._follower.edges((HEARTBEAT_TOPIC, self._partition), timeout_s=_CALL_S)
            self._unread, self._acked = Entry(Decoded(record=tick), end + 1, self._clock.now()), end

    def _tick(self) -> None:
        key, value = encode(self._stamped())
        self._in_flight = True
        try:
            self._producer.produce(HEARTBEAT_TOPIC, value, key, partition=self._partition, on_delivery=self._delivered)
        except BaseException:
            self._in_flight = False
            raise

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        self._in_flight = False
        if error is None:
            self._acked = message.offset()
        elif error.code() in DENIED:
            self._denied("write to", HEARTBEAT_TOPIC)

    def _denied(self, what: str, topic: str) -> None:
        if not self.refused:
            self.refused_at = time.monotonic()
        self.refused[topic] = f"this user may not {what} {topic}: give it the permission, see docs/reference/permissions.md"

    def _note_facts(self, described: dict[str, Any]) -> None:
        found = {}
        try:
            for name, future in described.items():
                facts = facts_of(name, future, timeout_s=0.1)
                if facts is not None:
                    found[name] = facts
        except AutoscalerError as e:
            self.failure = str(e)
            raise
        self.facts, self.failure = found, None

    def list_soon(self) -> None:
        """Look for topics that a pattern means with the next look at topics."""
        self._list_at = 0.0

    def _list(self) -> None:
        """Look now and then for topics that a pattern means. A list leaves out what this user may not describe."""
        if patterns(self._topics) and time.monotonic() >= self._list_at:
            self._list_at = time.monotonic() + _LIST_EVERY_S
            self._listed = chosen(self._admin, self._topics)

    def _note_log_start(self) -> None:
        self.log_start = self.end(HEARTBEAT_TOPIC, EARLIEST)


class SilentReader(LogReader):
    """Reads the same and writes nothing: no tick either, so that a group in advise mode is left alone."""

    silent = True
    fetch_wait_ms = 100  # it also asks where a log ends, which waits on the same connection


def fold(log: LogReader, state: ControllerState, latencies: Latencies, group: str) -> None:
    """Fold everything that has been read into the state."""
    for entry in log.drain():
        if isinstance(entry, Gap):
            state.log.started(entry.log_start)
            continue
        record = entry.decoded.record
        if record is None:
            state.forget(entry.decoded.key or ())
            continue
        state.fold(record, offset=entry.offset, at=entry.at)
        if isinstance(record, Heartbeat) and record.group == group:
            latencies.note(record.worker, entry.at, record.ages)
    state.log.forget_before(log.log_start)
