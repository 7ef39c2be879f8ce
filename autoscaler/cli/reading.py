"""``autoscaler history`` and ``autoscaler explain``: what is printed of the tables."""

import argparse
import json
import sys
from dataclasses import asdict
from datetime import datetime
from itertools import groupby
from operator import itemgetter

from autoscaler.adapters.audit.decision_reader import DecisionTables
from autoscaler.cli import decision_history
from autoscaler.cli.asked import Asked, nothing, terminal
from autoscaler.cli.times import moment, shown
from autoscaler.console.job_state import FINE
from autoscaler.errors import Exit, SettingsError

_ROWS = 20  # of a partition of one cluster, the newest
_WIDE = 140  # columns from which on sentences stand beside their rows


def history(args: argparse.Namespace) -> int:
    """Print what was decided for a group in a time.

    Raises:
        AutoscalerError: There are no tables, or they cannot be read.
        TimeError: A time is none.
    """
    asked = Asked.of(args)
    since, until = asked.span(args)
    tables = DecisionTables(asked.tables)
    spells = tables.spells(args.group, since, until)
    if not spells:
        return nothing(args.group, tables.groups(), asked, f"between {shown(since, asked.zone)} and {shown(until, asked.zone)}")
    left = len(spells) - args.limit
    spells = spells[-args.limit :]
    health = asked.health(spells[-1].until) if args.until is None else FINE
    if args.json:
        sys.stdout.write(decision_history.as_json(args.group, since, until, spells, health))
        return 0
    console = terminal()
    if health.text:
        console.print(health.text, style="bold red" if health.level == "dead" else "bold yellow", highlight=False)
    rows = [asdict(s) for s in spells]
    draw = decision_history.history if console.width >= _WIDE else decision_history.narrow_history
    console.print(draw(rows, asked.zone), highlight=False)
    if left > 0:
        console.print(f"and {left} before these: --limit {left + args.limit}", style="dim", highlight=False)
    return 0


def explain(args: argparse.Namespace) -> int:
    """Print why a group had its number of consumers at a time.

    Raises:
        AutoscalerError: There are no tables, or they cannot be read.
        TimeError: A time is none.
    """
    from autoscaler.adapters.kernels import announced  # noqa: PLC0415  loads the planner
    from autoscaler.cli import explanation  # noqa: PLC0415  as above

    asked = Asked.of(args)
    at = asked.now if args.at is None else moment(args.at, asked.now, asked.zone)
    tables = DecisionTables(asked.tables)
    if args.partition is not None:
        return _explain_partition(args, asked, tables, at)
    row = tables.decision(args.group, at)
    if row is None:
        return nothing(args.group, tables.groups(), asked, f"at or before {shown(at, asked.zone)}")
    groups = asked.settings.groups if asked.settings is not None else ()
    policy = next((g for g in groups if g.group == args.group), None)
    with announced(sys.stderr.write):
        found = explanation.explained(row, tables.outcomes(row), at, policy, tables.measured(row))
    health = asked.health(row["at"]) if args.at is None else FINE
    if args.json:
        sys.stdout.write(explanation.as_json(found, health))
        return 0
    terminal().print(explanation.drawn(found, asked.zone, health), highlight=False)
    return 0


def _explain_partition(args: argparse.Namespace, asked: Asked, tables: DecisionTables, at: datetime) -> int:
    """Print why a partition's leader or replicas were moved, or would be, and what became of it."""
    topic, dash, number = args.partition.rpartition("-")
    if not (dash and topic and number.isdecimal()):
        raise SettingsError((f"--partition: {args.partition!r} is no TOPIC-N, such as orders-3",))
    by_cluster = {c: list(of)[-_ROWS:] for c, of in groupby(tables.balancing(topic, int(number), at), itemgetter("cluster"))}
    if not by_cluster:
        sys.stderr.write(f"nothing was planned for the brokers of {args.partition} at or before {shown(at, asked.zone)}\n")
        for cluster, look in tables.looks(at).items():
            sys.stderr.write(f"what was found of cluster {cluster} at {shown(look['at'], asked.zone)}: {look['detail']}\n")
        return Exit.FAILED
    if args.json:
        values = [{k: v for k, v in r.items() if k != "date"} for of in by_cluster.values() for r in of]
        sys.stdout.write(json.dumps(values, indent=2, ensure_ascii=False, default=decision_history.written) + "\n")
        return 0
    for cluster, of in by_cluster.items():
        if len(by_cluster) > 1:  # several have a topic of this name
            sys.stdout.write(f"cluster {cluster}:\n")
        for r in of:
            to = f" to brokers {', '.join(map(str, r['replicas']))}" if r["replicas"] else ""
            sys.stdout.write(f"{shown(r['at'], asked.zone)}  {r['status']}{to}{': ' if r['detail'] else ''}{r['detail'] or ''}\n")
    return 0
