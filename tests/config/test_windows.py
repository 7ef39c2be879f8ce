"""Windows of the calendar, on ordinary days and on those that have an hour too few or too many."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from autoscaler.config.windows import is_open, problem_of

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")  # the last one turns by half an hour
CHANGES = (datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC), datetime(2026, 3, 8, tzinfo=UTC),
           datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 4, 5, tzinfo=UTC), datetime(2026, 10, 4, tzinfo=UTC))  # fmt: skip


def at(text: str, zone: str = "UTC", fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("cron", "zone", "minutes", "now", "is_it", "why"),
    [
        ("0 8 * * *", "UTC", 60, at("2026-01-05 07:59:59"), False, "a second too early"),
        ("0 8 * * *", "UTC", 60, at("2026-01-05 08:00:00"), True, "it begins with the minute"),
        ("0 8 * * *", "UTC", 60, at("2026-01-05 08:59:59.9"), True, "until the last moment"),
        ("0 8 * * *", "UTC", 60, at("2026-01-05 09:00:00"), False, "and not longer"),
        ("0 8 * * *", BERLIN, 60, at("2026-01-05 07:00:00"), True, "eight in Berlin is seven, in winter"),
        ("0 8 * * *", BERLIN, 60, at("2026-07-05 06:00:00"), True, "and six in summer"),
        ("0 8 * * *", BERLIN, 60, at("2026-07-05 08:00:00"), False, "so not eight"),
        ("0 22 * * 5", "UTC", 3 * 1440, at("2026-01-04 12:00:00"), True, "a weekend that began on Friday evening"),
        ("0 22 * * 5", "UTC", 3 * 1440, at("2026-01-06 12:00:00"), False, "is over on Tuesday"),
        ("0 8 * * 1-5", "UTC", 60, at("2026-01-04 08:30:00"), False, "a Sunday"),
        ("0 0 1 * *", "UTC", 1440, at("2026-02-01 23:59:00"), True, "the first of the month"),
        ("*/10 * * * *", "UTC", 5, at("2026-02-01 10:14:00"), True, "again and again"),
        ("*/10 * * * *", "UTC", 5, at("2026-02-01 10:15:00"), False, "with gaps"),
        ("*/10 * * * *", "UTC", 15, at("2026-02-01 10:19:00"), True, "overlapping ones leave none"),
        ("0 0 29 2 *", "UTC", 60, at("2026-02-28 00:30:00"), False, "a day that comes every four years"),
        ("0 0 29 2 *", "UTC", 60, at("2024-02-29 00:30:00"), True, "on that day"),
        ("30 2 * * *", BERLIN, 20, at("2026-03-29 03:10:00", BERLIN), True, "the hour is skipped: it begins after it"),
        ("30 2 * * *", BERLIN, 20, at("2026-10-25 02:35:00", BERLIN), True, "the hour comes twice: it begins the first time"),
        ("30 2 * * *", BERLIN, 20, at("2026-10-25 02:35:00", BERLIN, fold=1), False, "and not the second time"),
        ("30 2 * * *", BERLIN, 45, at("2026-10-25 02:10:00", BERLIN, fold=1), True, "time passes while clocks go back"),
    ],
)
def test_when_a_window_is_open(  # noqa: PLR0917  a row
    cron: str,
    zone: str,
    minutes: int,
    now: float,
    is_it: bool,  # noqa: FBT001
    why: str,
) -> None:
    assert is_open(cron, zone, minutes, now) == is_it, why


def first_times(zone: ZoneInfo, around: datetime, hour: int, minute: int) -> list[datetime]:
    """Return when clocks first show a time on the days around a date; where they skip it, when they go on."""
    found = []
    for days in range(-3, 3):
        day = around + timedelta(days=days)
        shown = datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001  what clocks show
        while (real := shown.replace(tzinfo=zone).astimezone(UTC)).astimezone(zone).replace(tzinfo=None) != shown:
            shown += timedelta(minutes=1)
        found.append(real)
    return found


@settings(deadline=None, derandomize=True)
@given(
    st.sampled_from(ZONES), st.sampled_from(CHANGES), st.integers(0, 23), st.integers(0, 59), st.integers(1, 1500),
    st.integers(0, 48 * 60),
)  # fmt: skip
@example("Europe/Berlin", CHANGES[1], 2, 30, 45, 24 * 60)
def test_around_changes_of_the_clock(  # noqa: PLR0917  a row
    zone: str, around: datetime, hour: int, minute: int, minutes: int, later: int
) -> None:
    now = around + timedelta(minutes=later - 12 * 60)
    starts = first_times(ZoneInfo(zone), around, hour, minute)
    expected = any(s <= now < s + timedelta(minutes=minutes) for s in starts)
    assert is_open(f"{minute} {hour} * * *", zone, minutes, now.timestamp()) == expected


@pytest.mark.parametrize(
    ("cron", "zone", "said"),
    [
        ("0 8 * * 1-5", "Europe/Berlin", None),
        ("0 8 * * MON-FRI", "UTC", None),
        ("0 0 L * *", "UTC", None),
        ("0 8 * *", "UTC", "five fields"),
        ("@daily", "UTC", "five fields"),
        ("61 8 * * *", "UTC", "Bad minute"),
        ("0 0 31 2,4 *", "UTC", "cannot be read: Bad day-of-month"),
        ("0 8 * * *", "Berlin", "time_zone 'Berlin' is not known here"),
        ("0 8 * * *", "", "is not known here"),
        ("0 8 * * *", "../../etc/passwd", "is not known here"),
    ],
)
def test_beginnings_that_cannot_be_read_are_named(cron: str, zone: str, said: str | None) -> None:
    found = problem_of(cron, zone)
    assert (found is None) == (said is None), found
    assert said is None or (found is not None and said in found)
