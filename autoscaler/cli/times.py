"""Times as an operator writes them: ``2h`` (ago), ISO, a time of day, with an offset, a zone's name, or by this machine's clocks.

A time that the clocks skipped, or showed twice, as when daylight saving begins and ends, is refused with what to write instead: a
guess would show another hour's decisions.
"""

import re
from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*(s|sec|seconds?|m|min|minutes?|h|hours?|d|days?|w|weeks?)(?:\s+ago)?")
_EXAMPLES = "2h, 90m, 3d, 14:30, 2026-03-29, 2026-03-29T14:30, 2026-03-29T14:30+02:00, or '2026-03-29 14:30 Europe/Berlin'"


class TimeError(ValueError):
    """A time that cannot be understood, does not exist, or existed twice; the message says what to write instead."""


def zone_of(name: str | None) -> tzinfo | None:
    """Return a zone by its IANA name; ``None``: this machine's.

    Raises:
        TimeError: There is no such zone.
    """
    if name is None:
        return None
    try:
        return UTC if name.upper() in {"UTC", "Z"} else ZoneInfo(name)
    except (KeyError, ValueError, OSError) as e:
        raise TimeError(f"there is no time zone {name!r}: give UTC, or an IANA name such as Europe/Berlin") from e


def moment(text: str, now: datetime, zone: tzinfo | None) -> datetime:
    """Return what a text means, in UTC.

    Args:
        text: As above; ``now`` is one too.
        now: That durations count back from, with its zone.
        zone: That times without one are in; ``None``: this machine's.

    Raises:
        TimeError: It is none, does not exist, existed twice, or lies ahead.
    """
    found = _read(text.strip(), now, zone)
    if found > now + timedelta(seconds=1):
        raise TimeError(f"{text!r} lies ahead: it is {shown(now, zone)} now")
    return found


def shown(at: datetime, zone: tzinfo | None) -> str:
    """Return a time in a zone with the name of its offset, as ``2026-03-29 14:30:05 CEST``."""
    there = at.astimezone(zone)
    return f"{there:%Y-%m-%d %H:%M:%S} {zone_name(there)}"


def zone_name(there: datetime) -> str:
    """Return what the offset of a time is called."""
    return there.tzname() or f"{there:%z}"


def _read(text: str, now: datetime, zone: tzinfo | None) -> datetime:
    if text == "now":
        return now.astimezone(UTC)
    if ago := _AGO.fullmatch(text):
        return now.astimezone(UTC) - timedelta(seconds=float(ago[1]) * _UNITS[ago[2][0]])
    rest, _, last = text.rpartition(" ")
    if rest and re.fullmatch(r"[A-Za-z_]+(/[A-Za-z_+\-0-9]+)*", last):
        return _read(rest, now, zone_of(last))
    try:
        written = _today(text, now, zone) if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", text) else datetime.fromisoformat(text)
    except ValueError as e:
        raise TimeError(f"{text!r} is no time: write {_EXAMPLES}") from e
    return written.astimezone(UTC) if written.tzinfo is not None else _local(written, zone)


def _today(text: str, now: datetime, zone: tzinfo | None) -> datetime:
    """Return the latest time that the clocks showed this."""
    day = now.astimezone(zone).date()
    found = datetime.combine(day, time.fromisoformat(text.zfill(len("00:00") if text.count(":") == 1 else len("00:00:00"))))
    return found if _either(found, zone, 0) <= now else found - timedelta(days=1)


def _local(written: datetime, zone: tzinfo | None) -> datetime:
    """Return what clocks without an offset meant, where they showed it once."""
    first, second = (_either(written, zone, fold) for fold in (0, 1))
    where = str(zone) if zone is not None else "this machine's time zone"
    if first.astimezone(zone).replace(tzinfo=None) != written:
        after = max(first, second).astimezone(zone)
        raise TimeError(f"{written} did not exist in {where}: its clocks skipped it; {after.isoformat()} came instead")
    if first != second:
        both = " or ".join(x.astimezone(zone).isoformat() for x in (first, second))
        raise TimeError(f"{written} was twice in {where}: write {both}")
    return first


def _either(written: datetime, zone: tzinfo | None, fold: int) -> datetime:
    there = written.replace(fold=fold)
    return (there if zone is None else there.replace(tzinfo=zone)).astimezone(UTC)
