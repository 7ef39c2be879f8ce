"""The audit's tables over time: commits whose answer was lost, small files, days that need not be kept."""

import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autoscaler.adapters.audit import rows
from autoscaler.adapters.audit.rows import Cycle
from autoscaler.adapters.audit.tables import TABLES, ddl
from autoscaler.adapters.clock import SystemClock
from autoscaler.errors import TransientError
from tests.adapters.audit import audit_cases as cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from autoscaler.adapters.audit.delta_audit import SparkTables

pytestmark = pytest.mark.timeout(600)

DAY_S = 86_400.0


def cycle(at: float) -> Cycle:
    decision, snapshot, state = cases.calm(at)
    return Cycle(decision=decision, snapshot=snapshot, outcomes=(), handovers=(), owner=state.owner)


@pytest.fixture
def tables(spark: "SparkSession", tmp_path: Path) -> "SparkTables":
    from autoscaler.adapters.audit.delta_audit import SparkTables  # noqa: PLC0415  Spark is imported by who asks for it

    made = SparkTables(spark, tmp_path, SystemClock())
    spark.sql(ddl(TABLES["loads"], str(tmp_path / "loads")))
    return made


@pytest.fixture
def written(spark: "SparkSession", tmp_path: Path) -> Callable[[], list[str]]:
    def read() -> list[str]:
        found = spark.read.format("delta").load(str(tmp_path / "loads")).select("decision_id").toArrow()
        return sorted(found.column(0).to_pylist())

    return read


def failing(monkeypatch: pytest.MonkeyPatch, *, commits: bool) -> None:
    """Let the next commit fail, after it was made or before."""
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.sql import DataFrameWriter  # noqa: PLC0415

    real = DataFrameWriter.save

    def save(self: DataFrameWriter, path: str) -> None:
        monkeypatch.setattr(DataFrameWriter, "save", real)
        if commits:
            real(self, path)
        raise PySparkException(message="the answer was lost")

    monkeypatch.setattr(DataFrameWriter, "save", save)


@pytest.mark.parametrize("commits", [True, False])
def test_a_commit_that_seems_to_have_failed_is_made_once(
    tables: "SparkTables", written: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch, *, commits: bool
) -> None:
    told = [cycle(cases.T0), cycle(cases.T0 + 1)]
    failing(monkeypatch, commits=commits)
    with pytest.raises(TransientError, match="the answer was lost"):
        tables.append("loads", rows.loads(told, [0, 0]), 7)
    tables.append("loads", rows.loads(told, [0, 0]), 7)
    later = cycle(cases.T0 + 2)
    tables.append("loads", rows.loads([later], [0]), 8)
    assert written() == [c.decision.decision_id for c in (*told, later)]


def test_files_of_past_days_are_merged_and_nothing_is_lost(
    spark: "SparkSession", tables: "SparkTables", written: Callable[[], list[str]], tmp_path: Path
) -> None:
    from autoscaler.adapters.audit.delta_audit import compact  # noqa: PLC0415

    times = [cases.T0 + n * DAY_S + i for n in range(3) for i in range(3)]
    for version, at in enumerate(times):
        tables.append("loads", rows.loads([cycle(at)], [0]), version)
    last = rows.day(times[-1])
    done = compact(spark, tmp_path, "loads", before=last, keep_from=None)
    assert (done.files, done.days_deleted) == ((9, 5), 0)
    assert written() == sorted(cycle(at).decision.decision_id for at in times)
    row = spark.read.format("delta").load(str(tmp_path / "loads")).orderBy("at").limit(1).toArrow().to_pylist()[0]
    assert rows.snapshot_of(row) == cycle(times[0]).snapshot


def test_days_that_are_old_enough_go_and_the_table_still_refuses_other_changes(
    spark: "SparkSession", tables: "SparkTables", written: Callable[[], list[str]], tmp_path: Path
) -> None:
    from delta.tables import DeltaTable  # noqa: PLC0415

    from autoscaler.adapters.audit.delta_audit import compact  # noqa: PLC0415

    for n in range(3):
        tables.append("loads", rows.loads([cycle(cases.T0 + n * DAY_S)], [0]), n)
    keep_from = rows.day(cases.T0 + 2 * DAY_S)
    done = compact(spark, tmp_path, "loads", before=date.max, keep_from=keep_from)
    assert done.days_deleted == 2
    assert written() == [cycle(cases.T0 + 2 * DAY_S).decision.decision_id]
    with pytest.raises(Exception, match="append"):
        DeltaTable.forPath(spark, str(tmp_path / "loads")).delete()
    tables.append("loads", rows.loads([cycle(cases.T0 + 3 * DAY_S)], [0]), 9)
    assert len(written()) == 2


def test_the_command_says_what_it_did_and_what_is_missing(
    tables: "SparkTables", written: Callable[[], list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from jobs.maintain_audit import main  # noqa: PLC0415  in this session: no start of one of its own

    for n in range(2):
        tables.append("loads", rows.loads([cycle(cases.T0 + n)], [0]), n)
    assert main(["--tables", str(tmp_path)]) == 0
    assert re.search(r"loads: 2 -> 1 files, \d+ -> \d+ kB\n", capsys.readouterr().out)
    assert len(written()) == 2
    assert main(["--tables", str(tmp_path), "--keep-days", "30"]) == 0
    assert re.search(r"loads: 1 -> 0 files, \d+ -> 0 kB, 1 days deleted", capsys.readouterr().out)
    assert written() == []
    assert main(["--tables", str(tmp_path / "nothing")]) == 78
    assert "no tables in" in capsys.readouterr().err
