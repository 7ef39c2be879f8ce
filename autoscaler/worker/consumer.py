"""What an application imports: batches of records of the partitions that the plan gives to this worker.

The application's thread fetches and processes; everything else of the protocol happens beside it (``loop.py``).
"""

import logging
import signal
import threading
import uuid
from collections.abc import Iterator, Sequence
from types import FrameType, TracebackType
from typing import Self

from confluent_kafka import Consumer

from autoscaler.handover.records import Incarnation
from autoscaler.worker.clock import lease_clock
from autoscaler.worker.control_log import LogPlace, find_place
from autoscaler.worker.intake import Batch, Intake
from autoscaler.worker.loop import Loop
from autoscaler.worker.settings import Connection, worker_settings

_log = logging.getLogger(__name__)

_COMMIT_MS = 6000
_LEAST_AHEAD = 32_768


def _ahead(batch_size_bytes: int) -> dict[str, str | int | float | bool]:
    """Return settings that fetch one batch ahead, and one more while that is being fetched.

    A client has one queue for all its partitions: what lies in it is worked off before the first record of a partition that has
    just arrived, which with the client's own settings (64 MB, and up to a second until it fetches again) takes seconds.
    """
    ahead = max(_LEAST_AHEAD, batch_size_bytes)
    return {
        "queued.max.messages.kbytes": ahead // 1024,
        "message.max.bytes": ahead,  # the least that fetch.max.bytes can be; a larger batch of records comes nevertheless
        "max.partition.fetch.bytes": max(_LEAST_AHEAD // 2, ahead // 4),
        "fetch.queue.backoff.ms": 2,
    }


class ManagedConsumer:
    """A consumer whose partitions the autoscaler assigns.

    ``with ManagedConsumer(…) as consumer: for batch in consumer: for message in batch: …``. A batch counts as processed when the
    next one is asked for; its offsets are committed soon after. The iteration ends when the process is told to end (SIGTERM, or
    ``stop()``), after everything has been released. If the lease is lost, the batch ends early, and the worker joins anew.

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
        self._now = lease_clock()
        self._place: LogPlace | None = None
        self._loop: Loop | None = None
        config: dict[str, str | int | float | bool] = {
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
            "fetch.min.bytes": 1,
            "fetch.error.backoff.ms": 20,
            "reconnect.backoff.max.ms": 1000,
            **_ahead(self._settings.batch_size_bytes),
            **self._settings.connection,
            "group.id": self._settings.group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
        # Commits and reads offsets only: a client serves one call at a time. A commit has no timeout of its own; it must not hold
        # up the end of a lapsed incarnation, for which others wait.
        self._offsets = Consumer({**config, "socket.timeout.ms": _COMMIT_MS, "session.timeout.ms": _COMMIT_MS})
        self._intake = Intake(
            Consumer(config),
            self._now,
            batch_size_bytes=self._settings.batch_size_bytes,
            wait_time_s=self._settings.wait_time_s,
            idle_s=self._settings.commit_interval_s,
        )

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
        """Release everything; a batch that an exception interrupted does not count as processed."""
        self.close()

    def __iter__(self) -> Iterator[Batch]:
        """Return itself."""
        return self

    def __next__(self) -> Batch:
        """Count the previous batch as processed and return the next, waiting as long as it takes."""
        while True:
            loop = self._loop
            if loop is not None and self._intake.finish(processed=self._valid(loop)):
                loop.batch_ended()
            if self._stopped.is_set() or self._closed:
                self.close()
                raise StopIteration
            if loop is None:
                self._join()
            elif loop.lapsed:
                self._rejoin(loop)
            elif (batch := self._intake.fetch(loop.lease)) is not None:
                return batch

    def stop(self) -> None:
        """End the iteration at the next batch, after everything has been released; may be called from anywhere."""
        self._stopped.set()

    def keep_alive(self) -> None:
        """Say that a long batch is expected to be long: it counts from now on."""
        if self._intake.busy_since is not None:
            self._intake.busy_since = self._now()

    def close(self) -> None:
        """Release everything processed so far and leave; calling it again does nothing."""
        if self._closed:
            return
        self._closed = True
        if (loop := self._loop) is not None:
            self._intake.finish(processed=False)
            loop.batch_ended()
            loop.leave()
            if loop.lapsed:
                loop.end_lapsed()
            loop.close()
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
            self._loop = Loop(self._settings, self._place, me, self._intake, self._offsets, self._now)
            self._loop.start()
            _log.info("joining group %s as %s/%s", self._settings.group, me.name, me.uuid)

    def _rejoin(self, lapsed: Loop) -> None:
        """Join anew after a lapse: the application has returned everything, so the old incarnation can be said to have left."""
        self._place = find_place(self._settings.connection, self._settings.group, self._stopped)
        if self._place is not None:
            lapsed.end_lapsed(self._place)
            lapsed.close()
            self._intake.reset()
            self._loop = None

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stopped.set()
