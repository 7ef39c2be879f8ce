"""What a run of the whole job left in its logs and tables, as figures."""

import json
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from deltalake import DeltaTable

from autoscaler.adapters.audit.rows import snapshot_of
from autoscaler.model import LoadSnapshot
from tests.bench.processed import Processed, percentile, read
from tests.bench.waves import Wave

Row = tuple[str, str]
_STEADY_AFTER_S = 0.5
_BATCH_BYTES = 61  # header of a record batch, message format 2


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the complete JSON lines of a file that may still be written."""
    if not path.exists():
        return []
    whole = path.read_text(encoding="utf-8").rpartition("\n")[0]
    return [json.loads(x) for x in whole.splitlines()]


@dataclass(slots=True)
class Reaction:
    """One way from a rate above capacity to new owners that consume, in seconds."""

    total: float
    cold: bool
    stages: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run that has ended.

    Attributes:
        log_bytes: What the topic's segments held when the generator had ended.
        outage: When the broker began to be away and when it answered again; ``None``: never.
        warm_up_s: Time from the load's start that durations leave out.
    """

    directory: Path
    waves: list[Wave]
    warm_up_s: float
    log_bytes: int
    outage: tuple[float, float] | None = None

    def rows(self) -> Iterator[Row]:
        """Return (what, figure)."""
        yield from self._triggers()
        yield from self._reactions()
        yield from self._rates()
        if self.outage is not None:
            yield from self._recovery(*self.outage)

    @cached_property
    def cycles(self) -> list[dict[str, Any]]:
        """Return the cycle log."""
        return lines(self.directory / "state" / "logs" / "cycles.jsonl")

    @cached_property
    def produced(self) -> list[dict[str, Any]]:
        """Return the generator's log; the last line is its summary."""
        return lines(self.directory / "produced.jsonl")

    @cached_property
    def processed(self) -> dict[int, list[Processed]]:
        """Return what the consumers wrote."""
        return read(self.directory / "processed")

    @cached_property
    def load_began(self) -> float:
        """Return when the load began."""
        return float(self.produced[-1]["began"])

    def _recovery(self, away: float, back: float) -> Iterator[Row]:
        first = [next((r.done - back for r in records if r.done >= back), None) for records in self.processed.values()]
        took = [t for t in first if t is not None]
        yield "the broker was away for", f"{back - away:.1f} s"
        yield "... from its first answer to the next record, first and last partition", f"{min(took):.2f} and {max(took):.2f} s"
        workers: dict[str, float] = {}
        for record in sorted((r for records in self.processed.values() for r in records if r.done >= back), key=lambda r: r.done):
            workers.setdefault(record.worker, record.done - back)
        yield "... the same, first and last consumer", f"{min(workers.values()):.2f} and {max(workers.values()):.2f} s"
        yield "... partitions without a record since", f"{len(first) - len(took)} of {len(first)}"
        before = {r.worker for records in self.processed.values() for r in records if away - 5 <= r.done < away}
        after = {r.worker for records in self.processed.values() for r in records if r.done >= back}
        yield "... consumers at work before whose lease ended", f"{len(before - after)} of {len(before)}"

    def _triggers(self) -> Iterator[Row]:
        yield from triggers(self.directory / "state" / "logs", self.load_began + self.warm_up_s)

    def _reactions(self) -> Iterator[Row]:
        found = list(self._found_reactions())
        for cold, what in ((False, "consumers running"), (True, "consumers started first")):
            some = [r for r in found if r.cold is cold]
            if not some:
                continue
            total = [r.total for r in some]
            figure = f"{percentile(total, 0.5):.2f} / {percentile(total, 0.95):.2f} s (n {len(some)})"
            yield f"rate above capacity to new owners consuming, {what}, p50 / p95", figure
            names = dict.fromkeys(k for r in some for k in r.stages)
            told = ", ".join(f"{k} {percentile([r.stages[k] for r in some if k in r.stages], 0.5):.2f}" for k in names)
            yield "... its stages, p50", f"{told} s"

    def _found_reactions(self) -> Iterator[Reaction]:
        """From the sample that showed a rate above capacity to the moved partitions' being consumed by their new owners.

        Whatever shows first that the new owner has a partition counts: its heartbeat in the log, or a record it processed.
        """
        taken = self._taken()
        crossed: float | None = None
        cold = False
        for c in self.cycles:
            if c["reason"] != "RATE_ABOVE_CAPACITY":
                crossed, cold = (None, False) if not c["actions"] else (crossed, cold)
                continue
            sampled = c["t"] - (c["sample_age_s"] or 0.0)
            crossed = crossed or sampled
            moved = [int(a["partition"]) for a in c["actions"] if a["kind"] == "move"]
            ends = [t for p in moved if (t := taken.get((p, c["epoch"] + 1))) is not None]
            cold = cold or any(a["kind"] == "add" for a in c["actions"])
            if not ends:
                continue
            end, decided = max(ends), c["t"] + c["stages"].get("decide_s", 0.0)
            published = decided + c["stages"].get("publish_s", 0.0)
            stages = {
                "load's change to the rate above capacity": crossed - self._changed(crossed),
                "waiting": sampled - crossed, "deciding": decided - sampled, "publishing": published - decided,
                "handing over": end - published,
            }  # fmt: skip
            yield Reaction(total=end - crossed, cold=cold, stages=stages)
            crossed, cold = None, False

    def _changed(self, at: float) -> float:
        return max((self.load_began + w.end for w in self.waves if self.load_began + w.end <= at), default=self.load_began)

    def _taken(self) -> dict[tuple[int, int], float]:
        """Return when the new owner of a partition under an epoch was first seen to have it."""
        first: dict[tuple[int, int], float] = {}
        for partition, records in self.processed.items():
            for r in records:
                first.setdefault((partition, r.epoch), r.done)
        for h in self._table("handovers", ["partition", "epoch", "at"]):
            key = (h["partition"], h["epoch"])
            first[key] = min(first.get(key, np.inf), h["at"].timestamp())
        return first

    def _table(self, name: str, columns: list[str] | None = None) -> list[dict[str, Any]]:
        table = DeltaTable(str(self.directory / "state" / "tables" / name)).to_pyarrow_table(columns=columns)
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows

    def _rates(self) -> Iterator[Row]:
        """Compare each cycle's measured rate with what came over exactly its own window.

        A record takes its share of its batch's header besides its own bytes. Records of a partition with one append time came in
        one batch, since the broker stamps batches.
        """
        summary, seconds = self.produced[-1], self.produced[:-1]
        at = np.array([self.load_began, *(s["t"] for s in seconds)])
        acked = np.cumsum([0, *(sum(n for n, _, _ in s["partitions"].values()) for s in seconds)])
        times = {p: _appended(records) for p, records in self.processed.items()}
        records = np.sort(np.array([t for some in times.values() for t in some]))
        batches = np.sort(np.array([t for some in times.values() for t in set(some)]))
        of_record = self.log_bytes / summary["records"] - _BATCH_BYTES * len(batches) / len(records)
        complete = self._complete_until(summary)
        own: list[float] = []
        steady: list[float] = []
        every: list[float] = []
        for row in self._table("loads"):
            s = snapshot_of(row)
            window = _window(s)
            if window is None or window[0] < self.load_began + 1 or window[1] > min(complete, at[-1]):
                continue
            measured = sum(x.bytes_per_s or 0.0 for x in s.loads) * (window[1] - window[0])
            came, in_batches = (int(np.diff(np.searchsorted(x, window, side="right"))[0]) for x in (records, batches))
            every.append(_off(measured, came * of_record + in_batches * _BATCH_BYTES))
            if self._is_steady(*window):
                steady.append(every[-1])
                each = of_record + _BATCH_BYTES * in_batches / max(came, 1)
                own.append(_off(measured, float(np.diff(np.interp(window, at, acked))[0]) * each))
        yield "byte rate against the producer's own count over the same window, load steady, median / p95", _shares(own)
        yield "... against the broker's append times of the same records, load steady", _shares(steady)
        yield "... and all windows, the load's changes included", _shares(every)

    def _is_steady(self, begin: float, end: float) -> bool:
        since = [self.load_began + w.start + _STEADY_AFTER_S for w in self.waves]
        at = bisect_right(since, begin) - 1
        return at >= 0 and end <= self.load_began + self.waves[at].end

    def _complete_until(self, summary: dict[str, Any]) -> float:
        """Return until when every record that was appended has been processed, so that its append time is known."""
        until = np.inf
        for partition, (_, _, last) in summary["partitions"].items():
            records = self.processed.get(int(partition), [])
            newest = max(records, key=lambda r: r.offset, default=None)
            if newest is None or newest.offset < last:
                until = min(until, newest.appended if newest else self.load_began)
        return float(until)


def triggers(logs: Path, after: float) -> Iterator[Row]:
    """Return how long a job's triggers took that began after a time, and what of them took how long."""
    counted = [p for p in lines(logs / "progress.jsonl") if datetime.fromisoformat(p["at"]).timestamp() > after]
    if not counted:
        yield "whole trigger", "run longer than the first minute"
        return
    cycles = lines(logs / "cycles.jsonl")
    took = [p["trigger_ms"] for p in counted]
    acting = {c["cycle"] for c in cycles if c["actions"]}
    acted = [p["trigger_ms"] for p in counted if p["batch"] in acting]
    yield "whole trigger, p50 / p95 / max", _ms(took)
    if acted:
        yield "... those that acted, p50 / p95 / max", f"{_ms(acted)} (n {len(acted)})"
    yield "... triggers over 1 s", f"{sum(t > 1000 for t in took)} of {len(took)}"
    parts = {k: [p["durations_ms"].get(k, 0.0) for p in counted] for k in counted[-1]["durations_ms"]}
    yield "... Spark's parts, p50 / p95", _parts(parts)
    late = [c for c in cycles if c["t"] > after]
    stages = {k.removesuffix("_s"): [c["stages"][k] * 1e3 for c in late if k in c["stages"]] for c in late for k in c["stages"]}
    yield "... the cycle's stages, p50 / p95", _parts(stages)
    if len({c["group"] for c in late}) > 1:
        yield "... what each group has of its own, all groups together, p50 / p95", _parts({"groups": _of_groups(late)})


def _of_groups(cycles: list[dict[str, Any]]) -> list[float]:
    """Return the milliseconds of each trigger from the first group's decision to the last one's record."""
    own = ("observe_s", "decide_s", "publish_s", "apply_s", "record_s")
    found: dict[int, list[tuple[float, float]]] = {}
    for c in cycles:
        found.setdefault(c["cycle"], []).append((c["t"], sum(c["stages"].get(k, 0.0) for k in own)))
    return [1e3 * (max(t for t, _ in some) - min(t for t, _ in some) + some[-1][1]) for some in found.values()]


def _appended(records: list[Processed]) -> list[float]:
    return list({r.offset: r.appended for r in records}.values())


def _window(s: LoadSnapshot) -> tuple[float, float] | None:
    """Return the span that a snapshot's rates cover; ``None`` where partitions differ or something is not fresh."""
    if not s.known or len({(round(x.window_s, 6), round(x.age_s, 6)) for x in s.loads}) != 1:
        return None
    first = s.loads[0]
    end = s.sample_ts - first.age_s
    return end - first.window_s, end


def _off(measured: float, true: float) -> float:
    return abs(measured / true - 1) if true > 0 else float(measured > 0)


def _shares(off: list[float]) -> str:
    return f"{percentile(off, 0.5):.2%} / {percentile(off, 0.95):.2%} (n {len(off)})"


def _ms(values: list[float]) -> str:
    return " / ".join(f"{percentile(values, s):.0f}" for s in (0.5, 0.95, 1.0)) + " ms"


def _parts(parts: dict[str, list[float]]) -> str:
    ordered = sorted(parts.items(), key=lambda x: -percentile(x[1], 0.5))
    return ", ".join(f"{k} {percentile(v, 0.5):.0f}/{percentile(v, 0.95):.0f}" for k, v in ordered if max(v) >= 1) + " ms"
