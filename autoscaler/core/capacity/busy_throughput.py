"""What workers of a managed group process while they are busy: records by their own count, in bytes as they lie in the log.

A worker says in its heartbeats how many records it has processed and how long its application had them. Both are counted when a
batch has ended, so that their quotient is exact however long batches and heartbeats take. What a record is in bytes of the log is
told by what the worker commits. Waiting for records is not busy; waiting for a database is, and makes it slower.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from statistics import median
from typing import NamedTuple

from autoscaler.core.capacity.capacity import ENOUGH, Shown
from autoscaler.core.capacity.worker_speed import believed, ratio, with_less
from autoscaler.core.load.consumption import WINDOW_S, Consumption, Work
from autoscaler.model import LoadSnapshot, TopicPartition, WorkerPhase, WorkerView

_BUSY = 0.01  # of a window: where a prior is a hundred times too low no worker is busier
_KEPT_S = 180.0  # before the latest window, for which windows count: six of each worker, four of which must agree on a change
_TOGETHER_S = 90.0  # windows of several workers that tell which of them is slower: each has ended one since
_LATE = 1.5  # times as many offsets as records, or fewer, is what commits and heartbeats are apart by


class Window(NamedTuple):
    """One worker's time since it was last seen to start, to take or to give up something, or was measured.

    Attributes:
        since: When it began.
        owned: What the worker has held in all of it.
        records: The worker's total when it began; ``busy_s`` likewise.
        work: What was committed in that when it began; what it has committed since is the difference.
    """

    since: float
    owned: frozenset[TopicPartition]
    records: int
    busy_s: float
    work: Work = Work()


class Sample(NamedTuple):
    """What a worker processed per second that it was busy, in the window that ended ``at``.

    Attributes:
        uuid: The worker's incarnation: one that starts anew may be on another machine, and is not known yet.
        speed: That over what its peers did about then; ``None`` where there were none.
    """

    at: float
    bytes_per_s: float
    uuid: str = ""
    speed: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """What workers have shown lately, as a value.

    Attributes:
        at: When the latest measurement was made.
        windows: The open window of each incarnation of a worker, by its uuid.
        samples: What windows have shown, oldest first.
        speeds: Of the incarnations, by uuid, that are plainly slower or faster than the others: over the group's.
    """

    at: float = 0.0
    windows: Mapping[str, Window] = field(default_factory=dict)
    samples: tuple[Sample, ...] = ()
    speeds: Mapping[str, float] = field(default_factory=dict)

    def measured(self, snapshot: LoadSnapshot, consumption: Consumption, workers: Iterable[WorkerView]) -> "Busy":
        """Return the value after a measurement.

        A worker that starts anew, changes what it holds, or has a commit that cannot be followed begins a new window.

        Args:
            snapshot: What was measured.
            consumption: What the group has consumed; it knows the measurement already.
            workers: Who lives, with the totals of their latest heartbeats.
        """
        at = consumption.at
        if at is None or (self.windows and at <= self.at):
            return self
        workers = tuple(workers)
        active = [w for w in workers if w.phase is WorkerPhase.ACTIVE and w.owned and _can_be(w)]
        windows, ended = dict[str, Window](), dict[str, float]()
        for worker in active:
            window = _followed(self.windows.get(worker.uuid), worker, consumption)
            if window is not None and at - window.since >= WINDOW_S:
                if (rate := _rate(window, worker, consumption.work(worker.owned).since(window.work), at)) is not None:
                    ended[worker.uuid] = rate
                window = None
            if window is None and not consumption.read(worker.owned):
                continue  # what was committed since the last measurement would all count for a window that begins now
            windows[worker.uuid] = window or Window(
                at, worker.owned, worker.records, worker.busy_s, consumption.work(worker.owned)
            )
        samples = (*self.samples, *self._compared(at, ended, with_less(snapshot, active) if ended else frozenset()))
        newest = samples[-1].at if samples else at
        samples = tuple(s for s in samples if s.at > newest - _KEPT_S)
        known = {w.uuid for w in workers} | {s.uuid for s in samples}
        return Busy(at=at, windows=windows, samples=samples, speeds=_believed(self.speeds, samples, known))

    def _compared(self, at: float, ended: Mapping[str, float], with_little: Collection[str]) -> list[Sample]:
        """Return the windows that have ended now, each beside the latest of every other worker."""
        latest = {s.uuid: s.bytes_per_s for s in self.samples if s.at > at - _TOGETHER_S} | {**ended}
        found = []
        for uuid, rate in ended.items():
            speed = ratio(rate, [r for other, r in latest.items() if other != uuid])
            if speed is not None and uuid in with_little:
                speed = max(speed, self.speeds.get(uuid, 1.0))
            found.append(Sample(at, rate, uuid, speed))
        return found

    @property
    def shown(self) -> Shown | None:
        """Return the median of the windows that count; ``None`` while they are too few for one of them not to matter.

        Who is slower or faster than the group counts as what it says of the group.
        """
        if len(self.samples) < ENOUGH:
            return None
        value = median(s.bytes_per_s / self.speeds.get(s.uuid, 1.0) for s in self.samples)
        return Shown(value, len(self.samples), self.samples[-1].at)


def _believed(kept: Mapping[str, float], samples: Collection[Sample], known: Collection[str]) -> dict[str, float]:
    """Return how fast those are taken to be that differ, of the incarnations that are known still."""
    shown: dict[str, list[float]] = {}
    for sample in samples:
        if sample.speed is not None:
            shown.setdefault(sample.uuid, []).append(sample.speed)
    found = {uuid: believed(kept.get(uuid, 1.0), shown.get(uuid, ())) for uuid in sorted(known)}
    return {uuid: speed for uuid, speed in found.items() if speed != 1.0}


def _can_be(worker: WorkerView) -> bool:
    """Say whether totals are numbers that can be counted from: a worker's clock, or what writes in its name, may be at fault."""
    return worker.records >= 0 and 0.0 <= worker.busy_s < inf


def _followed(window: Window | None, worker: WorkerView, consumption: Consumption) -> Window | None:
    """Return the window; ``None`` if it has to be given up."""
    if window is None or window.owned != worker.owned or not consumption.followed(window.owned, window.since):
        return None
    return window if worker.records >= window.records and worker.busy_s >= window.busy_s else None


def _rate(window: Window, worker: WorkerView, work: Work, at: float) -> float | None:
    """Return bytes per busy second; ``None`` for a window with too little of either, or without a commit."""
    records, busy_s = worker.records - window.records, worker.busy_s - window.busy_s
    if busy_s < _BUSY * (at - window.since) or not records or work.offsets * _LATE < records:
        return None
    # Markers of transactions and what compaction took away are offsets without a record. So few as commits may be late by are not
    # told from that, and left out: then it does not matter when the window ended.
    offsets = work.offsets if work.offsets > records * _LATE else records
    return offsets * work.bytes / work.offsets / busy_s
