"""The layer of threads over batches: order within a key, and only what has ended counts."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.handover.records import Tp
from autoscaler.worker import BatchReport, Fail, OnError, RefusedError, Skip, process
from autoscaler.worker.delivery import Batch, Lease, Run
from autoscaler.worker.key_ordered_dispatch import KeyOrderedDispatch
from tests.until import let_pass, until

Where = tuple[int, int]


@dataclass(frozen=True)
class Record:
    """Stands for the client's message."""

    in_partition: int
    number: int
    of_key: bytes | None = None

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self.in_partition

    def offset(self) -> int:
        return self.number

    def key(self) -> bytes | None:
        return self.of_key

    def timestamp(self) -> tuple[int, int]:
        return (1, 1_000)

    def __len__(self) -> int:
        return 10

    @property
    def where(self) -> Where:
        return self.in_partition, self.number


@dataclass
class Desk:
    """Stands for the consumer: gives real batches, and counts what was handed out of those that were valid to their end."""

    batches: list[list[Record]]
    stopping: bool = False
    over: bool = False
    counted: list[Where] = field(default_factory=list)
    alive: list[float] = field(default_factory=list)
    runs: dict[int, Run] = field(default_factory=dict)
    batch: Batch | None = None
    partitions: frozenset[int] = frozenset({0, 1})

    def valid(self) -> bool:
        return not self.over

    def keep_alive(self, ago_s: float) -> None:
        self.alive.append(ago_s)

    def run(self, partition: int) -> Run:
        made = Run(tp=Tp("id", partition), topic="t", epoch=7, position=0, processed=0, committed=0)
        return self.runs.setdefault(partition, made)

    def __iter__(self) -> Iterator[Batch]:
        for records in self.batches:
            entries = [(r, self.run(r.in_partition)) for r in records]
            self.batch = Batch(entries, Lease(until=float("inf")), lambda: 0.0)  # type: ignore[arg-type]
            yield self.batch
            if self.over:
                return
            self.counted += [m.where for m, _ in self.batch.handed_out()]  # type: ignore[attr-defined]
            if self.stopping:
                return


@dataclass
class Seen:
    """A handler that notes what is in work and what has ended."""

    do: Callable[[Record], None] = lambda _r: None
    began: list[Record] = field(default_factory=list)
    ended: list[Record] = field(default_factory=list)
    in_work: set[tuple[int, bytes | None]] = field(default_factory=set)
    together: int = 0
    overlaps: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, record: Record, _batch: Batch) -> None:
        key = record.in_partition, record.of_key
        with self.lock:
            self.overlaps += key in self.in_work
            self.in_work.add(key)
            self.together = max(self.together, len(self.in_work))
            self.began.append(record)
        try:
            self.do(record)
            with self.lock:
                self.ended.append(record)
        finally:
            with self.lock:
                self.in_work.discard(key)

    def in_order(self) -> bool:
        last: dict[tuple[int, bytes | None], int] = {}
        for r in self.began:
            key = r.in_partition, r.of_key
            if last.get(key, -1) >= r.number:
                return False
            last[key] = r.number
        return True


def run(desk: Desk, seen: Seen, threads: int, on_error: OnError | None = None, **more: object) -> None:
    before = threading.active_count()
    try:
        process(desk, seen, threads=threads, on_error=on_error, **more)  # type: ignore[arg-type]
    finally:
        assert threading.active_count() == before, "no thread is left behind"
        assert not seen.in_work


KEYS = st.sampled_from([None, b"", b"a", b"b", b"c"])
BATCHES = st.lists(st.lists(st.tuples(st.integers(0, 1), KEYS), max_size=25), min_size=1, max_size=3)
PACE = st.lists(st.sampled_from([0.0, 0.0, 0.0002, 0.001]), min_size=1, max_size=9)


def numbered(drawn: list[list[tuple[int, bytes | None]]]) -> list[list[Record]]:
    ends = {0: 0, 1: 0}
    out = []
    for batch in drawn:
        records = []
        for partition, key in batch:
            records.append(Record(partition, ends[partition], key))
            ends[partition] += 1
        out.append(records)
    return out


def paced(pace: list[float]) -> Callable[[Record], None]:
    return lambda r: let_pass(pace[(7 * r.number + r.in_partition) % len(pace)])


@given(BATCHES, PACE, st.integers(1, 6))
def test_records_of_a_key_are_processed_in_order_each_once_and_never_two_at_once(
    drawn: list[list[tuple[int, bytes | None]]], pace: list[float], threads: int
) -> None:
    desk, seen = Desk(numbered(drawn)), Seen(paced(pace))
    run(desk, seen, threads)
    assert seen.in_order()
    assert not seen.overlaps
    every = sorted(r.where for batch in desk.batches for r in batch)
    assert sorted(r.where for r in seen.ended) == every == sorted(desk.counted)


@given(BATCHES, PACE, st.integers(1, 6), st.sampled_from(["raise", "lapse", "cut", "stop", "give up"]), st.data())
def test_only_what_has_ended_is_counted_whatever_happens_at_a_record(
    drawn: list[list[tuple[int, bytes | None]]], pace: list[float], threads: int, what: str, data: st.DataObject
) -> None:
    desk = Desk(numbered(drawn))
    every = [r for batch in desk.batches for r in batch]
    fatal = data.draw(st.sampled_from(every)) if every else None
    slowly = paced(pace)

    def do(record: Record) -> None:
        slowly(record)
        if record != fatal:
            return
        assert desk.batch is not None
        if what == "raise":
            raise ValueError
        if what == "cut":
            desk.batch.cut = True
        desk.over = desk.over or what == "lapse"
        desk.stopping = desk.stopping or what == "stop"
        desk.run(0).stopping = what == "give up"

    seen = Seen(do)
    try:
        run(desk, seen, threads)
    except ValueError:
        assert fatal is not None
        assert desk.batch is not None
        assert desk.batch.in_work() == {Tp("id", fatal.in_partition)}
    assert not seen.overlaps
    assert seen.in_order()
    assert set(desk.counted) <= {r.where for r in seen.ended}
    for partition in (0, 1):  # a prefix, without a gap
        counted = sorted(n for p, n in desk.counted if p == partition)
        if what != "cut":  # of which the rest would come with the next batch
            assert counted == list(range(len(counted)))


@pytest.mark.parametrize("threads", [2, 8])
def test_as_many_records_are_in_work_at_once_as_there_are_threads(threads: int) -> None:
    met = threading.Barrier(threads)
    desk = Desk([[Record(0, n, bytes([n])) for n in range(threads)]])
    seen = Seen(lambda _r: _meet(met))
    run(desk, seen, threads)
    assert seen.together == threads


def _meet(met: threading.Barrier) -> None:
    met.wait(30)


def test_a_hot_key_keeps_the_batch_from_handing_out_more_than_can_wait() -> None:
    """Otherwise a batch that must end early would first work off all of them."""
    desk = Desk([[Record(0, n, b"hot") for n in range(50)]])
    handed: list[int] = []

    def do(_r: Record) -> None:
        assert desk.batch is not None
        let_pass(0.001)
        handed.append(len(desk.batch.handed_out()) - len(seen.ended))

    seen = Seen(do)
    run(desk, seen, 4)
    assert 1 < max(handed) <= 1 + 4


def test_a_lease_that_ends_between_handing_out_and_handling_is_noticed() -> None:
    desk = Desk([[Record(0, n, b"hot") for n in range(10)]])

    def do(_r: Record) -> None:
        assert desk.batch is not None
        until("three are handed out: others wait for their key", desk.batch.handed_out, lambda out: len(out) >= 3, every_s=0.001)
        desk.over = True

    seen = Seen(do)
    run(desk, seen, 2)
    assert [r.number for r in seen.ended] == [0]
    assert desk.counted == []


def test_an_error_lets_records_in_work_end_names_its_partition_and_hands_out_nothing_more() -> None:
    desk = Desk([[Record(n % 2, n, bytes([n])) for n in range(40)]])
    met = threading.Barrier(2)

    def do(r: Record) -> None:
        if r.number < 2:
            met.wait(30)
        if r.number == 0:
            raise LookupError(r.number)
        let_pass(0.02)

    seen = Seen(do)
    with pytest.raises(LookupError):
        run(desk, seen, 2)
    assert [r.number for r in seen.ended] == [1]
    assert desk.batch is not None
    assert desk.batch.in_work() == {Tp("id", 0)}
    assert desk.counted == []


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_is_no_exception_ends_everything_and_is_neither_skipped_nor_blamed_on_a_partition(
    threads: int, kind: type[BaseException]
) -> None:
    desk = Desk([[Record(0, n, bytes([n])) for n in range(9)]])

    def do(r: Record) -> None:
        if r.number == 4:
            raise kind

    with pytest.raises(kind):
        run(desk, Seen(do), threads, Skip(retries=5, pause_s=0))
    assert desk.batch is not None
    assert not desk.batch._failed
    assert desk.counted == []


@pytest.mark.parametrize("over", [False, True])
def test_a_record_that_a_sink_refuses_is_never_skipped(*, over: bool) -> None:
    """Its new owner may not have processed it yet."""
    desk = Desk([[Record(0, n) for n in range(5)]])
    tries: list[int] = []

    def do(r: Record) -> None:
        tries.append(r.number)
        if r.number == 2:
            desk.over = over
            raise RefusedError

    if over:
        run(desk, Seen(do), 2, Skip(retries=5, pause_s=0))
    else:
        with pytest.raises(RefusedError):
            run(desk, Seen(do), 2, Skip(retries=5, pause_s=0))
    assert tries == [0, 1, 2]
    assert desk.counted == []


def test_skipped_records_are_tried_counted_logged_and_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk([[Record(0, n) for n in range(5)]])
    tries: list[int] = []

    def do(r: Record) -> None:
        if r.number in {1, 3}:
            tries.append(r.number)
            if tries.count(r.number) < 3 or r.number == 1:
                msg = f"no {r.number}"
                raise ValueError(msg)

    told: list[BatchReport] = []
    run(desk, Seen(do), 2, Skip(retries=2, pause_s=0.001), metrics=told.append)
    assert tries == [1, 1, 1, 3, 3, 3]
    assert desk.counted == [(0, n) for n in range(5)]
    assert (told[0].records, told[0].errors, told[0].skipped, told[0].dead_lettered) == (5, 5, 1, 0)
    said = [r for r in caplog.records if "skipped" in r.message]
    assert [r.message for r in said] == ["t-0 at 1 is skipped after 3 tries"]
    assert "no 1" in str(said[0].exc_info)


def test_an_error_that_says_nothing_about_the_record_fails_instead_of_skipping() -> None:
    desk = Desk([[Record(0, n) for n in range(3)]])
    tries: list[int] = []

    def do(r: Record) -> None:
        tries.append(r.number)
        raise ValueError if r.number == 0 else ConnectionError

    with pytest.raises(ConnectionError):
        run(desk, Seen(do), 1, Skip(errors=(ValueError,), retries=1, pause_s=0))
    assert tries == [0, 0, 1, 1]
    assert desk.counted == []


def test_a_pause_before_another_try_ends_when_another_record_fails() -> None:
    desk = Desk([[Record(0, 0), Record(1, 0)]])
    paused = threading.Event()

    def do(r: Record) -> None:
        if r.in_partition == 0:
            paused.set()
            raise ValueError
        paused.wait(30)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(desk, Seen(do), 2, Skip(retries=1, pause_s=3600))


def test_told_to_end_the_records_in_work_are_the_last() -> None:
    desk = Desk([[Record(0, n) for n in range(9)], [Record(0, 9)]])

    def do(r: Record) -> None:
        desk.stopping = r.number == 3

    run(desk, Seen(do), 1)
    assert desk.counted == [(0, n) for n in range(4)]


def test_a_batch_of_many_records_counts_as_begun_with_the_record_in_work() -> None:
    desk = Desk([[Record(0, n) for n in range(300)]])
    began = time.monotonic()
    run(desk, Seen(lambda _r: let_pass(0.001)), 1)
    assert len(desk.alive) > 2
    assert max(desk.alive) < (time.monotonic() - began) / 2


def test_a_record_that_is_stuck_is_not_hidden_by_others_that_end() -> None:
    """What is said to be alive is never younger than the record that has been in work for longest."""
    desk = Desk([[Record(0, 0, b"stuck"), *(Record(0, n, bytes([n % 9])) for n in range(1, 400))]])
    enough = threading.Event()

    def do(r: Record) -> None:
        if r.number == 0:
            enough.wait(30)
        let_pass(0.001)
        if r.number == 390:
            enough.set()

    run(desk, Seen(do), 2)
    ages = desk.alive[: len(desk.alive) - 1]  # the last may be after it
    assert len(ages) > 2
    assert ages == sorted(ages)


def test_a_hook_gets_what_a_batch_took_and_one_that_fails_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk([[Record(n % 2, n) for n in range(4)] for _ in range(3)])
    told: list[BatchReport] = []

    def hook(found: BatchReport) -> None:
        told.append(found)
        raise ValueError

    run(desk, Seen(lambda _r: let_pass(0.002)), 2, metrics=hook)
    assert len(desk.counted) == 12
    assert len([r for r in caplog.records if "metrics hook" in r.message]) == 1
    first = told[0]
    assert (first.records, first.payload_bytes, first.partitions) == (4, 40, 2)
    assert first.busy_s >= 4 * 0.002
    assert 0 < first.seconds < 60
    assert first.oldest_s is not None
    assert first.oldest_s > 1e9


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="threads"):
        process(Desk([]), Seen(), threads=0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="negative"):
        Fail(retries=-1)


def test_a_thread_that_waits_for_room_is_woken_by_stop() -> None:
    dispatch = KeyOrderedDispatch([Record(0, n) for n in range(5)], waiting=1)  # type: ignore[misc]
    assert dispatch.take() is not None
    waiting = threading.Thread(target=dispatch.take)
    waiting.start()
    dispatch.stop()
    waiting.join(30)
    assert not waiting.is_alive()
    assert not dispatch.pause(3600)
