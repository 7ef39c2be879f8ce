"""Looks at existing tables without Spark, so that one that the audit cannot write is named before the job starts.

Beside the path, used at start. A column that an earlier release did not have is no fault: it is added when the tables are opened.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from autoscaler.adapters.audit.tables import TABLES, Difference, Table, differences, sql_type
from autoscaler.errors import SettingsError


def check_tables(root: Path, tables: Mapping[str, Table] = TABLES) -> None:
    """Refuse tables below ``root`` that the audit cannot append to; absent ones, and ones that lack columns, are fine.

    Raises:
        SettingsError: One problem per table that does not fit: its path, what differs and what to do.
    """
    problems = []
    for table in tables.values():
        path = root / table.name
        if not path.exists() or (path.is_dir() and not any(path.iterdir())):
            continue
        try:
            said = "; ".join(_faults(table, path))
        except (DeltaError, OSError, ValueError) as e:
            first_line = str(e).partition("\n")[0]
            problems.append(
                f"state_dir: the tables in {root} cannot be read ({table.name}: {first_line}): "
                "move them away, or name another state_dir"
            )
            continue
        if said:
            problems.append(
                f"state_dir: table {path} does not fit this release: {said}. "
                f"Move {root} away (nothing but the audit is in it) or give another state_dir"
            )
    if problems:
        raise SettingsError(tuple(problems))


def lacking(table: Table, path: Path) -> tuple[Difference, ...]:
    """Return the columns that the table at ``path`` does not have yet.

    Raises:
        DeltaError: There is no table, or it cannot be read.
    """
    return tuple(x for x in differences(table.schema, _schema(DeltaTable(path))) if x.found is None)


def _faults(table: Table, path: Path) -> Iterator[str]:
    try:
        found = DeltaTable(path)
    except TableNotFoundError:
        yield "it is not a Delta table"
        return
    for x in differences(table.schema, _schema(found)):
        if x.found is not None:
            yield f"column {x.path.replace('`', '')} is {sql_type(x.found)}, not {sql_type(x.wanted)}"
    if (partitioned := found.metadata().partition_columns) != ["date"]:
        yield f"it is partitioned by {', '.join(partitioned) or 'nothing'}, not by date"


def _schema(table: DeltaTable) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())
