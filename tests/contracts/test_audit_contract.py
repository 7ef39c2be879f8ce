"""One contract for ``AuditLog``, kept by the fake and by the Delta tables."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from autoscaler.adapters.audit.decision_json import restore, summarise
from autoscaler.adapters.clock import SystemClock
from autoscaler.model import HandoverDone
from autoscaler.ports import AuditLog
from tests.adapters.audit import audit_cases as cases
from tests.fakes import FakeAudit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)


@dataclass(frozen=True, slots=True)
class Written:
    """What an audit holds in the end, as any implementation can tell it."""

    cycles: list[str]
    acted: set[str]
    outcomes: list[tuple[str, str, str]]
    handovers: list[tuple[str, int]]


class World(Protocol):
    """An audit and a way to look at what it wrote."""

    @property
    def audit(self) -> AuditLog:
        """Return what is tested."""
        ...

    def written(self) -> Written:
        """Return what it holds; it must have been closed."""
        ...


class FakeWorld:
    """The shipped fake."""

    def __init__(self) -> None:
        self.audit = FakeAudit()

    def written(self) -> Written:
        told = self.audit.entries
        completed = [restore(s) for s in self.audit.completed]
        return Written(
            cycles=[e.decision.decision_id for e in told],
            acted={e.decision.decision_id for e in told if e.outcomes} | {d.decision_id for d in completed},
            outcomes=[(o.decision_id, o.phase, o.status) for e in told for o in e.outcomes]
            + [(d.decision_id, *x) for d in completed for x in (("intent", "planned"), ("outcome", "recovered"))],
            handovers=[(str(h.partition), h.epoch) for e in told for h in e.handovers],
        )


class DeltaWorld:
    """Real tables."""

    def __init__(self, spark: "SparkSession", root: Path) -> None:
        from autoscaler.adapters.audit.delta_audit import DeltaAudit  # noqa: PLC0415  Spark is imported by who asks for it

        self._spark, self._root = spark, root
        self.audit = DeltaAudit(
            spark, root, flush_s=0.2, clock=SystemClock(), journal=root / "journal", cluster_of={}, close_timeout_s=100.0
        )

    def written(self) -> Written:
        rows = {t: self._rows(t) for t in ("decisions", "actions", "handovers", "loads")}
        return Written(
            cycles=[r["decision_id"] for r in rows["loads"]],
            acted={r["decision_id"] for r in rows["decisions"] if r["acted"]},
            outcomes=[(r["decision_id"], r["phase"], r["status"]) for r in rows["actions"]],
            handovers=[(f"{r['topic']}-{r['partition']}", r["epoch"]) for r in rows["handovers"]],
        )

    def _rows(self, table: str) -> list[dict[str, Any]]:
        path = self._root / table
        if not path.exists():
            return []
        found: list[dict[str, Any]] = self._spark.read.format("delta").load(str(path)).toArrow().to_pylist()
        return sorted(found, key=lambda r: r["at"])


@pytest.fixture(params=["fake", pytest.param("delta", marks=pytest.mark.spark)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made: World = FakeWorld() if request.param == "fake" else DeltaWorld(request.getfixturevalue("spark"), tmp_path / "tables")
    yield made
    made.audit.close()


def tell(audit: AuditLog, at: float, *, acts: bool = False, handovers: tuple[HandoverDone, ...] = ()) -> str:
    decision, snapshot, state = cases.hot(at) if acts else cases.calm(at)
    audit.record(decision, snapshot, cases.outcomes(decision) if acts else (), handovers, state.owner)
    return decision.decision_id


def test_what_is_recorded_is_there_in_order_after_closing(world: World) -> None:
    done = cases.handover(1, at=cases.T0 + 1.5), cases.handover(2, at=cases.T0 + 1.6)
    ids = [
        tell(world.audit, cases.T0),
        tell(world.audit, cases.T0 + 1, acts=True),
        tell(world.audit, cases.T0 + 2, handovers=done),
    ]
    world.audit.close()
    held = world.written()
    assert held.cycles == ids
    assert held.acted == {ids[1]}
    assert held.outcomes == [(ids[1], "intent", "planned"), (ids[1], "outcome", "done")]
    assert held.handovers == [("orders-1", 8), ("orders-2", 8)]


def test_a_published_plan_that_was_never_recorded_is_completed_once(world: World) -> None:
    decision, _, _ = cases.hot()
    for _ in range(2):
        world.audit.complete(summarise(decision))
    world.audit.close()
    held = world.written()
    assert held.acted == {decision.decision_id}
    assert sorted(held.outcomes) == [(decision.decision_id, "intent", "planned"), (decision.decision_id, "outcome", "recovered")]
    assert (held.cycles, held.handovers) == ([], [])


def test_an_audit_that_was_told_nothing_closes_and_holds_nothing(world: World) -> None:
    world.audit.close()
    assert world.written() == Written(cycles=[], acted=set(), outcomes=[], handovers=[])
