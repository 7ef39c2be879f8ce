"""What the page shows: the latest cycle of each group, and a bounded history of it, as values for ``/api``.

It is told of cycles after they are done and holds none of them up. The history begins with the job: the audit's tables have what
was before.
"""

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict  # pydantic reads typing's only from Python 3.12 on

from autoscaler.adapters.http.metrics import Backlog, Cycle
from autoscaler.adapters.http.why import Record, Why
from autoscaler.adapters.job_log import changes_something
from autoscaler.model import HandoverDone
from autoscaler.ports import Clock

HISTORY_S = 900.0
STEP_S = 10.0  # between two points of the history
DECISIONS = 50  # of a group: the latest that changed something
STEPS = 20  # of one decision: as many as are listed one by one

Risk = Literal["old", "retention", "stands still", "unknown", "overloaded", "full", "none"]
RISKS: tuple[Risk, ...] = ("old", "retention", "stands still", "unknown", "overloaded", "full", "none")  # worst first
_STILL = {"STUCK_PARTITION", "OFFSET_OUT_OF_RANGE"}
_Optional = Annotated[float | None, Field(description="null: not known")]


class Bar(TypedDict):
    """One consumer: its load and what it can do, in log bytes/s."""

    name: str
    slot: int | None
    load: _Optional
    capacity: _Optional


class Consumer(Bar):
    """One consumer with what it holds."""

    client_id: str | None
    host: str | None
    phase: str
    lag_records: int | None
    partitions: list[str]


class Group(TypedDict):
    """One group at a glance; rates in log bytes/s, times in seconds."""

    name: str
    cluster: str
    mode: str
    at: Annotated[float, Field(description="when it was decided, in seconds since 1970")]
    age_s: Annotated[float, Field(description="seconds since it was decided")]
    sample_age_s: Annotated[float, Field(description="age of the latest sample")]
    old: Annotated[bool, Field(description="not decided, or not sampled, for longer than old_s")]
    reason: str
    limited_by: str | None
    sentence: str
    consumers_now: int | None
    consumers: Annotated[int | None, Field(description="asked for, or in mode advise those that would be")]
    recommended: Annotated[int | None, Field(description="that the load takes")]
    partitions: int
    bytes_per_s: _Optional
    lag_records: int | None
    lag_s: Annotated[float | None, Field(description="of the worst partition")]
    utilisation: Annotated[float | None, Field(description="load over capacity of the hottest consumer")]
    waste: Annotated[int | None, Field(description="consumers beyond those that the load takes")]
    risk: Risk
    bars: list[Bar]


class Overview(TypedDict):
    """Every group at a glance."""

    now: Annotated[float, Field(description="the job's clock, in seconds since 1970")]
    old_s: Annotated[float, Field(description="age from which on data counts as old")]
    cycle_age_s: Annotated[float | None, Field(description="seconds since any group was decided; null: none was yet")]
    audit_waiting_s: Annotated[float, Field(description="age of the oldest cycle that the audit's tables lack")]
    undecided: Annotated[list[str], Field(description="groups without a cycle since the job began")]
    groups: list[Group]


class Point(TypedDict):
    """One moment of the history."""

    at: float
    load: _Optional
    capacity: Annotated[float | None, Field(description="of all consumers together")]
    consumers: int | None
    lag_records: int | None


class Change(TypedDict):
    """One decision that changed something."""

    at: float
    reason: str
    limited_by: str | None
    sentence: str
    consumers_now: int | None
    consumers: int | None
    recommended: int | None
    steps: Annotated[list[str], Field(description=f"the first {STEPS} in words")]
    steps_all: Annotated[int, Field(description="how many there are")]


class OneGroup(TypedDict):
    """One group with who holds what, its history and its latest decisions."""

    now: float
    old_s: float
    group: Group
    holders: list[Consumer]
    history: Annotated[list[Point], Field(description=f"oldest first, {HISTORY_S:.0f} s at most")]
    decisions: Annotated[list[Change], Field(description=f"latest first, {DECISIONS} at most")]


class _History:
    """What is kept of one group."""

    __slots__ = ("changes", "latest", "points", "records")

    def __init__(self) -> None:
        self.latest: Cycle | None = None
        self.points: deque[Point] = deque(maxlen=int(HISTORY_S / STEP_S))
        self.changes: deque[Change] = deque(maxlen=DECISIONS)
        self.records: deque[Record] = deque(maxlen=DECISIONS)  # one for each change

    def changed(self, cycle: Cycle) -> None:
        self.changes.append(change(cycle.line))
        self.records.append(Record.of(cycle, self.records[-1].partitions if self.records else ()))

    def handed_over(self, done: HandoverDone) -> None:
        """Count a handover for the latest decision that moves this partition by an earlier plan than the one that granted it."""
        for record in reversed(self.records):
            if done.partition in record.moving and (record.line["epoch"] or 0) < done.epoch:
                record.pauses[done.partition] = done.pause_s
                return


class Board:
    """Remembers cycles, and tells of them."""

    def __init__(self, clock: Clock, backlog: Backlog, groups: Iterable[str], *, old_s: float) -> None:
        """Know nothing yet; ``groups`` are expected, and what is older than ``old_s`` seconds is called old."""
        self._clock, self._backlog, self._old_s = clock, backlog, old_s
        self._groups = {name: _History() for name in groups}
        self._guard = threading.Lock()

    def take(self, cycle: Cycle, handovers: Iterable[HandoverDone] = ()) -> None:
        """Take in one cycle of one group, and the handovers that it saw finished; any thread may call it."""
        with self._guard:
            kept = self._groups.setdefault(cycle.name, _History())
            before, kept.latest = kept.latest, cycle
            if not kept.points or cycle.line["t"] - kept.points[-1]["at"] >= STEP_S:
                kept.points.append(_point(cycle))
            for done in handovers:
                kept.handed_over(done)
            if changes_something(cycle.line, before.line if before else None):
                kept.changed(cycle)

    def overview(self) -> Overview:
        """Return every group at a glance."""
        now = self._clock.now()
        with self._guard:
            latest = {name: kept.latest for name, kept in self._groups.items()}
        cycles = [c for c in latest.values() if c is not None]
        _, since = self._backlog()
        return {
            "now": now,
            "old_s": self._old_s,
            "cycle_age_s": min((c.age_s(now) for c in cycles), default=None),
            "audit_waiting_s": 0.0 if since is None else max(0.0, now - since),
            "undecided": [name for name, c in latest.items() if c is None],
            "groups": [group_of(c, now, self._old_s) for c in cycles],
        }

    def group(self, name: str) -> OneGroup | None:
        """Return one group; ``None`` if it has had no cycle."""
        with self._guard:
            kept = self._groups.get(name)
            if kept is None or kept.latest is None:
                return None
            cycle, points, changes = kept.latest, list(kept.points), list(kept.changes)
        now = self._clock.now()
        return {
            "now": now,
            "old_s": self._old_s,
            "group": group_of(cycle, now, self._old_s),
            "holders": [consumer(w) for w in cycle.line["workers"]],
            "history": [*(p for p in points if now - p["at"] <= HISTORY_S and p["at"] < cycle.line["t"]), _point(cycle)],
            "decisions": changes[::-1],
        }

    def why(self, name: str, at: float) -> Why | None:
        """Return why a decision was made and what it cost; ``None`` if there is none that changed something at this time."""
        with self._guard:
            kept = self._groups.get(name)
            found = next((r for r in kept.records if r.line["t"] == at), None) if kept else None
            pauses = dict(found.pauses) if found else {}
        return None if found is None else found.why(pauses)


def group_of(c: Cycle, now: float, old_s: float) -> Group:
    """Return a group at a glance, at a time."""
    line, age_s, utilisation = c.line, c.age_s(now), c.utilisation
    sample_age_s = age_s + line["sample_age_s"]
    running, takes = line["consumers_now"], line["recommended"]
    old = max(age_s, sample_age_s) > old_s
    return {
        "name": c.name,
        "cluster": line["cluster"],
        "mode": line["mode"],
        "at": line["t"],
        "age_s": age_s,
        "sample_age_s": sample_age_s,
        "old": old,
        "reason": line["reason"],
        "limited_by": line["limited_by"],
        "sentence": line["detail"],
        "consumers_now": running,
        "consumers": line["consumers"],
        "recommended": takes,
        "partitions": line["partitions"],
        "bytes_per_s": line["total_bytes_per_s"],
        "lag_records": line["total_lag_records"],
        "lag_s": c.most(lambda x: x.lag_s),
        "utilisation": utilisation,
        "waste": None if running is None or takes is None else max(0, running - takes),
        "risk": "old" if old else _risk(line, utilisation),
        "bars": [_bar(w) for w in line["workers"]],
    }


def _risk(line: Mapping[str, Any], utilisation: float | None) -> Risk:
    """Return the worst that a cycle says of its group."""
    usable = line["usable_bytes_per_s"] / line["capacity_bytes_per_s"] if line["capacity_bytes_per_s"] else 1.0
    said = {line["reason"], line["limited_by"]}
    if "RETENTION_AT_RISK" in said:
        return "retention"
    if line["parked"] or said & _STILL or any(w["phase"] == "stuck" for w in line["workers"]):
        return "stands still"
    if not line["known"] or utilisation is None:
        return "unknown"
    if utilisation > 1.0:
        return "overloaded"
    return "full" if utilisation > usable else "none"


def _bar(w: Mapping[str, Any]) -> Bar:
    return {"name": w["name"], "slot": w["slot"], "load": w["bytes_per_s"], "capacity": w["capacity_bytes_per_s"]}


def consumer(w: Mapping[str, Any]) -> Consumer:
    """Return a consumer with what it holds."""
    return {
        **_bar(w),
        "client_id": w.get("client_id"),
        "host": w.get("host"),
        "phase": w["phase"],
        "lag_records": w["lag_records"],
        "partitions": w["partitions"],
    }


def _point(c: Cycle) -> Point:
    able = [w["capacity_bytes_per_s"] for w in c.line["workers"]]
    return {
        "at": c.line["t"],
        "load": c.line["total_bytes_per_s"],
        "capacity": None if None in able else sum(able),
        "consumers": c.line["consumers_now"],
        "lag_records": c.line["total_lag_records"],
    }


def change(line: Mapping[str, Any]) -> Change:
    """Return what is listed of a decision that changed something."""
    return {
        "at": line["t"],
        "reason": line["reason"],
        "limited_by": line["limited_by"],
        "sentence": line["detail"],
        "consumers_now": line["consumers_now"],
        "consumers": line["consumers"],
        "recommended": line["recommended"],
        "steps": [step["what"] for step in islice(line["actions"], STEPS)],
        "steps_all": len(line["actions"]),
    }
