"""Times that repeat: is a window of the calendar open at a given moment?

Beside the path: settings are checked with it and decisions ask it. It reads no clock: the moment is a parameter. All of the
calendar (time zones, changes between summer and winter time) is here.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

_FIELDS = 5  # minute, hour, day of the month, month, day of the week: a window begins with a minute
_MINUTE_S = 60
_AHEAD = timedelta(hours=2)  # an hour that comes twice is looked at from behind its second time: no clock change is longer


def problem_of(cron: str, time_zone: str) -> str | None:
    """Return what is wrong with a beginning in half a sentence, ``None`` if nothing is."""
    try:
        zone = ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError):
        return f"time_zone {time_zone!r} is not known here; names are those of the IANA database, such as Europe/Berlin"
    if len(cron.split()) != _FIELDS:
        return f"cron {cron!r} must have five fields: minute, hour, day of the month, month, day of the week"
    try:
        next(CronSim(cron, datetime(2000, 1, 1, tzinfo=zone)))
    except CronSimError as e:
        return f"cron {cron!r} cannot be read: {e}"
    except StopIteration:
        return f"cron {cron!r} names a day that never comes"
    return None


def is_open(cron: str, time_zone: str, duration_min: int, now: float) -> bool:
    """Say whether a window is open at ``now`` (seconds since the epoch): its latest beginning is not longer ago than it lasts.

    A beginning in the hour that is skipped in spring counts when the hour has been skipped, one in the hour that comes twice in
    autumn counts once, the first time. The duration is time that passes, whatever the clocks on the wall do.
    """
    return _is_open(cron, time_zone, duration_min, int(now // _MINUTE_S))


@lru_cache(maxsize=4096)  # every group asks every second, and the answer holds for a minute
def _is_open(cron: str, time_zone: str, duration_min: int, minute: int) -> bool:
    now = datetime.fromtimestamp(minute * _MINUTE_S, UTC)
    starts = CronSim(cron, (now + _AHEAD + timedelta(seconds=1)).astimezone(ZoneInfo(time_zone)), reverse=True)
    latest = next((s for s in starts if s.astimezone(UTC) <= now), None)
    return latest is not None and now - latest.astimezone(UTC) < timedelta(minutes=duration_min)
