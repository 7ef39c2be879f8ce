"""By when a backlog is worked off, by when the first record of it may be deleted, and what of that is a risk."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.group.history import History
from autoscaler.core.load.consumption import WINDOW_S, Consumption
from autoscaler.core.load.retention_risk import Left, Risk, find_risks, time_to_close, time_to_loss
from autoscaler.model import Moment, PartitionLoad, Retention, TopicPartition
from tests.builders import T0, TOPIC, load, moment, snapshot, tp

DAY = 86400.0


def behind(**changes: object) -> PartitionLoad:
    """Return a partition with 100 bytes/s that is 600 s behind."""
    return replace(load(tp(0), 100.0, lag_records=6000, lag_bytes=60_000.0, lag_s=600.0), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "kept", "left", "why"),
    [
        ({}, Retention(seconds=1000.0, bytes=math.inf), Left(400.0, 1000.0), "by time"),
        ({}, Retention(seconds=500.0, bytes=math.inf), Left(0.0, 500.0), "over, not below zero"),
        ({}, Retention(seconds=math.inf, bytes=70_000.0), Left(100.0, 700.0), "room for 10 kB more"),
        ({}, Retention(seconds=math.inf, bytes=50_000.0), Left(0.0, 500.0), "no room any more"),
        ({}, Retention(seconds=1000.0, bytes=70_000.0), Left(100.0, 700.0), "the sooner one"),
        ({}, Retention(seconds=650.0, bytes=70_000.0), Left(50.0, 650.0), "the sooner one"),
        ({}, Retention(seconds=math.inf, bytes=math.inf), Left(math.inf, math.inf), "never"),
        ({"lag_s": None}, Retention(seconds=1000.0, bytes=math.inf), None, "nobody knows how old it is"),
        ({"lag_s": None}, Retention(seconds=1000.0, bytes=70_000.0), Left(100.0, 700.0), "at the latest then"),
        ({"lag_s": float("nan")}, Retention(seconds=1000.0, bytes=math.inf), None, "no number"),
        ({"lag_bytes": None}, Retention(seconds=math.inf, bytes=70_000.0), None, "nobody knows how large it is"),
        ({"bytes_per_s": None}, Retention(seconds=math.inf, bytes=70_000.0), None, "nobody knows how fast it grows"),
        ({"bytes_per_s": math.inf}, Retention(seconds=math.inf, bytes=70_000.0), None, "no number"),
        ({"bytes_per_s": 0.0}, Retention(seconds=math.inf, bytes=70_000.0), Left(math.inf, math.inf), "nothing is added"),
        ({"bytes_per_s": 0.0}, Retention(seconds=math.inf, bytes=60_000.0), Left(0.0, 0.0), "it is too large as it is"),
        ({"bytes_per_s": 0.0}, Retention(seconds=1000.0, bytes=70_000.0), Left(400.0, 1000.0), "older it gets all the same"),
    ],
)
def test_when_the_first_unread_record_may_be_deleted(
    changes: dict[str, object], kept: Retention, left: Left | None, why: str
) -> None:
    assert time_to_loss(behind(**changes), kept) == left, why


@pytest.mark.parametrize(
    ("changes", "drained", "seconds", "why"),
    [
        ({}, 30.0, 300.0, "20 records/s more than arrive"),
        ({}, 10.0, math.inf, "as many as arrive"),
        ({}, 0.0, math.inf, "none"),
        ({}, None, None, "nobody knows what is read"),
        ({"lag_records": 0}, None, 0.0, "there is nothing"),
        ({"lag_records": None}, 30.0, None, "nobody knows how much there is"),
        ({"records_per_s": None}, 30.0, None, "nobody knows what arrives"),
        ({"records_per_s": 0.0}, 30.0, 200.0, "nothing arrives"),
    ],
)
def test_when_the_backlog_is_worked_off(
    changes: dict[str, object], drained: float | None, seconds: float | None, why: str
) -> None:
    assert time_to_close(behind(**changes), drained) == seconds, why


def risks(*seen: PartitionLoad, kept: Retention, still: frozenset[TopicPartition] = frozenset()) -> tuple[Risk, ...]:
    """Return what is at risk at the last of measurements that are ten seconds apart."""
    found: tuple[Risk, ...] = ()
    consumption, since = Consumption(), dict[TopicPartition, float]()
    for n, one in enumerate(seen):
        measured = snapshot([one], at=T0 + 10 * n)
        consumption = consumption.measured(measured, moment(T0 + 10 * n))
        found, late = find_risks(measured, {TOPIC: kept}, consumption, since, still=still, near_s=3600.0, tolerance=0.1)
        since = dict(late)
    return found


def reading(per_s: float, **changes: object) -> list[PartitionLoad]:
    """Return measurements over the window, so many records per second being committed."""
    return [behind(committed=int(100 + per_s * 10 * n), **changes) for n in range(int(WINDOW_S / 10) + 1)]


@pytest.mark.parametrize(
    ("per_s", "lag_s", "kept_s", "at_risk", "why"),
    [
        (30.0, 600.0, 1000.0, False, "300 s to close, 400 s to loss"),
        (20.0, 600.0, 1000.0, True, "600 s to close, 400 s to loss"),
        (0.0, 600.0, 1000.0, True, "not gained on"),
        (50.0, 910.0, 1000.0, True, "in the last tenth however fast it is read"),
        (50.0, 10 * DAY - 3700, 10 * DAY, False, "an hour and a bit is left, and it is read fast enough"),
        (50.0, 10 * DAY - 3500, 10 * DAY, True, "less than an hour"),
        (0.0, 600.0, 10 * DAY, False, "far from the end: what it takes to be through by then is within the noise"),
    ],
)
def test_what_is_at_risk(per_s: float, lag_s: float, kept_s: float, at_risk: bool, why: str) -> None:  # noqa: FBT001
    found = risks(*reading(per_s, lag_s=lag_s), kept=Retention(seconds=kept_s, bytes=math.inf))
    assert bool(found) == at_risk, why


def test_a_risk_says_when_and_what_it_would_take() -> None:
    (risk,) = risks(*reading(20.0), kept=Retention(seconds=1000.0, bytes=math.inf))
    assert risk == Risk(partition=tp(0), close_s=600.0, loss_s=400.0, needed_bytes_per_s=250.0)


def test_how_fast_it_is_read_is_known_after_half_a_minute_and_forgotten_with_its_offset() -> None:
    kept = Retention(seconds=1000.0, bytes=math.inf)
    assert risks(*reading(0.0)[:-1], kept=kept) == ()
    assert risks(*reading(0.0), kept=kept) != ()
    assert risks(*reading(0.0), behind(committed=50), kept=kept) == (), "set back"
    (late,) = risks(*reading(0.0)[:-1], behind(committed=-1, lag_s=950.0), kept=kept)
    assert late.close_s is None, "nothing committed says nothing of how fast"


def test_how_fast_it_was_read_before_it_fell_behind_says_nothing() -> None:
    calm = [behind(committed=100 + 100 * n, lag_records=0, lag_s=0.0) for n in range(9)]
    late = [behind(committed=900) for _ in range(4)]
    kept = Retention(seconds=1000.0, bytes=math.inf)
    assert risks(*calm, *late[:3], kept=kept) == ()
    assert [r.close_s for r in risks(*calm, *late, kept=kept)] == [math.inf]


def test_a_rate_is_over_the_last_minute_at_most() -> None:
    long = [behind(committed=100 + (0 if n < 60 else 300 * (n - 60))) for n in range(67)]
    assert risks(*long, kept=Retention(seconds=1000.0, bytes=math.inf)) == ()


def test_a_wall_clock_that_is_set_changes_no_rate() -> None:
    kept, consumption, history = {TOPIC: Retention(seconds=1000.0, bytes=math.inf)}, Consumption(), History()
    for n, one in enumerate(reading(20.0)):
        wall = T0 + 10 * n - (3600 if n == 3 else 0)
        seen = snapshot([one], at=wall)
        consumption = consumption.measured(seen, Moment(now=10.0 * n, wall=wall))
        found, late = find_risks(seen, kept, consumption, history.behind_since, still=(), near_s=3600.0, tolerance=0.1)
        history = replace(history, behind_since=late)
    assert [r.close_s for r in found] == [600.0]


def test_what_stands_still_is_left_out() -> None:
    assert risks(*reading(0.0), kept=Retention(seconds=610.0, bytes=math.inf), still=frozenset({tp(0)})) == ()


def test_the_soonest_comes_first() -> None:
    loads = [replace(behind(lag_s=900.0 + n), partition=tp(n)) for n in range(3)]
    kept = {TOPIC: Retention(seconds=1000.0, bytes=math.inf)}
    found, _ = find_risks(snapshot(loads), kept, Consumption(), {}, still=(), near_s=3600.0, tolerance=0.1)
    assert [r.partition for r in found] == [tp(2), tp(1), tp(0)]


amounts = st.one_of(st.none(), st.floats(0, 1e12), st.sampled_from([math.nan, math.inf, -1.0]))
limits = st.one_of(st.floats(0, 1e9), st.just(math.inf))


@given(amounts, amounts, amounts, st.one_of(st.none(), st.integers(0, 10**9)), limits, limits, st.booleans())
def test_times_are_never_negative_and_what_is_unknown_is_never_at_risk(  # noqa: PLR0917  a value for each
    lag_s: float | None,
    lag_bytes: float | None,
    rate: float | None,
    lag: int | None,
    seconds: float,
    size: float,
    known: bool,  # noqa: FBT001
) -> None:
    one = load(tp(0), rate, lag_s=lag_s, lag_bytes=lag_bytes, lag_records=lag, known=known)
    kept = Retention(seconds=seconds, bytes=size)
    left = time_to_loss(one, kept)
    assert left is None or (left.seconds >= 0 and left.span_s >= 0)
    found = risks(one, one, kept=kept)
    if not known or not lag or left is None or left.seconds == math.inf:
        assert found == ()
    assert all(r.loss_s >= 0 and (r.close_s is None or r.close_s >= 0) for r in found)
