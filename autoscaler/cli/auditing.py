"""``autoscaler audit``: what the tables hold and cost, and whether their upkeep is due."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from rich.table import Table

from autoscaler.adapters.audit.contents import Contents, contents
from autoscaler.cli.asked import Asked, terminal
from autoscaler.cli.times import shown
from autoscaler.core.messages import many

_WIDE = 110  # columns from which on all figures fit


def audit(args: argparse.Namespace) -> int:
    """Print what the tables hold.

    Raises:
        AutoscalerError: There are no tables, or they cannot be read.
        TimeError: There is no such zone.
    """
    asked = Asked.of(args)
    found = contents(asked.tables, asked.now.astimezone(UTC).date())
    keep_days = None if asked.settings is None else asked.settings.audit.keep_days
    if args.json:
        told = {"place": asked.tables, "keep_days": keep_days, "tables": [asdict(x) for x in found]}
        sys.stdout.write(json.dumps(told, indent=2, default=_written) + "\n")
        return 0
    console = terminal()
    console.print(_drawn(found, asked, console.width), highlight=False)
    for line in _said(found, asked, keep_days):
        console.print(line, highlight=False, soft_wrap=True)
    return 0


def _drawn(found: Sequence[Contents], asked: Asked, width: int) -> Table:
    cells: dict[str, Callable[[Contents], str]] = {
        "table": lambda x: x.name,
        "rows": lambda x: "?" if x.rows is None else f"{x.rows:,}",
        "oldest": lambda x: str(x.oldest or "-"),
        "newest": lambda x: str(x.newest or "-"),
        "files": lambda x: f"{x.files:,}",
        "size": lambda x: _size(x.bytes),
        "on disk": lambda x: _size(x.bytes_on_disk),
        "days to merge": lambda x: f"{x.unmerged_days}",
        "last upkeep": lambda x: "-" if x.upkeep_at is None else shown(x.upkeep_at, asked.zone),
    }
    if width < _WIDE:
        cells = {name: cell for name, cell in cells.items() if name not in {"newest", "size"}}
    table = Table()
    for name in cells:
        text = name in {"table", "oldest", "newest", "last upkeep"}
        table.add_column(name, justify="left" if text else "right", no_wrap=name in {"table", "oldest", "newest"})
    for x in found:
        table.add_row(*(cell(x) for cell in cells.values()))
    return table


def _said(found: Sequence[Contents], asked: Asked, keep_days: int | None) -> list[str]:
    """Return what the figures mean, and what to do where something is due."""
    here = all(x.bytes_on_disk is not None for x in found)
    total = sum((x.bytes_on_disk or 0) if here else x.bytes for x in found)
    said = [f"{asked.tables}: {_size(total)}{' on disk' if here else ''} in all"]
    if due := max(x.unmerged_days for x in found):
        said.append(
            f"{many(due, 'past day')} of many files: a running job merges them within the hour; where none runs, "
            "autoscaler maintain does"
        )
    if asked.settings is not None:
        said.append(
            "nothing is deleted: audit.keep is not set" if keep_days is None else f"days older than {keep_days} are deleted"
        )
    return said


def _size(number: int | None) -> str:
    if number is None:
        return "?"
    for unit, of in (("GB", 1e9), ("MB", 1e6)):
        if number >= of:
            return f"{number / of:,.1f} {unit}"
    return f"{number / 1e3:,.0f} kB"


def _written(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
