"""What an application imports: batches of records of the partitions that the plan gives to this worker.

The application's thread fetches and processes; everything else of the protocol happens beside it (``loop.py``).
"""

import logging
import signal
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaException

from autoscaler.handover.records import Incarnation, Tp
from autoscaler.worker.clock import lease_clock
from autoscaler.worker.control_log import LogPlace, find_place
from autoscaler.worker.fetching import fetching
from autoscaler.worker.intake import Batch, Intake
from autoscaler.worker.loop import Loop
from autoscaler.worker.settings import Connection, Setting, worker_settings

_log = logging.getLogger(__name__)

_COMMIT_MS = 6000
_LOOK_S = 5.0


class ManagedConsumer:
    """A consumer whose partitions the autoscaler assigns.

    ``with ManagedConsumer(…) as consumer: for batch in consumer: for message in batch: …``. A batch counts as processed when the
    next one is asked for; its offsets are committed soon after. The iteration ends when the process is told to end (SIGTERM, or
    ``stop()``), after everything has been released. If the lease is lost, the batch ends early, and the worker joins anew.
    If the application does not return from a batch for long after that, the process ends (exit code 70): nothing else frees it.

    Args:
        connection: librdkafka settings of the cluster; from the environment if ``None``, as is everything else left out.
        group: The group whose offsets are committed. Nobody else may subscribe with it.
        topics: Topics that the group consumes; used to warm up, the plan says which partitions are read.
        name: Stable name of this worker.
        instance: Identity of the process or container, as the platform names it.
        lease_s: How long it may act without having been heard.
        handle_sigterm: Install a handler that drains; possible in the main thread only.
        limits: ``batch_size_bytes``, ``wait_time_s``, ``commit_interval_s``, ``max_batch_s`` (see ``WorkerSettings``).

    Raises:
        SettingsError: Something needed is neither given nor in the environment.
    """

    def __init__(
        self,
        connection: Connection | None = None,
        *,
        group: str | None = None,
        topics: Sequence[str] | None = None,
        name: str | None = None,
        instance: str | None = None,
        lease_s: float | None = None,
        handle_sigterm: bool = True,
        **limits: float,
    ) -> None:
        self._settings = worker_settings(
            connection, group=group, topics=topics, name=name, instance=instance, lease_s=lease_s, limits=limits
        )
        self._handle_sigterm = handle_sigterm and threading.current_thread() is threading.main_thread()
        self._previous_handler: object = None
        self._stopped = threading.Event()
        self._closed = False
        self._failed: frozenset[Tp] = frozenset()
        self._now = lease_clock()
        self._place: LogPlace | None = None
        self._loop: Loop | None = None
        # Commits and reads offsets only: a client serves one call at a time. A commit has no timeout of its own; it must not hold
        # up the end of a lapsed incarnation, for which others wait.
        self._offsets = Consumer({**self._client(), "socket.timeout.ms": _COMMIT_MS, "session.timeout.ms": _COMMIT_MS})
        self._intake: Intake | None = None

    @property
    def incarnation(self) -> Incarnation | None:
        """Return the present incarnation; ``None`` before the control log was found. A lapse changes it."""
        return None if self._loop is None else self._loop.me

    def __enter__(self) -> Self:
        """Install the signal handler; the group is joined when the first batch is asked for."""
        if self._handle_sigterm:
            self._previous_handler = signal.signal(signal.SIGTERM, self._on_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Release everything; a batch that an exception interrupted does not count as processed.

        The partition in work is said to have failed: one that owner after owner fails on is parked (rule 9).
        """
        failing = kind is not None and issubclass(kind, Exception) and self._intake is not None
        self._failed = self._intake.in_work() if failing and self._intake is not None else frozenset()
        self.close()

    def __iter__(self) -> Iterator[Batch]:
        """Return itself."""
        return self

    def __next__(self) -> Batch:
        """Count the previous batch as processed and return the next, waiting as long as it takes."""
        while True:
            loop = self._loop
            if loop is not None and loop.intake.finish(processed=self._valid(loop)):
                loop.batch_ended()
            if self._stopped.is_set() or self._closed:
                self.close()
                raise StopIteration
            if loop is None:
                self._join()
            elif loop.lapsed:
                self._rejoin(loop)
            elif (batch := loop.intake.fetch(loop.lease)) is not None:
                return batch

    def stop(self) -> None:
        """End the iteration at the next batch, after everything has been released; may be called from anywhere."""
        self._stopped.set()

    def keep_alive(self) -> None:
        """Say that a long batch is expected to be long: it counts from now on."""
        if self._intake is not None and self._intake.busy_since is not None:
            self._intake.busy_since = self._now()

    def close(self) -> None:
        """Release everything processed so far and leave; calling it again does nothing."""
        if self._closed:
            return
        self._closed = True
        if (loop := self._loop) is not None:
            loop.intake.finish(processed=False)
            loop.batch_ended()
            loop.leave(self._failed)
            if loop.lapsed:
                loop.end_lapsed()
            loop.close()
        if self._intake is not None:
            self._intake.consumer.close()
        self._offsets.close()
        if self._handle_sigterm and callable(self._previous_handler):
            signal.signal(signal.SIGTERM, self._previous_handler)

    def _valid(self, loop: Loop) -> bool:
        if self._now() < loop.lease.until:
            return True
        loop.tick()
        return not loop.lapsed

    def _join(self) -> None:
        if self._place is None:
            self._place = find_place(self._settings.connection, self._settings.group, self._stopped)
        if self._place is not None:
            me = Incarnation(self._settings.name, uuid.uuid4().hex)
            self._intake = self._intake or self._new_intake()
            self._loop = Loop(self._settings, self._place, me, self._intake, self._offsets, self._now)
            self._loop.start()
            _log.info("joining group %s as %s/%s", self._settings.group, me.name, me.uuid)

    def _client(self, **fetching: Setting) -> dict[str, Setting]:
        """Return a client's configuration; what the application has set itself wins over how to fetch."""
        return {
            "isolation.level": "read_committed",
            "fetch.error.backoff.ms": 20,
            "reconnect.backoff.max.ms": 1000,
            **fetching,
            **self._settings.connection,
            "group.id": self._settings.group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "log_level": 0,
        }

    def _new_intake(self) -> Intake:
        partitions = 0
        with suppress(KafkaException):  # then the client's own first fetch finds out what is wrong
            for topic in self._settings.topics:
                partitions += len(self._offsets.list_topics(topic, _LOOK_S).topics[topic].partitions)
        return Intake(
            Consumer(self._client(**fetching(self._settings.batch_size_bytes, partitions))),
            self._now,
            batch_size_bytes=self._settings.batch_size_bytes,
            wait_time_s=self._settings.wait_time_s,
            idle_s=self._settings.commit_interval_s,
        )

    def _rejoin(self, lapsed: Loop) -> None:
        """Join anew after a lapse: the application has returned everything, so the old incarnation can be said to have left."""
        self._place = find_place(self._settings.connection, self._settings.group, self._stopped)
        if self._place is not None:
            lapsed.end_lapsed(self._place)
            lapsed.close()
            lapsed.intake.reset()
            self._loop = None

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stopped.set()
