"""Reads the line per cycle that a running job writes, for the views that people watch.

Beside the path: it reads ``logs/cycles.jsonl`` while the job appends to it and must not touch the job. A line that is only
half written yet is left for the next look; a line of an older version lacks keys and still parses.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: object) -> object:
        return {k: v for k, v in data.items() if v is not None} if isinstance(data, dict) else data


class WorkerLine(_Line):
    """One consumer as a cycle saw it; rates in bytes/s, latencies in seconds, ``None`` where nothing is known."""

    slot: int | None = None
    name: str = ""
    uuid: str = ""
    client_id: str = ""  # of a member of a native group, as ``host``
    host: str = ""
    phase: str = ""
    bytes_per_s: float | None = None
    lag_records: int | None = None
    partitions: tuple[str, ...] = ()
    latency_p50_s: float | None = None
    latency_p99_s: float | None = None
    capacity_bytes_per_s: float | None = None


class Step(_Line):
    """One step of a decision: ``kind`` is ``add``, ``remove``, ``move``, ``park`` or ``reset``, ``what`` the same in words."""

    kind: str = ""
    topic: str | None = None
    partition: int | None = None
    what: str = ""


class Cycle(_Line):
    """One line of the cycle log."""

    t: float = 0.0
    cycle: int = 0
    group: str = ""
    cluster: str = ""
    mode: str = ""
    reason: str = ""
    limited_by: str | None = None
    detail: str = ""
    epoch: int = 0
    consumers_now: int | None = None
    consumers: int | None = None
    recommended: int | None = None
    recommended_age_s: float | None = None
    lower_bound: int | None = None
    total_bytes_per_s: float | None = None
    total_lag_records: int | None = None
    usable_bytes_per_s: float = 0.0
    capacity_bytes_per_s: float = 0.0
    known: bool = False
    r_score: float = 0.0
    actions: tuple[Step, ...] = ()
    workers: tuple[WorkerLine, ...] = ()
    stages: Mapping[str, float] = {}
    sample_age_s: float | None = None

    @classmethod
    def parse(cls, line: str | bytes) -> Self:
        """Return the cycle that a line holds.

        Raises:
            ValueError: The line is not a JSON object, or holds something else than a cycle's values.
        """
        return cls.model_validate_json(line)


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
                yield Cycle.parse(line)
            except ValueError:
                continue
