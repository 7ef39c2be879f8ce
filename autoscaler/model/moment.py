"""One moment on two clocks: durations are measured on the one that is never set, and people read the other.

Everything that a group's history keeps is on the first. A time of the wall clock (of a measurement, of a plan record) is turned
into one of the first once, as it comes in; then a wall clock that is set changes no duration.
"""

from typing import NamedTuple


class Moment(NamedTuple):
    """Both clocks, read together.

    Attributes:
        now: Seconds that only grow, from any origin.
        wall: Seconds since the Unix epoch: for what people read, calendar windows and records.
    """

    now: float
    wall: float

    def of(self, at: float) -> float:
        """Return when the wall clock showed ``at``, on the clock that is never set; not later than now.

        A wall clock that was set in between makes it too early by as much: the caller knows how early it can be.
        """
        return min(self.now, self.now - (self.wall - at))
