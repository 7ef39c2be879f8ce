"""What travels between the source, the window and the query: Arrow tables, and how they are packed into one row.

A thousand partitions cross Spark's boundaries between Python and the JVM as one binary value per bucket, because what costs
there is the number of rows and columns. Nothing here touches Spark or Kafka.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Array = npt.NDArray[Any]

SOURCE_DDL = "bucket int, read_ts double, read_s double, facts binary, commits binary"
LOADS_DDL = "bucket int, read_s double, window_s double, loads binary"

_NAME = pa.dictionary(pa.int32(), pa.string())

# One row per partition and read. ``partition`` -1: the whole topic could not be read. Null: unknown, and an error says why.
FACTS = pa.schema([
    ("topic", _NAME), ("topic_id", _NAME), ("partition", pa.int32()), ("sample_ts", pa.float64()),
    ("leader", pa.int32()), ("leader_epoch", pa.int32()),
    ("log_start", pa.int64()), ("log_end", pa.int64()), ("last_stable", pa.int64()), ("size_bytes", pa.int64()),
    ("size_error", _NAME), ("error", _NAME),
])  # fmt: skip

# One row per group, partition and read. ``committed`` -1: nothing is committed; null: unknown, and ``error`` says why.
COMMITS = pa.schema([
    ("group", _NAME), ("topic", _NAME), ("partition", pa.int32()), ("sample_ts", pa.float64()),
    ("committed", pa.int64()), ("error", _NAME),
])  # fmt: skip

# One row per group and partition: the fields of ``model.PartitionLoad`` and what tests and the audit look at besides.
LOADS = pa.schema([
    ("group", _NAME), ("topic", _NAME), ("partition", pa.int32()), ("topic_id", _NAME), ("read_ts", pa.float64()),
    ("sample_ts", pa.float64()), ("leader", pa.int32()),
    ("bytes_per_s", pa.float64()), ("records_per_s", pa.float64()),
    ("lag_records", pa.int64()), ("lag_bytes", pa.float64()), ("lag_s", pa.float64()),
    ("committed", pa.int64()), ("log_start", pa.int64()), ("log_end", pa.int64()), ("last_stable", pa.int64()),
    ("size_bytes", pa.int64()), ("known", pa.bool_()), ("age_s", pa.float64()), ("window_s", pa.float64()),
    ("rate_source", _NAME), ("bytes_total", pa.float64()), ("records_total", pa.float64()), ("error", _NAME),
])  # fmt: skip


def table(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return rows as a table; Arrow makes none with dictionaries from rows."""
    plain = pa.schema([(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema])
    return pa.Table.from_pylist(list(rows), plain).cast(schema)


def pack(table: pa.Table) -> bytes:
    """Return a table as one binary value (an Arrow stream)."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpack(blobs: Iterable[bytes], schema: pa.Schema) -> pa.Table:
    """Return the tables packed in ``blobs`` as one, each column in one piece."""
    tables = [pa.ipc.open_stream(b).read_all() for b in blobs]
    if len(tables) == 1:
        return tables[0].combine_chunks()
    return pa.concat_tables([schema.empty_table(), *tables]).unify_dictionaries().combine_chunks()


@dataclass(frozen=True, slots=True)
class Names:
    """A column of few distinct names: index into ``names`` per row, -1 where null."""

    names: tuple[str, ...]
    index: npt.NDArray[np.int32]

    def column(self) -> pa.DictionaryArray:
        """Return the column as Arrow keeps it."""
        indices = pa.array(self.index, pa.int32(), mask=self.index < 0)
        return pa.DictionaryArray.from_arrays(indices, pa.array(self.names, pa.string()))


def names(table: pa.Table, column: str) -> Names:
    """Return a dictionary column."""
    chunk = _chunk(table, column)
    return Names(tuple(chunk.dictionary.to_pylist()), chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False))


def numbers(table: pa.Table, column: str) -> Array:
    """Return a number column as a numpy array; unknown is -1 in integers and NaN in floats."""
    chunk = _chunk(table, column)
    if chunk.null_count and pa.types.is_integer(chunk.type):
        chunk = chunk.fill_null(-1)
    return np.asarray(chunk.to_numpy(zero_copy_only=False))


def values(table: pa.Table, column: str) -> list[Any]:
    """Return a column as Python values, unknown as None; several times faster than Arrow's own ``to_pylist``."""
    chunk = _chunk(table, column)
    if pa.types.is_dictionary(chunk.type):
        text = [*chunk.dictionary.to_pylist(), None]
        return [text[i] for i in chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False).tolist()]
    filled = chunk if not chunk.null_count else chunk.fill_null(False if pa.types.is_boolean(chunk.type) else 0)
    out: list[Any] = filled.to_numpy(zero_copy_only=False).tolist()
    if chunk.null_count:
        for i in np.flatnonzero(chunk.is_null().to_numpy(zero_copy_only=False)).tolist():
            out[i] = None
    return out


def known(values: Array, type_: pa.DataType) -> pa.Array:
    """Return a number column in which -1 (integers) or NaN (floats) is null."""
    return pa.array(values, type_, mask=np.isnan(values) if values.dtype.kind == "f" else values < 0)


def _chunk(table: pa.Table, column: str) -> Any:
    chunked = table.column(column)
    return chunked.chunk(0) if chunked.num_chunks else pa.array([], chunked.type)
