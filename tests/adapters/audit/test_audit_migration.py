"""Tables that commit c3d1acc wrote, opened by the present code and by code that has more columns than they have."""

import logging
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from autoscaler.adapters.audit import rows
from autoscaler.adapters.audit.schema_check import check_tables, lacking
from autoscaler.adapters.audit.tables import STEP, TABLES, Table
from autoscaler.adapters.clock import SystemClock
from autoscaler.errors import SettingsError
from tests.adapters.audit import audit_cases as cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)

WRITTEN = Path(__file__).parent / "tables_c3d1acc"
COUNTS = {"decisions": 2, "actions": 2, "handovers": 1, "loads": 2}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return shutil.copytree(WRITTEN, tmp_path / "tables")


def read(root: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(root / name).to_pyarrow_table().to_pylist()
    return found


def grown(name: str, schema: pa.Schema) -> Mapping[str, Table]:
    return {**TABLES, name: replace(TABLES[name], schema=schema)}


def wider() -> Mapping[str, Table]:
    """Return the tables with a column more in ``actions``, and one more within its steps."""
    old = TABLES["actions"].schema
    steps = pa.list_(pa.struct([*STEP, pa.field("bytes_per_s", pa.float64())]))
    schema = old.set(old.get_field_index("steps"), pa.field("steps", steps))
    return grown("actions", schema.insert(3, pa.field("urgency", pa.float64())))


def test_a_table_that_lacks_columns_is_no_fault_and_one_of_another_type_is(root: Path) -> None:
    check_tables(root)
    check_tables(root, wider())
    assert [x.path for x in lacking(wider()["actions"], pa.schema(DeltaTable(root / "actions").schema().to_arrow()))] == [
        "`urgency`",
        "`steps`.`element`.`bytes_per_s`",
    ]
    old = TABLES["loads"].schema
    changed = old.set(old.get_field_index("epoch"), pa.field("epoch", pa.string()))
    with pytest.raises(SettingsError, match=r"loads does not fit this release: column epoch is BIGINT, not STRING\. Move .*"):
        check_tables(root, grown("loads", changed))


def test_columns_are_added_once_and_said_and_old_rows_stay(
    spark: "SparkSession", root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from autoscaler.adapters.audit.delta_audit import SparkTables  # noqa: PLC0415  needs Spark

    caplog.set_level(logging.INFO, "autoscaler")
    before, wanted = read(root, "actions"), wider()
    for life in range(2):
        tables = SparkTables(spark, root, SystemClock(), wanted)
        tables.prepare()
        steps = [{"kind": "move", "partition": 7, "bytes_per_s": 50.0}]
        row = {"date": before[0]["date"], "decision_id": f"g/{life}", "phase": "intent", "urgency": 0.5, "steps": steps}
        tables.append("actions", pa.Table.from_pylist([row], schema=wanted["actions"].schema), 1)
    assert [r.message for r in caplog.records if f"{root / 'actions'} has new columns" in r.message] == [
        f"table {root / 'actions'} has new columns, null in the rows of earlier releases: urgency, steps.element.bytes_per_s"
    ]
    after = {(r["decision_id"], r["phase"]): r for r in read(root, "actions")}
    assert len(after) == len(before) + 2
    for old in before:
        same = after[old["decision_id"], old["phase"]]
        assert {k: same[k] for k in old if k != "steps"} == {k: v for k, v in old.items() if k != "steps"}
        assert (same["urgency"], [s.pop("bytes_per_s") for s in same["steps"]]) == (None, [None] * len(old["steps"]))
        assert same["steps"] == old["steps"]
    new = after["g/1", "intent"]
    assert (new["urgency"], new["steps"][0]["bytes_per_s"], new["steps"][0]["partition"]) == (0.5, 50.0, 7)
    earlier = pa.Table.from_pylist([{**row, "decision_id": "g/2"}], schema=TABLES["actions"].schema)
    SparkTables(spark, root, SystemClock()).append("actions", earlier, 1)  # who goes back a release can write on
    assert [r["urgency"] for r in read(root, "actions") if r["decision_id"] == "g/2"] == [None]


def test_this_release_goes_on_with_tables_of_an_earlier_one_and_reads_them_before_it_has(
    spark: "SparkSession", root: Path
) -> None:
    from autoscaler.adapters.audit.delta_audit import DeltaAudit, register_views  # noqa: PLC0415  needs Spark

    session = spark.newSession()
    register_views(session, root)
    for name, count in COUNTS.items():
        assert session.table(name).columns == TABLES[name].schema.names
        assert len(session.table(name).toArrow()) == count
    assert len(session.sql("SELECT * FROM why, moves, undecided, history, partition_loads").columns) > 50
    audit = DeltaAudit(
        spark, root, flush_s=0.5, clock=SystemClock(), journal=root / "journal", cluster_of={"g": "east"}, close_timeout_s=100.0
    )
    decision, snapshot, state = cases.hot(cases.T0 + 50)
    audit.record(decision, snapshot, cases.outcomes(decision), [cases.handover(2, at=cases.T0 + 50, epoch=9)], state.owner)
    audit.close()
    for name, count in COUNTS.items():
        assert set(DeltaTable(root / name).schema().to_arrow().names) >= set(TABLES[name].schema.names)
        assert len(read(root, name)) == count + (2 if name == "actions" else 1)
    assert all(rows.snapshot_of(r).loads for r in read(root, "loads"))
