"""Tables as one binary value, and columns as arrays and values."""

import numpy as np
import pyarrow as pa

from autoscaler.streaming import schema


def commits(*rows: tuple[str, str, int, int | None, str | None]) -> pa.Table:
    keys = ("group", "topic", "partition", "committed", "error")
    return schema.table([dict(zip(keys, r, strict=True), sample_ts=1.5) for r in rows], schema.COMMITS)


def test_packed_tables_come_back_as_one_in_one_piece() -> None:
    first, second = commits(("g", "t", 0, 5, None), ("g", "t", 1, None, "away")), commits(("h", "u", 0, -1, None))
    back = schema.unpack([schema.pack(first), schema.pack(second)], schema.COMMITS)
    assert back.schema == schema.COMMITS
    assert back.to_pylist() == first.to_pylist() + second.to_pylist()
    assert all(back.column(n).num_chunks == 1 for n in schema.COMMITS.names)
    assert schema.unpack([], schema.COMMITS).num_rows == 0


def test_columns_become_arrays_and_values() -> None:
    table = commits(("g", "t", 0, 5, None), ("g", "u", 1, None, "away"))
    topic = schema.names(table, "topic")
    assert [topic.names[i] for i in topic.index] == ["t", "u"]
    assert schema.names(table, "error").index.tolist() == [-1, 0]
    assert schema.numbers(table, "committed").tolist() == [5, -1]
    assert schema.values(table, "committed") == [5, None]
    assert schema.values(table, "error") == [None, "away"]
    assert schema.values(table, "sample_ts") == [1.5, 1.5]
    assert schema.values(schema.COMMITS.empty_table(), "group") == []
    assert schema.numbers(schema.COMMITS.empty_table(), "partition").tolist() == []


def test_unknown_numbers_are_null() -> None:
    assert schema.known(np.array([1, -1]), pa.int64()).to_pylist() == [1, None]
    assert schema.known(np.array([1.5, np.nan]), pa.float64()).to_pylist() == [1.5, None]
