"""What the tables have of groups as the page's values: the same that ``/api`` gives of a running job, for any time.

A long time has more decisions than a chart can show or a file should hold. What is left out is said in the notes, and what is
kept is what was recorded: nothing is averaged.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from autoscaler.adapters.audit.decision_reader import DecisionTables, Row
from autoscaler.adapters.http.board import Change, Group, Point, change, consumer, group_of
from autoscaler.adapters.http.metrics import Cycle
from autoscaler.adapters.http.one_file import ReportedGroup
from autoscaler.adapters.http.why import Why, cost_of, moves_of, why_of
from autoscaler.adapters.job_log import changes_something
from autoscaler.cli.explanation import load_of, observed, row_decided, unjudged
from autoscaler.console.words import lasted
from autoscaler.core.why_not import why_not
from autoscaler.model import Observation, TopicPartition
from autoscaler.model.names import client_of

if TYPE_CHECKING:
    from autoscaler.config.policy import Policy

_LATER = timedelta(minutes=10)  # than its decision, a handover may be recorded
_FLUSHED = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much of each group is kept: spans of the chart, of which each keeps two points at most, and decisions in the list."""

    spans: int
    decisions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """From when to when, in seconds since 1970; a decision older than ``old_s`` at the end is called old."""

    since: datetime
    until: datetime
    old_s: float
    shown: Callable[[datetime], str]


def reported(tables: DecisionTables, group: str, times: Times, bounds: Bounds, policy: "Policy | None") -> ReportedGroup | None:
    """Return one group's views of a time; ``None``: there is no decision of it then.

    Raises:
        AutoscalerError: The tables cannot be read.
    """
    rows = tables.brief(group, times.since, times.until)
    if not rows:
        return None
    changed = _changed(rows)
    listed = changed[-bounds.decisions :]
    wanted = {r["decision_id"]: r for r in (*listed, rows[-1])}
    found = {r["decision_id"]: r for r in tables.whole([*wanted.values()])}
    last, whole = found[rows[-1]["decision_id"]], [found[r["decision_id"]] for r in listed]
    span_s = max(1.0, (rows[-1]["at"] - rows[0]["at"]).total_seconds()) / bounds.spans
    points, apart = _thinned(rows, span_s), changed[: len(changed) - len(listed)]
    whys = _whys(tables, group, whole, policy)
    until = times.until.timestamp()
    workers = _workers(last, observed(tables.measured(last)))
    seen = _glance(last, workers, until, times.old_s)
    return {
        "one": {
            "now": until,
            "old_s": times.old_s,
            "group": seen,
            "holders": [consumer(w) for w in workers],
            "history": points,
            "decisions": [_change(r) for r in whole][::-1],
        },
        "whys": whys[::-1],
        "marks": [r["at"].timestamp() for r in _one_each(apart, span_s)],
        "notes": [
            *_notes(len(rows), len(points), len(changed), len(listed), span_s),
            *_ends(rows[-1], times, ended=seen["age_s"] > times.old_s),
        ],
    }


def _changed(rows: Sequence[Row]) -> list[Row]:
    """Return the decisions that changed something; the first has none before it to differ from."""
    before = [None, *map(_line, rows[:-1])]
    return [r for r, b in zip(rows, before, strict=True) if changes_something(_line(r), b)]


def _thinned(rows: Sequence[Row], span_s: float) -> list[Point]:
    """Return of each span the points with the lowest and the highest load, and one that is not known, where there are such."""
    kept: list[Row] = []
    for rows_of in _spans(rows, span_s):
        known = [r for r in rows_of if r["total_bytes_per_s"] is not None]
        ends = [end(known, key=lambda r: r["total_bytes_per_s"]) for end in (min, max)] if known else []
        unknown = next((r for r in rows_of if r["total_bytes_per_s"] is None), None)
        chosen = {id(r): r for r in (*ends, unknown) if r is not None}
        kept += sorted(chosen.values(), key=lambda r: r["at"])
    if kept[-1] is not rows[-1]:
        kept.append(rows[-1])
    return [_point(r) for r in kept]


def _spans(rows: Sequence[Row], span_s: float) -> Iterable[list[Row]]:
    spans: dict[int, list[Row]] = {}
    for r in rows:
        spans.setdefault(int((r["at"] - rows[0]["at"]).total_seconds() // span_s), []).append(r)
    return spans.values()


def _one_each(rows: Sequence[Row], span_s: float) -> list[Row]:
    return [found[0] for found in _spans(rows, span_s)]


def _notes(rows: int, points: int, changed: int, listed: int, span_s: float) -> list[str]:
    """Return what is left out, by how many there were and how many are kept."""
    notes = []
    if points < rows:
        notes.append(
            f"The chart draws {points:,} of {rows:,} recorded decisions: of every {lasted(span_s)} those with the lowest and the "
            "highest load. No recorded peak is left out."
        )
    if listed < changed:
        notes.append(
            f"{changed:,} decisions changed something: the latest {listed:,} are listed, earlier ones are marked in the chart. "
            "A report of a shorter time lists them."
        )
    return notes


def _ends(last: Row, times: Times, *, ended: bool) -> list[str]:
    at = times.shown(last["at"])
    said = f"The last decision of this time was made at {at}; after it nothing is recorded up to the end of this time."
    return [said] if ended else []


def _line(row: Row) -> Mapping[str, Any]:
    """Return a row as a cycle's line has it."""
    return {**row, "t": row["at"].timestamp(), "actions": row["steps"] or (), "consumers": row["consumers"] or None,
            "recommended": row["recommended"] or None}  # fmt: skip


def _change(row: Row) -> Change:
    return change(_line(row))


def _point(row: Row) -> Point:
    able, running = row["capacity_bytes_per_s"], row["consumers_now"]
    return {
        "at": row["at"].timestamp(),
        "load": row["total_bytes_per_s"],
        "capacity": None if able is None or running is None else able * running,
        "consumers": running,
        "lag_records": row["total_lag_records"],
    }


def _glance(row: Row, workers: list[Mapping[str, Any]], now: float, old_s: float) -> Group:
    at, sampled = row["at"].timestamp(), row["sample_ts"]
    line = {
        **_line(row),
        "cluster": row["cluster"] or "",
        "partitions": len(row["loads"] or ()),
        "known": bool(row["known"]),
        "parked": (),
        "sample_age_s": 0.0 if sampled is None else max(0.0, at - sampled),
        "workers": workers,
    }
    return group_of(Cycle(line=line, loads=tuple(map(load_of, row["loads"] or ()))), now, old_s)


def _workers(row: Row, seen: Observation | None) -> list[Mapping[str, Any]]:
    """Return the consumers of a decision: those that hold something, as they are recorded, and the others by their number.

    Args:
        row: The decision.
        seen: What it was made from, which has their names and hosts; ``None``: that is not recorded.
    """
    lags = {f"{x['topic']}-{x['partition']}": x["lag_records"] for x in row["loads"] or ()}
    known = _introduced(seen)
    members = [_worker(row, m, lags, known.get(m["member"], {})) for m in row["members"] or ()]
    idle = max(0, (row["consumers_now"] or 0) - len(members))
    empty = {"slot": None, "phase": "", "bytes_per_s": 0.0, "capacity_bytes_per_s": row["capacity_bytes_per_s"], "lag_records": 0}
    return [*members, *({**empty, "name": f"holds nothing ({n + 1})", "partitions": []} for n in range(idle))]


def _introduced(seen: Observation | None) -> Mapping[str, Mapping[str, Any]]:
    """Return what consumers are called, by what the audit knows them by: slot or member id, as text."""
    if seen is None:
        return {}
    workers = seen.state.workers if seen.state is not None else ()
    members = seen.members.members if seen.members is not None else ()
    clients = Counter(m.client_id for m in members)
    named = {m.member_id: m.client_id if clients[m.client_id] == 1 else client_of(m.member_id) for m in members}
    return {str(w.slot): {"slot": w.slot, "name": w.name} for w in workers if w.slot is not None} | {
        m.member_id: {"name": named[m.member_id], "client_id": m.client_id, "host": m.host} for m in members
    }


def _worker(row: Row, member: Mapping[str, Any], lags: Mapping[str, int | None], known: Mapping[str, Any]) -> Mapping[str, Any]:
    name = client_of(member["member"])
    behind = [lags.get(p) for p in member["partitions"]]
    return {
        "slot": None,
        "name": f"consumer {name}" if name.isdecimal() else name,
        "phase": "",
        "bytes_per_s": member["bytes_per_s"],
        "capacity_bytes_per_s": member["capacity_bytes_per_s"] or row["capacity_bytes_per_s"],
        "lag_records": None if None in behind else sum(x for x in behind if x is not None),
        "partitions": member["partitions"],
        **known,
    }


def _whys(tables: DecisionTables, group: str, rows: Sequence[Row], policy: "Policy | None") -> list[Why]:
    """Return why each decision was made, what became of it, and what it cost."""
    if not rows:
        return []
    since, until = rows[0]["at"], rows[-1]["at"] + _LATER
    done = {o["decision_id"]: o for o in tables.outcomes_in(group, since, until) if o["phase"] == "outcome"}
    pauses: dict[int, dict[TopicPartition, float | None]] = {}
    for h in tables.handovers(group, since - _FLUSHED, until):
        pauses.setdefault(h["epoch"], {})[TopicPartition(topic=h["topic"], partition=h["partition"])] = h["pause_s"]
    return [_why(r, done.get(r["decision_id"]), pauses, policy) for r in rows]


def _why(
    row: Row, outcome: Row | None, pauses: Mapping[int, Mapping[TopicPartition, float | None]], policy: "Policy | None"
) -> Why:
    same = policy is not None and policy.fingerprint == row["policy_fingerprint"]
    rates = {TopicPartition(topic=x["topic"], partition=x["partition"]): x["bytes_per_s"] for x in row["loads"] or ()}
    moving = {p: rates.get(p) for p in moves_of(row["steps"] or ())}
    by_plan = pauses.get(outcome["epoch"], {}) if outcome is not None and outcome["epoch"] is not None else {}
    became = None if outcome is None else outcome["status"] + (f": {outcome['error']}" if outcome["error"] else "")
    if became is None and row["steps"]:
        became = "not recorded" if row["acted"] else "nothing was done: these are the steps that it would have taken"
    cost = cost_of(moving, row["r_score"], {p: s for p, s in by_plan.items() if p in moving})
    judged = why_not(row_decided(row, policy if same else None))
    return why_of(row["at"].timestamp(), judged, unjudged(policy), outcome=became, cost=cost)
