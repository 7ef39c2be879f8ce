"""Whether a cluster answers, found out once for all of its groups that are to be connected.

A group that acts waits for seconds when no broker answers. Hundreds of them would do so one after the other, in every cycle,
until the watchdog takes the job for dead.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from autoscaler.errors import UnreachableError

T = TypeVar("T")
_AGAIN_S = 5.0


class CircuitBreaker:
    """Lets groups of one cluster connect, while a broker there answers."""

    def __init__(self) -> None:
        self._said = ""
        self._again_at = 0.0

    def connect(self, make: Callable[[], T]) -> T:
        """Return what ``make`` makes, or raise at once what another group has just found out.

        Raises:
            UnreachableError: No broker answers, or none did within the last seconds.
            AutoscalerError: Whatever else ``make`` raises: that is the group's own business.
        """
        if time.monotonic() < self._again_at:
            raise UnreachableError(self._said)
        try:
            return make()
        except UnreachableError as e:
            self._said, self._again_at = str(e), time.monotonic() + _AGAIN_S
            raise
