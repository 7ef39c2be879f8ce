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
from tests.fakes import FakeClock
from tests.until import until

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
    spark.sql(ddl(TABLES["loads"], f"delta.`{tmp_path / 'loads'}`"))
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
    from autoscaler.adapters.audit.upkeep import compact  # noqa: PLC0415

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

    from autoscaler.adapters.audit.upkeep import compact  # noqa: PLC0415

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


TODAY, KEPT_FROM = date(2026, 11, 20), date(2026, 11, 10)


@pytest.mark.parametrize(
    ("files", "keep_from", "due"),
    [
        pytest.param({}, KEPT_FROM, False, id="no table"),
        pytest.param({TODAY: 1440}, KEPT_FROM, False, id="today is still being written"),
        pytest.param({date(2026, 11, 19): 1, date(2026, 11, 18): 2}, None, False, id="merged already; a late row of that day"),
        pytest.param({date(2026, 11, 19): 8}, None, True, id="yesterday's small files"),
        pytest.param({date(2026, 11, 9): 1}, KEPT_FROM, True, id="a day that need not be kept"),
        pytest.param({date(2026, 11, 10): 1}, KEPT_FROM, False, id="the last day that is kept"),
        pytest.param({date(2026, 11, 9): 1}, None, False, id="everything is kept"),
    ],
)
def test_what_is_due_stands_in_the_table(files: dict[date, int], keep_from: date | None, *, due: bool) -> None:
    from autoscaler.adapters.audit.upkeep import is_due  # noqa: PLC0415

    assert is_due(files, before=TODAY, keep_from=keep_from) == due


def test_the_job_merges_past_days_by_itself_and_lets_go_of_old_ones(
    spark: "SparkSession",
    tables: "SparkTables",
    written: Callable[[], list[str]],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from autoscaler.adapters.audit.upkeep import Keeper, files_per_day  # noqa: PLC0415

    old, yesterday, today = (cases.T0 + n * DAY_S for n in (0, 5, 6))
    times = [old, *(yesterday + i for i in range(8)), *(today + i for i in range(9))]
    for version, at in enumerate(times):
        tables.append("loads", rows.loads([cycle(at)], [0]), version)
    (tmp_path / "decisions" / "_delta_log").mkdir(parents=True)
    (tmp_path / "decisions" / "_delta_log" / f"{0:020}.json").write_text(
        "no table", encoding="utf-8"
    )  # keeps no other from its turn
    keeper = Keeper(spark, tmp_path, FakeClock(today + 60), keep_days=3, first_s=0.0)
    with caplog.at_level("INFO", logger="autoscaler.adapters.audit.upkeep"):
        keeper.start()
        until("all is in order", lambda: "upkeep of the audit: loads" in caplog.text, explain=lambda: caplog.text)
    keeper.close()
    assert files_per_day(spark, tmp_path, "loads") == {rows.day(yesterday): 1, rows.day(today): 9}
    assert written() == sorted(cycle(at).decision.decision_id for at in times[1:])
    assert "upkeep of the audit: loads: 18 -> 10 files, " in caplog.text
    assert "1 days deleted" in caplog.text
    waits = next(r.getMessage() for r in caplog.records if r.levelname == "WARNING")
    assert waits.startswith(f"the audit's upkeep waits for an hour: {tmp_path / 'decisions'} cannot be read")


def test_a_keeper_that_was_closed_touches_nothing(spark: "SparkSession", tables: "SparkTables", tmp_path: Path) -> None:
    from autoscaler.adapters.audit.upkeep import Keeper, files_per_day  # noqa: PLC0415

    for version in range(8):
        tables.append("loads", rows.loads([cycle(cases.T0 + version)], [0]), version)
    keeper = Keeper(spark, tmp_path, FakeClock(cases.T0 + DAY_S), keep_days=None, first_s=3600.0)
    keeper.start()
    keeper.close()
    until("its thread has ended", lambda: not keeper._thread.is_alive())
    assert files_per_day(spark, tmp_path, "loads") == {rows.day(cases.T0): 8}
