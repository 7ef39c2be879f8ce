"""``autoscaler history`` and ``autoscaler explain``: which tables, which time, and what is printed or said to be missing."""

import argparse
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, tzinfo
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from autoscaler.adapters.audit.decision_reader import DecisionTables
from autoscaler.adapters.clock import SystemClock
from autoscaler.cli import decision_history
from autoscaler.cli.main import few_of
from autoscaler.cli.times import TimeError, moment, shown, zone_of
from autoscaler.config import places
from autoscaler.config.settings import load
from autoscaler.console.job_state import FINE, Health, JobState, judge, read_job
from autoscaler.console.live import Terminal
from autoscaler.console.words import lasted
from autoscaler.errors import Exit, SettingsError

if TYPE_CHECKING:
    from autoscaler.config.settings import Settings

_FLUSHES = 2  # that the newest row may wait for
_FLUSH_S = 60.0
_ROWS = 20  # of a partition of one cluster, the newest
_WIDE = 140  # columns from which on sentences stand beside their rows
_PIPED = 160  # columns of a file or a pipe, where nothing says how many there are


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a command line asks of the tables.

    Attributes:
        tables: Their place (``config.places``).
        settings: Of the configuration that names it; ``None``: the directory itself was named.
        zone: That times are read and shown in; ``None``: this machine's.
        now: When that is.
    """

    tables: str
    settings: "Settings | None"
    zone: tzinfo | None
    now: datetime

    @classmethod
    def of(cls, args: argparse.Namespace) -> "Asked":
        """Return what was asked.

        Raises:
            SettingsError: The configuration is wrong.
            TimeError: There is no such zone.
        """
        settings = None if args.config is None else load(args.config, connects=False)
        tables = places.resolved(args.tables, catalog=True) if settings is None else settings.tables_place
        now = datetime.fromtimestamp(SystemClock().now(), UTC)
        return cls(tables=tables, settings=settings, zone=zone_of(args.zone), now=now)

    def span(self, args: argparse.Namespace) -> tuple[datetime, datetime]:
        """Return from when on and until when a command is to look.

        Raises:
            TimeError: A time is none, or the second comes before the first.
        """
        until = self.now if args.until is None else moment(args.until, self.now, self.zone)
        since = moment(args.since, self.now, self.zone)
        if since > until:
            raise TimeError(f"--since is {shown(since, self.zone)}, after --until, {shown(until, self.zone)}")
        return since, until

    @property
    def flush_s(self) -> float:
        """Return how long decisions may wait for the tables, in seconds."""
        return _FLUSH_S if self.settings is None else self.settings.audit.flush_s

    @property
    def quiet_s(self) -> float:
        """Return the age of the newest decision in the tables, in seconds, from which on something is wrong."""
        return _FLUSH_S + _FLUSHES * self.flush_s

    def health(self, latest: datetime) -> Health:
        """Return how the job is whose newest decision in the tables is this; the last minute may not be written yet."""
        here = places.local(self.tables)
        root = self.settings.root if self.settings is not None else here and here.parent
        job = JobState() if root is None else read_job(root)
        if job.held is None and job.said is None and self.settings is None:
            return FINE  # a copy of the tables: nothing is known of a job
        return judge(job, latest.timestamp(), self.now.timestamp(), quiet_s=self.quiet_s, flush_s=self.flush_s)


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


def terminal() -> Terminal:
    """Return where answers are printed: as wide as it is, or wide where nothing says so."""
    return Terminal(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPED)


def nothing(group: str, latest: Mapping[str, datetime], asked: Asked, when: str) -> int:
    """Say that there is no decision, and what there is."""
    if group in latest:
        age = lasted((asked.now - latest[group]).total_seconds())
        said = f"no decision of group {group} {when}; its latest is of {shown(latest[group], asked.zone)}, {age} ago"
    else:
        said = f"no decision of a group {group} in {asked.tables}; there are decisions of {few_of(latest) or 'none'}"
    sys.stderr.write(said + "\n")
    return Exit.FAILED
