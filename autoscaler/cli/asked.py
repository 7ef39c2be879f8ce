"""What a command that reads the tables is asked: which tables, which time, and what is said where there is nothing to show."""

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING

from autoscaler.adapters.clock import SystemClock
from autoscaler.cli.few import few_of
from autoscaler.cli.times import TimeError, moment, shown, zone_of
from autoscaler.config import places
from autoscaler.config.settings import load
from autoscaler.console.job_state import FINE, Health, JobState, judge, read_job
from autoscaler.console.live import Terminal
from autoscaler.console.words import lasted
from autoscaler.errors import Exit

if TYPE_CHECKING:
    from autoscaler.config.settings import Settings

_FLUSHES = 2  # that the newest row may wait for
_FLUSH_S = 60.0
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
