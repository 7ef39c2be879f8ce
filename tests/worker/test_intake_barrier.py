"""A partition that is given up and comes back while a fetch is under way: what that brings is not taken for what comes next."""

import threading
import time
from collections.abc import Sequence

from autoscaler.handover.records import Tp
from autoscaler.worker.delivery import Intake, Lease, Run
from tests.until import let_pass


class Record:
    """Stands for the client's message."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def error(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def value(self) -> bytes:
        return b"x"

    def __len__(self) -> int:
        return 1


class Client:
    """Its first fetch has record 7 in hand when the partition is stopped; once that is back it gives 5, 6 and 7."""

    def __init__(self) -> None:
        self.fetching, self.arrives = threading.Event(), threading.Event()
        self.assigned: list[object] = []
        self.fetched = 0

    def consume(self, _most: int, timeout: float) -> Sequence[Record]:
        self.fetched += 1
        if self.fetched == 1:
            self.fetching.set()
            assert self.arrives.wait(30)
            return [Record(7)]
        if self.assigned:
            self.assigned.clear()
            return [Record(5), Record(6), Record(7)]
        let_pass(timeout)
        return []

    def assignment(self) -> list[object]:
        return []

    def incremental_assign(self, partitions: list[object]) -> None:
        self.assigned += partitions

    def incremental_unassign(self, partitions: list[object]) -> None:
        """Forget nothing: what was asked for is on its way."""

    def position(self, _partitions: list[object]) -> list[object]:
        return []


def run(epoch: int, *, position: int, processed: int) -> Run:
    return Run(tp=Tp("T", 0), topic="t", epoch=epoch, position=position, processed=processed, committed=processed)


def test_a_partition_that_comes_back_loses_no_record_to_an_earlier_fetch() -> None:
    client = Client()
    intake = Intake(client, time.monotonic, batch_size_bytes=3, wait_time_s=1.0, idle_s=9.0)  # type: ignore[arg-type]
    old = run(1, position=7, processed=5)
    intake.runs["t", 0] = old
    got: list[int] = []

    def work() -> None:
        lease = Lease(until=float("inf"))
        while len(got) < 3:
            if (batch := intake.fetch(lease)) is not None:
                got.extend(int(m.offset() or 0) for m in batch)
                intake.finish()

    application = threading.Thread(target=work, daemon=True)
    application.start()
    assert client.fetching.wait(30)
    intake.stop([old])
    intake.let_go()
    threading.Timer(0.2, client.arrives.set).start()
    intake.start([run(2, position=5, processed=5)])
    application.join(30)
    assert got == [5, 6, 7]
