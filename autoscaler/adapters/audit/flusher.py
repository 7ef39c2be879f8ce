"""Moves waiting cycles into the tables from a thread of its own, each row once, whatever fails in between.

Stands after the buffer; the tables are behind ``TableWriter``, so that everything here runs without Spark.

Why nothing is written twice and nothing that acted is lost:

- A batch is frozen when it is taken. Its version goes with every try, and a writer skips a version that it has committed, so a
  try whose answer was lost is repeated safely. Versions only number batches: an intent, an outcome and a cycle that did nothing
  are different rows whatever version carries them, and none is skipped on behalf of another.
- Cycles that acted, and handovers, are in the journal before they are in memory only. After a kill the next life looks up the
  keys of what it finds in the journal, and writes the missing rows.
- The latest plan's summary, from Kafka, covers the moment between publishing and the journal; it is completed the same way,
  once no other life can still be writing it.
"""

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Protocol

import pyarrow as pa

from autoscaler.adapters.audit import rows
from autoscaler.adapters.audit.buffer import Batch, Buffer, Dropped, Entry
from autoscaler.adapters.audit.journal import Journal, left_behind
from autoscaler.adapters.audit.rows import Cycle
from autoscaler.errors import AutoscalerError

log = logging.getLogger(__name__)

_UNWRITABLE = (ValueError, OverflowError, TypeError, pa.ArrowException)  # of rows that are made, not of tables that are written
_BACKOFF_S = (1.0, 2.0, 5.0, 10.0, 30.0)
_HANDOVERS_SEEN_DAYS = 2  # a new life reports again what it reads in the control log
_HANDOVERS_SEEN = 200_000
_CLOSING_TRIES = 2
_GAP_S = 1.5  # without a cycle for so long, no cycle is disturbed
_ACTED_EVERY_S = 10.0  # what acts again and again makes a commit this often, or every flush_s where that is shorter

Key = tuple[object, ...]


class TableWriter(Protocol):
    """The tables. Methods raise ``AutoscalerError`` when they fail and may then have committed or not."""

    def prepare(self) -> None:
        """Make or open the tables."""
        ...

    def append(self, table: str, rows: pa.Table, version: int) -> None:
        """Append rows in one commit, unless this life has committed this version of the table."""
        ...

    def keys(self, table: str, since: date) -> set[Key]:
        """Return the keys of all rows of this date and later."""
        ...

    def today(self) -> date:
        """Return the present UTC date."""
        ...


class Flusher:
    """A daemon thread that writes what waits every ``flush_s``, and what acted without waiting for that.

    A flush makes one commit to each table for which there are rows, each after another cycle: a commit takes a core for a quarter
    of a second, and several in a row would make the next cycle late. Rows that come meanwhile wait for the next flush. What fills
    half of the buffer is written before its time.
    """

    def __init__(self, buffer: Buffer, writer: TableWriter, journal: Journal, flush_s: float) -> None:
        """Start nothing; the thread begins, and opens the tables, with the first ``wake``."""
        self._buffer = buffer
        self._writer = writer
        self._journal = journal
        self._flush_s = flush_s
        self._signal = threading.Event()  # look again at what is due
        self._acted = False
        self._all_due = self._acted_due = time.monotonic()
        self._gap = threading.Event()  # a cycle has just ended: until the next one begins, processors are idle
        self._paced = False
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._start = threading.Lock()
        self._prepared = False
        self._batch: Batch | None = None
        self._done: set[str] = set()
        self._completing: list[tuple[int, Cycle]] = []
        self._handed: dict[Key, None] = {}
        self._handed_since = date.max
        self._waits = False
        self._said_dropped = Dropped()

    def wake(self, *, at_once: bool) -> None:
        """Say that a cycle has ended, and make sure that the thread runs; with ``at_once`` let it write now."""
        self._gap.set()
        with self._start:
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._run, name="audit-flush", daemon=True)
                self._thread.start()
        if at_once:
            self._acted = True
        if at_once or self._buffer.crowded:
            self._signal.set()

    def complete(self, cycle: Cycle) -> None:
        """Write what is missing of a cycle of an earlier life."""
        number = self._journal.add(cycle)
        with self._start:
            self._completing.append((number, cycle))
        self.wake(at_once=True)

    def flush(self, *, acted_only: bool = False) -> None:
        """Write everything that waits now, or of it what acted; on an error what is left is written by the next call.

        Raises:
            AutoscalerError: The tables could not be written.
        """
        if not self._prepared:
            self._prepare()
        if self._batch is not None:  # before anything with a higher version, which would make the writer skip this one
            self._write(self._batch)
        self._recover()
        self._batch, self._done = self._buffer.take(acted_only=acted_only), set()
        if self._batch is not None:
            self._write(self._batch)

    def waiting(self) -> tuple[int, float | None]:
        """Return how many cycles are not written yet, and when the oldest of them was decided; see ``Buffer.waiting``."""
        count, oldest = self._buffer.waiting()
        taken = self._batch.entries if self._batch is not None else ()  # being written, or left by a failure
        times = [e.cycle.decision.at for e in taken] + ([] if oldest is None else [oldest])
        return count + len(taken), min(times, default=None)

    def close(self, timeout_s: float) -> int:
        """Write what is left, for at most ``timeout_s``, and return how many cycles could not be written.

        What acted of these stays in the journal, where the next start finds it.
        """
        with self._start:
            self._closing.set()
        self._signal.set()
        self._gap.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                log.warning(
                    "the audit's last rows were not written within %.0f s; the next start writes those that acted", timeout_s
                )
        left = self.waiting()[0] + len(self._completing)
        if left:
            log.error(
                "%d cycles are not in the audit's tables: the next start writes those that acted, the others are lost", left
            )
        self._journal.close()
        return left

    def _run(self) -> None:
        self._paced = True
        failures = 0
        while not self._closing.is_set():
            if failures:
                self._closing.wait(_BACKOFF_S[min(failures, len(_BACKOFF_S)) - 1])
            else:
                self._rest()
            failures = 0 if self._on_time() else failures + 1
        for _ in range(_CLOSING_TRIES):
            if self._tried():
                return

    def _rest(self) -> None:
        """Wait until something is due, at once if a buffer fills or the end has come."""
        while not self._closing.is_set() and not self._buffer.crowded:
            due = min(self._all_due, self._acted_due) if self._acted else self._all_due
            if (now := time.monotonic()) >= due:
                return
            self._signal.wait(due - now)
            self._signal.clear()

    def _on_time(self) -> bool:
        """Write what is due, and say when the next is; after a failure the same is due still."""
        now = time.monotonic()
        everything = now >= self._all_due or self._buffer.crowded or self._closing.is_set()
        acted, self._acted = self._acted, False
        if not self._tried(acted_only=not everything):
            self._acted = True
            return False
        if acted:
            self._acted_due = now + min(_ACTED_EVERY_S, self._flush_s)
        if everything:
            self._all_due = now + self._flush_s
        return True

    def _tried(self, *, acted_only: bool = False) -> bool:
        try:
            self.flush(acted_only=acted_only)
        except AutoscalerError as e:
            log.warning("the audit's rows wait: %s (%d cycles)", e, self.waiting()[0])
            return False
        except Exception:  # a defect here must not end the thread: rows would pile up unseen
            log.exception("the audit's rows wait")
            return False
        finally:
            self._say_dropped()
        return True

    def _say_dropped(self) -> None:
        now, said = self._buffer.dropped, self._said_dropped
        if now != said:
            measurements, decisions = now.measurements - said.measurements, now.decisions - said.decisions
            log.warning(
                "more waits for the audit's tables than is kept: measurements of %d cycles and %d decisions were dropped",
                measurements, decisions,
            )  # fmt: skip
            self._said_dropped = now

    def _prepare(self) -> None:
        began = time.monotonic()
        self._writer.prepare()
        self._look_up_handovers(self._writer.today() - timedelta(days=_HANDOVERS_SEEN_DAYS))
        self._prepared = True
        log.info("the audit's tables are open after %.1f s", time.monotonic() - began)

    def _look_up_handovers(self, since: date) -> None:
        self._handed = dict.fromkeys(self._writer.keys("handovers", since)) | self._handed
        self._handed_since = since

    def _write(self, batch: Batch) -> None:
        waiting = list(zip(batch.entries, batch.dropped, strict=True))
        try:
            tables, fresh = self._tables(waiting)
        except _UNWRITABLE:
            tables, fresh = self._tables([x for x in waiting if self._writable(x)])
        for name, content in tables.items():
            self._append(name, content, batch.version)
        self._remember(fresh)
        self._batch = None
        self._journal.settle(e.number for e in batch.entries if e.number is not None)

    def _tables(self, waiting: Sequence[tuple[Entry, int]]) -> tuple[dict[str, pa.Table], Iterable[Key]]:
        cycles = [e.cycle for e, _ in waiting]
        done = [(c, h) for c in cycles for h in c.handovers]
        if done and (oldest := min(rows.day(h.at) for _, h in done)) < self._handed_since:
            self._look_up_handovers(oldest)
        fresh = {k: x for x in done if (k := rows.handover_key(*x)) not in self._handed}
        measured = [(e, dropped) for e, dropped in waiting if e.measurements]
        return {
            "decisions": rows.decisions([e.cycle for e, _ in waiting if e.due]),
            "actions": rows.actions(cycles),
            "handovers": rows.handovers(fresh.values()),
            "loads": rows.loads([e.cycle for e, _ in measured], [dropped for _, dropped in measured]),
        }, fresh

    def _writable(self, waiting: tuple[Entry, int]) -> bool:
        """Say whether a cycle's rows can be made; one that has what no table can hold is left out: all behind it would wait."""
        try:
            self._tables([waiting])
        except _UNWRITABLE as e:
            decision = waiting[0].cycle.decision
            log.error("the rows of decision %s cannot be written and are left out: %s", decision.decision_id, e)  # noqa: TRY400
            return False
        return True

    def _append(self, table: str, content: pa.Table, version: int) -> None:
        if table not in self._done and content.num_rows:
            if self._paced and not self._closing.is_set():
                self._gap.wait(_GAP_S)
                self._gap.clear()
            self._writer.append(table, content, version)
            self._journal.wrote()
        self._done.add(table)

    def _recover(self) -> None:
        found = list(left_behind(self._journal))
        dead = [x for x in found if x is not None]
        try:
            self._write_missing([c for x in dead for c in x.cycles])
        except BaseException:
            for x in dead:
                x.release()
            raise
        for x in dead:
            x.forget()
        self._complete(alone=len(dead) == len(found))

    def _complete(self, *, alone: bool) -> None:
        with self._start:
            waiting = list(self._completing)
        if not waiting:
            return
        if not alone:
            if not self._waits:
                log.warning("another life of the job still writes to the tables; its plan's rows are completed when it has ended")
            self._waits = True
            return
        self._write_missing([cycle for _, cycle in waiting])
        self._journal.settle(number for number, _ in waiting)
        with self._start:
            self._completing = self._completing[len(waiting) :]

    def _write_missing(self, cycles: list[Cycle]) -> None:
        if not cycles:
            return
        since = min(rows.day(x) for c in cycles for x in (c.decision.at, *(h.at for h in c.handovers)))
        there = {name: self._writer.keys(name, since) for name in ("decisions", "actions", "handovers")}
        version = self._buffer.next_version()
        missing = {c.decision.decision_id: c for c in cycles if c.acted and (c.decision.decision_id,) not in there["decisions"]}
        acts = {(o.decision_id, o.phase): replace(c, outcomes=(o,)) for c in cycles for o in c.outcomes}
        hands = {rows.handover_key(c, h): (c, h) for c in cycles for h in c.handovers}
        fresh = {k: x for k, x in hands.items() if k not in there["handovers"]}
        for table, content in (
            ("decisions", rows.decisions(list(missing.values()))),
            ("actions", rows.actions(c for k, c in acts.items() if k not in there["actions"])),
            ("handovers", rows.handovers(fresh.values())),
        ):
            if content.num_rows:
                self._writer.append(table, content, version)
                log.info("%d rows that an earlier life left were written to %s", content.num_rows, table)
        self._remember(hands)

    def _remember(self, handed: Iterable[Key]) -> None:
        self._handed |= dict.fromkeys(handed)
        for key in list(self._handed)[: max(0, len(self._handed) - _HANDOVERS_SEEN)]:
            del self._handed[key]
