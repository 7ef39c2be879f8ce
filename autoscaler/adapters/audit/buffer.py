"""Holds cycles until they are in the tables, within a bound.

Stands between the cycle, which only hands its values over under a short lock, and the flusher. Decides which cycles get a row of
``decisions``, and what is dropped when the tables cannot be written for long. No I/O, no clock: times are the decisions' own.

Measurements and decisions have a bound each, so that no decision goes for the sake of measurements. Of measurements those go
first whose cycle gets no row of ``decisions``, then those of cycles that did nothing; of decisions those go first that say what
the group's previous one said. The oldest first each time. What acted or was handed over is never dropped.
"""

import threading
from collections import deque
from dataclasses import dataclass, field, replace

from autoscaler.adapters.audit.rows import Cycle
from autoscaler.model import Decision

DECISION_EVERY_S = 10.0
MAX_PARTITIONS = 100_000  # measurements of all waiting cycles together, about 40 MB; and as much for decisions
_DECISION = 4  # what a decision takes of memory, in measurements of a partition; each four owners take one more
_OWNERS = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """A waiting cycle."""

    order: int
    cycle: Cycle
    due: bool  # it gets a row of ``decisions``
    number: int | None  # its number in the journal; ``None`` if it is not there
    news: bool = False  # it acted, or its decision says something else than the group's previous one

    @property
    def measurements(self) -> int:
        """Return how much memory its measurements stand for, in partitions."""
        return 0 if self.cycle.snapshot is None else 1 + len(self.cycle.snapshot.loads)

    @property
    def decisions(self) -> int:
        """Return how much memory its decision stands for, in partitions; nothing if that is not written or never dropped."""
        return 0 if self.kept or not self.due else _DECISION + len(self.cycle.owner) // _OWNERS

    @property
    def kept(self) -> bool:
        """Return whether it may never be dropped."""
        return self.cycle.acted or bool(self.cycle.handovers)

    def bare(self) -> "Entry":
        """Return it without its measurements."""
        return replace(self, cycle=replace(self.cycle, snapshot=None))


@dataclass(frozen=True, slots=True)
class Dropped:
    """What has been dropped since the start."""

    measurements: int = 0  # cycles whose measurements are in no table
    decisions: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """What one flush writes: entries in order, and the measurements of how many cycles of its group were dropped before each."""

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
    """Waiting cycles, see the module."""

    max_partitions: int = MAX_PARTITIONS
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _plain: deque[Entry] = field(default_factory=deque)  # measurements only
    _due: deque[Entry] = field(default_factory=deque)  # both
    _same: deque[Entry] = field(default_factory=deque)  # without measurements any more, and no news
    _news: deque[Entry] = field(default_factory=deque)
    _kept: deque[Entry] = field(default_factory=deque)
    _last: dict[str, _Last] = field(default_factory=dict)
    _unsaid: dict[str, int] = field(default_factory=dict)  # dropped measurements, until a row says so
    _dropped: Dropped = field(default_factory=Dropped)
    _measurements: int = 0
    _decisions: int = 0
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
            news, due = self._is_due(last, cycle)
            entry = Entry(self._order, cycle, due and not (repeated and not cycle.acted), number, news)
            (self._kept if entry.kept else self._due if entry.due else self._plain).append(entry)
            self._count(entry, 1)
            self._shrink()

    @property
    def crowded(self) -> bool:
        """Return whether what waits should be written now, lest something is dropped."""
        return max(self._measurements, self._decisions) > self.max_partitions // 2

    @property
    def dropped(self) -> Dropped:
        """Return what has been dropped since the start."""
        return self._dropped

    def waiting(self) -> tuple[int, float | None]:
        """Return how many cycles wait, and when the oldest of them was decided (seconds since 1970; ``None``: none waits)."""
        with self._guard:
            queues = [q for q in (*self._idle(), self._kept) if q]
            return sum(map(len, queues)), min((q[0].cycle.decision.at for q in queues), default=None)

    def take(self, *, acted_only: bool = False) -> Batch | None:
        """Take out what waits, or of that only what acted or was handed over; ``None`` if nothing of it waits."""
        with self._guard:
            taken = list(self._kept)
            self._kept.clear()
            if not acted_only:
                for queue in self._idle():
                    taken += queue
                    queue.clear()
            if not taken:
                return None
            for entry in taken:
                self._count(entry, -1)
            self._version += 1
            taken.sort(key=lambda e: e.order)
            return Batch(self._version, tuple(taken), tuple(self._dropped_before(e) for e in taken))

    def next_version(self) -> int:
        """Return a version for a commit that is not of a batch."""
        with self._guard:
            self._version += 1
            return self._version

    def _idle(self) -> tuple[deque[Entry], ...]:
        return self._plain, self._due, self._same, self._news

    def _is_due(self, last: _Last, cycle: Cycle) -> tuple[bool, bool]:
        """Return whether a decision is news, and whether it gets a row."""
        d = cycle.decision
        said = _said(d)
        news = cycle.acted or said != last.said
        due = news or d.at - last.at >= DECISION_EVERY_S
        last.decision_id = d.decision_id
        if due:
            last.said, last.at = said, d.at
        return news, due

    def _count(self, entry: Entry, sign: int) -> None:
        self._measurements += sign * entry.measurements
        self._decisions += sign * entry.decisions

    def _dropped_before(self, entry: Entry) -> int:
        """Return what the entry's row of ``loads`` says is missing before it; nothing if it has no such row."""
        return self._unsaid.pop(entry.cycle.decision.group, 0) if entry.measurements else 0

    def _shrink(self) -> None:
        while self._measurements > self.max_partitions and (self._plain or self._due):
            self._drop_measurements((self._plain or self._due).popleft())
        while self._decisions > self.max_partitions and (self._due or self._same or self._news):
            if self._due and not self._same:
                self._drop_measurements(self._due.popleft())
            else:
                self._count((self._same or self._news).popleft(), -1)
                self._dropped = replace(self._dropped, decisions=self._dropped.decisions + 1)

    def _drop_measurements(self, entry: Entry) -> None:
        self._count(entry, -1)
        if entry.due:
            bare = entry.bare()
            (self._news if entry.news else self._same).append(bare)
            self._count(bare, 1)
        group = entry.cycle.decision.group
        self._unsaid[group] = self._unsaid.get(group, 0) + 1
        self._dropped = replace(self._dropped, measurements=self._dropped.measurements + 1)


def _said(d: Decision) -> tuple[object, ...]:
    advised = d.recommended if d.mode == "advise" else None
    return (d.mode, d.reason, d.limited_by, d.consumers_now, d.consumers, advised, d.policy_fingerprint)
