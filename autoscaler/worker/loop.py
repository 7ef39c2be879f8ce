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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import assert_never

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from autoscaler.handover import messages
from autoscaler.handover import worker_state as machine
from autoscaler.handover.codec import encode
from autoscaler.handover.commits import commit_metadata, is_of_topic
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
from autoscaler.worker.clock import Elapsed, boot_id
from autoscaler.worker.control_log import ControlLog, LogEntry, LogPlace
from autoscaler.worker.intake import Intake, Lease, Run
from autoscaler.worker.settings import WorkerSettings
from autoscaler.worker.transactions import Outcome, Output, Transactions, fence
from autoscaler.worker.waiting import Waiting

_POLL_S = 0.02
_PROVE_S = 5.0  # without a record of the control log, until its end is asked for
EXIT_HELD = 70  # of the process, when the application does not return although the lease has long been over
_FENCE_S = 5.0
_AGAIN_S = 0.1  # between two tries of something that failed
_METADATA_S = 2.0
_HOPELESS_S = 10.0  # a topic may be unknown to a broker for a moment after it has started
_REFUSALS = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED})
_log = logging.getLogger(__name__)

Work = messages.StopFetching | messages.ReadOffsets | messages.Start | messages.Lapse | None  # None: look again


class Loop:
    """One incarnation of the worker, from its first heartbeat to its end.

    Attributes:
        me: The incarnation.
        lease: Until when it may act; the application's thread reads it between records.
        intake: The data client and what it has brought.
        transactions: Where outputs and offsets go, if exactly once; opened already.
    """

    def __init__(  # noqa: PLR0917  (what one incarnation is made of)
        self,
        settings: WorkerSettings,
        place: LogPlace,
        me: Incarnation,
        intake: Intake,
        offsets: Consumer,
        now: Elapsed,
        transactions: Transactions | None = None,
    ) -> None:
        self.me = me
        self.lease = Lease()
        self._settings = settings
        self._place = place
        self.intake = intake
        self._offsets = offsets
        self._now = now
        self.transactions = transactions
        self._committing = threading.Lock()  # what to commit is looked up inside, or an older offset could follow a newer
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
        self._refused_since: dict[Tp, float] = {}  # since when commits of a partition are refused for what it is
        self._names: dict[str, str] = {}  # topic id -> name, of every plan read
        self._lapsed_at: float | None = None
        self._waiting = Waiting(named=settings.named)
        self._caught_up = threading.Event()
        self._warm = threading.Event()
        self._idle = threading.Event()  # the work thread has nothing of this incarnation left to do
        self._closed = threading.Event()
        self._producer = Producer(
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
        self._log_reader = ControlLog(
            settings.connection,
            settings.group,
            place,
            take=self._take,
            caught_up=lambda: self._got_ready(self._caught_up, "the control log is read"),
            replaced=lambda: self._step(messages.LogReplaced()),
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
        event = messages.Elapsed(totals=intake.figures.totals(), busy_since=intake.busy_since, read_at=self._log_reader.read_at)
        self._step(event)

    def batch_ended(self) -> None:
        """Wake the work thread: somebody may be waiting for a partition of the batch that has ended."""
        self._work.put(None)

    def commit_batch(self) -> Outcome:
        """Write what the batch in flight has produced and its offsets in one transaction.

        Raises:
            PermanentError: An output is refused; nothing was written, and the batch is still in flight.
        """
        batch = self.intake.in_flight
        if batch is None or self.transactions is None:
            return Outcome.COMMITTED
        with self._committing:
            return self._transact(batch.end(), batch.reached())

    def leave(self, failed: frozenset[Tp] = frozenset()) -> None:
        """Release everything and wait until that is in the log, or the lease is over; ``failed`` as ``Intake.in_work``."""
        self._step(messages.Leave(failed=failed))
        while not (self._state.left or self._state.lapsed):
            time.sleep(0.002)
            self.tick()
        self._producer.flush(self._settings.lease_s)

    def end_lapsed(self, place: LogPlace | None = None) -> None:
        """Publish ``left`` for this lapsed incarnation; call it only when the application has returned everything.

        Args:
            place: Where the control log is now, if it may have been made anew.
        """
        self._place = place or self._place
        self._idle.wait(self._settings.lease_s)
        if self.transactions is not None and not self._fenced():
            return  # the controller fences it, and then says that it is over
        self._producer.purge(in_flight=False)
        left = Left(group=self._settings.group, worker=self.me, control_id=self._place.control_id)
        self._send(CONTROL_TOPIC, left, lambda _e, _m: None)
        self._producer.flush(self._settings.lease_s)

    def close(self) -> None:
        """End the threads and the clients; what is not released stays so until the lease is over."""
        self._closed.set()
        self._work.put(None)
        for thread in self._threads:
            thread.join()
        self._log_reader.close()
        if self.transactions is not None:
            self.transactions.close()

    # --- the machine ----------------------------------------------------------------------------------------------------

    def _step(self, event: messages.Event) -> None:
        with self._lock:
            self._state, effects = machine.step(self._state, event, self._now())
            self.lease.until = self._state.valid_until
            for effect in effects:
                self._perform(effect)

    def _perform(self, effect: messages.Effect) -> None:
        match effect:
            case messages.SendHeartbeat(heartbeat=heartbeat):
                self._send(HEARTBEAT_TOPIC, heartbeat, lambda e, m: self._heartbeat_done(heartbeat.stamp, e, m))
            case messages.SendReleased(released=released):
                self._send(CONTROL_TOPIC, released, lambda e, _m: self._release_done(released, e))
                self._note("released", (released.tp,))
            case messages.SendLeft(left=left):
                self._send(CONTROL_TOPIC, left, lambda _e, _m: None)
            case messages.StopFetching(tps=tps):
                self._note("told to stop", tps)
                self._work.put(effect)
            case messages.ReadOffsets(asked=asked):
                self._note("free", (tp for tp, _ in asked))
                self._work.put(effect)
            case messages.Start():
                self._work.put(effect)
            case messages.Lapse(why=why):
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
            self._step(messages.HeartbeatAcked(stamp=stamp, offset=offset))
        else:
            _log.warning("heartbeat not acknowledged: %s", error)
            self._step(messages.HeartbeatFailed(stamp=stamp))

    def _release_done(self, released: Released, error: KafkaError | None) -> None:
        if error is not None:
            _log.warning("release of %s not acknowledged: %s", released.tp, error)
            self._step(messages.ReleaseLost(tp=released.tp, epoch=released.epoch))

    def _take(self, entries: tuple[LogEntry, ...]) -> None:
        for entry in entries:
            if isinstance(entry, Plan):
                self._names.update(entry.topics)
                _log.debug("plan %d: read: ", entry.epoch.number)
        self._step(messages.LogRead(records=entries))

    def _got_ready(self, what: threading.Event, name: str) -> None:
        if not what.is_set():
            what.set()
            _log.debug("joining: %s", name)
            if self._caught_up.is_set() and self._warm.is_set():
                self._step(messages.Ready())

    # --- threads --------------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        while not self._closed.is_set() and self._threads[0].is_alive():  # without the work thread there is no right to a lease
            self._producer.poll(_POLL_S)
            self.tick()
            self._end_if_held()
            if (why := self._waiting.look(self._state, self._now())) is not None:
                _log.warning("%s/%s: %s", self.me.name, self.me.uuid, why)

    def _end_if_held(self) -> None:
        """Rule 6: end the process when an application does not return long after the lease is over: nothing else frees it."""
        busy, longest = self.intake.busy_since, self._settings.max_batch_s
        if self._lapsed_at is None or busy is None or self._now() - max(busy, self._lapsed_at) <= longest:
            return
        _log.critical("the application has not returned from a batch for %.0f s: the process ends", self._now() - busy)
        os._exit(EXIT_HELD)

    def _execute(self) -> None:
        self._guarded(lambda: self.intake.warm_up(self._settings.topics, 5.0))
        for topic in self._settings.topics[:1]:  # finds the coordinator
            self._guarded(partial(self._offsets.committed, [TopicPartition(topic, 0)], 5.0))
        self._got_ready(self._warm, "warm")
        commit_at = 0.0
        while not self._closed.is_set():
            asked = [a for work in self._queued() for a in self._do(work)]
            self._drain()
            self._stray()
            if asked:
                self._read_offsets(tuple(asked))
            self._fetch_pending()
            self._guarded(self.intake.let_go)
            if (now := self._now()) >= commit_at:
                commit_at = now + self._settings.commit_interval_s
                self._commit(self._runs.values())
                self._recommit()

    def _queued(self) -> Iterator[Work]:
        """Wait for work and give all that has come: partitions that become free one by one are one request."""
        with suppress(queue.Empty):
            yield self._work.get(timeout=_AGAIN_S if self._pending else self._settings.commit_interval_s)
            while True:
                yield self._work.get_nowait()

    def _do(self, work: Work) -> tuple[tuple[Tp, int], ...]:
        """Do it, except for reading offsets: return those that are asked for."""
        match work:
            case messages.StopFetching(tps=tps):
                self.intake.stop([self._runs[tp] for tp in tps if tp in self._runs])
            case messages.ReadOffsets(asked=asked):
                return asked
            case messages.Start(takings=takings):
                self._start(takings)
            case messages.Lapse():
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
        """Say, for whoever looks for a slow handover, when a stage was reached."""
        if _log.isEnabledFor(logging.DEBUG):
            named = " ".join(f"{self._names.get(tp.topic_id, tp.topic_id)}-{tp.partition}" for tp in tps)
            _log.debug("plan %d: %s: %s", self._state.epoch, stage, named)

    def _guarded(self, work: Callable[[], object]) -> bool:
        """Do one thing with the client; a failure is said, and tried again by whoever finds it not done."""
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
        self._settle(done)
        released = [r for r in done if r.processed <= r.committed or self._hopeless(r)]
        for run in released:
            del self._runs[run.tp]
            self._refused_since.pop(run.tp, None)
        if released:
            self._step(messages.Drained(offsets=tuple((r.tp, r.committed) for r in released)))

    def _settle(self, runs: Sequence[Run]) -> None:
        """Commit before a release, also what has been committed before: a late commit of an earlier owner may have set it back.

        Not so exactly once: there it is fenced.
        """
        if self.transactions is not None:
            self._commit(runs)
        else:
            self._commit_as(lambda: {r: r.processed for r in runs if r.processed >= 0 and r not in self._pending})

    def _hopeless(self, run: Run) -> bool:
        """Give a partition up without its last commit when brokers refuse that for good: its topic is gone, or not allowed.

        Nothing is lost by it: whoever comes next begins at what is committed. Waiting would keep everybody else waiting, too.
        """
        since = self._refused_since.get(run.tp)
        if since is None or self._now() - since < _HOPELESS_S or self._now() >= self.lease.until:
            return False
        _log.error("%s-%s is released without its last commit, which is refused", run.topic, run.tp.partition)
        return True

    def _stray(self) -> None:
        """Give back to the machine what the log does not hold any more, after what came before is processed and committed."""
        for run in [r for r in self._runs.values() if r.astray and not r.stopping and r.processed >= r.position]:
            if self._commit([run]):
                self.intake.stop([run])
                self._guarded(self.intake.let_go)
                del self._runs[run.tp]
                self._note("out of range", (run.tp,))
                self._step(messages.OutOfRange(tp=run.tp, offset=run.processed))

    def _commit(self, runs: Iterable[Run]) -> bool:
        """Commit what is processed and not committed; synchronously, so that no older commit can follow a release."""
        return self._commit_as(lambda: {r: r.processed for r in runs if r.processed > r.committed})

    def _recommit(self) -> None:
        """Rule 10: commit again what stands still, or the broker forgets it; also soon after taking, see ``Run``."""
        due = self._now() - self._state.recommit_s
        self._commit_as(lambda: {r: r.committed for r in self._runs.values() if r.committed >= 0 and r.committed_at <= due})

    def _commit_as(self, look: Callable[[], Mapping[Run, int]]) -> bool:
        with self._committing:
            wanted = look()
            if not wanted:
                return True
            if self._now() >= self.lease.until:
                return False
            if self.transactions is None:
                return self._commit_plainly(wanted)
            return self._transact_offsets(wanted)

    def _transact_offsets(self, wanted: Mapping[Run, int]) -> bool:
        """Commit in a transaction; a topic that takes no offsets would abort it for all others, and is left out while it does."""
        closed = {t for t in {r.topic for r in wanted if r.tp in self._refused_since} if self._topic_error(t) is not None}
        taken = {r: o for r, o in wanted.items() if r.topic not in closed}
        outcome = self._transact((), taken)
        if outcome is Outcome.ABORTED and self._refused_by() is not None:
            for part in _by_topic(taken):
                error = self._topic_error(next(iter(part)).topic)
                if error is None and self._transact((), part) is Outcome.ABORTED:
                    error = self._refused_by()
                if error is not None:
                    for run in part:
                        self._note_refusal(run, error)
        return outcome is Outcome.COMMITTED and len(taken) == len(wanted)

    def _refused_by(self) -> KafkaError | None:
        failure = None if self.transactions is None else self.transactions.failure
        return failure if failure is not None and failure.code() in _REFUSALS else None

    def _topic_error(self, topic: str) -> KafkaError | None:
        """Return why a topic is refused, by its metadata: a coordinator is asked again and again before it says so."""
        found: list[KafkaError | None] = []
        self._guarded(lambda: found.extend(t.error for t in self._offsets.list_topics(topic, _METADATA_S).topics.values()))
        return next((e for e in found if e is not None and e.code() in _REFUSALS), None)

    def _transact(self, outputs: Sequence[Output], wanted: Mapping[Run, int]) -> Outcome:
        if self.transactions is None or not (outputs or wanted):
            return Outcome.COMMITTED
        outcome = self.transactions.write(outputs, self._offsets_of(wanted), lambda: self._now() < self.lease.until)
        if outcome is Outcome.COMMITTED:
            for run, offset in wanted.items():
                run.committed, run.committed_at = offset, self._now()
                self._refused_since.pop(run.tp, None)
        elif outcome is Outcome.OVER:
            self._step(messages.TransactionsOver(why=self.transactions.why))
        return outcome

    def _offsets_of(self, wanted: Mapping[Run, int]) -> list[TopicPartition]:
        return [TopicPartition(r.topic, r.tp.partition, o, metadata=self._metadata(r)) for r, o in wanted.items()]

    def _fenced(self) -> bool:
        """Take this incarnation's own transactional id: whatever it had under way is decided before others go on."""
        return self._guarded(lambda: fence(self._settings.connection, self._settings.group, self.me.uuid, _FENCE_S))

    def _commit_plainly(self, wanted: Mapping[Run, int]) -> bool:
        try:
            done = self._offsets.commit(offsets=self._offsets_of(wanted), asynchronous=False) or ()
        except KafkaException as e:
            if e.args[0].code() not in _REFUSALS:
                _log.warning("%s", e)
                return False
            if len(parts := _by_topic(wanted)) > 1:  # raised instead of said of each where all of them are refused: ask for each
                done_each = [self._commit_plainly(part) for part in parts]
                return all(done_each)
            for run in wanted:
                self._note_refusal(run, e.args[0])
            return False
        bad = {(t.topic, t.partition): t.error for t in done if t.error is not None}
        for run, offset in wanted.items():
            error = bad.get((run.topic, run.tp.partition))
            if error is None:
                run.committed, run.committed_at = offset, self._now()
                self._refused_since.pop(run.tp, None)
            else:
                self._note_refusal(run, error)
        return not bad

    def _note_refusal(self, run: Run, error: KafkaError) -> None:
        """Remember since when commits of a partition are refused for what it is, and say it then; other errors pass."""
        refused = error.code() in _REFUSALS
        if not (refused and run.tp in self._refused_since):
            _log.warning("commit of %s-%s: %s", run.topic, run.tp.partition, error)
        if refused:
            self._refused_since.setdefault(run.tp, self._now())
        else:
            self._refused_since.pop(run.tp, None)

    def _metadata(self, run: Run) -> str:
        return commit_metadata(run.tp.topic_id, run.epoch, self.me.uuid)

    def _read_offsets(self, asked: tuple[tuple[Tp, int], ...]) -> None:
        names = self._names
        known = {(names[tp.topic_id], tp.partition): (tp, epoch) for tp, epoch in asked if tp.topic_id in names}
        found: list[TopicPartition] = []
        timeout = max(1.0, self._settings.lease_s / 3)
        read = self._guarded(lambda: found.extend(self._offsets.committed([TopicPartition(*k) for k in known], timeout)))
        if not read:
            self._step(messages.OffsetsUnread(asked=asked))
            return
        for failure in (t for t in found if t.error is not None):
            _log.warning("the offset of %s-%s cannot be read: %s", failure.topic, failure.partition, failure.error)
        good = [t for t in found if t.error is None]
        answered = {known[t.topic, t.partition] for t in good}
        if bad := tuple(x for x in asked if x not in answered):
            self._step(messages.OffsetsUnread(asked=bad))
        self._note("offset read", (tp for tp, _ in answered))
        answers = [(*known[t.topic, t.partition], self._committed(t, known[t.topic, t.partition][0])) for t in good]
        self._step(messages.OffsetsRead(offsets=tuple(answers)))

    def _committed(self, found: TopicPartition, tp: Tp) -> int | None:
        """Return the offset, unless nothing is committed or it belongs to another topic of the same name (rule 14)."""
        if found.offset < 0:
            return None
        if not is_of_topic(found.metadata, tp.topic_id):
            _log.warning("%s-%s: the offset %s belongs to another topic of this name", found.topic, found.partition, found.offset)
            return None
        return int(found.offset)

    def _start(self, takings: tuple[messages.Taking, ...]) -> None:
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
        self._commit(self._pending)
        runs = [r for r in self._pending if r.processed <= r.committed]
        if runs and self._now() < self.lease.until and self._guarded(lambda: self.intake.start(runs)):
            self._note("fetching", (r.tp for r in runs))
            self._pending = [r for r in self._pending if r.processed > r.committed]


def _by_topic(wanted: Mapping[Run, int]) -> list[dict[Run, int]]:
    return [{r: o for r, o in wanted.items() if r.topic == topic} for topic in sorted({r.topic for r in wanted})]
