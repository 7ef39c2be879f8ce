"""The driver's time on another machine, whose own clock may be another: rates compare samples that several executors have taken.

Each batch says when the driver planned it; how long it then took to get here is never negative and mostly short, so the
shortest of some tells by how much the clocks are apart, to some hundredths of a second.
"""

import time
from collections import deque
from collections.abc import Callable

_REMEMBERED = 60  # batches, after which a driver's clock that was set back is believed


class DriverClock:
    """What one process has heard of the driver's time; pure: ``at`` is its own monotonic time."""

    def __init__(self) -> None:
        self._apart = deque[float](maxlen=_REMEMBERED)

    def heard(self, planned_ts: float, at: float) -> bool:
        """Take what a batch says; return whether the time is known now. The first may have waited for this process to start."""
        self._apart.append(at - planned_ts)
        return len(self._apart) > 1

    def now(self, at: float) -> float:
        """Return the driver's time, seconds since the Unix epoch."""
        return at - min(self._apart)


CLOCK = DriverClock()  # of this process


def heard(planned_ts: float) -> tuple[Callable[[], float], bool]:
    """Take what a batch says, and return what tells the driver's time and whether it can be relied on."""
    known = CLOCK.heard(planned_ts, time.monotonic())
    return lambda: CLOCK.now(time.monotonic()), known
