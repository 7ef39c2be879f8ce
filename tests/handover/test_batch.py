"""What a batch hands out while partitions are being given up under it."""

from dataclasses import dataclass

import pytest

from autoscaler.handover.records import Tp
from autoscaler.worker.delivery import Batch, Intake, Lease, Run


@dataclass
class Record:
    """Stands for the client's message: the batch only passes it on."""

    number: int

    def offset(self) -> int:
        return self.number


def _run(partition: int) -> Run:
    return Run(tp=Tp("id", partition), topic="t", epoch=1, position=0, processed=0, committed=0)


def _batch(*runs: Run) -> Batch:
    lease = Lease(until=float("inf"))
    return Batch([(Record(i), run) for i, run in enumerate(runs)], lease, lambda: 0.0)  # type: ignore[misc]


def test_a_partition_given_up_before_its_first_record_is_not_in_hand() -> None:
    kept, lost = _run(0), _run(1)
    batch = _batch(kept, lost, lost, lost, kept)
    seen = []
    for record in batch:
        lost.stopping = True
        seen.append(record.offset())
    assert seen == [0, 4]
    assert not lost.handed  # so it can be released at once, not only when the batch ends
    assert batch.held_back
    assert [run for _, run in batch.handed_out()] == [kept, kept]


@pytest.mark.parametrize("handed", [1, 2, 3])
def test_a_partition_given_up_midway_stays_in_hand_until_the_batch_ends(handed: int) -> None:
    kept, lost = _run(0), _run(1)
    batch = _batch(lost, lost, lost, kept, lost)
    seen = []
    for record in batch:
        seen.append(record.offset())
        lost.stopping = len(seen) >= handed
    assert lost.handed
    assert [m.offset() for m, run in batch.handed_out() if run is lost] == list(range(handed))  # a prefix, without a gap
    assert seen == [*range(handed), 3]


def test_a_lapse_in_the_batch_ends_it_and_leaves_the_rest() -> None:
    run = _run(0)
    lease = Lease(until=10.0)
    clock = [1.0]
    batch = Batch([(Record(i), run) for i in range(4)], lease, lambda: clock[0], lambda: clock[0])  # type: ignore[misc]
    seen = []
    for record, now in zip(batch, [9.5, 11.0, 12.0], strict=False):
        seen.append(record.offset())
        clock[0] = now
    assert seen == [0, 1]
    assert len(batch.rest()) == 2


def test_a_partition_taken_away_while_in_hand_ends_the_batch_after_the_record_in_work() -> None:
    kept, lost = _run(0), _run(1)
    batch = _batch(lost, kept, lost, kept)
    seen = []
    for record in batch:
        seen.append(record.offset())
        lost.stopping = batch.cut = True
    assert seen == [0]
    assert [run for _, run in batch.rest()] == [kept, lost, kept]


def test_the_record_in_work_names_its_partition_while_the_batch_is_iterated() -> None:
    one, two = _run(0), _run(1)
    batch = _batch(one, two, one)
    assert batch.in_work() == frozenset()
    seen = [batch.in_work() for _ in batch]
    assert seen == [{one.tp}, {two.tp}, {one.tp}]


def test_an_application_that_takes_the_whole_batch_first_may_be_at_any_record_of_it() -> None:
    batch = _batch(_run(0), _run(1))
    assert len(list(batch)) == 2
    assert batch.in_work() == {Tp("id", 0), Tp("id", 1)}


def test_an_application_that_works_on_several_records_names_those_that_failed() -> None:
    one, two, three = _run(0), _run(1), _run(2)
    batch = _batch(one, two, three, one)
    assert len(list(batch)) == 4
    batch.failed_in("t", 0)
    assert batch.in_work() == {one.tp}
    batch.failed_in("t", 2)
    assert batch.in_work() == {one.tp, three.tp}


def test_an_exception_between_a_mark_and_its_record_leaves_no_partition_in_hand() -> None:
    """A signal's handler runs wherever it likes; a mark that stayed would keep the partition from ever being released."""
    run = _run(0)
    intake = Intake(None, lambda: 0.0, batch_size_bytes=1, wait_time_s=0.0, idle_s=1.0)  # type: ignore[arg-type]

    def interrupted() -> float:
        raise KeyboardInterrupt

    intake._batch = batch = Batch([(Record(0), run)], Lease(until=1.0), lambda: 0.0, interrupted)  # type: ignore[list-item]
    with pytest.raises(KeyboardInterrupt):
        next(iter(batch))
    assert run.handed
    intake.finish(processed=False)
    assert not run.handed
