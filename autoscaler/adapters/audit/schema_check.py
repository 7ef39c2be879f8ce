"""Reads a Delta table's schema from its log without Spark, so that a wrong table is named before the job starts.

Beside the path, used once at start. Follows Delta's protocol: the newest ``metaData`` action counts, in the JSON commits or, if
those are gone, in the last checkpoint.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from autoscaler.adapters.audit.tables import TABLES, differences
from autoscaler.errors import SettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The columns of an existing table, name to type in Delta's JSON form, and its partition columns."""

    columns: dict[str, object]
    partitioned: list[str]


def check_tables(root: Path) -> None:
    """Refuse tables below ``root`` that the audit cannot append to; absent ones are fine.

    Raises:
        SettingsError: One problem per table that does not fit: its path, what differs and what to do.
    """
    problems = []
    for table in TABLES.values():
        path = root / table.name
        if not path.exists() or (path.is_dir() and not any(path.iterdir())):
            continue
        found = read_schema(path)
        said = ["it is not a Delta table"] if found is None else differences(table, found.columns, found.partitioned)
        if said:
            problems.append(
                f"state_dir: table {path} does not fit this release: {'; '.join(said)}. "
                f"Move {root} away (nothing but the audit is in it) or give another state_dir"
            )
    if problems:
        raise SettingsError(tuple(problems))


def read_schema(path: Path) -> Found | None:
    """Return what the newest metadata of the table at ``path`` says; ``None`` if there is no table."""
    log = path / "_delta_log"
    for commit in sorted(log.glob("[0-9]*.json"), reverse=True):
        for line in commit.read_text(encoding="utf-8").splitlines():
            if line.startswith('{"metaData"'):
                data = json.loads(line)["metaData"]
                return _found(data["schemaString"], data.get("partitionColumns", []))
    for checkpoint in sorted(log.glob("[0-9]*.checkpoint*.parquet"), reverse=True):
        for row in pq.read_table(checkpoint, columns=["metaData"]).column("metaData").to_pylist():
            if row and row.get("schemaString"):
                return _found(row["schemaString"], row.get("partitionColumns") or [])
    return None


def _found(schema: str, partitioned: list[str]) -> Found:
    return Found(columns={f["name"]: f["type"] for f in json.loads(schema)["fields"]}, partitioned=list(partitioned))
