"""The broker's part: a compacted log with transactions, a log with retention, a coordinator that fences, committed offsets.

What clients may rely on and no more: records behind an open transaction cannot be read, aborted ones never, markers take offsets,
compaction keeps the last record of each key and later drops tombstones, retention removes from the front at any time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from autoscaler.handover.codec import Decoded, decode
from autoscaler.handover.commit_metadata import is_of_topic
from autoscaler.handover.records import Record

Pair = tuple[bytes, bytes | None]
Strange = tuple[bytes | None, bytes | None]


@dataclass(slots=True, eq=False)
class Entry:
    """One record of the control log; ``tx`` while its transaction is open."""

    offset: int
    key: bytes
    value: bytes | None
    at: float
    tx: str | None = None
    _read: tuple[str, Decoded] | None = None

    def decoded(self, control_id: str) -> Decoded:
        """Return what it says to a reader of that control topic; remembered, because everybody reads it."""
        if self._read is None or self._read[0] != control_id:
            self._read = (control_id, decode(self.key, self.value, control_id=control_id))
        return self._read[1]


@dataclass(slots=True)
class ControlLog:
    """The control partition of one topic id."""

    topic_id: str
    entries: list[Entry] = field(default_factory=list)
    end: int = 0
    open: dict[str, int] = field(default_factory=dict)  # transaction -> its first offset

    @property
    def stable(self) -> int:
        """Return the last stable offset: nothing behind the first open transaction can be read."""
        return min(self.open.values(), default=self.end)

    def append(self, pair: Pair, at: float, tx: str | None = None) -> int:
        self.entries.append(Entry(self.end, *pair, at, tx))
        if tx is not None:
            self.open.setdefault(tx, self.end)
        self.end += 1
        return self.end - 1

    def close(self, tx: str, *, commit: bool) -> None:
        """Write the marker."""
        if self.open.pop(tx, None) is None:
            return
        kept = [e for e in self.entries if e.tx != tx] if not commit else self.entries
        for entry in kept:
            if entry.tx == tx:
                entry.tx = None
        self.entries = kept
        self.end += 1

    def read(self, position: int, most: int = 1_000_000) -> tuple[list[Entry], int]:
        """Return committed records from a position on, and the next position."""
        stable = self.stable
        found: list[Entry] = []
        i = len(self.entries)
        while i > 0 and self.entries[i - 1].offset >= position:
            i -= 1
        for entry in self.entries[i:]:
            if entry.offset >= stable:
                break
            if len(found) == most:
                return found, entry.offset
            found.append(entry)
        return found, max(position, stable)

    def compact(self, drop_tombstones_before: float) -> None:
        stable = self.stable
        last = {e.key: e.offset for e in self.entries if e.offset < stable}
        self.entries = [
            e
            for e in self.entries
            if e.offset >= stable or (last[e.key] == e.offset and (e.value is not None or e.at >= drop_tombstones_before))
        ]


@dataclass(slots=True)
class HeartbeatLog:
    """The heartbeat partition: whole records, or the bytes that stand for them."""

    topic_id: str
    records: list[Record | Strange] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    start: int = 0

    @property
    def end(self) -> int:
        return self.start + len(self.records)

    def append(self, record: Record | Strange, at: float) -> int:
        self.records.append(record)
        self.times.append(at)
        return self.end - 1

    def trim(self, keep: int) -> None:
        gone = max(0, len(self.records) - keep)
        del self.records[:gone], self.times[:gone]
        self.start += gone


@dataclass(slots=True)
class Coordinator:
    """Transactions on the control log: the epoch of each transactional id, and what is open."""

    epochs: dict[str, int] = field(default_factory=dict)
    begun: dict[str, float] = field(default_factory=dict)
    leaderless: bool = False  # what is aborted now gets no marker: it stays open until the id's next one

    def init(self, name: str, log: ControlLog) -> int:
        """Take over a transactional id: whoever had it can write nothing any more, and what it had open is aborted."""
        self.abort(name, log)
        self.epochs[name] = self.epochs.get(name, 0) + 1
        return self.epochs[name]

    def produce(self, name: str, epoch: int, log: ControlLog, pairs: Sequence[Pair], at: float) -> tuple[int, ...] | None:
        """Append to the open transaction; ``None`` if fenced."""
        if self.epochs.get(name) != epoch:
            return None
        self.begun[name] = at
        return tuple(log.append(pair, at, name) for pair in pairs)

    def commit(self, name: str, epoch: int, log: ControlLog) -> bool:
        """Complete the open transaction; false if fenced."""
        if self.epochs.get(name) != epoch:
            return False
        self.begun.pop(name, None)
        log.close(name, commit=True)
        return True

    def abort(self, name: str, log: ControlLog) -> None:
        if self.begun.pop(name, None) is not None and not self.leaderless:
            log.close(name, commit=False)

    def expire(self, name: str, log: ControlLog, began: float) -> None:
        """Abort a transaction that outlived its timeout, which fences its producer as a takeover would."""
        if self.begun.get(name) == began:
            self.abort(name, log)
            self.epochs[name] += 1


@dataclass(slots=True)
class Offsets:
    """Committed offsets of the group, by topic name and partition, with their metadata."""

    committed: dict[int, tuple[int, str]] = field(default_factory=dict)

    def read(self, partition: int, topic_id: str) -> int | None:
        """Return the offset as a worker takes it: one of another topic of this name is none."""
        found = self.committed.get(partition)
        return found[0] if found is not None and is_of_topic(found[1], topic_id) else None


Action = Callable[[], object]
