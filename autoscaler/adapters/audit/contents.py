"""What the audit's tables hold and cost, by their logs alone: rows, files, bytes, the oldest day, and what upkeep has done.

Beside the path: reads only, without Spark, and no data file.
"""

import os
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from autoscaler.adapters.audit.balance_table import BALANCE, of_brokers
from autoscaler.adapters.audit.place import TablesPlace
from autoscaler.adapters.audit.tables import MANY_FILES, TABLES
from autoscaler.errors import SettingsError

_COMMITS = 500  # of a table's log that are looked through for the latest upkeep
_UPKEEP = ("OPTIMIZE", "VACUUM", "DELETE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What one table holds.

    Attributes:
        name: Of the table.
        rows: In all; ``None``: its log does not say of every file.
        files: That hold them.
        bytes: Of these files.
        bytes_on_disk: With those that nothing refers to any more, and the log; ``None``: it is not on this machine.
        oldest: First day that it has rows of; ``None``: it has none.
        newest: Last day.
        unmerged_days: Past days with so many files that upkeep merges them.
        upkeep_at: When it was kept in order last, as far as the latest commits say.
    """

    name: str
    rows: int | None
    files: int
    bytes: int
    bytes_on_disk: int | None
    oldest: date | None
    newest: date | None
    unmerged_days: int
    upkeep_at: datetime | None


def contents(where: str, today: date) -> tuple[Contents, ...]:
    """Return what the tables in a place hold, of those that are there.

    Raises:
        SettingsError: There are none, or one cannot be read without Spark.
    """
    place = TablesPlace.of(where)
    if place.catalog:
        raise SettingsError((f"tables: {where} can be read by Spark only: DESCRIBE DETAIL and DESCRIBE HISTORY tell the same",))
    asked = [(place, name) for name in TABLES] + [(of_brokers(where), BALANCE.name)]
    found = tuple(x for of, name in asked if (x := _of_table(of, name, today)) is not None)
    if not found:
        raise SettingsError((f"tables: no tables in {where}; the job makes them with its first decision",))
    return found


def _of_table(place: TablesPlace, name: str, today: date) -> Contents | None:
    try:
        there = DeltaTable(place.at(name))
        added = pa.table(there.get_add_actions(flatten=True))
        upkeep = [c["timestamp"] for c in there.history(_COMMITS) if str(c.get("operation", "")).startswith(_UPKEEP)]
    except TableNotFoundError:
        return None
    except (DeltaError, OSError, ValueError) as e:
        raise SettingsError((f"tables: table {place.at(name)} cannot be read: {str(e).splitlines()[0]}",)) from e
    rows = added.column("num_records").to_pylist()
    days = Counter(added.column("partition.date").to_pylist())
    return Contents(
        name=name,
        rows=None if None in rows else sum(rows),
        files=len(rows),
        bytes=sum(added.column("size_bytes").to_pylist()),
        bytes_on_disk=None if place.local is None else _on_disk(place.local / name),
        oldest=min(days, default=None),
        newest=max(days, default=None),
        unmerged_days=sum(day < today and count >= MANY_FILES for day, count in days.items()),
        upkeep_at=datetime.fromtimestamp(max(upkeep) / 1000, UTC) if upkeep else None,
    )


def _on_disk(directory: Path) -> int:
    total = 0
    for root, _, names in os.walk(directory):
        for name in names:
            try:
                total += (Path(root) / name).stat().st_blocks * 512
            except OSError:  # it was just removed
                continue
    return total
