"""Keeps on disk what must not be lost between a cycle that acted and the commit of its rows.

Stands beside the buffer: a Delta commit takes about a second and is not waited for, so a killed job leaves rows in memory. The
plan record in Kafka brings back the latest published decision; this file brings back every other one, with its outcome and its
handovers. One file per life of the job, locked while that life lasts; the next life reads what the dead ones left. Loads are
left out: they make a line long and their loss is allowed.
"""

import fcntl
import json
import logging
import os
import shutil
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

from autoscaler.adapters.audit.decision_json import restore, summarise
from autoscaler.adapters.audit.rows import Cycle
from autoscaler.model import Decision, HandoverDone, MovePartition, TopicPartition
from autoscaler.ports import ActionOutcome

log = logging.getLogger(__name__)

WRITTEN = "written"  # a file that is as old as the latest commit to any table
_SHRINK_ABOVE_BYTES = 1 << 20


class Journal:
    """One life's file. Thread-safe; a disk that cannot be written is reported and the rows stay in memory only."""

    def __init__(self, directory: Path, life: str) -> None:
        """Make the file, locked before it can be seen under its name, so that no other life takes it for a dead one's."""
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / f"{life}.jsonl"
        self._guard = threading.Lock()
        self._lines: dict[int, bytes] = {}
        self._last = 0
        self._file = self._made(())

    def add(self, cycle: Cycle) -> int:
        """Write a cycle and return its number, for ``settle``."""
        line = json.dumps(_entry(cycle), separators=(",", ":")).encode() + b"\n"
        with self._guard:
            self._last += 1
            self._lines[self._last] = line
            try:
                self._file.write(line)
            except OSError as e:
                log.warning("%s cannot be written (%s): a kill before the next flush would lose these rows", self.path, e)
            return self._last

    def settle(self, numbers: Iterable[int]) -> None:
        """Forget cycles whose rows are in the tables."""
        with self._guard:
            for n in numbers:
                self._lines.pop(n, None)
            try:
                if self._file.closed:
                    return
                if not self._lines:
                    self._file.truncate(0)
                elif self._file.tell() > _SHRINK_ABOVE_BYTES:
                    old, self._file = self._file, self._made(self._lines.values())
                    old.close()
            except OSError as e:
                log.warning("%s cannot be shortened (%s); rows in it are looked up before they are written again", self.path, e)

    def wrote(self) -> None:
        """Leave a sign of when the tables were last written, for who watches the job from outside."""
        try:
            (self.path.parent / WRITTEN).touch()
        except OSError as e:
            log.warning("%s cannot be touched (%s)", self.path.parent / WRITTEN, e)

    def close(self) -> None:
        """Release the file; it goes if nothing in it is waiting, otherwise the next life reads it."""
        with self._guard:
            if not self._lines:
                self.path.unlink(missing_ok=True)
            self._file.close()

    def _made(self, lines: Iterable[bytes]) -> IO[bytes]:
        hidden = self.path.with_suffix(".new")
        file = hidden.open("ab", buffering=0)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.truncate(0)
        for line in lines:
            file.write(line)
        hidden.replace(self.path)
        return file


@dataclass(frozen=True, slots=True)
class Left:
    """A dead life's file, held until ``forget`` or ``release``, so that only one life writes its rows."""

    path: Path
    file: IO[bytes]
    cycles: tuple[Cycle, ...]

    def forget(self) -> None:
        """Remove the file: its rows are in the tables."""
        self.path.unlink(missing_ok=True)
        self.file.close()

    def release(self) -> None:
        """Leave the file for another try."""
        self.file.close()


def left_behind(own: Journal) -> Iterator[Left | None]:
    """Yield each dead life's file beside ``own``, oldest first; ``None`` for one whose life goes on."""
    paths = [p for p in own.path.parent.glob("*.jsonl") if p != own.path]
    for path in sorted(paths, key=lambda p: p.stat().st_mtime):
        file = path.open("rb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            yield None
            continue
        if os.fstat(file.fileno()).st_nlink == 0:  # another life was faster
            file.close()
            continue
        yield Left(path, file, tuple(_read(path, file)))


def take_over(old: Path, new: Path) -> None:
    """Move what lives of an earlier release left to where this one looks: that kept its journal beside the tables."""
    left = [] if old == new else sorted(old.glob("*.jsonl"))
    if left:
        new.mkdir(parents=True, exist_ok=True)
    for path in left:
        try:
            shutil.move(path, new / path.name)
        except OSError as e:
            log.warning("%s cannot be moved to %s (%s): rows in it are not written", path, new, e)


def recovered(
    decision: Decision, outcomes: Iterable[ActionOutcome], handovers: Iterable[HandoverDone] = (), *, cluster: str | None = None
) -> Cycle:
    """Return what is left of a cycle whose life ended: who held what before follows from the plan and its moves."""
    before: dict[TopicPartition, int | str] = dict(decision.target)
    for action in decision.actions:
        if isinstance(action, MovePartition):
            before.pop(action.partition, None)
            if action.source is not None:
                before[action.partition] = action.source
    return Cycle(
        decision=decision,
        snapshot=None,
        outcomes=tuple(outcomes),
        handovers=tuple(handovers),
        owner=before,
        recovered=True,
        cluster=cluster,
    )


def _entry(cycle: Cycle) -> dict[str, Any]:
    decision = cycle.decision if cycle.acted else replace(cycle.decision, target={})  # only its handovers will be written
    return {
        "cluster": cycle.cluster,
        "decision": summarise(decision),
        "outcomes": [asdict(o) for o in cycle.outcomes],
        "handovers": [asdict(h) for h in cycle.handovers],
    }


def _read(path: Path, file: IO[bytes]) -> Iterator[Cycle]:
    for number, line in enumerate(file.read().split(b"\n"), start=1):
        if not line:
            continue
        try:
            data = json.loads(line)
            yield recovered(
                restore(data["decision"]),
                (ActionOutcome(**o) for o in data["outcomes"]),
                (HandoverDone(**h | {"partition": TopicPartition(*h["partition"])}) for h in data["handovers"]),
                cluster=data.get("cluster"),
            )
        except (ValueError, KeyError, TypeError) as e:  # the kill came in the middle of a write, or another release wrote it
            log.warning("%s: line %d is left out (%s: %s)", path, number, type(e).__name__, e)
