"""Loads for the bench of the whole job: what flows when, and when it is steady."""

import json
from dataclasses import dataclass
from pathlib import Path

_LOW, _HIGH = 0.4e6, 1.2e6  # bytes/s of the whole group, for consumers of 0.3 MB/s
_EVEN, _HOT = 0.8e6, 0.235e6  # hot: just below the 0.24 MB/s that may be planned for one consumer, so that others must leave it


@dataclass(frozen=True, slots=True)
class Wave:
    """Rates that stay from ``start`` to ``end`` (seconds since the load's start), then change until the next wave's start."""

    start: float
    end: float
    bytes_per_s: tuple[float, ...]


def elastic(*, partitions: int, seconds: float) -> list[Wave]:
    """Return a load that rises and falls every 45 s, with two hot partitions that change, so that the job keeps acting."""
    waves, at, number = [], 0.0, 0
    while at < seconds:
        waves.append(Wave(at, at + 20, _rates(partitions, _LOW, {})))
        hot = {(number * 4 + 2) % partitions, (number * 4 + 7) % partitions}
        waves.append(Wave(at + 22, at + 43, _rates(partitions, _HIGH * 0.6, dict.fromkeys(hot, _HIGH * 0.2))))
        at, number = at + 45, number + 1
    return waves


def rotating(*, partitions: int, seconds: float) -> list[Wave]:
    """Return a load whose total stays while every 15 s another partition becomes hot within half a second."""
    waves, at, number = [], 0.0, 0
    while at < seconds:
        hot = {} if at == 0 else {(number * 5) % partitions: _HOT}
        waves.append(Wave(at, at + 14.5, _rates(partitions, _EVEN, hot)))
        at, number = at + 15, number + 1
    return waves


def write(waves: list[Wave], file: Path) -> Path:
    """Write the waves as a scenario of the load generator."""
    moments = [{"at_s": t, "bytes_per_s": w.bytes_per_s} for w in waves for t in (w.start, w.end)]
    file.write_text(json.dumps({"moments": moments}), encoding="utf-8")
    return file


def _rates(partitions: int, total: float, hot: dict[int, float]) -> tuple[float, ...]:
    each = total / (partitions - len(hot))
    return tuple(hot.get(p, each) for p in range(partitions))
