"""Executes the worker machine's effects: heartbeats, releases, stops and takes, beside the application's thread.

One ``Loop`` is one incarnation. Three threads: heartbeats (and whatever else the producer reports), the control
log's reader, and the one that starts, stops and commits partitions. All decisions are the machine's
(``handover/worker_state.py``); a lock makes its steps one after the other, and records are handed to the producer inside it, so
that they leave in the order decided.
"""

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import assert_never

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from autoscaler.errors import Exit
from autoscaler.handover import worker_events
from autoscaler.handover import worker_state as machine
from autoscaler.handover.codec import encode
from autoscaler.handover.records import (
    CONTROL_TOPIC,
    HEARTBEAT_TOPIC,
    NO_AUTO_CREATION,
    Heartbeat,
    Incarnation,
    Left,
    Plan,
    Released,
    Tp,
)
from autoscaler.topic_selection import names
from autoscaler.worker.clock import Elapsed, boot_id
from autoscaler.worker.commit_client import CommitClient
from autoscaler.worker.control_log import ControlLog, LogEntry, LogPlace
from autoscaler.worker.delivery import Intake, Lease, Run
from autoscaler.worker.fetch_watch import FetchWatch
from autoscaler.worker.idle_reason import Waiting
from autoscaler.worker.offsets import Offsets
from autoscaler.worker.settings import WorkerSettings
from autoscaler.worker.transactions import Outcome, Transactions, fence

_POLL_S = 0.02
_PROVE_S = 5.0  # without a record of the control log, until its end is asked for
_CLIENT_S = 180.0  # a call of a client that has not come back by then never will: each waits for a minute at most
_UNHEARD = 0.3  # of the lease: three heartbeats without an answer
_NAP_S = 1.0  # between two looks of the heartbeat thread; more than that, the whole process was stopped
_FENCE_S = 5.0
_END_S = 1.0
_AGAIN_S = 0.1  # between two tries of something that failed
_log = logging.getLogger(__name__)

Work = (
    worker_events.StopFetching | worker_events.ReadOffsets | worker_events.Start | worker_events.Lapse | None
)  # None: look again


class Loop:
    """One incarnation of the worker, from its first heartbeat to its end; ``transactions``, if exactly once, are open."""

    def __init__(  # noqa: PLR0917  (what one incarnation is made of)
        self,
        settings: WorkerSettings,
        place: LogPlace,
        me: Incarnation,
        intake: Intake,
        offsets: CommitClient,
        now: Elapsed,
        transactions: Transactions | None = None,
    ) -> None:
        self.me = me
        self.lease = Lease()  # until when it may act; the application's thread reads it between records
        self._settings = settings
        self._place = place
        self.intake = intake
        self._now = now
        self.transactions = transactions
        self._offsets = Offsets(offsets, me.uuid, self.lease, now, transactions, self._transactions_over)
        self._state = machine.WorkerState(
            group=settings.group,
            me=me,
            control_id=place.control_id,
            lease_s=settings.lease_s,
            boot_id=boot_id(),
            instance=settings.instance,
            max_batch_s=settings.max_batch_s,
            exactly_once=transactions is not None,
        )
        self._lock = threading.Lock()
        self._work: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._runs: dict[Tp, Run] = {}  # taken and not released; the work thread's own
        self._pending: list[Run] = []  # of those, not fetched yet
        self._names: dict[str, str] = {}  # topic id -> name, of every plan read
        self._lapsed_at: float | None = None
        self._given_back: tuple[Released, ...] = ()  # with the lease, through no fault of a record
        self._fetching = FetchWatch()
        self._rounds = 0  # how often the work thread has looked for work
        self._waiting = Waiting(named=settings.named)
        self._caught_up = threading.Event()
        self._warm = threading.Event()
        self._idle = threading.Event()  # the work thread has nothing of this incarnation left to do
        self._closed = threading.Event()
        self._look_at = 0.0  # for what the connection refers to, while no broker is reached
        self._producer = _producer(settings)
        self._log_reader = ControlLog(
            settings.connection,
            settings.group,
            place,
            take=self._take,
            caught_up=lambda: self._got_ready(self._caught_up, "the control log is read"),
            replaced=lambda: self._step(worker_events.LogReplaced()),
            now=now,
            prove_s=min(_PROVE_S, settings.max_batch_s / 4),
        )
        self._threads = [
            threading.Thread(target=self._execute, name="autoscaler-work", daemon=True),
            threading.Thread(target=self._beat, name="autoscaler-heartbeat", daemon=True),
        ]

    # --- the application's thread ---------------------------------------------------------------------------------------

    @property
    def lapsed(self) -> bool:
        """Return whether the lease is over for ever."""
        return self._state.lapsed

    def start(self) -> None:
        """Join the group."""
        self._log_reader.start()
        for thread in self._threads:
            thread.start()

    def tick(self) -> None:
        """Let the machine look at the time now."""
        intake = self.intake
        event = worker_events.Elapsed(
            totals=intake.figures.totals(), busy_since=intake.busy_since, read_at=self._log_reader.read_at
        )
        self._step(event)

    def batch_ended(self) -> None:
        """Wake the work thread: a worker may be waiting for a partition of the batch that has ended."""
        self._work.put(None)

    def commit_batch(self) -> Outcome:
        """Write what the batch in flight has produced and its offsets in one transaction.

        Raises:
            PermanentError: An output is refused; nothing was written, and the batch is still in flight.
        """
        batch = self.intake.in_flight
        if batch is None or self.transactions is None:
            return Outcome.COMMITTED
        return self._offsets.commit_with(batch.end(), batch.reached())

    def give_up(self, why: str) -> None:
        """End this incarnation without what it has not committed yet; the next owner gets that once more."""
        self._step(worker_events.GivenUp(why=why))

    def _transactions_over(self, why: str) -> None:
        """End this incarnation, whose records are at no fault: what it holds is released with its end, not lost (rule 9)."""
        self._given_back = machine.given_back(self._state)
        self.give_up(why)

    def take_back(self) -> None:
        """Take it that the application has nothing in hand, whatever is marked: its thread was torn out of asking for a batch."""
        for run in list(self._runs.values()):
            run.handed = False

    def leave(self, failed: frozenset[Tp] = frozenset()) -> None:
        """Release everything and wait until that is in the log, or the lease is over; ``failed`` as ``Intake.in_work``."""
        self._step(worker_events.Leave(failed=failed))
        while not (self._state.left or self._state.lapsed):
            time.sleep(0.002)
            self.tick()
        self._producer.flush(self._settings.lease_s)

    def end_lapsed(self, place: LogPlace | None = None, settings: WorkerSettings | None = None) -> None:
        """Publish ``left`` for this lapsed incarnation; call it only when the application has returned everything.

        ``place`` and ``settings`` are where the control log is and what to connect with now, if that may have changed: brokers
        let no client in that knows an old password.
        """
        self._place = place or self._place
        if settings is not None and settings.connection is not self._settings.connection:
            self._settings, self._producer = settings, _producer(settings)
        self._idle.wait(self._settings.lease_s)
        if self.transactions is not None and not self._fenced():
            return  # the controller fences it, and then says that it is over
        self._producer.purge(in_flight=False)
        left = Left(group=self._settings.group, worker=self.me, control_id=self._place.control_id)
        for released in self._given_back:
            self._send(CONTROL_TOPIC, released, lambda _e, _m: None)
        self._send(CONTROL_TOPIC, left, lambda _e, _m: None)
        self._producer.flush(self._settings.lease_s)

    def close(self) -> None:
        """End the threads and the clients; what is not released stays so until the lease is over."""
        self._closed.set()
        self._work.put(None)
        for thread in self._threads:
            if thread.is_alive():  # not where an exception came before it began
                thread.join()
        self._log_reader.close()
        if self.transactions is not None:
            self.transactions.close()

    # --- the machine ----------------------------------------------------------------------------------------------------

    def _step(self, event: worker_events.Event) -> None:
        with self._lock:
            self._state, effects = machine.step(self._state, event, self._now())
            self.lease.until = self._state.valid_until
            for effect in effects:
                self._perform(effect)

    def _perform(self, effect: worker_events.Effect) -> None:
        match effect:
            case worker_events.SendHeartbeat(heartbeat=heartbeat):
                self._send(HEARTBEAT_TOPIC, heartbeat, lambda e, m: self._heartbeat_done(heartbeat.stamp, e, m))
            case worker_events.SendReleased(released=released):
                self._send(CONTROL_TOPIC, released, lambda e, _m: self._release_done(released, e))
                self._note("released", (released.tp,))
            case worker_events.SendLeft(left=left):
                self._send(CONTROL_TOPIC, left, lambda _e, _m: None)
            case worker_events.StopFetching(tps=tps):
                self._note("told to stop", tps)
                self._work.put(effect)
            case worker_events.ReadOffsets(asked=asked):
                self._note("free", (tp for tp, _ in asked))
                self._work.put(effect)
            case worker_events.Start():
                self._work.put(effect)
            case worker_events.Lapse(why=why):
                _log.error("%s/%s: the lease is over: %s", self.me.name, self.me.uuid, why)
                self._lapsed_at = self._now()
                self._work.put(effect)
            case _:
                assert_never(effect)

    def _send(
        self, topic: str, record: Heartbeat | Released | Left, done: Callable[[KafkaError | None, Message | None], None]
    ) -> None:
        key, value = encode(record)
        partition = self._place.control_partition if topic == CONTROL_TOPIC else self._place.heartbeat_partition
        self._producer.produce(topic, value, key, partition, on_delivery=done)

    def _heartbeat_done(self, stamp: float, error: KafkaError | None, message: Message | None) -> None:
        offset = None if message is None else message.offset()
        if error is None and offset is not None:
            self._step(worker_events.HeartbeatAcked(stamp=stamp, offset=offset))
        else:
            _log.warning("heartbeat not acknowledged: %s", error)
            self._step(worker_events.HeartbeatFailed(stamp=stamp))

    def _release_done(self, released: Released, error: KafkaError | None) -> None:
        if error is not None:
            _log.warning("release of %s not acknowledged: %s", released.tp, error)
            self._step(worker_events.ReleaseLost(tp=released.tp, epoch=released.epoch))

    def _take(self, entries: tuple[LogEntry, ...]) -> None:
        for entry in entries:
            if isinstance(entry, Plan):
                self._names.update(entry.topics)
                _log.debug("plan %d: read: ", entry.epoch.number)
        self._step(worker_events.LogRead(records=entries))

    def _got_ready(self, what: threading.Event, name: str) -> None:
        if not what.is_set():
            what.set()
            _log.debug("joining: %s", name)
            if self._caught_up.is_set() and self._warm.is_set():
                self._step(worker_events.Ready())

    # --- threads --------------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        rounds, looked_at, held_s = self._rounds, self._now(), 0.0
        while not self._closed.is_set() and self._threads[0].is_alive():  # without the work thread there is no right to a lease
            self._producer.poll(_POLL_S)
            self.tick()
            self._end_if_held()
            self._give_up_if_outdated()
            passed_s, looked_at = min(self._now() - looked_at, _NAP_S), self._now()  # a process that stood still is not held
            rounds, held_s = self._rounds, 0.0 if self._rounds != rounds else held_s + passed_s
            self._end_if_wedged(held_s)
            if (why := self._waiting.look(self._state, self._now())) is not None:
                _log.warning("%s/%s: %s", self.me.name, self.me.uuid, why)

    def _give_up_if_outdated(self) -> None:
        """Join anew when no broker has been reached for a while and what the connection refers to has been replaced.

        The clients know what they were made with, and brokers let no client in whose password has been changed, or whose
        certificate is over: waiting for the lease's end would change nothing.
        """
        unheard_s = self._settings.lease_s - (self.lease.until - self._now())
        if self._state.lapsed or unheard_s < _UNHEARD * self._settings.lease_s or self._now() < self._look_at:
            return
        self._look_at = self._now() + _NAP_S
        if self._settings.renewed() is not self._settings:
            self.give_up(
                "no broker is reached, and a password or a certificate of the connection has been replaced: joining with it"
            )

    def _end_if_held(self) -> None:
        """Rule 6: end the process when an application does not return long after the lease is over: nothing else frees it."""
        busy, longest = self.intake.busy_since, self._settings.max_batch_s
        if self._lapsed_at is None or busy is None or self._now() - max(busy, self._lapsed_at) <= longest:
            return
        _log.critical("the application has not returned from a batch for %.0f s: the process ends", self._now() - busy)
        os._exit(Exit.HELD)

    def _end_if_wedged(self, held_s: float) -> None:
        """End the process when a call of a client does not return, such as a commit.

        Nothing is committed or released any more then, while heartbeats and the application go on. What that call may still send
        must not come after a release, so that no other client can take its place. With the process it ends.
        """
        if held_s <= max(self._settings.max_batch_s, _CLIENT_S) or self._idle.is_set():
            return
        _log.critical(
            "a call to the brokers (a commit, or a partition's start) has not returned for %.0f s: the process ends, "
            "and what it has not committed is processed again", held_s,
        )  # fmt: skip
        os._exit(Exit.HELD)

    def _execute(self) -> None:
        self._guarded(lambda: self.intake.warm_up(self._settings.topics, 5.0))
        topic = (*names(self._settings.topics), CONTROL_TOPIC)[0]  # any that this user may read finds the coordinator
        self._guarded(partial(self._offsets.warm_up, topic, 5.0))
        self._got_ready(self._warm, "warm")
        commit_at = 0.0
        while not self._closed.is_set():
            self._rounds += 1
            asked = [a for work in self._queued() for a in self._do(work)]
            self._drain()
            self._stray()
            if asked:
                self._read_offsets(tuple(asked))
            self._fetch_pending()
            self._guarded(self.intake.let_go)
            self._renew_if_deaf()
            if (now := self._now()) >= commit_at:
                commit_at = now + self._settings.commit_interval_s
                self._offsets.commit(self._runs.values())
                self._offsets.commit_again(self._runs.values(), now - self._state.recommit_s)

    def _renew_if_deaf(self) -> None:
        """Replace a client that brings nothing of what is in the log: after its broker has come back, one may do so for good."""
        waiting = [r for r in self.intake.runs.values() if not (r.stopping or r.handed or r.out_of_range)]
        if self._fetching.is_deaf(waiting, self.intake.in_vain, self._now(), lambda run: self._offsets.end(run, _END_S)):
            _log.warning("fetching: the client brings nothing of what is in the log and is replaced")
            self._guarded(self.intake.renew)

    def _queued(self) -> Iterator[Work]:
        """Wait for work and give all that has come: partitions that become free one by one are one request."""
        with suppress(queue.Empty):
            yield self._work.get(timeout=_AGAIN_S if self._pending else self._settings.commit_interval_s)
            while True:
                yield self._work.get_nowait()

    def _do(self, work: Work) -> tuple[tuple[Tp, int], ...]:
        """Do it, except for reading offsets: return those that are asked for."""
        match work:
            case worker_events.StopFetching(tps=tps):
                self.intake.stop([self._runs[tp] for tp in tps if tp in self._runs])
            case worker_events.ReadOffsets(asked=asked):
                return asked
            case worker_events.Start(takings=takings):
                self._start(takings)
            case worker_events.Lapse():
                self.intake.stop(list(self._runs.values()))
                self._guarded(self.intake.let_go)
                self._runs.clear()
                self._idle.set()
            case None:
                pass
            case _:
                assert_never(work)
        return ()

    def _note(self, stage: str, tps: Iterable[Tp]) -> None:
        """Log, to find a slow handover, when a stage was reached."""
        if _log.isEnabledFor(logging.DEBUG):
            named = " ".join(f"{self._names.get(tp.topic_id, tp.topic_id)}-{tp.partition}" for tp in tps)
            _log.debug("plan %d: %s: %s", self._state.epoch, stage, named)

    def _guarded(self, work: Callable[[], object]) -> bool:
        """Do one thing with the client; a failure is said, and tried again by the next that finds it not done."""
        try:
            work()
        except KafkaException as e:
            _log.warning("%s", e)
            return False
        return True

    def _drain(self) -> None:
        """Release what is stopped and of which the application holds nothing, after everything processed is committed."""
        done = [r for r in self._runs.values() if r.stopping and not r.handed]
        if not done:
            return
        self._note("drained", (r.tp for r in done))
        self._offsets.commit_last(done, self._pending)
        released = [r for r in done if r.processed <= r.committed or self._offsets.is_hopeless(r)]
        for run in released:
            del self._runs[run.tp]
            self._offsets.forget(run.tp)
        if released:
            self._step(worker_events.Drained(offsets=tuple((r.tp, r.committed) for r in released)))

    def _stray(self) -> None:
        """Give back to the machine what the log does not hold any more, after what came before is processed and committed."""
        for run in [r for r in self._runs.values() if r.out_of_range and not r.stopping and r.processed >= r.position]:
            if self._offsets.commit([run]):
                self.intake.stop([run])
                self._guarded(self.intake.let_go)
                del self._runs[run.tp]
                self._note("out of range", (run.tp,))
                self._step(worker_events.OutOfRange(tp=run.tp, offset=run.processed))

    def _fenced(self) -> bool:
        """Take this incarnation's own transactional id: whatever it had under way is decided before others go on."""
        return self._guarded(lambda: fence(self._settings.connection, self._settings.group, self.me.uuid, _FENCE_S))

    def _read_offsets(self, asked: tuple[tuple[Tp, int], ...]) -> None:
        known = {(self._names[tp.topic_id], tp.partition): tp for tp, _ in asked if tp.topic_id in self._names}
        found = self._offsets.read(known, max(1.0, self._settings.lease_s / 3))
        if unread := tuple(x for x in asked if x[0] not in found):
            self._step(worker_events.OffsetsUnread(asked=unread))
        if found:
            self._note("offset read", found)
            self._step(worker_events.OffsetsRead(offsets=tuple((tp, epoch, found[tp]) for tp, epoch in asked if tp in found)))

    def _start(self, takings: tuple[worker_events.Taking, ...]) -> None:
        for t in takings:
            committed = -1 if t.unclaimed else t.offset
            name = self._names[t.tp.topic_id]
            run = Run(tp=t.tp, topic=name, epoch=t.epoch, position=t.offset, processed=t.offset, committed=committed)
            self._runs[t.tp] = run
            self._pending.append(run)

    def _fetch_pending(self) -> None:
        """Fetch what was taken; a first owner's start is committed before its first batch (rule 5).

        One whose commit is refused keeps waiting, and keeps no other from beginning.
        """
        self._pending = [r for r in self._pending if not r.stopping]
        if not self._pending:
            return
        self._offsets.commit(self._pending)
        runs = [r for r in self._pending if r.processed <= r.committed]
        if runs and self._now() < self.lease.until and self._guarded(lambda: self.intake.start(runs)):
            self._note("fetching", (r.tp for r in runs))
            self._pending = [r for r in self._pending if r.processed > r.committed]


def _producer(settings: WorkerSettings) -> Producer:
    """Return what writes to the two logs."""
    return Producer(
        {
            **settings.connection,
            **NO_AUTO_CREATION,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 0,
            "message.timeout.ms": int(settings.lease_s * 1000),
            "request.timeout.ms": max(500, int(settings.lease_s * 300)),  # one lost answer must not cost the lease
            "reconnect.backoff.max.ms": 1000,
            "log_level": 0,
        }
    )
