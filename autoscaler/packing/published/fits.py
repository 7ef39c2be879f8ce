"""Which open consumer takes the next partition: next, first, worst and best fit, part of *pack*.

Each keeps the loads of the open consumers in the order its rule asks for, so that a placement costs little. All read
"fits" the same way: load plus rate is at most the capacity, give or take the rounding of a sum of floats. An open consumer
holds something; an empty one is opened by the caller, whatever the rate.
"""

from bisect import bisect_left, bisect_right, insort
from heapq import heappush, heapreplace
from typing import Protocol


class Fit(Protocol):
    """The open consumers under one fitting rule."""

    def open(self, consumer: int, load: float) -> None:
        """Add a consumer with what it already holds."""
        ...

    def place(self, rate: float) -> int | None:
        """Put a rate on the consumer that the rule chooses and return its index; ``None`` if it fits nowhere."""
        ...


class NextFit:
    """Only the consumer opened last."""

    def __init__(self, limit: float) -> None:
        """Start without open consumers; ``limit`` in bytes per second."""
        self._limit = limit
        self._last: tuple[int, float] | None = None

    def open(self, consumer: int, load: float) -> None:
        """Make this the consumer opened last."""
        self._last = (consumer, load)

    def place(self, rate: float) -> int | None:
        """Put the rate on the consumer opened last, if it fits."""
        if self._last is None or self._last[1] + rate > self._limit:
            return None
        self._last = (self._last[0], self._last[1] + rate)
        return self._last[0]


class FirstFit:
    """The lowest index that fits."""

    def __init__(self, limit: float) -> None:
        """Start without open consumers; ``limit`` in bytes per second."""
        self._limit = limit
        self._consumers: list[int] = []
        self._loads: list[float] = []

    def open(self, consumer: int, load: float) -> None:
        """Insert the consumer at its place in index order."""
        at = bisect_left(self._consumers, consumer)
        self._consumers.insert(at, consumer)
        self._loads.insert(at, load)

    def place(self, rate: float) -> int | None:
        """Put the rate on the first that fits."""
        for at, load in enumerate(self._loads):
            if load + rate <= self._limit:
                self._loads[at] = load + rate
                return self._consumers[at]
        return None


class WorstFit:
    """The strictly smallest load, lowest index on ties: if that one is too full, every one is."""

    def __init__(self, limit: float) -> None:
        """Start without open consumers; ``limit`` in bytes per second."""
        self._limit = limit
        self._heap: list[tuple[float, int]] = []

    def open(self, consumer: int, load: float) -> None:
        """Add a consumer."""
        heappush(self._heap, (load, consumer))

    def place(self, rate: float) -> int | None:
        """Put the rate on the least loaded."""
        if not self._heap or self._heap[0][0] + rate > self._limit:
            return None
        load, consumer = self._heap[0]
        heapreplace(self._heap, (load + rate, consumer))
        return consumer


class BestFit:
    """The strictly largest load that still fits, lowest index on ties."""

    def __init__(self, limit: float) -> None:
        """Start without open consumers; ``limit`` in bytes per second."""
        self._limit = limit
        self._ordered: list[tuple[float, int]] = []  # (load, -index): the last one that fits has the lowest index of its load

    def open(self, consumer: int, load: float) -> None:
        """Add a consumer."""
        insort(self._ordered, (load, -consumer))

    def place(self, rate: float) -> int | None:
        """Put the rate on the fullest that fits."""
        at = bisect_right(self._ordered, self._limit, key=lambda entry: entry[0] + rate)
        if at == 0:
            return None
        load, negative = self._ordered.pop(at - 1)
        insort(self._ordered, (load + rate, negative))
        return -negative
