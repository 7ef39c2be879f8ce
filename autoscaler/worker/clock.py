"""The worker's clocks: one that no suspend and no slewing can make too slow, and the wall clock for latencies and people.

A lease must never seem longer than it is. CLOCK_MONOTONIC stops while the machine is suspended and is slewed by time daemons (up
to 8 %); CLOCK_BOOTTIME goes on in suspend, CLOCK_MONOTONIC_RAW is never slewed: the greater elapsed time of the two is safe.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

Elapsed = Callable[[], float]
SLEWED = 0.9  # of a remaining time, measured on a clock that may be slewed by up to 8 %
coarse: Elapsed = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic


def lease_clock() -> Elapsed:
    """Return a clock of seconds elapsed since this call; the greater of the sources that the platform has."""
    sources = [getattr(time, name) for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC_RAW") if hasattr(time, name)]
    read = time.clock_gettime if hasattr(time, "clock_gettime") else None
    if read is None or len(sources) != 2:  # noqa: PLR2004  (the two named above)
        origin = time.monotonic()
        return lambda: time.monotonic() - origin
    boot, raw = sources
    boot_origin, raw_origin = read(boot), read(raw)

    def elapsed() -> float:
        a, b = read(boot) - boot_origin, read(raw) - raw_origin
        return a if a > b else b  # noqa: FURB136  (max() costs as much as the clocks; this runs once per record)

    return elapsed


def weakness() -> str | None:
    """Return what this platform's clocks lack, and what that means for a lease; ``None`` if nothing."""
    missing = [name for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC_RAW") if not hasattr(time, name)]
    if not missing:
        return None
    return (
        f"this platform has no {' and no '.join(missing)}: a lease is counted by a clock that may be slewed or stand still in "
        "suspend, and may last longer than it seems; do not suspend this machine"
    )


def wall() -> float:
    """Return seconds since the Unix epoch."""
    return time.time()


def boot_id() -> str:
    """Return what tells this boot of the machine from others; empty where the platform does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
