"""Holds cycles until they are in the tables, within a bound.

Stands between the cycle, which only hands its values over under a short lock, and the flusher. Decides which cycles get a row of
``decisions`` and which are dropped when the tables cannot be written for long. No I/O, no clock: times are the decisions' own.
"""

import threading
from collections import deque
from dataclasses import dataclass, field

from autoscaler.adapters.audit.rows import Cycle
from autoscaler.model import Decision

DECISION_EVERY_S = 10.0
MAX_PARTITIONS = 100_000  # of all waiting cycles together; about 40 MB


@dataclass(frozen=True, slots=True)
class Entry:
    """A waiting cycle."""

    order: int
    cycle: Cycle
    due: bool  # it gets a row of ``decisions``
    number: int | None  # its number in the journal; ``None`` if it is not there

    @property
    def weight(self) -> int:
        """Return how much memory it stands for, in partitions."""
        return 1 + (len(self.cycle.snapshot.loads) if self.cycle.snapshot else 0)

    @property
    def kept(self) -> bool:
        """Return whether it may never be dropped."""
        return self.cycle.acted or bool(self.cycle.handovers)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one flush writes: entries in order, and how many cycles of its group were dropped before each."""

    version: int
    entries: tuple[Entry, ...]
    dropped: tuple[int, ...]


@dataclass(slots=True)
class _Last:
    decision_id: str = ""
    said: tuple[object, ...] = ()
    at: float = float("-inf")


@dataclass(slots=True)
class Buffer:
    """Waiting cycles; the oldest that neither acted nor changed anything are dropped first, those that acted never."""

    max_partitions: int = MAX_PARTITIONS
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _plain: deque[Entry] = field(default_factory=deque)
    _due: deque[Entry] = field(default_factory=deque)
    _kept: deque[Entry] = field(default_factory=deque)
    _last: dict[str, _Last] = field(default_factory=dict)
    _dropped: dict[str, int] = field(default_factory=dict)
    _weight: int = 0
    _order: int = 0
    _version: int = 0

    def add(self, cycle: Cycle, number: int | None = None) -> None:
        """Take a cycle, ``number`` in the journal. One that did nothing on a sample recorded before is not kept."""
        with self._guard:
            last = self._last.setdefault(cycle.decision.group, _Last())
            repeated = cycle.decision.decision_id == last.decision_id
            if repeated and not cycle.acted and not cycle.handovers:
                return
            self._order += 1
            entry = Entry(self._order, cycle, self._is_due(last, cycle) and not (repeated and not cycle.acted), number)
            (self._kept if entry.kept else self._due if entry.due else self._plain).append(entry)
            self._weight += entry.weight
            self._shrink()

    @property
    def crowded(self) -> bool:
        """Return whether what waits should be written now, lest something is dropped."""
        return self._weight > self.max_partitions // 2

    def waiting(self) -> tuple[int, float | None]:
        """Return how many cycles wait, and when the oldest of them was decided (seconds since 1970; ``None``: none waits)."""
        with self._guard:
            queues = [q for q in (self._plain, self._due, self._kept) if q]
            return sum(map(len, queues)), min((q[0].cycle.decision.at for q in queues), default=None)

    def take(self, *, acted_only: bool = False) -> Batch | None:
        """Take out what waits, or of that only what acted or was handed over; ``None`` if nothing of it waits."""
        with self._guard:
            taken = list(self._kept)
            self._kept.clear()
            if not acted_only:
                taken += [*self._due, *self._plain]
                self._due.clear()
                self._plain.clear()
            if not taken:
                return None
            self._weight -= sum(e.weight for e in taken)
            self._version += 1
            taken.sort(key=lambda e: e.order)
            return Batch(self._version, tuple(taken), tuple(self._dropped.pop(e.cycle.decision.group, 0) for e in taken))

    def next_version(self) -> int:
        """Return a version for a commit that is not of a batch."""
        with self._guard:
            self._version += 1
            return self._version

    def _is_due(self, last: _Last, cycle: Cycle) -> bool:
        d = cycle.decision
        said = _said(d)
        due = cycle.acted or said != last.said or d.at - last.at >= DECISION_EVERY_S
        last.decision_id = d.decision_id
        if due:
            last.said, last.at = said, d.at
        return due

    def _shrink(self) -> None:
        while self._weight > self.max_partitions and (self._plain or self._due):
            gone = (self._plain or self._due).popleft()
            self._weight -= gone.weight
            group = gone.cycle.decision.group
            self._dropped[group] = self._dropped.get(group, 0) + 1


def _said(d: Decision) -> tuple[object, ...]:
    advised = d.recommended if d.mode == "advise" else None
    return (d.mode, d.reason, d.limited_by, d.consumers_now, d.consumers, advised, d.policy_fingerprint)
