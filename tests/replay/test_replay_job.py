"""Cycles that the audit itself has written, decided again through Spark and without it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autoscaler.adapters.clock import SystemClock
from tests.cli import commands
from tests.replay.test_redecide import eventful

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)


def test_what_the_audit_has_written_is_decided_again_through_spark_and_without(spark: "SparkSession", tmp_path: Path) -> None:
    from autoscaler.adapters.audit.delta_audit import DeltaAudit  # noqa: PLC0415  Spark is imported by who asks for it
    from jobs.replay import replayed  # noqa: PLC0415

    place, entries = tmp_path / "tables", eventful().audit.entries
    audit = DeltaAudit(
        spark, place, flush_s=0.5, clock=SystemClock(), journal=tmp_path / "journal", cluster_of={}, close_timeout_s=100.0
    )
    for e in entries:
        audit.record(e.decision, e.snapshot, e.outcomes, e.handovers, e.owner, e.inputs)
    audit.close()
    since = datetime.fromtimestamp(entries[0].decision.at, UTC)
    until = since + timedelta(hours=1)
    found = replayed(spark, str(place), "g", since, until)
    assert found.differences == ()
    assert (found.cycles, found.undecided, found.held, found.unconnected) == (len(entries), 1, 1, 0)
    assert found.plans > 10
    done = commands.run("replay", "g", "--tables", place, "--since", since.isoformat(), "--until", until.isoformat())
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{len(entries)} cycles" in done.stdout
