"""What the control log says of a managed group in advise mode: implements ``ports.GroupWatch`` on Kafka.

It reads as ``publisher`` does and writes nothing: no topic is made, no controller is fenced, no tick is sent, and workers
that are over are known here and recorded nowhere.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from autoscaler.adapters.control_log.group_view import Latencies, view
from autoscaler.adapters.control_log.managed_groups import KnownGroups
from autoscaler.adapters.control_log.reader import LogReader, SilentReader, fold, tick_every_s
from autoscaler.adapters.control_log.worker_warnings import WorkerWarnings
from autoscaler.adapters.kafka.control_topics import Connection, TopicFacts, admin_client, answering, chosen, describe
from autoscaler.clients.secrets import stamp
from autoscaler.errors import AutoscalerError, SettingsError, TransientError
from autoscaler.handover.codec import partition_for
from autoscaler.handover.controller_state import ControllerState
from autoscaler.handover.records import CONTROL_TOPIC, HEARTBEAT_TOPIC
from autoscaler.model import GroupState
from autoscaler.ports import Clock
from autoscaler.topic_selection import means

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_STALE_S = 3.0  # beyond the tick's interval: the log cannot be read right now
_REOPEN_S = 30.0
_RETRY_S = 5.0
_ABSENT_S = 30.0  # between two looks for a control log that is not there: nothing on this cluster is managed yet
_CALL_S = 2.0
_READ_S = 2.0
_LOGS = frozenset({CONTROL_TOPIC, HEARTBEAT_TOPIC})


class ControlLogs:
    """Whether a cluster has control logs, and which groups they know: looked for once for all groups that are only watched.

    A look costs a request, or the time in which an absent broker does not answer: hundreds of groups would wait for it one after
    the other. And a group that the logs do not know has no reader of its own.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = dict(connection)
        self._admin: AdminClient | None = None
        self._logs: dict[str, TopicFacts] = {}  # as they were described last; empty if they are not both there
        self._known: KnownGroups | None = None
        self._failure = self._stamp = ""
        self._again_at = 0.0

    def look(self) -> "AdminClient | None":
        """Return a client of the cluster if it has control logs; ``None`` if it has none.

        Raises:
            TransientError: No broker answers, or none did a moment ago.
        """
        if time.monotonic() >= self._again_at:
            self._failure = ""
            try:
                self._look()
            except AutoscalerError as e:
                self._failure = str(e)
            self._again_at = time.monotonic() + (_RETRY_S if self._failure or self._logs else _ABSENT_S)
        if self._failure:
            raise TransientError(self._failure)
        return self._admin if self._logs else None

    def _look(self) -> None:
        if self._admin is None or self._stamp != stamp(self.connection):  # an old one knows the old password
            self.close()
            self._stamp, self._admin = stamp(self.connection), admin_client(self.connection)
        answering(self._admin, self.connection, timeout_s=_CALL_S)  # without one, a request can abort the process in librdkafka
        found = describe(self._admin, _LOGS, timeout_s=_CALL_S)
        if {t: f.topic_id for t, f in found.items()} != {t: f.topic_id for t, f in self._logs.items()}:
            self.close()  # made anew: what was read of them means nothing any more
        self._logs = found if found.keys() >= _LOGS else {}

    def knows(self, group: str) -> bool:
        """Say whether the logs know a plan or a worker of a group; call it after a ``look`` that found them.

        Raises:
            TransientError: They cannot be read, or this user may not read them; says what to do.
        """
        if self._known is not None and self._known.failures and time.monotonic() - self._known.failed_at > _REOPEN_S:
            self.close()  # a client does not notice by itself that it may read again
        if self._known is None:
            try:
                self._known = KnownGroups(self.connection, self._logs[CONTROL_TOPIC].partitions)
            except SettingsError as e:
                raise TransientError(str(e)) from e
        return self._known.knows(group)

    def renew(self) -> None:
        """Look again with a new client: an old one finds no leaders of a topic that was made anew."""
        self._admin, self._again_at = None, 0.0

    def close(self) -> None:
        """Forget what was read, and release the connection."""
        known, self._known = self._known, None
        if known is not None:
            known.close()

    @property
    def is_outdated(self) -> bool:
        """Say whether what the connection refers to has changed since the client was made."""
        return self._stamp != stamp(self.connection)


class KafkaWatch:
    """One group's control log, looked at; connects with the first ``observe``. All groups of a cluster share ``logs``."""

    def __init__(
        self,
        *,
        logs: ControlLogs,
        group: str,
        topics: tuple[str, ...],
        lease_s: float,
        slot_of: Callable[[str], int | None],
        clock: Clock,
    ) -> None:
        self._logs, self._group, self._topics = logs, group, topics
        self._lease_s, self._slot_of, self._clock = lease_s, slot_of, clock
        self._tick_s = tick_every_s(lease_s)
        self._log: LogReader | None = None
        self._state = ControllerState(group, "", lease_s)
        self._latencies, self._warnings = Latencies(), WorkerWarnings(group, slot_of, lease_s)
        self._goal: dict[str, int] = {}  # what must have been read before anything is said
        self._failure = ""
        self._again_at = 0.0

    def observe(self) -> GroupState | None:
        """Return the group's state, see ``ports.GroupWatch``."""
        log = self._log or self._opened()
        if log is None:
            return None
        self._check(log)
        for topic, offset in self._goal.items():
            log.wait_for(topic, offset, timeout_s=_READ_S)
        fold(log, self._state, self._latencies, self._group)
        for worker, evidence in self._state.overdue().items():
            self._state.over.setdefault(worker, evidence)
        alive = [w for w in self._state.beats if w not in self._state.over]
        self._latencies.keep(alive)
        self._warnings.say(self._state)
        if self._state.plan is None and not alive:
            return None
        names = {f.topic_id: t for t, f in log.facts.items() if means(self._topics, t)}
        return view(self._state, self._slot_of, self._latencies, self._state.moved(), names)

    def close(self) -> None:
        """Release connections; nothing else is affected."""
        log, self._log = self._log, None
        self._again_at = 0.0  # or the next look would take it for absent
        if log is not None:
            log.close()

    def _opened(self) -> LogReader | None:
        """Open the log, but not again and again while it cannot be: a cycle must not wait for an absent broker each time."""
        admin = self._logs.look()
        if admin is None or not self._logs.knows(self._group):
            return None
        if time.monotonic() >= self._again_at:
            self._failure = ""
            try:
                self._log = self._open(admin)
            except AutoscalerError as e:
                self._failure = str(e)
            self._again_at = time.monotonic() + _RETRY_S
        if self._failure:
            raise TransientError(self._failure)
        return self._log

    def _open(self, admin: "AdminClient") -> LogReader | None:
        topics = chosen(admin, self._topics, timeout_s=_CALL_S)
        found = describe(admin, _LOGS | topics, timeout_s=_CALL_S)
        if not found.keys() >= _LOGS:
            return None
        control = found[CONTROL_TOPIC]
        self._state = ControllerState(self._group, control.topic_id, self._lease_s)
        log = SilentReader(
            self._logs.connection,
            admin,
            group=self._group,
            partition=partition_for(self._group, control.partitions),
            control_id=control.topic_id,
            topics=self._topics,
            tick_s=self._tick_s,
            clock=self._clock,
        )
        log.facts = found
        try:
            log.start()
            self._goal = {topic: log.end(topic) for topic in (CONTROL_TOPIC, HEARTBEAT_TOPIC)}
        except BaseException:
            log.close()
            raise
        return log

    def _check(self, log: LogReader) -> None:
        control = log.facts.get(CONTROL_TOPIC)
        if log.lost or control is None or control.topic_id != self._state.control_id:
            self.close()
            self._logs.renew()
            msg = "the topics of the control log were made anew or deleted, or lost their end; it is read again"
            raise TransientError(msg)
        if log.refused:
            if time.monotonic() - log.refused_at > _REOPEN_S:
                self.close()  # a client does not notice by itself that it may read again: ask with the next call
            raise TransientError("; ".join(log.refused.values()))
        silent_s = log.silent_s
        if silent_s > self._tick_s + _STALE_S:
            if silent_s > _REOPEN_S or self._logs.is_outdated:
                self.close()
            raise TransientError(f"the control log could not be read for {silent_s:.0f} s: is the broker away?")
