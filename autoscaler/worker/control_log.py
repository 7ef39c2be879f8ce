"""Finds the protocol's two topics and reads the control log, on a thread of its own so that a release is seen at once."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicCollection
from confluent_kafka.admin import AdminClient, TopicDescription

from autoscaler.clients.admin_clients import kept
from autoscaler.clients.log_follower import FOLLOWER_SETTINGS, LogFollower, is_end, is_unknown
from autoscaler.handover.codec import Key, decode, partition_for
from autoscaler.handover.records import CONTROL_TOPIC, HEARTBEAT_TOPIC, NO_AUTO_CREATION, Expired, Left, Plan, Released, kafka_id
from autoscaler.worker.clock import Elapsed
from autoscaler.worker.settings import Connection

if TYPE_CHECKING:
    from concurrent.futures import Future

_log = logging.getLogger(__name__)
_ASK_S = 5.0  # bound of one request for metadata
_POLL_S = 0.1
_PROVE_S = 1.0
_AGAIN_S = 0.5  # before a broker is asked again that did not say where the log ends
_NOT_KNOWN = 3  # tries in a row after which a client that does not know the log is replaced
_SAID_EVERY = 10  # tries between two lines that say what is being waited for

LogEntry = Plan | Expired | Released | Left | Key


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlace:
    """Where a group lives: id of the control topic and the group's partition in either topic."""

    control_id: str
    control_partition: int
    heartbeat_partition: int


def find_place(connection: Callable[[], Connection], group: str, stopped: threading.Event) -> LogPlace | None:
    """Wait until the controller has created both topics; ``None`` if told to stop meanwhile.

    The connection is asked for before each try: another mapping than before is one with another password or certificate.
    """
    known: Connection | None = None
    tries = 0
    while not stopped.is_set():
        try:
            if (now := connection()) is not known:
                admin = kept(AdminClient({**now, **NO_AUTO_CREATION, "log_level": 0}))
                known = now
            _await_answer(admin)
            found = admin.describe_topics(TopicCollection([CONTROL_TOPIC, HEARTBEAT_TOPIC]), request_timeout=_ASK_S)
            control, heartbeats = found[CONTROL_TOPIC].result(), found[HEARTBEAT_TOPIC].result()
            return LogPlace(
                control_id=kafka_id(str(control.topic_id)),
                control_partition=partition_for(group, len(control.partitions)),
                heartbeat_partition=partition_for(group, len(heartbeats.partitions)),
            )
        except KafkaException as e:
            if tries % _SAID_EVERY == 0:
                _log.warning("waiting for the controller's topics %s and %s: %s", CONTROL_TOPIC, HEARTBEAT_TOPIC, e)
        tries += 1
        stopped.wait(0.5)
    return None


def _await_answer(admin: AdminClient) -> None:
    """Raise ``KafkaException`` unless a broker answers; without one, an admin request can make librdkafka abort the process."""
    admin.list_topics(CONTROL_TOPIC, timeout=1.0)


def keep_latest(unread: dict[bytes | None, Message], messages: Iterable[Message]) -> None:
    """Keep of each key the last record, where it stands, as compaction would leave it.

    A worker that joins waits until it has fetched everything, or it would take apart many plans of the last minutes to use one.
    """
    for message in messages:
        if message.error() is None:
            unread.pop(message.key(), None)
            unread[message.key()] = message


class ControlLog:
    """The committed records of one group, from the start of the log.

    ``take`` is called with what was read, in order; ``caught_up`` when the present end of the log has been reached;
    ``replaced`` when the topic turns out to have been made anew. After ``prove_s`` without a record the log's end is asked for.
    """

    def __init__(
        self,
        connection: Connection,
        group: str,
        place: LogPlace,
        *,
        take: Callable[[tuple[LogEntry, ...]], None],
        caught_up: Callable[[], None],
        replaced: Callable[[], None],
        now: Elapsed,
        prove_s: float,
    ) -> None:
        self.read_at = now()  # when, on that clock, it was last known that everything committed has been read
        self._now, self._prove_s, self._prove_at = now, prove_s, now() + prove_s
        self._unread: dict[bytes | None, Message] = {}  # what was fetched and not taken apart yet
        self._refused = False
        self._group = group
        self._control_id = place.control_id
        self._take = take
        self._caught_up = caught_up
        self._replaced = replaced
        self._admin = kept(AdminClient({**connection, **NO_AUTO_CREATION, "log_level": 0}))
        self._asked: Future[TopicDescription] | None = None
        self._ask_at = 0.0
        self._closed = threading.Event()
        self._settings = {
            **connection,
            **NO_AUTO_CREATION,
            **FOLLOWER_SETTINGS,
            "group.id": "autoscaler-control-log",
            "auto.offset.reset": "earliest",
            "fetch.min.bytes": 1,  # the broker answers as soon as there is anything
            "fetch.wait.max.ms": 500,
            "fetch.error.backoff.ms": 20,
            "reconnect.backoff.max.ms": 1000,
            "log_level": 0,
        }
        self._consumer = Consumer(self._settings)
        self._not_known = 0  # times in a row that the client did not know the log
        self._follower, self._log = LogFollower(self._consumer), (CONTROL_TOPIC, place.control_partition)
        self._thread = threading.Thread(target=self._run, name="autoscaler-control-log", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def close(self) -> None:
        """End the thread and the client."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        self._begin()
        while not self._closed.is_set():
            self._look_at_id()
            messages = self._follower.fetch(_POLL_S)
            self._came(messages)
            if not messages:
                self._prove()

    def _begin(self, read: int = 0) -> None:
        """Begin to fetch from the log's start, or where it was read to, once a broker has said where it ends."""
        while not self._closed.is_set():
            try:
                first, end = self._follower.edges(self._log, timeout_s=_ASK_S)
            except KafkaException as e:
                self._failed(e)
                self._closed.wait(_AGAIN_S)
            else:
                self._follower.follow({self._log: (max(first, read), end)})
                return

    def _look_at_id(self) -> None:
        """Ask for the topic's id now and then, without waiting for the answer: a reader of a topic made anew notices nothing."""
        if self._asked is None:
            if time.monotonic() >= self._ask_at:
                self._ask_at = time.monotonic() + _ASK_S
                try:
                    _await_answer(self._admin)
                except KafkaException:
                    return
                self._asked = self._admin.describe_topics(TopicCollection([CONTROL_TOPIC]), request_timeout=_ASK_S)[CONTROL_TOPIC]
        elif self._asked.done():
            answer, self._asked = self._asked, None
            if answer.exception() is None and kafka_id(str(answer.result().topic_id)) != self._control_id:
                self._replaced()

    def _came(self, messages: Sequence[Message]) -> None:
        """Take what a fetch has brought: records, but none before the log was read to the end that it had at first."""
        self._follower.note(messages)
        keep_latest(self._unread, messages)
        if caught_up := self._follower.reached.caught_up(self._log):
            unread, self._unread = self._unread, {}
            if entries := tuple(e for m in unread.values() if (e := self._entry(m)) is not None):
                self._take(entries)
        for message in messages:
            error = message.error()
            if error is None or is_end(message):
                self._refused, self.read_at = False, self._now()
            else:
                self._note(error)
        if caught_up:
            self._caught_up()

    def _note(self, error: KafkaError) -> None:
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            _log.debug("control log: %s", error)  # of the group that the client must be named by; nothing is read with it
        else:
            self._refused = True
            _log.warning("control log: %s", error)

    def _prove(self) -> None:
        """Find out whether nothing comes because there is nothing, or because nothing can be read (rule 7).

        A client says neither that an empty fetch has succeeded nor that its fetches go unanswered. The end that it asks for here
        is that of what is committed: an open transaction hides what follows it from both.
        """
        if self._now() < max(self._prove_at, self.read_at + self._prove_s):
            return
        self._prove_at = self._now() + self._prove_s
        try:
            _, end = self._follower.edges(self._log, timeout_s=_PROVE_S)
        except KafkaException as e:
            read = self._follower.reached.offset(self._log)
            if self._failed(e):
                self._begin(read)
            return
        self._not_known = 0
        if not self._refused and self._follower.reached.offset(self._log) >= end:
            self.read_at = self._now()

    def _failed(self, error: KafkaException) -> bool:
        """Say why the log's end is not known; replace a client that goes on not knowing the log, and return whether it was.

        Once its broker has come back, a client may believe for good that the log is not there, whatever it is made to ask: the
        worker would keep what it holds, and see no plan.
        """
        _log.warning("control log: %s", error)
        self._not_known = self._not_known + 1 if is_unknown(error) else 0
        if self._not_known < _NOT_KNOWN:
            return False
        _log.warning("control log: the client does not know %s any more and is replaced", self._log[0])
        self._not_known = 0
        self._consumer.close()
        self._consumer = Consumer(self._settings)
        self._follower = LogFollower(self._consumer)
        return True

    def _entry(self, message: Message) -> LogEntry | None:
        said = decode(message.key(), message.value(), control_id=self._control_id)
        if said.key is None or said.key[1] != self._group:
            return None
        if said.tombstone:
            return said.key
        if isinstance(said.record, Plan | Expired | Released | Left):
            return said.record
        if said.ignored:
            _log.warning("control log at %s: %s", message.offset(), said.ignored)
        return None
