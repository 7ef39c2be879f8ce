"""Lags that nobody can work off: which are looked at, and what is taken out of the measurement."""

from collections.abc import Mapping

import pytest

from autoscaler.core.load.transaction_markers import Standing, standing, without, worth_a_look
from autoscaler.model import LoadSnapshot, Span, TopicPartition
from tests.builders import T0, load, snapshot, tp


def behind(by: int, *, at: float, committed: int = 100, **changes: object) -> LoadSnapshot:
    return snapshot([load(tp(0), 10.0, committed=committed, lag_records=by, log_end=committed + by, **changes)], at)


def seen(*measured: LoadSnapshot) -> Standing:
    found: Standing = {}
    for one in measured:
        found = standing(found, one, one.sample_ts)
    return found


@pytest.mark.parametrize(
    ("measured", "wanted", "why"),
    [
        ([behind(1, at=T0), behind(1, at=T0 + 5)], {tp(0): Span(100, 101)}, "unread for five seconds"),
        ([behind(1, at=T0), behind(1, at=T0 + 4.9)], {}, "a commit may still come"),
        ([behind(1, at=T0), behind(1, at=T0 + 4), behind(1, at=T0 + 8, committed=101)], {}, "it goes on, one behind"),
        ([behind(1, at=T0), behind(2, at=T0 + 8)], {}, "something has arrived"),
        ([behind(0, at=T0), behind(0, at=T0 + 8)], {}, "nothing is unread"),
        ([behind(1, at=T0, known=False), behind(1, at=T0 + 8, known=False)], {}, "nobody knows"),
        ([behind(7, at=T0, committed=-1), behind(7, at=T0 + 8, committed=-1)], {}, "a new group, not an end"),
        ([behind(5, at=T0, committed=90, log_start=95), behind(5, at=T0 + 6, committed=90, log_start=95)],
         {tp(0): Span(95, 100)}, "from where the log begins"),
    ],
)  # fmt: skip
def test_what_is_looked_at(measured: list[LoadSnapshot], wanted: Mapping[TopicPartition, Span], why: str) -> None:
    assert worth_a_look(seen(*measured), measured[-1].sample_ts) == wanted, why


def test_a_gap_in_measuring_forgets_since_when() -> None:
    """What happened meanwhile nobody saw."""
    gone = snapshot([load(tp(0), None, committed=None, lag_records=None)], T0 + 3)
    assert worth_a_look(seen(behind(1, at=T0), gone, behind(1, at=T0 + 6)), T0 + 6) == {}


def test_markers_are_taken_out_and_nothing_else() -> None:
    both = snapshot([*behind(1, at=T0).loads, load(tp(1), 10.0, lag_records=4, lag_bytes=40.0, lag_s=9.0, log_end=104)], T0)
    read = without(both, {tp(0): Span(100, 101), tp(1): Span(100, 103)})
    assert [(x.lag_records, x.lag_bytes, x.lag_s) for x in read.loads] == [(0, 0.0, 0.0), (4, 40.0, 9.0)]
    assert without(both, {}) is both
