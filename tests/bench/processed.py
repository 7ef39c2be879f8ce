"""Reads what the example consumers wrote, for the programs that time handovers."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Processed:
    """One processed record; times in seconds since the Unix epoch, on this machine's one clock."""

    worker: str
    epoch: int
    offset: int
    done: float
    appended: float


def read(directory: Path) -> dict[int, list[Processed]]:
    """Return the records of one topic by partition, in order of processing."""
    by: dict[int, list[Processed]] = defaultdict(list)
    for file in sorted(directory.glob("processed-*.log")):
        for line in file.read_text(encoding="utf-8").splitlines():
            _topic, partition, offset, epoch, done_ns, append_ms = line.split()
            by[int(partition)].append(
                Processed(file.stem.removeprefix("processed-"), int(epoch), int(offset), int(done_ns) / 1e9, int(append_ms) / 1e3)
            )
    for records in by.values():
        records.sort(key=lambda r: r.done)
    return dict(by)


def waits(records: list[Processed]) -> Iterator[tuple[Processed, Processed, float]]:
    """Yield (previous, record, seconds it lay there although the previous one was done) along one partition."""
    for previous, record in pairwise(records):
        yield previous, record, record.done - max(previous.done, record.appended)


def percentile(values: list[float], share: float) -> float:
    """Return the nearest-rank percentile; NaN without values."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def newest_waits(directory: Path) -> list[float]:
    """Return for each consumer how long its last hundred records had lain there when they were done: the longest, in seconds."""
    out = []
    for file in directory.glob("processed-*.log"):
        with file.open("rb") as log:
            log.seek(max(0, file.stat().st_size - 10_000))
            lines = log.read().decode("utf-8").rpartition("\n")[0].splitlines()[1:][-100:]  # the last one may be half written
        if lines:
            out.append(max(int(done_ns) / 1e9 - int(append_ms) / 1e3 for *_, done_ns, append_ms in (x.split() for x in lines)))
    return out
