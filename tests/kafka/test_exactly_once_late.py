"""Requests that come late, and a marker that a broker never writes: no output is seen twice or missing, whatever comes when."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler import jars
from tests.kafka.late import LATE, OFFSET, SKIPPED, WANTED, Seen, tried_late, tried_skipped
from tests.kafka.proxy import Proxied

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def proxied() -> Iterator[Proxied]:
    with Proxied() as broker:
        yield broker


@pytest.mark.parametrize("what", LATE)
def test_a_request_that_comes_late_changes_nothing(proxied: Proxied, what: str) -> None:
    assert tried_late(proxied, what) == WANTED[what]


@pytest.mark.parametrize(
    ("what", "found"),
    [
        ("late Produce", Seen(("a",), OFFSET)),
        ("late TxnOffsetCommit", Seen(("a", "b"), OFFSET - 4)),
        ("late EndTxn", Seen(("a", "b", "b", "c"), OFFSET)),
    ],
)
def test_one_producer_that_goes_on_would_lose_or_repeat_something(proxied: Proxied, what: str, found: Seen) -> None:
    """That the check above sees what it is for."""
    assert tried_late(proxied, what, renews=False) == found


@pytest.mark.slow
def test_a_partition_without_a_leader_for_a_moment_repeats_nothing(tmp_path: Path) -> None:
    assert tried_skipped(jars.KAFKA, tmp_path) == WANTED[SKIPPED]


@pytest.mark.slow
def test_a_marker_that_is_not_written_repeats_nothing_although_readers_stall(tmp_path: Path) -> None:
    """KAFKA-20734."""
    assert tried_skipped(jars.kafka("4.3.1"), tmp_path) == Seen(("x",), OFFSET, stalls=True)


@pytest.mark.slow
def test_one_producer_that_goes_on_would_repeat_something(tmp_path: Path) -> None:
    assert tried_skipped(jars.kafka("4.3.1"), tmp_path, renews=False) == Seen(("x", "a", "a", "b"), OFFSET)
