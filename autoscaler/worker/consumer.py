"""What an application imports: batches of records of the partitions that the plan gives to this worker.

The application's thread fetches and processes; everything else of the protocol happens beside it (``effect_loop.py``).
"""

import logging
import os
import signal
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaException

from autoscaler.errors import AutoscalerError
from autoscaler.handover.records import Incarnation, Tp
from autoscaler.worker.clock import lease_clock, weakness
from autoscaler.worker.commit_client import CommitClient, OnCommit
from autoscaler.worker.control_log import LogPlace, find_place
from autoscaler.worker.delivery import Batch, Intake
from autoscaler.worker.effect_loop import Loop
from autoscaler.worker.fetch_config import fetching
from autoscaler.worker.settings import Connection, Setting, WorkerSettings, deviations, worker_settings
from autoscaler.worker.topics import meant
from autoscaler.worker.transactions import Outcome, Transactions

_log = logging.getLogger(__name__)

_COMMIT_MS = 6000
_LOOK_S = 5.0
_TRANSACTION_S = 60.0  # at most, and at most the lease: a worker that is over by then is fenced, and no other needs longer


class ManagedConsumer:
    """A consumer whose partitions the autoscaler assigns.

    ``with ManagedConsumer(…) as consumer: for batch in consumer: for message in batch: …``. A batch counts as processed when the
    next one is asked for; its offsets are committed soon after. The iteration ends when the process is told to end (SIGTERM, or
    ``stop()``), after everything has been released. If the lease is lost, the batch ends early, and the worker joins anew.
    If the application does not return from a batch for long after that, the process ends (exit code 70): nothing else frees it.

    Args:
        connection: librdkafka settings of the cluster; from the environment if ``None``, as is everything else left out.
        group: The group whose offsets are committed. No other consumer may subscribe with it.
        topics: Topics that the group consumes; used to warm up, the plan says which partitions are read.
        name: Stable name of this worker.
        instance: Identity of the process or container, as the platform names it.
        lease_s: How long it may act without having been heard.
        handle_sigterm: Install a handler that drains; possible in the main thread only.
        exactly_once: What the application produces with ``batch.produce`` and the offsets that it came from go into one
            transaction per batch; nothing is committed elsewhere.
        batch_size_bytes: Payload after which a batch is handed over.
        wait_time_s: Time after which it is, however small.
        commit_interval_s: Longest time between the end of a batch and its commit.
        max_batch_s: An application that has not returned for this long counts as stuck.

    Raises:
        SettingsError: Something needed is neither given nor in the environment, or makes no sense.
    """

    def __init__(  # noqa: PLR0913  (what an application may say, by name: a misspelt one is an error)
        self,
        connection: Connection | None = None,
        *,
        group: str | None = None,
        topics: Sequence[str] | None = None,
        name: str | None = None,
        instance: str | None = None,
        lease_s: float | None = None,
        handle_sigterm: bool = True,
        exactly_once: bool | None = None,
        batch_size_bytes: int | None = None,
        wait_time_s: float | None = None,
        commit_interval_s: float | None = None,
        max_batch_s: float | None = None,
    ) -> None:
        self._settings = worker_settings(
            connection,
            group=group,
            topics=topics,
            name=name,
            instance=instance,
            lease_s=lease_s,
            limits={
                "batch_size_bytes": batch_size_bytes,
                "wait_time_s": wait_time_s,
                "commit_interval_s": commit_interval_s,
                "max_batch_s": max_batch_s,
            },
            exactly_once=exactly_once,
        )
        for said in (*deviations(self._settings), weakness()):
            if said is not None:
                _log.warning("group %s: %s", self._settings.group, said)
        self._handle_sigterm = handle_sigterm and threading.current_thread() is threading.main_thread()
        self._previous_handler: signal._HANDLER = None
        self._stopped = threading.Event()
        self._closed = False
        self._failed: frozenset[Tp] = frozenset()
        self._reader: int | None = None  # the thread that asks for batches
        self._torn = False  # it was interrupted while it did, and what it had in hand is not known
        self._pid = os.getpid()
        self._now = lease_clock()
        self._place: LogPlace | None = None
        self._loop: Loop | None = None
        self._offsets = CommitClient(self._new_offsets)
        self._connected = self._settings.connection  # what the clients were made with
        self._intake: Intake | None = None

    @property
    def incarnation(self) -> Incarnation | None:
        """Return the present incarnation; ``None`` before the control log was found. A lapse changes it."""
        return None if self._loop is None else self._loop.me

    @property
    def settings(self) -> WorkerSettings:
        """Return what arguments and environment together have said."""
        return self._settings

    @property
    def stopping(self) -> bool:
        """Return whether the process was told to end: an application that leaves the loop over a batch then ends sooner."""
        return self._stopped.is_set()

    @property
    def partitions(self) -> frozenset[tuple[str | None, int | None]]:
        """Return the topics and partitions that are fetched now."""
        return frozenset() if self._intake is None else frozenset(tuple(self._intake.runs))

    def valid(self) -> bool:
        """Return whether the batch in hand may go on; false stays false, and the batch will not count. Any thread may ask."""
        return (loop := self._loop) is not None and self._valid(loop)

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
        self._restore_handler()

    def __iter__(self) -> Iterator[Batch]:
        """Return itself."""
        return self

    def __next__(self) -> Batch:
        """Count the previous batch as processed and return the next, waiting as long as it takes.

        Raises:
            RuntimeError: Another thread has asked before: what that one still processes would count as processed.
        """
        if self._reader not in {None, (me := threading.get_ident())}:
            msg = "batches are asked for by one thread only: autoscaler.worker.process() hands records to several"
            raise RuntimeError(msg)
        self._reader = me
        if self._torn and self._loop is not None:
            self._loop.give_up("an exception was raised while the next batch was being fetched: what came is fetched again")
        self._torn = False
        try:
            return self._await()
        except (StopIteration, AutoscalerError):
            raise
        except BaseException:  # of a signal's handler, KeyboardInterrupt above all: what was in hand is not known
            self._torn = True
            raise

    def _await(self) -> Batch:
        while True:
            loop = self._loop
            if loop is not None and self._finish(loop):
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

    def keep_alive(self, ago_s: float = 0.0) -> None:
        """Say that a long batch is expected to be long: it counts from now on, or from ``ago_s`` before. Any thread may."""
        if (intake := self._intake) is not None and (since := intake.busy_since) is not None:
            intake.busy_since = max(since, self._now() - ago_s)

    def close(self) -> None:
        """Release everything processed so far and leave; calling it again does nothing."""
        if self._closed:
            return
        self._closed = True
        if (loop := self._loop) is not None:
            loop.intake.finish(processed=False)
            if self._torn:
                loop.take_back()
            loop.batch_ended()
            loop.leave(self._failed)
            if loop.lapsed:
                loop.end_lapsed()
            loop.close()
        if self._intake is not None:
            self._intake.consumer.close()
        self._offsets.close()
        self._restore_handler()

    def _restore_handler(self) -> None:
        """Give SIGTERM back; where the consumer came to its end in another thread, leaving the ``with`` block does so."""
        if self._previous_handler is not None and threading.current_thread() is threading.main_thread():
            previous, self._previous_handler = self._previous_handler, None
            signal.signal(signal.SIGTERM, previous)

    def _finish(self, loop: Loop) -> bool:
        """End the batch in flight, committed if exactly once; return whether a worker waits for one of its partitions."""
        if not self._valid(loop):
            return loop.intake.finish(processed=False)
        outcome = loop.commit_batch()
        return loop.intake.finish(processed=outcome is not Outcome.OVER)  # aborted: without outputs, and its offsets follow

    def _valid(self, loop: Loop) -> bool:
        if self._now() < loop.lease.until:
            return True
        loop.tick()
        return not loop.lapsed

    def _join(self) -> None:
        if self._place is None:
            self._place = find_place(self._connection, self._settings.group, self._stopped)
        if self._place is not None:
            self._renew()
            me = Incarnation(self._settings.name, uuid.uuid4().hex)
            transactions = self._transactions(me) if self._settings.exactly_once else None
            if transactions is None and self._settings.exactly_once:
                return
            self._intake = self._intake or self._new_intake()
            self._loop = Loop(self._settings, self._place, me, self._intake, self._offsets, self._now, transactions)
            self._loop.start()
            _log.info("joining group %s as %s/%s", self._settings.group, me.name, me.uuid)

    def _connection(self) -> Connection:
        """Return how to connect now: what it refers to may have been replaced."""
        self._settings = self._settings.renewed()
        return self._settings.connection

    def _renew(self) -> None:
        """Make the clients anew that would go on with an old password or certificate; there is no incarnation now."""
        if self._connected is self._settings.connection:
            return
        self._connected = self._settings.connection
        self._offsets.close()
        if self._intake is not None:
            self._intake.consumer.close()
            self._intake = None

    def _new_offsets(self, on_commit: OnCommit) -> Consumer:
        """Return what only commits and reads offsets: a client serves one call at a time."""
        times = {"socket.timeout.ms": _COMMIT_MS, "session.timeout.ms": _COMMIT_MS}  # after them a commit fails that was not sent
        return Consumer({**self._client(), **times, "on_commit": on_commit})

    def _transactions(self, me: Incarnation) -> Transactions | None:
        """Return them opened; ``None`` if that failed: the next try is another incarnation's, no id is taken twice."""
        made = Transactions(
            self._settings.connection,
            self._settings.group,
            me.uuid,
            timeout_s=min(self._settings.lease_s, _TRANSACTION_S),
            metadata=self._offsets.client.consumer_group_metadata,
        )
        try:
            made.open(_LOOK_S)
        except KafkaException as e:
            _log.warning("exactly once: no transactions yet: %s", e)
            made.close()
            self._stopped.wait(1.0)
            return None
        return made

    def _client(self, **fetching: Setting) -> dict[str, Setting]:
        """Return a client's configuration; what the application has set itself wins over how to fetch."""
        return {
            "isolation.level": "read_committed",
            "fetch.error.backoff.ms": 20,
            "reconnect.backoff.max.ms": 1000,
            **fetching,
            **self._settings.connection,
            **({"isolation.level": "read_committed"} if self._settings.exactly_once else {}),
            "group.id": self._settings.group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "log_level": 0,
        }

    def _new_intake(self) -> Intake:
        partitions = 0
        with suppress(KafkaException):  # then the client's own first fetch finds out what is wrong
            for topic in meant(self._offsets.client, self._settings.topics, _LOOK_S):
                partitions += len(self._offsets.client.list_topics(topic, _LOOK_S).topics[topic].partitions)
        settings = fetching(self._settings.batch_size_bytes, partitions)

        def make() -> Consumer:
            return Consumer(self._client(**settings))

        return Intake(
            make(),
            self._now,
            make=make,
            batch_size_bytes=self._settings.batch_size_bytes,
            wait_time_s=self._settings.wait_time_s,
            idle_s=self._settings.commit_interval_s,
            exactly_once=self._settings.exactly_once,
        )

    def _rejoin(self, lapsed: Loop) -> None:
        """Join anew after a lapse: the application has returned everything, so the old incarnation can be said to have left."""
        self._place = find_place(self._connection, self._settings.group, self._stopped)
        if self._place is not None:
            lapsed.end_lapsed(self._place, self._settings)
            lapsed.close()
            lapsed.intake.reset()
            self._loop = None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:  # a forked child has nothing to release: it ends as it would without us
            signal.signal(number, self._previous_handler or signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self._stopped.set()
        if isinstance(getattr(self._previous_handler, "__self__", None), ManagedConsumer) and callable(self._previous_handler):
            self._previous_handler(number, frame)  # of another consumer of this process
