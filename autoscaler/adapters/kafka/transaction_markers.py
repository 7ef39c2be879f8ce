"""Implements ``ports.MarkerReader``: whether records stand between a committed offset and the end, or only what no reader gets.

Offsets count the markers of transactions, and what was aborted. A consumer that commits the offset after its last record is
behind by them for ever, on a partition to which nothing is written any more. Whether that is so only the log says, so it is read,
in the background, by a consumer that commits nothing and joins nothing. It needs the permission to read the topic: without it a
lag stays a lag. All groups share that consumer: there may be hundreds that stand still.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from autoscaler.adapters.kafka.control_topics import Connection, client, client_log
from autoscaler.adapters.kafka.open_transactions import LONGEST_S, open_transactions
from autoscaler.clients.log_follower import FOLLOWER_SETTINGS, is_end
from autoscaler.model import Span
from autoscaler.model import TopicPartition as Partition

_AT_ONCE = 200  # partitions asked for together
_ROUND_S = 10.0  # within which they answer, or are asked for again
_EVERY_S = 1.0
_SELDOM_S = 300.0


class KafkaMarkers:
    """Looks at the ends of partitions for all groups of one isolation; ``of`` gives each its own view.

    With ``read_committed``, what is aborted, or not yet committed, counts as nothing.
    """

    def __init__(self, connection: Connection, *, read_committed: bool) -> None:
        self._connection = dict(connection)
        self._isolation = "read_committed" if read_committed else "read_uncommitted"
        self._asked: dict[str, dict[Partition, Span]] = {}  # by group
        self._found: dict[tuple[Partition, Span], bool] = {}
        self._silent: dict[Partition, tuple[int, float]] = {}  # rounds without an answer, and when (monotonic) to ask again
        self._hidden: dict[Partition, Span] = {}  # whose end could not be reached: a transaction is open before it
        self._say_at = 0.0
        self._last: Partition | None = None  # asked for: the next round goes on behind it
        self._lock, self._news, self._stop = threading.Lock(), threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def of(self, group: str) -> "GroupMarkers":
        """Return one group's view."""
        return GroupMarkers(self, group)

    def ask(self, group: str, spans: Mapping[Partition, Span]) -> None:
        """Have these looked at soon for a group; what is not among them is forgotten. Returns at once."""
        with self._lock:
            self._asked[group] = dict(spans)
            new = any((p, s) not in self._found for p, s in spans.items())
        if new:
            self._news.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="markers", daemon=True)
                self._thread.start()

    def empty(self, group: str) -> Mapping[Partition, Span]:
        """Return those among the spans asked for that are known to hold no record for any reader."""
        with self._lock:
            return {p: s for p, s in self._asked.get(group, {}).items() if self._found.get((p, s), False)}

    def empty_now(self, spans: Mapping[Partition, Span]) -> frozenset[Partition]:
        """Look at once, a round at most, and return those of which it is known that they hold no record for any reader."""
        try:
            self._look(dict([*spans.items()][:_AT_ONCE]))
        except KafkaException as e:
            client_log.info("the ends of %d partitions could not be looked at: %s", len(spans), e.args[0])
        with self._lock:
            return frozenset(p for p, s in spans.items() if self._found.get((p, s), False))

    def close(self) -> None:
        """Stop looking."""
        self._stop.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join(2 * _ROUND_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._news.wait(_SELDOM_S if self._hidden else None)
            self._news.clear()
            self._say_open()
            due = self._due()
            if due and not self._stop.is_set():
                try:
                    self._look(due)
                except KafkaException as e:
                    client_log.info("the ends of %d partitions could not be looked at: %s", len(due), e.args[0])
                self._put_off(due)
            self._stop.wait(_EVERY_S)
            with self._lock:
                if self._unanswered():
                    self._news.set()  # those that did not answer, or are more than were asked for together

    def _say_open(self) -> None:
        """Say now and then what hides the end of partitions that are still asked for."""
        with self._lock:
            asked = {(p, s) for spans in self._asked.values() for p, s in spans.items()}
            self._hidden = {p: s for p, s in self._hidden.items() if (p, s) in asked}
        if self._hidden and time.monotonic() >= self._say_at:
            self._say_at = time.monotonic() + _SELDOM_S
            for line in open_transactions(self._connection, self._hidden, older_than_s=LONGEST_S):
                client_log.warning("%s", line)

    def _unanswered(self) -> dict[Partition, Span]:
        """Return what nothing is known of, of each partition one span; and forget what no group asks for any more."""
        asked = {(p, s) for spans in self._asked.values() for p, s in spans.items()}
        self._found = {x: nothing for x, nothing in self._found.items() if x in asked}
        unanswered = dict(sorted(x for x in asked if x not in self._found))
        self._silent = {p: x for p, x in self._silent.items() if p in unanswered}
        return unanswered

    def _due(self) -> dict[Partition, Span]:
        """Return what to look at now: so many partitions, in turn, so that those in front do not keep the others waiting."""
        now = time.monotonic()
        with self._lock:
            unanswered = self._unanswered()
            open_ = [p for p in unanswered if self._silent.get(p, (0, 0.0))[1] <= now]
            behind = [p for p in open_ if self._last is not None and p > self._last]
            due = [*behind, *(p for p in open_ if self._last is None or p <= self._last)][:_AT_ONCE]
            self._last = due[-1] if due else None
            return {p: unanswered[p] for p in due}

    def _put_off(self, asked: Mapping[Partition, Span]) -> None:
        """Ask those that have not answered ever more seldom: their broker is away, or this user may not read them."""
        now = time.monotonic()
        with self._lock:
            for p, span in asked.items():
                if (p, span) not in self._found:
                    rounds = self._silent.get(p, (0, 0.0))[0] + 1
                    self._silent[p] = rounds, now + min(_SELDOM_S, 2.0**rounds)

    def _look(self, spans: Mapping[Partition, Span]) -> None:
        consumer = client(Consumer, self._connection, {
            **FOLLOWER_SETTINGS, "isolation.level": self._isolation, "auto.offset.reset": "error",
            "fetch.wait.max.ms": 100, "fetch.message.max.bytes": 65536, "queued.max.messages.kbytes": 4096,
        })  # fmt: skip
        try:
            consumer.assign([TopicPartition(p.topic, p.partition, s.position) for p, s in spans.items()])
            left, deadline = dict(spans), time.monotonic() + _ROUND_S
            while left and time.monotonic() < deadline and not self._stop.is_set():
                message = consumer.poll(0.2)
                if message is not None:
                    self._take(message, left)
        finally:
            consumer.close()

    def _take(self, message: Any, left: dict[Partition, Span]) -> None:
        """Take a record, an end, or an error of one partition; whatever it is, the partition has answered."""
        error, partition = message.error(), Partition(message.topic(), message.partition())
        if (span := left.pop(partition, None)) is None:
            return
        if error is None or is_end(message):
            if error is not None and message.offset() < span.end:
                self._hidden[partition] = span
            self._know(partition, span, nothing=error is not None or message.offset() >= span.end)
        else:
            client_log.info("the end of %s could not be looked at: %s", partition, error.name())
            if not error.retriable():
                self._know(partition, span, nothing=False)

    def _know(self, partition: Partition, span: Span, *, nothing: bool) -> None:
        with self._lock:
            self._found[partition, span] = nothing


@dataclass(frozen=True, slots=True)
class GroupMarkers:
    """What ``KafkaMarkers`` does for one group."""

    markers: KafkaMarkers
    group: str

    def ask(self, spans: Mapping[Partition, Span]) -> None:
        """Have these looked at soon; what is not among them is forgotten. Returns at once."""
        self.markers.ask(self.group, spans)

    def empty(self) -> Mapping[Partition, Span]:
        """Return those among the spans asked for that are known to hold no record for any reader."""
        return self.markers.empty(self.group)

    def close(self) -> None:
        """Ask for nothing any more; the others' looking goes on."""
        self.markers.ask(self.group, {})
