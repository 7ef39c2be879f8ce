"""Times as an operator writes them, with the two nights of a year in which clocks do not tell them."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from autoscaler.cli.times import TimeError, moment, shown, zone_of

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 24, 15, 0, tzinfo=UTC)  # 16:00 in Berlin, which has winter time


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("now", "2026-11-24T15:00:00"),
        ("2h", "2026-11-24T13:00:00"),
        ("2 hours ago", "2026-11-24T13:00:00"),
        ("90m", "2026-11-24T13:30:00"),
        ("1.5h", "2026-11-24T13:30:00"),
        ("3d", "2026-11-21T15:00:00"),
        ("1w", "2026-11-17T15:00:00"),
        ("15:30", "2026-11-24T14:30:00"),  # by clocks in Berlin
        ("9:05", "2026-11-24T08:05:00"),
        ("16:30:05", "2026-11-23T15:30:05"),  # today it has not been yet
        ("2026-11-24", "2026-11-23T23:00:00"),
        ("2026-11-24T12:00", "2026-11-24T11:00:00"),
        ("2026-11-24 12:00:30.5", "2026-11-24T11:00:30.500000"),
        ("2026-07-01T12:00", "2026-07-01T10:00:00"),  # summer time then, though it is winter now
        ("2026-11-24T12:00Z", "2026-11-24T12:00:00"),
        ("2026-11-24T12:00+05:30", "2026-11-24T06:30:00"),
        ("2026-11-24 09:00 America/New_York", "2026-11-24T14:00:00"),
        ("2026-11-24 09:00 UTC", "2026-11-24T09:00:00"),
        ("2026-10-25T02:30+02:00", "2026-10-25T00:30:00"),  # the first of the two
        ("2026-10-25T02:30+01:00", "2026-10-25T01:30:00"),
    ],
)
def test_a_time_is_understood_in_a_zone_and_on_this_machine(text: str, said: str, in_berlin: None) -> None:
    for zone in (BERLIN, None):
        assert moment(text, NOW, zone).isoformat() == f"{said}+00:00", zone


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2026-03-29T02:30", r"did not exist in .*: its clocks skipped it; 2026-03-29T03:30:00\+02:00 came instead"),
        ("2026-10-25T02:30", r"was twice in .*: write 2026-10-25T02:30:00\+02:00 or 2026-10-25T02:30:00\+01:00"),
        ("2026-03-29 02:30 Europe/Berlin", "did not exist in Europe/Berlin"),
        ("2026-11-24 09:00 Mars/Olympus", "there is no time zone 'Mars/Olympus'"),
        ("2026-11-25", "lies ahead: it is 2026-11-24 16:00:00 CET now"),
        ("yesterday", "is no time: write 2h"),
        ("120", "is no time"),
        ("25:00", "is no time"),
        ("2026-02-30", "is no time"),
        ("", "is no time"),
        ("-2h", "is no time"),
    ],
)
def test_a_time_that_is_none_is_refused_with_what_to_write(text: str, said: str, in_berlin: None) -> None:
    for zone in (BERLIN, None):
        with pytest.raises(TimeError, match=said):
            moment(text, NOW, zone)


def test_times_are_shown_with_the_offset_of_their_season() -> None:
    assert shown(datetime(2026, 7, 1, 12, tzinfo=UTC), BERLIN) == "2026-07-01 14:00:00 CEST"
    assert shown(NOW, BERLIN) == "2026-11-24 16:00:00 CET"
    assert shown(NOW, zone_of("utc")) == "2026-11-24 15:00:00 UTC"
    with pytest.raises(TimeError, match="IANA name"):
        zone_of("Middle/Earth")
