"""The record of what a group has consumed: what it is told of, when, and what a wall clock that is set does to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.load.consumption import WINDOW_S, Consumption
from autoscaler.model import Moment, PartitionLoad
from tests.builders import T0, load, moment, snapshot, tp

# Offset and end of each of two partitions at one measurement; None: not read.
offsets = st.lists(st.tuples(*(st.one_of(st.none(), st.integers(-1, 50)),) * 2), min_size=1, max_size=60)


def loads(*committed: int | None) -> list[PartitionLoad]:
    return [load(tp(i), None if c is None else 10.0, committed=c, lag_records=3, log_end=99) for i, c in enumerate(committed)]


def run(rows: list[tuple[int | None, ...]], walls: list[float], every_s: float = 1.0) -> Consumption:
    seen = Consumption()
    for n, (row, wall) in enumerate(zip(rows, walls, strict=True)):
        seen = seen.measured(snapshot(loads(*row), at=wall), Moment(now=every_s * n + 0.25, wall=wall + 0.25))
    return seen


@given(offsets, st.data())
def test_how_the_wall_clock_is_set_changes_nothing(rows: list[tuple[int | None, ...]], data: st.DataObject) -> None:
    set_to = data.draw(st.lists(st.sampled_from([0.0, -3600.0, 900.0, -0.5]), min_size=len(rows), max_size=len(rows)))
    plain = [T0 + n for n in range(len(rows))]
    one, other = run(rows, plain), run(rows, [w + 10 * by + n / 64 for n, (w, by) in enumerate(zip(plain, set_to, strict=True))])
    assert (other.at, other.tracks, other.samples, other.whole_since) == (one.at, one.tracks, one.samples, one.whole_since)


@given(offsets)
def test_it_stays_small_and_in_order_and_rates_are_never_below_nothing(rows: list[tuple[int | None, ...]]) -> None:
    seen = run(rows, [T0 + n for n in range(len(rows))])
    assert len(seen.samples) <= 2 * (WINDOW_S + 1)
    assert [s.at for s in seen.samples] == sorted({s.at for s in seen.samples})
    assert all(rate is None or rate >= 0 for rate in (seen.rate(tp(0), 0.0), seen.rate(tp(1), 0.0), seen.records_per_s))


@pytest.mark.parametrize(
    ("set_by", "taken", "why"),
    [
        (0.0, True, "nothing happened"),
        (-600.0, True, "it looks as if it was measured in future: it was not"),
        (0.2, True, "it looks older than it is, and still younger than the one before"),
        (900.0, False, "it looks older than the one before: left out"),
    ],
)
def test_a_clock_that_is_set_between_measuring_and_deciding_costs_one_measurement_at_most(
    set_by: float,
    taken: bool,  # noqa: FBT001  a column
    why: str,
) -> None:
    first = Consumption().measured(snapshot(loads(10), at=T0), Moment(now=5.0, wall=T0))
    second = first.measured(snapshot(loads(20), at=T0 + 1), Moment(now=6.1, wall=T0 + 1.1 + set_by))
    assert (second is not first) == taken, why
    third = second.measured(snapshot(loads(30), at=T0 + 2 + set_by), Moment(now=7.1, wall=T0 + 2.1 + set_by))
    assert third.at == pytest.approx(7.0)
    assert third.tracks[tp(0)].committed == 30


def test_a_partition_that_comes_takes_nothing_from_the_rates_of_others() -> None:
    seen = Consumption()
    for n in range(41):
        row = loads(10 * n) if n < 20 else loads(10 * n, 500 + n)
        seen = seen.measured(snapshot(row, at=T0 + n), moment(T0 + n))
    assert (seen.rate(tp(0), 0.0), seen.rate(tp(1), 0.0), seen.records_per_s) == (10.0, None, None)


def test_a_partition_that_was_not_read_for_a_while_has_a_rate_from_when_it_was() -> None:
    seen = Consumption()
    for n in range(40):
        row = loads(10 * n if not 1 < n < 8 else None)
        seen = seen.measured(snapshot(row, at=T0 + n), moment(T0 + n))
    assert seen.rate(tp(0), 0.0) == 10.0
