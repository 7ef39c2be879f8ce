"""What is committed, and what becomes of an incarnation that a signal's handler interrupts while it commits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from autoscaler.errors import PermanentError
from autoscaler.handover.records import Tp
from autoscaler.worker.delivery import Lease, Run
from autoscaler.worker.offsets import Offsets
from autoscaler.worker.transactions import Outcome


@dataclass
class Client:
    """Takes every commit."""

    commits: list[dict[int, int]] = field(default_factory=list)

    def commit(self, offsets: Sequence[TopicPartition], may: Callable[[], bool]) -> Sequence[TopicPartition]:
        assert may()
        self.commits.append({x.partition: x.offset for x in offsets})
        return offsets


@dataclass
class Writes:
    """Transactions that end as told."""

    ends: Outcome | BaseException = Outcome.COMMITTED
    why: str = "fenced"
    over: bool = False
    offsets: list[dict[int, int]] = field(default_factory=list)

    def write(self, _outputs: object, offsets: Sequence[TopicPartition], _valid: Callable[[], bool]) -> Outcome:
        self.offsets.append({x.partition: x.offset for x in offsets})
        if isinstance(self.ends, BaseException):
            raise self.ends
        return self.ends


def run(partition: int, processed: int, committed: int) -> Run:
    return Run(tp=Tp("id", partition), topic="t", epoch=1, position=processed, processed=processed, committed=committed)


def made(client: Any = None, transactions: Any = None) -> tuple[Offsets, list[str]]:  # noqa: ANN401  (stand for clients)
    said: list[str] = []
    return Offsets(client, "uuid", Lease(until=10.0), lambda: 1.0, transactions, said.append), said


def reached(*runs: Run) -> Mapping[Run, int]:
    return {r: r.processed for r in runs}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), TimeoutError("a time limit")])
def test_an_exception_in_the_middle_of_a_transaction_ends_the_incarnation(error: BaseException) -> None:
    """Whether it was committed is known once the id has been taken; until then nothing may be committed."""
    offsets, said = made(transactions=Writes(ends=error))
    with pytest.raises(type(error)):
        offsets.commit_with((), reached(run(0, 121, 100)))
    assert said == ["an exception was raised in the middle of a transaction"]


def test_an_output_that_is_refused_ends_nothing() -> None:
    offsets, said = made(transactions=Writes(ends=PermanentError("too large")))
    mine = run(0, 121, 100)
    with pytest.raises(PermanentError):
        offsets.commit_with((), reached(mine))
    assert (said, mine.committed) == ([], 100)


def test_transactions_that_are_over_say_why() -> None:
    offsets, said = made(transactions=Writes(ends=Outcome.OVER))
    assert offsets.commit_with((), reached(run(0, 121, 100))) is Outcome.OVER
    assert said == ["fenced"]


def test_before_a_release_everything_fetched_is_committed_again_and_what_never_began_is_not() -> None:
    client = Client()
    offsets, _ = made(client)
    assert offsets.commit_last([run(0, 5, 5), run(1, 7, 6), unbegun := run(2, 3, -1)], [unbegun])
    assert client.commits == [{0: 5, 1: 7}]


def test_exactly_once_what_never_began_is_claimed_before_its_release() -> None:
    transactions = Writes()
    offsets, _ = made(transactions=transactions)
    assert offsets.commit_last([run(0, 5, 5), unbegun := run(2, 3, -1)], [unbegun])
    assert transactions.offsets == [{2: 3}]
    assert unbegun.committed == 3


def test_nothing_is_committed_after_the_lease() -> None:
    client = Client()
    offsets = Offsets(client, "uuid", Lease(until=1.0), lambda: 1.0, None, lambda _: None)  # type: ignore[arg-type]
    assert not offsets.commit([run(0, 5, 4)])
    assert client.commits == []
