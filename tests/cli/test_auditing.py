"""``autoscaler audit``: what real Delta tables hold, by their logs, without Spark."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from autoscaler.adapters.audit.contents import contents
from autoscaler.errors import SettingsError
from tests.cli.commands import run

TODAY = date(2026, 11, 25)


def written(place: Path, name: str, days: Sequence[date]) -> DeltaTable:
    """Write a file of two rows for each of these days."""
    for day in days:
        table = pa.table({"date": [day] * 2, "group": ["a", "b"], "at": [datetime(day.year, day.month, day.day, tzinfo=UTC)] * 2})
        write_deltalake(str(place / name), table, partition_by=["date"], mode="append")
    return DeltaTable(str(place / name))


def test_each_table_is_told_with_what_waits_to_be_merged(tmp_path: Path) -> None:
    day, before = date(2026, 11, 24), date(2026, 11, 2)
    written(tmp_path, "decisions", [TODAY] * 9)
    written(tmp_path, "loads", [*[day] * 8, *[before] * 7])
    written(tmp_path / "brokers", "balance", [day])
    found = {x.name: x for x in contents(str(tmp_path), TODAY)}
    assert set(found) == {"decisions", "loads", "balance"}
    loads = found["loads"]
    assert (loads.rows, loads.files, loads.oldest, loads.newest, loads.upkeep_at) == (30, 15, before, day, None)
    assert {name: x.unmerged_days for name, x in found.items()} == {"decisions": 0, "loads": 1, "balance": 0}
    assert loads.bytes_on_disk is not None
    assert 0 < loads.bytes < loads.bytes_on_disk


def test_what_upkeep_has_done_is_seen(tmp_path: Path) -> None:
    table = written(tmp_path, "loads", [date(2026, 11, 24)] * 8)
    table.optimize.compact()
    (loads,) = contents(str(tmp_path), TODAY)
    assert (loads.rows, loads.files, loads.unmerged_days) == (16, 1, 0)
    assert loads.upkeep_at is not None
    assert abs(loads.upkeep_at - datetime.now(UTC)).total_seconds() < 600


def test_the_command_says_the_same_for_people_and_as_json(tmp_path: Path) -> None:
    written(tmp_path, "loads", [date(2023, 11, 14)] * 8)
    done = run("audit", "--tables", tmp_path, COLUMNS="160")
    assert (done.returncode, done.stderr) == (0, "")
    assert "2023-11-14" in done.stdout
    assert "1 past day of many files" in done.stdout
    told = json.loads(run("audit", "--tables", tmp_path, "--json").stdout)
    assert (told["keep_days"], [(t["name"], t["rows"], t["oldest"]) for t in told["tables"]]) == (
        None,
        [("loads", 16, "2023-11-14")],
    )


def test_where_there_are_no_tables_or_broken_ones_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no tables in"):
        contents(str(tmp_path), TODAY)
    (tmp_path / "loads" / "_delta_log").mkdir(parents=True)
    (tmp_path / "loads" / "_delta_log" / "00000000000000000000.json").write_text("no log")
    done = run("audit", "--tables", tmp_path)
    assert done.returncode == 78
    assert "cannot be read" in done.stderr
    done = run("audit", "--tables", "catalog.schema")
    assert (done.returncode, "by Spark only" in done.stderr) == (78, True)
