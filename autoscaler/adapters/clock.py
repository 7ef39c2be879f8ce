"""The controller's clock: the one module of the controller that reads the wall clock.

Stands beside the path: every part that needs time is given a ``Clock``. Must not sleep, nor compare two machines' readings.
"""

import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

_FALLBACK_BOOT_ID = f"process-{uuid4()}"


class SystemClock:
    """Implements ``ports.Clock``; durations are safe as evidence that a lease is over."""

    def now(self) -> float:
        """Return seconds since the Unix epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that only grow, never faster than real time.

        On Linux the raw oscillator: unlike the adjusted clock it cannot be slewed ahead (slewing reaches 8 %), and unlike the
        boot-time clock it stands still in suspend. Both put it on the safe side when it is used to say that another machine's
        lease has ended (``docs/design/protocol.md``, rules 6 and 8).
        """
        raw = getattr(time, "CLOCK_MONOTONIC_RAW", None)  # Linux only
        return time.monotonic() if raw is None else time.clock_gettime(raw)


def never_slow() -> Callable[[], float]:
    """Return a clock of seconds since this call that is never slower than real time, to say that a lease of one's own holds.

    On Linux the greater of two: one goes on in suspend and may be slewed, the other is never slewed.
    """
    sources = [getattr(time, name) for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC_RAW") if hasattr(time, name)]
    if not sources:
        began = time.monotonic()
        return lambda: time.monotonic() - began
    origins = [(source, time.clock_gettime(source)) for source in sources]
    return lambda: max(time.clock_gettime(source) - origin for source, origin in origins)


def boot_id() -> str:
    """Return an id of this machine's current boot; stamps of two boots never compare.

    Where the kernel names none, an id of this process: a restart then starts over, which is late but safe.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return _FALLBACK_BOOT_ID
