"""Checkpoint and tables in an object store: the query goes on, rows wait while it is away, and a second driver is refused."""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from autoscaler.adapters.audit.decision_reader import DecisionTables
from autoscaler.adapters.clock import SystemClock
from autoscaler.errors import SettingsError, TransientError
from autoscaler.streaming.checkpoint_files import HadoopFiles
from autoscaler.streaming.checkpoint_guard import claim, has_run
from autoscaler.streaming.file_systems import check
from tests.adapters.audit import audit_cases as cases
from tests.object_store import BUCKET, ObjectStore
from tests.streaming.made_up_load import run
from tests.until import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from autoscaler.adapters.audit.delta_audit import DeltaAudit


@pytest.fixture(scope="module")
def store(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """A store that Spark and deltalake know of."""
    with ObjectStore(tmp_path_factory.mktemp("store")) as running:
        conf: Any = spark.sparkContext._jsc.hadoopConfiguration()  # of the whole session
        for key, value in running.hadoop().items():
            conf.set(key, value)
        with mock.patch.dict(os.environ, running.environment()):
            yield running


def test_the_query_goes_on_with_a_checkpoint_in_the_store(spark: "SparkSession", store: ObjectStore, tmp_path: Path) -> None:
    where = f"s3a://{BUCKET}/goes-on/checkpoint"
    files = HadoopFiles(spark, where)
    assert not has_run(files)
    assert not run(spark, tmp_path, batches=3, checkpoint=where)[0]["g"].known
    assert has_run(files)
    first = run(spark, tmp_path, batches=1, checkpoint=where)[0]["g"]
    assert first.known, "the window is there still"
    assert not list(tmp_path.rglob("offsets")), "nothing of it is on this machine"
    assert claim(files, tmp_path / "checkpoint.lock", clusters=["kafka"], buckets=4) == {"kafka": 0}
    assert sorted(files.names()) == ["autoscaler.json", "set-aside"], "another number of buckets: it begins anew"
    assert {"commits", "metadata", "offsets", "state"} <= set(files.names("set-aside")), "the old one can be looked at"
    assert json.loads(files.read("autoscaler.json") or b"")["measure.buckets"] == 4


def audit_of(spark: "SparkSession", tables: str, here: Path) -> "DeltaAudit":
    from autoscaler.adapters.audit.delta_audit import DeltaAudit  # noqa: PLC0415  needs Spark

    told = {"cluster_of": {}, "close_timeout_s": 100.0}
    return DeltaAudit(spark, tables, flush_s=0.5, clock=SystemClock(), journal=here / "journal", **told)  # type: ignore[arg-type]


def record(audit: "DeltaAudit", at: float) -> str:
    """Record a cycle that acted, and return its decision's number."""
    decision, snapshot, state = cases.hot(at)
    audit.record(decision, snapshot, cases.outcomes(decision), (), state.owner)
    return decision.decision_id


def written(tables: str) -> set[str]:
    """Return the decisions in the tables, as an operator's commands read them, without Spark."""
    found = DecisionTables(tables)._rows
    from autoscaler.adapters.audit.tables import DECISIONS  # noqa: PLC0415

    rows = found(DECISIONS, ("at", "decision_id"), cases.hot()[0].group, datetime(2020, 1, 1, tzinfo=UTC), datetime.now(UTC))
    return {r["decision_id"] for r in rows}


def test_rows_wait_while_the_store_is_away_and_are_all_there_afterwards(
    spark: "SparkSession", store: ObjectStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tables = f"s3a://{BUCKET}/away/tables"
    audit = audit_of(spark, tables, tmp_path)
    told = {record(audit, cases.T0)}
    until("the first rows", lambda: written(tables) == told, passing=SettingsError, every_s=0.5)
    store.stop()
    told.add(record(audit, cases.T0 + 1))
    until("it is said that rows wait", lambda: "the audit's rows wait" in caplog.text)
    told.add(record(audit, cases.T0 + 2))
    assert (tmp_path / "journal" / "written").exists()
    with pytest.raises(TransientError, match="cannot be reached"):
        HadoopFiles(spark, f"s3a://{BUCKET}/away/checkpoint").names()
    store.start()
    until("all rows", lambda: written(tables) == told, every_s=0.5)
    audit.close()
    assert not list((tmp_path / "journal").glob("*.jsonl")), "nothing is left to be written"
    assert not list(tmp_path.rglob("_delta_log")), "nothing of it is on this machine"


def test_of_two_drivers_the_later_one_writes_and_the_rows_of_the_other_wait(
    spark: "SparkSession", store: ObjectStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What each of them looks at lies in the store, so that it does not matter that both are in one process here."""
    tables = f"s3a://{BUCKET}/two/tables"
    with mock.patch("autoscaler.adapters.audit.writer_turn._SETTLE_S", 0.1):
        first, second = (audit_of(spark, tables, tmp_path / name) for name in ("first", "second"))
    told = {record(first, cases.T0)}
    until("the first one's rows", lambda: written(tables) == told, passing=SettingsError, every_s=0.5)
    told.add(record(second, cases.T0 + 1))
    until("the second one's rows", lambda: written(tables) == told, every_s=0.5)
    waits = record(first, cases.T0 + 2)
    until("it is said that they wait", lambda: "another driver has begun to write the tables" in caplog.text)
    assert written(tables) == told
    second.close()
    until("the second one has ended", lambda: written(tables) == told | {waits}, every_s=0.5)
    first.close()


def test_tables_of_another_schema_are_refused_in_the_store_too(spark: "SparkSession", store: ObjectStore, tmp_path: Path) -> None:
    tables = f"s3a://{BUCKET}/other/tables"
    spark.sql("SELECT 1 AS decision_id, current_date() AS date").write.format("delta").save(f"{tables}/actions")
    with pytest.raises(SettingsError, match=r"actions does not fit this release: column decision_id is INT, not STRING"):
        audit_of(spark, tables, tmp_path)


def test_tables_may_be_those_of_a_catalog(spark: "SparkSession", tmp_path: Path) -> None:
    tables = "spark_catalog.audit_of_a_catalog"
    audit = audit_of(spark, tables, tmp_path)
    told = record(audit, cases.T0)
    audit.close()
    assert [r.decision_id for r in spark.table(f"{tables}.decisions").select("decision_id").collect()] == [told]
    audit_of(spark, tables, tmp_path).close()  # they fit
    with pytest.raises(SettingsError, match="can be read by Spark only: ask with"):
        DecisionTables(tables)


def test_a_file_system_that_spark_does_not_have_is_said_with_what_to_add(spark: "SparkSession") -> None:
    check(spark, "tables", "/a/path")
    check(spark, "tables", "s3a://bucket/x")
    check(spark, "tables", "main.audit")
    for place, said in (
        (
            "gs://bucket/x",
            r"checkpoint: Spark has no file system for gs://bucket/x: add --packages org\.apache\.hadoop:hadoop-gcp:3\.",
        ),
        ("abfss://c@a.dfs.core.windows.net/x", r"add --packages org\.apache\.hadoop:hadoop-azure:3\."),
        ("dbfs:/x", "there on Databricks only"),
    ):
        with pytest.raises(SettingsError, match=said):
            check(spark, "checkpoint", place)
