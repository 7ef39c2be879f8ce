"""``autoscaler report``: the page's views of a recorded time as one HTML file, to be attached to a ticket."""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from autoscaler.adapters.audit.decision_reader import DecisionTables
from autoscaler.adapters.http.one_file import Report, ReportedGroup, one_file
from autoscaler.adapters.kernels import announced
from autoscaler.cli.asked import Asked, nothing
from autoscaler.cli.recorded_views import Bounds, Times, reported
from autoscaler.cli.times import shown, zone_of
from autoscaler.cli.whole_file import write_whole
from autoscaler.core.messages import many
from autoscaler.errors import Exit

if TYPE_CHECKING:
    from autoscaler.adapters.http.board import Overview

_SPANS, _DECISIONS = 720, 300  # of one group: as many as a screen can show, and as one can look through
_ALL_SPANS, _ALL_DECISIONS = 40_000, 2_000  # of all groups together
_FEWEST = Bounds(spans=30, decisions=3)


def report(args: argparse.Namespace) -> int:
    """Write the report, or nothing where there is nothing to show.

    Raises:
        AutoscalerError: There are no tables, they cannot be read, or the file cannot be written.
        TimeError: A time is none.
    """
    asked = Asked.of(args)
    since, until = asked.span(args)
    zone = zone_of(args.zone or "UTC")  # for readers elsewhere; a time that is given is read by this machine's clocks
    asked = replace(asked, zone=zone)
    tables = DecisionTables(asked.tables)
    policies = {g.group: g for g in asked.settings.groups} if asked.settings is not None else {}
    latest = tables.groups() if args.all else {}
    names = [name for name, at in latest.items() if at >= since] if args.all else [args.group]
    bounds = bounds_of(len(names))
    times = Times(since=since, until=until, old_s=asked.quiet_s, shown=lambda at: shown(at, zone))
    with announced(sys.stderr.write):
        told = {name: reported(tables, name, times, bounds, policies.get(name)) for name in sorted(names)}
    found = {name: x for name, x in told.items() if x is not None}
    when = f"between {shown(since, zone)} and {shown(until, zone)}"
    if not found and args.all:
        sys.stderr.write(f"no decision of any group in {asked.tables} {when}\n")
        return Exit.FAILED
    if not found:
        return nothing(args.group, tables.groups(), asked, when)
    path = Path(args.output)
    made = f"Recorded {when}; this report was made at {shown(asked.now, zone)} from {asked.tables} and does not change."
    title = args.group or many(len(found), "consumer group")
    write_whole(path, one_file(f"{title} · {shown(until, zone)}", _report(found, since, until, zone, made)))
    decisions = sum(len(x["one"]["decisions"]) for x in found.values())
    sys.stdout.write(
        f"{path}: {title} {when}, {many(decisions, 'decision')} that changed something; {path.stat().st_size / 1e3:,.0f} kB\n"
    )
    return 0


def bounds_of(groups: int) -> Bounds:
    """Return how much is kept of each of so many groups, so that a report of many of them is not endless."""
    spans, decisions = _ALL_SPANS // max(1, groups), _ALL_DECISIONS // max(1, groups)
    return Bounds(spans=max(_FEWEST.spans, min(_SPANS, spans)), decisions=max(_FEWEST.decisions, min(_DECISIONS, decisions)))


def _report(found: Mapping[str, ReportedGroup], since: datetime, until: datetime, zone: tzinfo | None, made: str) -> Report:
    ages = [until.timestamp() - x["one"]["group"]["at"] for x in found.values()]
    overview: Overview = {
        "now": until.timestamp(),
        "old_s": next(iter(found.values()))["one"]["old_s"],
        "cycle_age_s": min(ages),
        "audit_waiting_s": 0.0,
        "undecided": [],
        "groups": [x["one"]["group"] for x in found.values()],
    }
    return {
        "since": since.timestamp(),
        "until": until.timestamp(),
        "zone": "UTC" if zone is None or zone is UTC else str(zone),
        "notes": [made],
        "overview": overview,
        "groups": dict(found),
    }
