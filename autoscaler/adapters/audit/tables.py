"""What the audit's tables hold: the one place where a column is defined.

Beside the path. A column is written as an Arrow type; the DDL that creates a table, the check of an existing one, and the
columns that are added to a table of an earlier release follow from it: a new column needs its line here and its value in
``rows``, unless it is a field of the decision. A column's type can never be changed. Must
not import Spark.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One append-only table, partitioned by ``date``."""

    name: str
    key: tuple[str, ...]  # columns that together occur once: the same thing is never written twice
    about: str  # what a row is, for the table's own comment
    schema: pa.Schema


def _struct(**fields: pa.DataType) -> pa.DataType:
    return pa.struct(list(fields.items()))


def dated(**fields: pa.DataType) -> pa.Schema:
    """Return these columns behind ``date``."""
    return pa.schema([("date", pa.date32()), *fields.items()])


PLACE = _struct(topic=pa.string(), partition=pa.int32(), owner=pa.string())
LOAD = _struct(
    topic=pa.string(), partition=pa.int32(), bytes_per_s=pa.float64(), records_per_s=pa.float64(), lag_records=pa.int64(),
    lag_bytes=pa.float64(), lag_s=pa.float64(), known=pa.bool_(), age_s=pa.float64(), rate_source=pa.string(), error=pa.string(),
)  # fmt: skip
MEASURED = pa.struct(
    [
        *LOAD,
        pa.field("topic_id", pa.string()),
        pa.field("committed", pa.int64()),
        pa.field("log_start", pa.int64()),
        pa.field("log_end", pa.int64()),
        pa.field("window_s", pa.float64()),
        pa.field("owner", pa.string()),
    ]
)
MEMBER = _struct(
    member=pa.string(), partitions=pa.list_(pa.string()), bytes_per_s=pa.float64(), capacity_bytes_per_s=pa.float64()
)  # fmt: skip
STEP = _struct(kind=pa.string(), topic=pa.string(), partition=pa.int32(), source=pa.int32(), target=pa.int32(), what=pa.string())

FINDING = _struct(
    what=pa.string(), reason=pa.string(), limit=pa.string(), partitions=pa.list_(pa.string()), consumers=pa.list_(pa.int32()),
    numbers=pa.map_(pa.string(), pa.float64()), texts=pa.map_(pa.string(), pa.string()),
)  # fmt: skip

DECISIONS = Table(
    name="decisions",
    key=("decision_id",),
    about="every decision that acted or differs from the one before it, and at least one per group and ten seconds",
    schema=dated(
        decision_id=pa.string(), group=pa.string(), cluster=pa.string(), at=TIMESTAMP,
        mode=pa.string(), reason=pa.string(), limited_by=pa.string(),
        detail=pa.string(), acted=pa.bool_(), recovered=pa.bool_(), epoch=pa.int64(), consumers_now=pa.int32(),
        consumers=pa.int32(), recommended=pa.int32(), lower_bound=pa.int32(), r_score=pa.float64(), imbalance=pa.float64(),
        total_bytes_per_s=pa.float64(), total_lag_records=pa.int64(), usable_bytes_per_s=pa.float64(),
        capacity_bytes_per_s=pa.float64(), capacity_source=pa.string(), capacity_samples=pa.int32(), capacity_age_s=pa.float64(),
        capacity_records_per_s=pa.float64(),
        hot=pa.list_(pa.string()), oversized=pa.list_(pa.string()),
        requested=pa.list_(pa.int32()), steps=pa.list_(STEP), algorithm=pa.string(), policy_fingerprint=pa.string(),
        sample_ts=pa.float64(), known=pa.bool_(), error=pa.string(), members=pa.list_(MEMBER),
        assignment_before=pa.list_(PLACE), assignment_after=pa.list_(PLACE), loads=pa.list_(LOAD),
        recommended_age_s=pa.float64(), findings=pa.list_(FINDING),
    ),
)  # fmt: skip
ACTIONS = Table(
    name="actions",
    key=("decision_id", "phase"),
    about="what a decision set out to do (intent) and what became of it (outcome)",
    schema=dated(
        decision_id=pa.string(), group=pa.string(), cluster=pa.string(), at=TIMESTAMP,
        phase=pa.string(), status=pa.string(), epoch=pa.int64(),
        steps=pa.list_(STEP), error=pa.string(), recovered=pa.bool_(),
    ),
)  # fmt: skip
HANDOVERS = Table(
    name="handovers",
    key=("group", "topic_id", "partition", "epoch", "to_uuid"),
    about="every partition that has changed hands",
    schema=dated(
        group=pa.string(), cluster=pa.string(), at=TIMESTAMP,
        topic=pa.string(), partition=pa.int32(), topic_id=pa.string(), from_worker=pa.string(),
        from_uuid=pa.string(), to_worker=pa.string(), to_uuid=pa.string(), epoch=pa.int64(), offset=pa.int64(),
        pause_s=pa.float64(),
    ),
)  # fmt: skip
LOADS = Table(
    name="loads",
    key=("decision_id",),
    about="one row per group and cycle: what was measured, who held what, and what was decided",
    schema=dated(
        decision_id=pa.string(), group=pa.string(), cluster=pa.string(), at=TIMESTAMP,
        sample_ts=pa.float64(), known=pa.bool_(), error=pa.string(),
        mode=pa.string(), reason=pa.string(), limited_by=pa.string(), detail=pa.string(), acted=pa.bool_(), epoch=pa.int64(),
        consumers_now=pa.int32(), consumers=pa.int32(), total_bytes_per_s=pa.float64(), total_lag_records=pa.int64(),
        policy_fingerprint=pa.string(), dropped_before=pa.int64(), partitions=pa.int32(), unknown_partitions=pa.int32(),
        first_unknown=pa.list_(pa.string()), oldest_s=pa.float64(), measured=pa.binary(), inputs=pa.binary(),
    ),
)  # fmt: skip
MANY_FILES = 8  # of a past day, that are worth merging
TABLES: Mapping[str, Table] = {t.name: t for t in (DECISIONS, ACTIONS, HANDOVERS, LOADS)}

_PROPERTIES = {
    "delta.appendOnly": "true",
    "delta.checkpointInterval": "100",  # a checkpoint of the log costs seconds; at the default of 10 it comes too often
    "delta.logRetentionDuration": "interval 6 hours",  # a commit every few seconds: the log's history is of no use
    "delta.deletedFileRetentionDuration": "interval 6 hours",  # may not exceed the log's; files go only when compacted
}
_SQL = {
    pa.string(): "STRING", pa.bool_(): "BOOLEAN", pa.int32(): "INT", pa.int64(): "BIGINT", pa.float64(): "DOUBLE",
    pa.date32(): "DATE", TIMESTAMP: "TIMESTAMP", pa.binary(): "BINARY",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A column that an existing table lacks, or has of another type."""

    path: str  # its name, in backquotes; within a struct, after the names of what it lies in
    wanted: pa.DataType  # the type that the audit writes
    found: pa.DataType | None  # the type that the table has; ``None`` where it has no such column, which can then be added


def ddl(table: Table, named: str) -> str:
    """Return the statement that makes an empty table, by its name in SQL, unless there is one."""
    properties = ", ".join(f"'{k}' = '{v}'" for k, v in _PROPERTIES.items())
    return (
        f"CREATE TABLE IF NOT EXISTS {named} ({columns(table)}) USING delta PARTITIONED BY (`date`) "
        f"COMMENT '{table.about}' TBLPROPERTIES ({properties})"
    )


def columns(table: Table) -> str:
    """Return a table's columns with their types, as Spark SQL writes them."""
    return ", ".join(f"`{f.name}` {sql_type(f.type)}" for f in table.schema)


def addition(named: str, lacking: Iterable[Difference]) -> str:
    """Return the statement that adds columns to a table, by its name in SQL; they are null in the rows that it has."""
    added = ", ".join(f"{x.path} {sql_type(x.wanted)}" for x in lacking)
    return f"ALTER TABLE {named} ADD COLUMNS ({added})"


def sql_type(kind: pa.DataType) -> str:
    """Return an Arrow type as Spark SQL writes it; one that the audit does not use, as Arrow does."""
    if pa.types.is_list(kind):
        return f"ARRAY<{sql_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'`{f.name}`: {sql_type(f.type)}' for f in kind)}>"
    if pa.types.is_map(kind):
        return f"MAP<{sql_type(kind.key_type)}, {sql_type(kind.item_type)}>"
    return _SQL.get(kind, str(kind).upper())


def differences(wanted: Iterable[pa.Field], found: Iterable[pa.Field], within: str = "") -> Iterator[Difference]:
    """Yield what an existing table lacks or has of another type, also within structs; what it has beyond that does not matter."""
    there = {f.name: f.type for f in found}
    for field in wanted:
        yield from _difference(f"{within}`{field.name}`", field.type, there.get(field.name))


def _difference(path: str, wanted: pa.DataType, found: pa.DataType | None) -> Iterator[Difference]:
    if found is not None and pa.types.is_list(wanted) and pa.types.is_list(found):
        yield from _difference(f"{path}.`element`", wanted.value_type, found.value_type)
    elif found is not None and pa.types.is_map(wanted) and pa.types.is_map(found):
        yield from _difference(f"{path}.`key`", wanted.key_type, found.key_type)
        yield from _difference(f"{path}.`value`", wanted.item_type, found.item_type)
    elif found is not None and pa.types.is_struct(wanted) and pa.types.is_struct(found):
        yield from differences(wanted, found, f"{path}.")
    elif wanted != found:
        yield Difference(path=path, wanted=wanted, found=found)
