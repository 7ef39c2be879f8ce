"""Looks whether existing tables are ones that the audit can write, so that one that is not is named before the job starts.

Beside the path, used at start. Tables on this machine are looked at without Spark, others by ``delta_audit``, which asks Spark
what they have. A column that an earlier release did not have is no fault: it is added when the tables are opened.
"""

from collections.abc import Iterable, Iterator, Mapping
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
            found = "; ".join(_found(table, path))
        except (DeltaError, OSError, ValueError) as e:
            first_line = str(e).partition("\n")[0]
            problems.append(
                f"tables: the tables in {root} cannot be read ({table.name}: {first_line}): move them away, or name another place"
            )
            continue
        if found:
            problems.append(unfit(str(path), str(root), found))
    if problems:
        raise SettingsError(tuple(problems))


def unfit(table: str, root: str, said: str) -> str:
    """Return the sentence of a table that the audit cannot write, and what to do."""
    return (
        f"tables: table {table} does not fit this release: {said}. "
        f"Move {root} away (nothing but the audit is in it) or name another place"
    )


def faults(table: Table, schema: pa.Schema, partitioned: Iterable[str]) -> Iterator[str]:
    """Yield what of an existing table keeps the audit from writing it."""
    for x in differences(table.schema, schema):
        if x.found is not None:
            yield f"column {x.path.replace('`', '')} is {sql_type(x.found)}, not {sql_type(x.wanted)}"
    if (by := list(partitioned)) != ["date"]:
        yield f"it is partitioned by {', '.join(by) or 'nothing'}, not by date"


def lacking(table: Table, schema: pa.Schema) -> tuple[Difference, ...]:
    """Return the columns that an existing table of this schema does not have yet."""
    return tuple(x for x in differences(table.schema, schema) if x.found is None)


def _found(table: Table, path: Path) -> Iterator[str]:
    try:
        found = DeltaTable(path)
    except TableNotFoundError:
        yield "it is not a Delta table"
        return
    yield from faults(table, pa.schema(found.schema().to_arrow()), found.metadata().partition_columns)
