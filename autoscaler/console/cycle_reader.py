"""Reads the line per cycle that a running job writes, for the views that people watch.

Beside the path: it reads ``logs/cycles.jsonl`` while the job appends to it and must not touch the job. A line that is only
half written yet is left for the next look; a line of an older version lacks keys and still parses.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLine:
    """One consumer as a cycle saw it; rates in bytes/s, latencies in seconds, ``None`` where nothing is known."""

    slot: int | None
    name: str
    phase: str
    bytes_per_s: float | None
    lag_records: int | None
    partitions: tuple[str, ...]
    latency_p50_s: float | None
    latency_p99_s: float | None
    capacity_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """One line of the cycle log."""

    t: float
    cycle: int
    group: str
    mode: str
    reason: str
    limited_by: str | None
    detail: str
    epoch: int
    consumers_now: int | None
    consumers: int
    lower_bound: int
    total_bytes_per_s: float | None
    total_lag_records: int | None
    usable_bytes_per_s: float
    capacity_bytes_per_s: float
    known: bool
    r_score: float
    actions: tuple[str, ...]
    workers: tuple[WorkerLine, ...]
    stages: Mapping[str, float]
    sample_age_s: float | None

    @classmethod
    def parse(cls, line: str) -> Self:
        """Return the cycle that a line holds.

        Raises:
            ValueError: The line is not a JSON object.
        """
        data = json.loads(line)
        if not isinstance(data, dict):
            msg = f"a cycle is a JSON object, not {line[:40]!r}"
            raise ValueError(msg)  # noqa: TRY004  the caller handles every bad line alike
        workers = data.get("workers")
        stages = data.get("stages")
        return cls(
            t=_number(data, "t") or 0.0,
            cycle=_count(data, "cycle") or 0,
            group=_text(data, "group") or "",
            mode=_text(data, "mode") or "",
            reason=_text(data, "reason") or "",
            limited_by=_text(data, "limited_by"),
            detail=_text(data, "detail") or "",
            epoch=_count(data, "epoch") or 0,
            consumers_now=_count(data, "consumers_now"),
            consumers=_count(data, "consumers") or 0,
            lower_bound=_count(data, "lower_bound") or 0,
            total_bytes_per_s=_number(data, "total_bytes_per_s"),
            total_lag_records=_count(data, "total_lag_records"),
            usable_bytes_per_s=_number(data, "usable_bytes_per_s") or 0.0,
            capacity_bytes_per_s=_number(data, "capacity_bytes_per_s") or 0.0,
            known=data.get("known") is True,
            r_score=_number(data, "r_score") or 0.0,
            actions=_texts(data, "actions"),
            workers=tuple(_worker(w) for w in workers if isinstance(w, dict)) if isinstance(workers, list) else (),
            stages={k: float(v) for k, v in stages.items() if isinstance(v, int | float)} if isinstance(stages, dict) else {},
            sample_age_s=_number(data, "sample_age_s"),
        )


class CycleTail:
    """Follows a cycle log: every call of ``read`` gives the cycles written since the last one.

    A file that is not there yet gives nothing; one that became shorter is read from its start again.
    """

    def __init__(self, path: Path, *, last_bytes: int | None = None) -> None:
        """Start at the beginning of ``path``, or ``last_bytes`` before its end."""
        self._path = path
        self._at = 0
        self._rest = b""
        if last_bytes is not None and path.exists():
            self._at = max(0, path.stat().st_size - last_bytes)
        self._skip = self._at > 0

    def read(self) -> Iterator[Cycle]:
        """Yield the cycles of every complete line that has come since."""
        try:
            size = self._path.stat().st_size
            if size < self._at:
                self._at, self._rest = 0, b""
            with self._path.open("rb") as file:
                file.seek(self._at)
                data = file.read(size - self._at)
        except FileNotFoundError:
            return
        self._at += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if self._skip and lines:
            lines, self._skip = lines[1:], False
        for line in lines:
            try:
                yield Cycle.parse(line.decode())
            except ValueError:
                continue


def _worker(data: Mapping[str, object]) -> WorkerLine:
    return WorkerLine(
        slot=_count(data, "slot"),
        name=_text(data, "name") or "",
        phase=_text(data, "phase") or "",
        bytes_per_s=_number(data, "bytes_per_s"),
        lag_records=_count(data, "lag_records"),
        partitions=_texts(data, "partitions"),
        latency_p50_s=_number(data, "latency_p50_s"),
        latency_p99_s=_number(data, "latency_p99_s"),
        capacity_bytes_per_s=_number(data, "capacity_bytes_per_s"),
    )


def _number(data: Mapping[str, object], key: str) -> float | None:
    value = data.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _count(data: Mapping[str, object], key: str) -> int | None:
    value = _number(data, key)
    return None if value is None else int(value)


def _text(data: Mapping[str, object], key: str) -> str | None:
    value = data.get(key)
    return value if isinstance(value, str) else None


def _texts(data: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = data.get(key)
    return tuple(str(v) for v in value) if isinstance(value, list) else ()
