"""What the audit's views tell of groups that are only advised: consumers that existed, apart from those that were advised."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from autoscaler.adapters.clock import SystemClock
from autoscaler.cli.decision_history import history
from autoscaler.model import Reason
from tests.adapters.audit import audit_cases as cases
from tests.adapters.audit.test_audit_delta import QUERIES
from tests.scenarios.test_advised_timelines import Advised

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from autoscaler.adapters.audit.delta_audit import DeltaAudit

Ask = Callable[[str], list[dict[str, Any]]]

pytestmark = pytest.mark.timeout(600)

T0 = cases.T0
STARTED_S, OUTAGE_S, OVER_S, STOPPED_S = 20, 40, 70, 75  # two more by hand, the brokers go and come, one is stopped by hand


def timeline(assignment: str) -> Advised:
    """Return a group of three consumers: two more are started by hand, no broker answers for 30 s, one is stopped."""
    group = Advised(assignment, rate=35.0)
    group.run(STARTED_S)
    group.hands = 5
    group.run(OUTAGE_S - STARTED_S)
    group.outage(OVER_S - OUTAGE_S)
    group.run(STOPPED_S - OVER_S)
    group.hands = 4
    group.run(5)
    return group


@pytest.fixture(scope="module")
def ask(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Ask:
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
    audit.close()
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    register_views(session, place)

    def run(sql: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = session.sql(sql).toArrow().to_pylist()
        return found

    return run


def turned(audit: "DeltaAudit") -> None:
    """Record a group that acts, is set back to advise while somebody stops a consumer, and acts again."""
    for second, mode, now, wanted, acts in (
        (0, "act", 1, 2, True), (10, "act", 2, 2, False), (20, "advise", 2, 4, False), (30, "advise", 1, 4, False),
        (40, "advise", None, 0, False), (50, "act", 1, 3, True),
    ):  # fmt: skip
        decision, snapshot, state = cases.grown(T0 + second)
        decision = replace(decision, mode=mode, consumers_now=now, consumers=wanted, recommended=4, group="turned")
        decision = replace(decision, decision_id=f"turned/{int(decision.at * 1000)}")
        outcomes = cases.outcomes(decision) if acts else ()
        audit.record(decision, replace(snapshot, group="turned"), outcomes, (), state.owner)


def invoices(audit: "DeltaAudit") -> None:
    """Record the group of the page's query: the advice changes with the load, and stays while nothing is known."""
    for second, now, recommended, age_s in ((0, 1, 1, 0.0), (5, 1, 2, 0.0), (8, None, 2, 3.0), (12, 1, 3, 0.0)):
        decision, snapshot, state = cases.grown(T0 + second)
        decision = replace(decision, mode="advise", consumers_now=now, recommended=recommended, recommended_age_s=age_s)
        decision = replace(decision, group="invoices", decision_id=f"invoices/{second}")
        audit.record(decision, replace(snapshot, group="invoices"), (), (), state.owner)


def of(ask: Ask, group: str, view: str) -> list[dict[str, Any]]:
    return sorted((r for r in ask(f"TABLE {view}") if r["group"] == group), key=lambda r: str(r["at"]))


def at(seconds: float, group: Advised | None = None) -> datetime:
    began = T0 if group is None else group.decisions[0].at
    return datetime.fromtimestamp(began + seconds, tz=UTC)


GROUPS = pytest.mark.parametrize("group", ["managed", "native"])


@GROUPS
def test_why_tells_the_changes_that_were_and_not_those_that_were_advised(ask: Ask, group: str) -> None:
    began = timeline(group)
    found = of(ask, group, "why")
    assert [(r["at"], r["from_consumers"], r["to_consumers"], r["changed_by"]) for r in found] == [
        (at(STARTED_S, began), 3, 5, "others"),
        (at(STOPPED_S, began), 5, 4, "others"),
    ]
    assert {(r["recommended"], r["recommended_age_s"]) for r in found} == {(6, 0.0)}


def test_why_goes_by_what_was_asked_for_while_the_controller_acts(ask: Ask) -> None:
    found = of(ask, "turned", "why")
    assert [(r["from_consumers"], r["to_consumers"], r["changed_by"], r["status"]) for r in found] == [
        (1, 2, "controller", "done"),
        (2, 1, "others", None),
        (1, 3, "controller", "done"),
    ]


@GROUPS
def test_the_advice_is_a_view_of_its_own_and_an_outage_is_no_advice(ask: Ask, group: str) -> None:
    found = of(ask, group, "advice")
    changes = [(r["observed_consumers"], r["from_recommended"], r["to_recommended"]) for r in found]
    assert changes[0] == (3, None, 6)
    assert len(changes) == 1, changes


def test_the_advice_at_a_time_is_the_last_change_of_it(ask: Ask) -> None:
    (row,) = ask(QUERIES["advice"])
    assert (row["observed_consumers"], row["from_recommended"], row["to_recommended"]) == (1, 1, 2)
    assert (row["recommended_age_s"], row["reason"]) == (0.0, Reason.RATE_ABOVE_CAPACITY)


@GROUPS
def test_no_row_says_that_none_consume_or_that_none_are_needed(ask: Ask, group: str) -> None:
    for table, names in (
        ("decisions", ("consumers_now", "consumers", "recommended", "lower_bound")),
        ("loads", ("consumers_now", "consumers")),
        ("history", ("observed_consumers", "requested_consumers", "advised_consumers", "recommended")),
    ):
        assert not [r for r in of(ask, group, table) if 0 in {r[name] for name in names}], table


@GROUPS
def test_the_spell_of_an_outage_keeps_the_advice_with_its_age(ask: Ask, group: str) -> None:
    found = of(ask, group, "history")
    (dark,) = [r for r in found if r["reason"] == Reason.NOT_READY]
    assert (dark["observed_consumers"], dark["requested_consumers"], dark["advised_consumers"]) == (None, None, None)
    assert (dark["recommended"], dark["recommended_age_s"]) == (6, 22.0), "a row every 10 s"
    assert "no broker answers" in dark["detail"]
    assert {r["requested_consumers"] for r in found} == {None}
    assert {"3, advised 6", "5, advised 6", "?, advised 6 22.0 s ago"} <= set(history(found).columns[2].cells)


@GROUPS
def test_cycles_that_could_not_decide_say_who_was_observed(ask: Ask, group: str) -> None:
    found = [r for r in of(ask, group, "undecided") if r["reason"] == Reason.NOT_READY]
    assert {r["observed_consumers"] for r in found} == {None}
