"""Records on their way to the application: which worker may still get them, and up to where they count as processed.

Two threads meet here. The application's thread fetches, hands out and finishes batches; the loop's thread starts and stops
partitions and commits. The only thing both write is a run's two marks: the application marks ``handed`` and then looks at
``stopping``, the loop marks ``stopping`` and then looks at ``handed``, so that at least one of them sees the other and no record
is handed out of a partition that was released.
"""

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from autoscaler.handover.records import AGE_BOUNDS_S, Tp
from autoscaler.handover.worker_events import Totals
from autoscaler.worker.clock import SLEWED, Elapsed, coarse, wall
from autoscaler.worker.topics import meant
from autoscaler.worker.transactions import Headers, Output, Value

_SAMPLES = 64  # latencies measured per batch; all would cost more than small records themselves
_SLICE_S = 0.002  # one wait of the client, which no other thread can use meanwhile
_IDLE_SLICE_S = 0.01  # the same when nothing has come for _IDLE_S
_IDLE_S = 0.25
_YIELD_S = 0.0005
_LARGEST_FETCH = 10_000
_SWAP_S = 0.05
_OUT_OF_RANGE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})  # noqa: SLF001  (the client's name)
_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False, kw_only=True)
class Run:
    """One partition from its start until it is stopped; a partition that comes back is another run."""

    tp: Tp
    topic: str
    epoch: int
    position: int  # offset from which the next record is expected
    processed: int  # all below is processed
    # All below is committed, by this worker last at ``committed_at``; never yet: how long ago its predecessor did is not known
    committed: int
    committed_at: float = float("-inf")
    stopping: bool = False  # nothing of it is handed out any more
    handed: bool = False  # the batch in flight has handed out records of it
    out_of_range: bool = False  # the log does not hold its next offset; what came before is worked off


@dataclass(slots=True)
class Lease:
    """Until when the incarnation may act, on its own clock; written by the loop, read between records."""

    until: float = float("-inf")


class Batch:
    """Records handed over together; they count as processed when the next batch is asked for.

    Iterate it once. What has not been handed out (the loop over it was left early) comes again in the next batch; records of
    partitions that are being given up are left to their next owner, and a batch that holds such a partition in hand ends early.
    """

    def __init__(
        self,
        entries: list[tuple[Message, Run]],
        lease: Lease,
        now: Elapsed,
        rough: Elapsed = coarse,
        *,
        exactly_once: bool = False,
    ) -> None:
        self._entries = entries
        self._outputs: list[Output] | None = [] if exactly_once else None
        self._ended = False
        self._lease = lease
        self._now = now
        self._rough = rough
        self._next = 0
        self._held_back: dict[int, int] = {}  # id of a run that stopped inside this batch -> index of its first record held back
        self._tokens: dict[tuple[str | None, int | None], int] = {}
        self._failed: set[Tp] = set()
        self._through = False  # the application has got everything: it may be at any record
        self.cut = False  # a worker waits for a partition that is in hand: end here, the rest comes with the next batch
        self.began = now()

    def __len__(self) -> int:
        """Return how many records were fetched for it; fewer are handed out if a partition is given up meanwhile."""
        return len(self._entries)

    def __iter__(self) -> Iterator[Message]:
        """Hand out record after record as long as the lease is valid."""
        lease, now, entries = self._lease, self._now, self._entries
        rough, until, look_at = (
            self._rough,
            None,
            0.0,
        )  # one cheap clock per record; the exact one when it says so, or the lease was written anew
        for index in range(self._next, len(entries)):
            message, run = entries[index]
            if run.stopping:
                self._hold_back(index, run)
                continue
            run.handed = True
            if run.stopping:  # told between the two looks: the teller saw it in hand, or sees it not handed out
                self._hold_back(index, run)  # type: ignore[unreachable]  # by another thread
                continue
            if until is not lease.until or rough() >= look_at:
                until = lease.until
                if (left := until - now()) <= 0:
                    self._untouch(index, run)
                    return
                look_at = rough() + left * SLEWED
            self._next = index + 1
            yield message
            if self.cut:
                return
        self._through = True

    def in_work(self) -> frozenset[Tp]:
        """Return the partitions of which a record is being processed: one while it is iterated, or all that are in it.

        Where the application has said in which it failed, those.
        """
        if self._failed:
            return frozenset(self._failed)
        got = self.handed_out()
        return frozenset(r.tp for _, r in (got if self._through else got[-1:]))

    def failed_in(self, topic: str | None, partition: int | None) -> None:
        """Say in which partition processing failed, where that is not the record handed out last; there may be several."""
        self._failed.update(r.tp for r in {r for _, r in self._entries} if (r.topic, r.tp.partition) == (topic, partition))

    def token(self, topic: str | None, partition: int | None) -> int:
        """Return the fencing token of a partition in this batch: the epoch that granted it, comparable per partition.

        Raises:
            KeyError: The batch has no record of that partition.
        """
        if not self._tokens:
            self._tokens.update({(r.topic, r.tp.partition): r.epoch for r in {r for _, r in self._entries}})
        return self._tokens[topic, partition]

    def produce(
        self, topic: str, value: Value = None, *, key: Value = None, partition: int | None = None, headers: Headers = None
    ) -> None:
        """Produce a record together with what the batch came from: readers of committed records see it once (exactly once only).

        It is kept until the batch counts as processed, and sent then, in one transaction with the batch's offsets; a batch that
        does not count sends nothing. May be called by several threads.

        Args:
            topic: Where to.
            value: Payload.
            key: Decides the partition where none is given.
            partition: Where in the topic; ``None``: the client's partitioner says.
            headers: Of the record.

        Raises:
            RuntimeError: The consumer is not exactly once, or the batch has ended: it would be in no transaction.
        """
        if self._outputs is None or self._ended:
            msg = "batch.produce() needs ManagedConsumer(exactly_once=True) and a batch that has not ended"
            raise RuntimeError(msg)
        self._outputs.append(Output(topic=topic, value=value, key=key, partition=partition, headers=headers))

    def end(self) -> list[Output]:
        """Accept nothing more, and return what was produced."""
        self._ended = True
        return self._outputs or []

    def reached(self) -> dict[Run, int]:
        """Return the next offset of every run of which the application got records."""
        last = {run: message for message, run in self.handed_out()}  # the last one of each run stays
        return {run: (message.offset() or 0) + 1 for run, message in last.items()}

    def everything(self) -> list[tuple[Message, Run]]:
        """Return what it was made of, handed out or not."""
        return self._entries

    def _hold_back(self, index: int, run: Run) -> None:
        if id(run) not in self._held_back:  # once, or a large batch would be gone through for each record held back
            self._held_back[id(run)] = index
            self._untouch(index, run)
        self._next = index + 1

    @property
    def held_back(self) -> bool:
        """Say whether records were kept from the application because their partition is being given up."""
        return bool(self._held_back)

    def _untouch(self, index: int, run: Run) -> None:
        """Take back the mark of a run none of whose records has been handed out in this batch."""
        if not any(r is run for _, r in self._entries[:index]):
            run.handed = False

    def handed_out(self) -> list[tuple[Message, Run]]:
        """Return what the application got, in order."""
        got = self._entries[: self._next]
        if not self._held_back:
            return got
        return [e for i, e in enumerate(got) if i < self._held_back.get(id(e[1]), len(got))]

    def rest(self) -> list[tuple[Message, Run]]:
        """Return what was not handed out yet."""
        return self._entries[self._next :]


@dataclass(slots=True)
class Figures:
    """Totals of the process, written by the application's thread only."""

    records: int = 0
    payload_bytes: int = 0
    busy_s: float = 0.0
    ages: list[int] = field(default_factory=lambda: [0] * (len(AGE_BOUNDS_S) + 1))
    last_progress: float = 0.0

    def totals(self) -> Totals:
        """Return them as a value."""
        return Totals(
            records=self.records,
            payload_bytes=self.payload_bytes,
            busy_s=self.busy_s,
            ages=tuple(self.ages),
            last_progress=self.last_progress,
        )


class Intake:
    """The data consumer and the runs on it."""

    def __init__(
        self,
        consumer: Consumer,
        now: Elapsed,
        *,
        batch_size_bytes: int,
        wait_time_s: float,
        idle_s: float,
        exactly_once: bool = False,
        make: Callable[[], Consumer] | None = None,
    ) -> None:
        self.consumer = consumer
        self._make = make  # another client like it
        self._exactly_once = exactly_once
        self.figures = Figures()
        self.runs: dict[tuple[str | None, int | None], Run] = {}
        self.busy_since: float | None = None
        self._now = now
        self._size = batch_size_bytes
        self._wait_s = wait_time_s
        self._idle_s = idle_s
        self._idle_at = 0.0
        self._carry: list[tuple[Message, Run]] = []
        self._batch: Batch | None = None
        self._record_bytes = 1000.0
        self._fresh: set[Run] = set()  # taken, none of whose records has been seen; both threads change it in place
        self._knocks = 0  # how often the loop's thread wants the client, which serves one call at a time and is not fair
        self._fetches = self._fetched = 0  # fetches begun and ended
        self._stopped_in: dict[tuple[str, int], int] = {}  # the last fetch that may hold records of a run that was stopped
        self._unwanted: set[tuple[str, int]] = set()  # stopped, and still fetched by the client; the loop's thread only
        self._came_at = 0.0
        self._in_vain = 0  # fetches in a row that have brought nothing, while the application had nothing in hand

    # --- the application's thread ---------------------------------------------------------------------------------------

    def fetch(self, lease: Lease) -> Batch | None:
        """Return the next batch, ``None`` if nothing came within the time that a batch may wait."""
        entries = [e for e in self._carry if not e[1].stopping]
        self._carry = []
        size = sum(len(m) for m, _ in entries)
        now = time.monotonic()
        deadline = now + (0.0 if entries else self._wait_s)  # what was put back has waited already
        left = self._wait_s
        while size < self._size and left > 0:
            now = time.monotonic()
            left = deadline - now
            longest = _SLICE_S if self._fresh or now - self._came_at < _IDLE_S else _IDLE_SLICE_S
            wanted = min(_LARGEST_FETCH, int((self._size - size) / self._record_bytes) + 1)
            while self._knocks:
                time.sleep(_YIELD_S)
            self._fetches += 1
            try:
                came = self._admit(self.consumer.consume(wanted, max(0.0, min(left, longest))))
            finally:  # also where a signal's handler raises, or the loop's thread would wait for the end of this one
                self._fetched = self._fetches
            if came:
                self._came_at, self._in_vain = now, 0
            if self._fresh and (seen := self._fresh.intersection(r for _, r in came)):
                self._fresh.difference_update(seen)
                _log.debug("arrived: %s", " ".join(f"{r.topic}-{r.tp.partition}" for r in seen))
                left = 0.0  # a partition that stood still while it changed hands waits no longer
            entries += came
            size += sum(len(m) for m, _ in came)
        if not entries:
            self._in_vain += 1
            self._note_idle_positions()
            return None
        self._record_bytes = max(1.0, size / len(entries))
        self._batch = Batch(self._cut(entries, size), lease, self._now, exactly_once=self._exactly_once)
        self.busy_since = self._batch.began
        return self._batch

    def in_work(self) -> frozenset[Tp]:
        """Return the partitions of the record in work, none between two batches."""
        return frozenset() if self._batch is None else self._batch.in_work()

    @property
    def in_flight(self) -> Batch | None:
        """Return the batch that the application has, or had last and does not count as processed yet."""
        return self._batch

    def finish(self, *, processed: bool = True) -> bool:
        """Count what was handed out of the batch in flight as processed or not; return whether a worker waits for some of it."""
        self.busy_since = None
        batch, self._batch = self._batch, None
        if batch is None:
            return False
        got = batch.handed_out()
        if processed:
            self._count(batch, [m for m, _ in got])
            for run, offset in batch.reached().items():
                run.processed = offset
        for run in {r for _, r in batch.everything()}:  # also of a run that an exception met between its mark and its record
            run.handed = False
        self._carry = [*batch.rest(), *self._carry] if processed else []
        return batch.held_back or any(r.stopping for _, r in batch.everything())

    def _admit(self, messages: Iterable[Message]) -> list[tuple[Message, Run]]:
        """Keep what belongs to a run; what is left in the client's queue of partitions given up is dropped."""
        entries: list[tuple[Message, Run]] = []
        where: tuple[str | None, int | None] = (None, None)
        run: Run | None = None
        for message in messages:
            topic, partition = message.topic(), message.partition()
            if partition != where[1] or topic != where[0]:  # the client hands over records of one partition in a row
                where = (topic, partition)
                run = self.runs.get(where)
            if run is None:
                continue
            if (error := message.error()) is not None:
                _report(error, run)
                continue
            offset = message.offset() or 0
            if offset >= run.position:
                run.position = offset + 1
                entries.append((message, run))
        return entries

    def _cut(self, entries: list[tuple[Message, Run]], size: int) -> list[tuple[Message, Run]]:
        if size <= self._size:
            return entries
        kept = 0
        for index, (message, _) in enumerate(entries):
            kept += len(message)
            if kept >= self._size:
                self._carry = entries[index + 1 :]
                return entries[: index + 1]
        return entries

    def _count(self, batch: Batch, messages: list[Message]) -> None:
        figures, end = self.figures, self._now()
        figures.records += len(messages)
        figures.payload_bytes += sum(map(len, messages))
        figures.busy_s += end - batch.began
        figures.last_progress = end
        until = wall()
        stride = max(1, len(messages) // _SAMPLES)
        share = (end - batch.began) / max(1, len(messages))
        for index in range(0, len(messages), stride):
            done_at = until - share * (len(messages) - index - 1)
            appended = messages[index].timestamp()[1] / 1000
            figures.ages[bisect_left(AGE_BOUNDS_S, max(0.0, done_at - appended))] += min(stride, len(messages) - index)

    def _note_idle_positions(self) -> None:
        """Move past transaction markers: nothing is in hand, so the client's position is what was processed."""
        if (at := self._now()) < self._idle_at or not self.runs:
            return
        self._idle_at = at + self._idle_s
        runs = dict(self.runs)
        for found in self.consumer.position([TopicPartition(r.topic, r.tp.partition) for r in runs.values()]):
            run = runs[found.topic, found.partition]
            if found.offset > run.processed and found.offset >= run.position and not run.stopping:
                run.position = run.processed = found.offset

    # --- the loop's thread ----------------------------------------------------------------------------------------------

    def start(self, runs: list[Run]) -> None:
        """Fetch these runs too, each from its position."""
        self.let_go()
        for run in runs:
            key = (run.topic, run.tp.partition)
            while self._fetched < self._stopped_in.get(key, 0):  # that fetch may still hold records of the earlier run
                time.sleep(0.001)
            self.runs[key] = run
        self._fresh.update(runs)
        with self._client() as client:
            client.incremental_assign([TopicPartition(r.topic, r.tp.partition, r.position) for r in runs])

    def stop(self, runs: list[Run]) -> None:
        """Hand out nothing more of these runs; what the application has of them is finished with its batch.

        What the client still brings of them is dropped; ``let_go`` ends that, and need not come before the release.
        """
        for run in runs:
            run.stopping = True
            self._fresh.discard(run)
            if run.handed and (batch := self._batch) is not None:
                batch.cut = True
            key = (run.topic, run.tp.partition)
            if self.runs.get(key) is run:
                del self.runs[key]
            self._unwanted.add(key)

    def let_go(self) -> None:
        """Tell the client to fetch no more of what was stopped."""
        if not self._unwanted:
            return
        with self._client() as client:
            held = {(t.topic, t.partition) for t in client.assignment()}
            if gone := [TopicPartition(*key) for key in self._unwanted & held]:
                client.incremental_unassign(gone)
        self._stopped_in.update(dict.fromkeys(self._unwanted, self._fetches))
        self._unwanted.clear()

    @property
    def in_vain(self) -> int:
        """Return how many times in a row the application has asked for records and none has come."""
        return self._in_vain

    def renew(self) -> None:
        """Go on with another client, each run from where it is; what the one before may still bring counts once."""
        if self._make is None:
            return
        with self._client():
            old, self.consumer = self.consumer, self._make()
            self._unwanted.clear()
            self.consumer.assign([TopicPartition(r.topic, r.tp.partition, r.position) for r in self.runs.values()])
            time.sleep(_SWAP_S)  # a fetch that had taken the old client before has begun by then
            while self._fetched < self._fetches:
                time.sleep(0.001)
        old.close()

    @contextmanager
    def _client(self) -> Iterator[Consumer]:
        self._knocks += 1
        try:
            yield self.consumer
        finally:
            self._knocks -= 1

    def reset(self) -> None:
        """Forget every run and everything fetched; for the next incarnation."""
        self.runs.clear()
        self._unwanted.clear()
        self._carry = []
        self.consumer.unassign()

    def warm_up(self, topics: Iterable[str], timeout_s: float) -> None:
        """Learn leaders and open connections before the first take, which would otherwise cost about a second."""
        with self._client() as client:
            for topic in meant(client, tuple(topics), timeout_s):
                partitions = client.list_topics(topic, timeout_s).topics[topic].partitions
                for number in {p.leader: n for n, p in partitions.items() if p.leader >= 0}.values():
                    client.get_watermark_offsets(TopicPartition(topic, number), timeout_s, cached=False)


def _report(error: KafkaError, run: Run) -> None:
    if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  (the client's own name for it)
        return
    where = f"{run.topic}-{run.tp.partition} at {run.position}"
    run.out_of_range = run.out_of_range or error.code() in _OUT_OF_RANGE
    _log.error("%s cannot be read: %s", where, error)
