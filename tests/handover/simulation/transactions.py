"""The coordinator of the workers' transactions: who may complete one, what it brings, and what readers of committed records see.

An output is told by the record that it came from. What must hold: each output once, and committed offsets that never go back.
Two things that brokers get wrong are here: what is aborted while a partition has no leader stays open in the log, and the same
producer's next commit brings it too; and a request that comes late counts for whatever transaction its producer has open then.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from autoscaler.handover.records import Tp

Copied = tuple[Tp, int, int]  # partition, first record, end


@dataclass(frozen=True, slots=True)
class Open:
    """A transaction that is neither committed nor aborted."""

    number: int
    outputs: tuple[Copied, ...]
    offsets: tuple[tuple[Tp, int, int], ...]  # partition, offset, granting epoch


@dataclass(slots=True)
class Transactions:
    """By incarnation: the epoch of its transactional id, what is open, and the number of the last one that ended."""

    epochs: dict[str, int] = field(default_factory=dict)
    open: dict[str, Open] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    leaderless: bool = False  # what is aborted now gets no marker
    hanging: dict[str, list[Open]] = field(default_factory=dict)  # has got none
    seen: dict[Tp, set[int]] = field(default_factory=lambda: defaultdict(set))  # records with an output, as readers see it

    def init(self, uuid: str) -> int:
        """Take an id: whoever had it completes nothing any more, and what it had open is aborted."""
        self.abort(uuid)
        self.epochs[uuid] = self.epochs.get(uuid, 0) + 1
        return self.epochs[uuid]

    def write(self, uuid: str, epoch: int, transaction: Open) -> bool:
        """Take outputs and offsets; false if fenced, or if it comes late and nothing is open that it would count for."""
        if self.epochs.get(uuid) != epoch:
            return False
        if transaction.number <= self.ended.get(uuid, 0):
            if (now := self.open.get(uuid)) is None:
                return False
            transaction = _with(now, transaction)
        self.open[uuid] = transaction
        return True

    def take(self, uuid: str, epoch: int, number: int) -> Open | bool:
        """Return what is to be committed now; true if it has been before, false if it cannot be any more."""
        if self.epochs.get(uuid) != epoch:
            return False
        if number <= self.ended.get(uuid, 0) and uuid not in self.open:
            return True
        found = self.open.pop(uuid, None)
        if found is None:
            return False
        self.ended[uuid] = found.number
        for hanging in self.hanging.pop(uuid, ()):
            found = _with(hanging, found)
        return found

    def abort(self, uuid: str, number: int | None = None) -> None:
        found = self.open.pop(uuid, None)
        if found is not None and self.leaderless:
            self.hanging.setdefault(uuid, []).append(found)
        ended = number if number is not None else found.number if found is not None else 0
        self.ended[uuid] = max(self.ended.get(uuid, 0), ended)

    def pending(self, tps: Iterable[Tp]) -> bool:
        """Return whether the committed offset of one of these is not known yet."""
        asked = set(tps)
        return any(tp in asked for o in self.open.values() for tp, *_ in o.offsets)

    def show(self, outputs: Iterable[Copied]) -> list[tuple[Tp, int]]:
        """Let readers see outputs, and return those that they have seen before."""
        twice = []
        for tp, first, end in outputs:
            twice += [(tp, o) for o in range(first, end) if o in self.seen[tp]]
            self.seen[tp].update(range(first, end))
        return twice


def _with(one: Open, other: Open) -> Open:
    """Return both as one transaction; of two offsets of a partition the other's counts."""
    offsets = {tp: (tp, offset, epoch) for tp, offset, epoch in (*one.offsets, *other.offsets)}
    return Open(max(one.number, other.number), (*one.outputs, *other.outputs), tuple(offsets.values()))
