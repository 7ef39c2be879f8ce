"""The audit on real Delta tables: what is written, what the documented queries answer, and tables that do not fit."""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from autoscaler.adapters.audit import rows
from autoscaler.adapters.audit.decision_json import summarise
from autoscaler.adapters.audit.schema_check import check_tables
from autoscaler.adapters.audit.tables import TABLES
from autoscaler.adapters.clock import SystemClock
from autoscaler.errors import SettingsError, TransientError
from autoscaler.model import CapacitySource, Decision, GroupState, HandoverDone, LoadSnapshot
from autoscaler.ports import ActionOutcome
from tests.adapters.audit import audit_cases as cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from autoscaler.adapters.audit.delta_audit import DeltaAudit

Ask = Callable[[str], list[dict[str, Any]]]

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).resolve().parents[3]
T0 = cases.T0
PAGE = (ROOT / "docs" / "reference" / "audit.md").read_text(encoding="utf-8")
ASKING = (ROOT / "docs" / "tasks" / "history.md").read_text(encoding="utf-8")
QUERIES = dict(re.findall(r"<!-- query: (\w+) -->\n```sql\n(.*?)```", ASKING, re.DOTALL))
CONFIG = """
clusters: [{{connection: {{bootstrap.servers: "127.0.0.1:1"}}}}]
state_dir: {state}
groups: [{{group: orders, topics: [orders], capacity: {{bytes_per_s: 100}}}}]
"""


def orders(made: tuple[Decision, LoadSnapshot, GroupState]) -> tuple[Decision, LoadSnapshot, GroupState]:
    """Return a cycle under the group's name of the page."""
    d, s, state = made
    return replace(d, group="orders", decision_id=f"orders/{int(s.sample_ts * 1000)}"), replace(s, group="orders"), state


def told(
    audit: "DeltaAudit",
    made: tuple[Decision, LoadSnapshot, GroupState],
    outcomes: Sequence[ActionOutcome] = (),
    handovers: Sequence[HandoverDone] = (),
) -> None:
    d, s, state = made
    audit.record(d, s, outcomes, handovers, state.owner)


@pytest.fixture(scope="module")
def root(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of a short story: calm, hot (a plan), handed over, blind for three cycles, a failed action, a recovered plan."""
    from autoscaler.adapters.audit.delta_audit import DeltaAudit  # noqa: PLC0415  Spark is imported by who asks for it

    place = tmp_path_factory.mktemp("state") / "tables"
    audit = DeltaAudit(
        spark,
        place,
        flush_s=0.5,
        clock=SystemClock(),
        journal=place / "journal",
        cluster_of={"orders": "east"},
        close_timeout_s=100.0,
    )
    told(audit, orders(cases.alone(T0)))
    grown, hot = orders(cases.grown(T0 + 1)), orders(cases.hot(T0 + 2))
    told(audit, grown, cases.outcomes(grown[0]))
    told(audit, hot, cases.outcomes(hot[0], epoch=9))
    told(audit, orders(cases.calm(T0 + 3)), handovers=[cases.handover(p, at=T0 + 2.5, epoch=9) for p in (1, 2)])
    for n in (4, 5, 6):
        told(audit, orders(cases.blind(T0 + n)))
    bad = orders(cases.calm(T0 + 7))
    failed = replace(cases.outcomes(bad[0], epoch=None, status="failed")[1], error="no such command: worker")
    told(audit, bad, [failed])
    told(audit, orders(cases.calm(T0 + 17)))
    lost = replace(orders(cases.hot(T0 + 20))[0], epoch=9)
    audit.complete(summarise(lost))
    audit.complete("no summary")
    audit.close()
    return place


@pytest.fixture(scope="module")
def ask(spark: "SparkSession", root: Path) -> Ask:
    from autoscaler.adapters.audit.delta_audit import register_views  # noqa: PLC0415

    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    register_views(session, root)

    def run(sql: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = session.sql(sql).toArrow().to_pylist()
        return found

    return run


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(T0 + seconds, tz=UTC)


@pytest.mark.parametrize(("name", "count"), [("decisions", 8), ("actions", 7), ("handovers", 2), ("loads", 9)])
def test_each_table_holds_each_of_its_rows_once(ask: Ask, name: str, count: int) -> None:
    found = ask(f"TABLE {name}")
    assert len(found) == count
    assert len({tuple(r[k] for k in TABLES[name].key) for r in found}) == count
    assert {r["cluster"] for r in found} == {"east"}


def test_every_query_of_the_page_is_tested() -> None:
    files = (Path(__file__), Path(__file__).with_name("test_audit_advised.py"))
    tested = {name for f in files for name in re.findall(r'QUERIES\["(\w+)"\]', f.read_text(encoding="utf-8"))}
    assert set(QUERIES) == tested
    assert "".join(p.read_text(encoding="utf-8") for p in (ROOT / "docs").rglob("*.md")).count("```sql") == len(QUERIES)


@pytest.mark.parametrize("name", TABLES)
def test_the_page_names_every_column(name: str) -> None:
    section = PAGE.split(f"### {name}")[1].split("\n#")[0]
    named = set(re.findall(r"`(\w+)`", section)) | {"date"}
    assert set(TABLES[name].schema.names) <= named


def test_why_names_the_last_change_before_a_time(ask: Ask) -> None:
    (row,) = ask(QUERIES["why"])
    assert (row["at"], row["from_consumers"], row["to_consumers"]) == (at(1.25), 1, 2)
    assert (row["reason"], row["status"]) == ("RATE_ABOVE_CAPACITY", "done")
    assert "120 B/s is above 88 B/s" in row["detail"]


def test_the_cycle_at_a_time_says_why_nothing_changed(ask: Ask) -> None:
    (row,) = ask(QUERIES["cycle"])
    assert row["at"] == at(7.25)
    assert (row["consumers_now"], row["consumers"], row["reason"]) == (2, 2, "WITHIN_TARGET")


def test_members_are_listed_with_what_they_carry(ask: Ask) -> None:
    found = ask(QUERIES["members"])
    assert [(r["member"], r["bytes_per_s"], r["of_usable"], r["of_capacity"], r["partitions"]) for r in found] == [
        ("0", 50.0, 0.63, 0.5, ["orders-0"]),
        ("1", 40.0, 0.5, 0.4, ["orders-1"]),
    ]


def test_moves_carry_their_rate_share_and_pause(ask: Ask) -> None:
    found = [r for r in ask(QUERIES["moves"]) if r["at"] == at(2.25)]
    assert [(r["partition"], r["bytes_per_s"], r["r_share"]) for r in found] == [(1, 50.0, 0.625), (2, 10.0, 0.125)]
    for r in found:
        assert (r["from_slot"], r["to_slot"], r["from_worker"], r["to_worker"]) == (0, 1, "g-0", "g-1")
        assert (r["pause_s"], r["status"]) == (0.04, "done")


def test_the_cost_of_a_decision_is_the_sum_of_its_moves(ask: Ask) -> None:
    done, lost = ask(QUERIES["cost"])
    assert (done["at"], done["moved"], done["r_score"], done["shares"]) == (at(2.25), 2, 0.75, 0.75)
    assert (done["mean_pause_s"], done["max_pause_s"], done["not_taken"]) == (0.04, 0.04, 0)
    assert (lost["at"], lost["r_score"], lost["shares"], lost["not_taken"]) == (at(20.25), 0.75, None, 2)


def test_undecided_cycles_say_what_was_not_known(ask: Ask) -> None:
    found = ask(QUERIES["undecided"])
    assert [r["at"] for r in found] == [at(n + 0.25) for n in (4, 5, 6)]
    assert {(r["reason"], r["unknown_partitions"], r["partitions"], r["oldest_s"]) for r in found} == {
        ("STALE_INPUT", 1, 2, 25.0)
    }
    assert found[0]["first_unknown"] == ["orders-1: broker 3: timed out"]


def test_findings_are_asked_for_by_their_numbers(ask: Ask) -> None:
    found = ask(QUERIES["findings"])
    assert found[0]["at"] == at(4.25)
    assert {(r["stale"], r["oldest_s"], r["error"]) for r in found} == {(1.0, 25.0, "broker 3: timed out")}


def test_spells_of_not_deciding_are_one_line(ask: Ask) -> None:
    (row,) = ask(QUERIES["spells"])
    assert (row["began"], row["ended"], row["cycles"], row["reason"]) == (at(4.25), at(6.25), 3, "STALE_INPUT")


def test_consumer_seconds_are_weighed_by_the_time_to_the_next_decision(ask: Ask) -> None:
    decided = [(0.25, 1, 1), (1.25, 1, 2), (2.25, 2, 2), (3.25, 2, 2), (4.25, 2, 2), (7.25, 2, 2), (17.25, 2, 2), (20.25, 2, 2)]
    spans = [(b[0] - a[0], a[1], a[2]) for a, b in pairwise(decided)]
    (row,) = ask(QUERIES["used"])
    assert row["used_s"] == sum(seconds * used for seconds, used, _ in spans)
    assert row["fewest_s"] == sum(seconds * fewest for seconds, _, fewest in spans)


def test_failures_say_what_was_tried_and_what_went_wrong(ask: Ask) -> None:
    failed, lost = ask(QUERIES["failed"])
    assert (failed["status"], failed["error"], failed["steps"]) == ("failed", "no such command: worker", [])
    assert (lost["status"], lost["steps"]) == ("recovered", ["move orders-1 0->1", "move orders-2 0->1"])


def test_recovered_decisions_are_named(ask: Ask) -> None:
    (row,) = ask(QUERIES["recovered"])
    assert (row["at"], row["reason"], row["consumers"], row["status"]) == (at(20.25), "RATE_ABOVE_CAPACITY", 2, "recovered")


def test_a_row_read_back_through_spark_gives_the_snapshot_that_was_decided_on(ask: Ask) -> None:
    _, snapshot, _ = orders(cases.blind(T0 + 4))
    (row,) = [r for r in ask("TABLE loads") if r["sample_ts"] == snapshot.sample_ts]
    assert rows.snapshot_of(row) == snapshot


def test_a_partition_is_listed_second_by_second(ask: Ask) -> None:
    found = ask(QUERIES["partition"])
    assert [(r["at"], r["owner"], r["bytes_per_s"], r["known"]) for r in found] == [
        (at(0.25), "0", 20.0, True),
        (at(1.25), "0", 50.0, True),
        (at(2.25), "0", 50.0, True),
        (at(3.25), "1", 40.0, True),
    ]


def test_the_loads_of_partitions_are_what_deciding_again_reads(ask: Ask) -> None:
    told = {r["decision_id"]: (rows.snapshot_of(r), rows.owners_of(r)) for r in ask("TABLE loads")}
    found = ask("SELECT * FROM partition_loads")
    assert len(found) == sum(len(snapshot.loads) for snapshot, _ in told.values()) > 20
    for row in found:
        snapshot, owners = told[row["decision_id"]]
        (load,) = (x for x in snapshot.loads if (x.partition.topic, x.partition.partition) == (row["topic"], row["partition"]))
        assert owners.get(load.partition) == row["owner"]
        plain = {name: row[name] for name in ("bytes_per_s", "lag_records", "committed", "log_end", "window_s", "known", "error")}
        assert plain == {name: getattr(load, name) for name in plain}
        assert row["rate_source"] == load.rate_source.value


def test_the_tables_refuse_changes_of_what_was_written(spark: "SparkSession", root: Path) -> None:
    from delta.tables import DeltaTable  # noqa: PLC0415

    with pytest.raises(Exception, match="append"):
        DeltaTable.forPath(spark, str(root / "actions")).delete()
    properties = spark.sql(f"SHOW TBLPROPERTIES delta.`{root / 'loads'}`").toArrow().to_pylist()
    assert {"key": "delta.checkpointInterval", "value": "100"} in properties


def configured(state: Path) -> list[str]:
    config = state / "conf.yaml"
    config.write_text(CONFIG.format(state=state), encoding="utf-8")
    return ["--config", str(config)]


def test_history_prints_the_decisions_for_people(root: Path) -> None:
    command = [sys.executable, str(ROOT / "jobs" / "history.py"), *configured(root.parent)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"22:13:21\s+1 → 2\s+RATE_ABOVE_CAPACITY\s+\+1", done.stdout)
    assert re.search(r"22:13:22\s+2\s+RATE_ABOVE_CAPACITY\s+⇄2", done.stdout)
    assert "STALE_INPUT" in done.stdout
    assert "(recovered)" in done.stdout
    assert "orders: 4 moves; a moved partition paused 40 ms in the middle" in done.stdout


def test_history_answers_a_query_and_says_what_is_wrong_with_one(
    ask: Ask, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from jobs.history import main  # noqa: PLC0415  in this session: the start of one of its own is tested above

    query = "SELECT reason, count(*) AS cycles FROM loads GROUP BY reason ORDER BY reason"
    assert main([*configured(root.parent), "--sql", query]) == 0
    assert re.search(r"STALE_INPUT\s+3", capsys.readouterr().out)
    assert main([*configured(root.parent), "--sql", "SELECT nothing_like_this FROM why"]) == 1
    assert "nothing_like_this" in capsys.readouterr().err
    assert main(configured(tmp_path)) == 78
    assert "no tables in" in capsys.readouterr().err


def test_rows_that_cannot_be_written_are_reported_with_the_root_cause(spark: "SparkSession", tmp_path: Path) -> None:
    """Java's own first line names nothing but the call that failed."""
    from autoscaler.adapters.audit.delta_audit import SparkTables  # noqa: PLC0415  needs Spark

    tables = SparkTables(spark, tmp_path, SystemClock())
    tables.prepare()
    decision, snapshot, state = cases.calm()
    cycle = rows.Cycle(decision=decision, snapshot=snapshot, outcomes=(), handovers=(), owner=state.owner)
    (tmp_path / "decisions" / "date=2023-11-14").write_text("a file where a directory belongs")
    with pytest.raises(TransientError, match=r"1 rows for .* not written: \w+: \S+FileAlreadyExistsException: .*date=2023"):
        tables.append("decisions", rows.decisions([cycle]), 1)


def test_absent_and_fitting_tables_pass(root: Path, tmp_path: Path) -> None:
    check_tables(tmp_path / "nothing")
    check_tables(root)


def test_tables_of_another_schema_are_named_with_what_differs_and_what_to_do(spark: "SparkSession", tmp_path: Path) -> None:
    from autoscaler.adapters.audit.delta_audit import DeltaAudit  # noqa: PLC0415

    spark.sql("SELECT 1 AS decision_id, 'x' AS phase, current_date() AS date").write.format("delta").save(
        str(tmp_path / "actions")
    )
    (tmp_path / "loads").mkdir()
    (tmp_path / "loads" / "file").write_text("not a table")
    with pytest.raises(SettingsError) as raised:
        DeltaAudit(spark, tmp_path, flush_s=1.0, clock=SystemClock(), journal=tmp_path / "journal", cluster_of={})
    actions, loads = raised.value.problems
    assert f"table {tmp_path / 'actions'} does not fit" in actions
    assert "column decision_id is INT, not STRING" in actions
    assert "epoch" not in actions, "a column that is missing is added, not refused"
    assert "partitioned by nothing" in actions
    assert f"Move {tmp_path} away" in actions
    assert "not a Delta table" in loads
    assert not (tmp_path / "journal").exists()


def test_a_session_without_delta_is_refused_with_what_to_do(spark: "SparkSession", tmp_path: Path) -> None:
    from autoscaler.adapters.audit.delta_audit import DeltaAudit  # noqa: PLC0415

    plain = spark.newSession()
    plain.conf.set("spark.sql.catalog.spark_catalog", "builtin")
    with pytest.raises(SettingsError, match=r"spark\.sql\.catalog\.spark_catalog must name .* conf/spark\.conf"):
        DeltaAudit(plain, tmp_path, flush_s=1.0, clock=SystemClock(), journal=tmp_path / "journal", cluster_of={})


def test_the_schema_is_found_in_a_checkpoint_when_the_commits_are_gone(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "actions"
    spark.sql(f"CREATE TABLE delta.`{path}` (epoch STRING, date DATE) USING delta PARTITIONED BY (date) "
              "TBLPROPERTIES ('delta.checkpointInterval' = '1')")  # fmt: skip
    spark.sql("SELECT 'x' AS epoch, current_date() AS date").write.format("delta").mode("append").save(str(path))
    for commit in (path / "_delta_log").glob("*.json"):
        commit.unlink()
    with pytest.raises(SettingsError, match=r"release: column epoch is STRING, not BIGINT\. Move"):
        check_tables(tmp_path)


def test_the_capacity_that_was_measured_last_is_known_again(spark: "SparkSession", tmp_path: Path) -> None:
    from autoscaler.adapters.audit.delta_audit import DeltaAudit  # noqa: PLC0415  needs Spark

    def audit() -> "DeltaAudit":
        return DeltaAudit(
            spark,
            tmp_path / "tables",
            flush_s=0.5,
            clock=SystemClock(),
            journal=tmp_path / "tables" / "journal",
            cluster_of={"g": "east"},
            close_timeout_s=100.0,
        )

    first = audit()
    assert first.measured(["g"]) == {}, "nothing has ever run here"
    now = time.time()
    for group, ago, capacity, source in (
        ("g", 20, 90.0, CapacitySource.MEASURED), ("g", 10, 110.0, CapacitySource.MEASURED),
        ("was-measured", 20, 90.0, CapacitySource.MEASURED), ("was-measured", 10, 500.0, CapacitySource.CONFIGURED),
        ("long-ago", 3 * 86400, 90.0, CapacitySource.MEASURED), ("other", 10, 70.0, CapacitySource.MEASURED),
    ):  # fmt: skip
        d, s, state = cases.calm(T0)
        at = now - ago
        told(first, (replace(d, group=group, at=at, decision_id=f"{group}/{ago}", capacity_bytes_per_s=capacity,
                             capacity_source=source), replace(s, group=group, sample_ts=at), state))  # fmt: skip
    first.close()
    again = audit()
    assert again.measured(["g", "was-measured", "long-ago", "unheard-of"]) == {"g": 110.0}
    again.close()
