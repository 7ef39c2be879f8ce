"""What is read back without Spark is what the views tell in SQL, on tables that the audit itself wrote."""

from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from autoscaler.adapters.audit.decision_reader import DecisionTables
from autoscaler.adapters.clock import SystemClock
from tests.adapters.audit import audit_cases as cases
from tests.adapters.audit.test_audit_advised import invoices, timeline, turned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)

FIRST, LAST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
GROUPS = ("managed", "native", "turned", "invoices", "odd")
ODD_S = 0.0007891  # microseconds beyond the millisecond


@pytest.fixture(scope="module")
def written(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """Give the tables, and the rows of the view ``history``."""
    from autoscaler.adapters.audit.delta_audit import DeltaAudit, register_views  # noqa: PLC0415  needs Spark

    place = tmp_path_factory.mktemp("state") / "tables"
    audit = DeltaAudit(
        spark, place, flush_s=0.5, clock=SystemClock(), journal=place / "journal", cluster_of={}, close_timeout_s=100.0
    )
    for name in ("managed", "native"):
        for entry in timeline(name).audit.entries:
            decided = replace(entry.decision, group=name, decision_id=f"{name}/{int(entry.decision.at * 1000)}")
            audit.record(decided, replace(entry.snapshot, group=name), (), (), entry.owner)
    turned(audit)
    invoices(audit)
    for second in (0, 10, 20):
        decision, snapshot, state = cases.calm(cases.T0 + second)
        decision = replace(decision, group="odd", decision_id=f"odd/{second}", at=decision.at + ODD_S)
        audit.record(decision, replace(snapshot, group="odd"), (), (), state.owner)
    audit.close()
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    register_views(session, place)
    return place, session.sql("TABLE history").toArrow().to_pylist()


@pytest.mark.parametrize("group", GROUPS)
def test_a_history_is_that_of_the_view(written: tuple[Path, list[dict[str, Any]]], group: str) -> None:
    root, view = written
    told = [asdict(s) for s in DecisionTables(root).spells(group, FIRST, LAST)]
    assert told == sorted((r for r in view if r["group"] == group), key=lambda r: r["at"])
    assert told


def test_a_decision_is_found_by_every_time_at_and_after_it(written: tuple[Path, list[dict[str, Any]]]) -> None:
    """Statistics of files have milliseconds, rows microseconds: none is missed between the two."""
    tables = DecisionTables(written[0])
    (rest,) = tables.spells("odd", FIRST, LAST)
    assert rest.at.microsecond % 1000
    for at in (rest.at, rest.at + timedelta(seconds=10), rest.until):
        for later in (timedelta(), timedelta(microseconds=1), timedelta(seconds=3)):
            found = tables.decision("odd", at + later)
            assert found is not None
            assert found["at"] == at
        before = tables.decision("odd", at - timedelta(microseconds=1))
        assert before is None or before["at"] < at
    assert tables.groups().keys() == set(GROUPS)


def test_what_became_of_a_decision_stands_beside_it(written: tuple[Path, list[dict[str, Any]]]) -> None:
    tables = DecisionTables(written[0])
    first = tables.decision("turned", datetime.fromtimestamp(cases.T0 + 1, UTC))
    assert first is not None
    assert [(o["phase"], o["status"]) for o in tables.outcomes(first)] == [("intent", "planned"), ("outcome", "done")]
    rested = tables.decision("turned", datetime.fromtimestamp(cases.T0 + 15, UTC))
    assert rested is not None
    assert tables.outcomes(rested) == ()
