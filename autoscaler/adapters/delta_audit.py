"""The audit in Delta tables: decisions, actions, handovers and loads, appended off the critical path.

Last stage of the loop. ``record`` keeps a cycle's values in memory, and on disk if it acted; a thread turns them into rows and
commits them with Spark. The only adapter that knows Spark; everything that can be wrong without it lies in ``delta/``.
Must never block or fail a cycle.
"""

import logging
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from autoscaler.adapters.decision_summary import restore
from autoscaler.adapters.delta.buffer import Buffer
from autoscaler.adapters.delta.flusher import Flusher, Key
from autoscaler.adapters.delta.journal import Journal, recovered
from autoscaler.adapters.delta.log import check_tables
from autoscaler.adapters.delta.rows import Cycle, day
from autoscaler.adapters.delta.tables import TABLES, ddl
from autoscaler.adapters.delta.views import VIEWS
from autoscaler.errors import SettingsError, TransientError
from autoscaler.model import Decision, HandoverDone, LoadSnapshot, TopicPartition
from autoscaler.ports import ActionOutcome, Clock

log = logging.getLogger(__name__)

_SESSION = {
    "spark.databricks.delta.snapshotPartitions": "1",  # 50 by default: seconds per commit on a small machine
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",  # a few rows a commit: compiling code for them costs more than it saves
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_NEEDED = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_POOL = "audit"


class DeltaAudit:
    """Implements ``ports.AuditLog``."""

    def __init__(self, spark: SparkSession, root: Path, flush_s: float, clock: Clock, *, close_timeout_s: float = 30.0) -> None:
        """Check existing tables and start nothing: they are opened behind the first cycle.

        Args:
            spark: The job's session; the audit takes one of its own from it.
            root: Directory of the tables.
            flush_s: Rows of cycles that did nothing wait for at most about this long.
            clock: For the time at which something was recovered.
            close_timeout_s: How long ``close`` may take; what acted and is not written by then, the next start writes.

        Raises:
            SettingsError: Tables below ``root`` are of another schema (names each, what differs and what to do), or the session
                cannot write Delta tables.
        """
        _check_session(spark)
        check_tables(root)
        life = str(uuid4())
        self._clock = clock
        self._close_timeout_s = close_timeout_s
        self._buffer = Buffer()
        self._journal = Journal(root / "journal", life)
        self._flusher = Flusher(self._buffer, SparkTables(spark, root, life, clock), self._journal, flush_s)

    def record(
        self,
        decision: Decision,
        snapshot: LoadSnapshot,
        outcomes: Sequence[ActionOutcome],
        handovers: Sequence[HandoverDone],
        owner: Mapping[TopicPartition, int | str],
    ) -> None:
        """Take one cycle's rows; ``owner`` is who holds each partition now (slot, or member id in a native group)."""
        cycle = Cycle(
            decision=decision, snapshot=snapshot, outcomes=tuple(outcomes), handovers=tuple(handovers), owner=dict(owner)
        )
        number = self._journal.add(cycle) if cycle.acted or cycle.handovers else None
        self._buffer.add(cycle, number)
        self._flusher.wake(at_once=any(o.phase == "intent" for o in outcomes))

    def complete(self, summary: str) -> None:
        """Write the rows of a published plan that a crash kept from being written; does nothing if they are there.

        The plan was committed, which is its intent; what became of it after that nobody knows, so its outcome, if missing, has
        the status ``recovered``. A text that is no summary is reported and left.
        """
        try:
            decision = restore(summary)
        except ValueError as e:
            log.warning("the latest plan's rows cannot be completed: %s", e)
            return
        outcomes = tuple(
            ActionOutcome(
                decision_id=decision.decision_id,
                group=decision.group,
                at=at,
                epoch=decision.epoch + 1 if phase == "outcome" else None,
                phase=phase,
                status=status,
                error=None,
            )
            for phase, status, at in (("intent", "planned", decision.at), ("outcome", "recovered", self._clock.now()))
        )
        self._flusher.complete(recovered(decision, outcomes))

    def close(self) -> None:
        """Write what is left, for ``close_timeout_s`` at most; the session must still be alive."""
        self._flusher.close(self._close_timeout_s)


class SparkTables:
    """Implements ``TableWriter`` with delta-spark; used by the flusher's thread only."""

    def __init__(self, spark: SparkSession, root: Path, life: str, clock: Clock) -> None:
        """Keep what is needed; ``prepare`` opens the tables."""
        self._spark = spark.newSession()
        self._root = root
        self._life = life
        self._clock = clock
        for key, value in _SESSION.items():
            self._spark.conf.set(key, value)

    def today(self) -> date:
        """Return the present UTC date."""
        return day(self._clock.now())

    def prepare(self) -> None:
        """Make the tables that are not there, in the scheduler pool of the audit.

        Raises:
            TransientError: They cannot be made now.
        """
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", _POOL)
        try:
            for table in TABLES.values():
                if any((self._root / table.name / "_delta_log").glob("*.json")):
                    continue  # checked at start; Spark would take a second to say that it is there
                self._spark.sql(ddl(table, str(self._root / table.name)))
        except (PySparkException, Py4JError, OSError) as e:
            raise TransientError(f"the tables in {self._root} cannot be opened: {_first_line(e)}") from e

    def append(self, table: str, rows: pa.Table, version: int) -> None:
        """Append rows in one commit, unless this life has committed this version of the table.

        Raises:
            TransientError: The commit failed, or its answer was lost.
        """
        try:
            (
                self._spark.createDataFrame(rows)
                .coalesce(1)
                .write.format("delta")
                .mode("append")
                .option("txnAppId", f"{self._life}:{table}")
                .option("txnVersion", version)
                .save(str(self._root / table))
            )
        except (PySparkException, Py4JError, OSError) as e:
            raise TransientError(f"{rows.num_rows} rows for {self._root / table} were not written: {_first_line(e)}") from e

    def keys(self, table: str, since: date) -> set[Key]:
        """Return the keys of all rows of this date and later.

        Raises:
            TransientError: The table cannot be read.
        """
        try:
            found = self._spark.read.format("delta").load(str(self._root / table)).where(col("date") >= since)
            return {tuple(r.values()) for r in found.select(*TABLES[table].key).toArrow().to_pylist()}
        except (PySparkException, Py4JError, OSError) as e:
            raise TransientError(f"{self._root / table} cannot be read: {_first_line(e)}") from e


def register_views(spark: SparkSession, root: Path) -> None:
    """Make temporary views of the tables below ``root`` and of the questions that ``docs/audit.md`` explains.

    Raises:
        TransientError: A table is not there (yet) or cannot be read.
    """
    try:
        for name in TABLES:
            spark.read.format("delta").load(str(root / name)).createOrReplaceTempView(name)
        for name, sql in VIEWS.items():
            spark.sql(sql).createOrReplaceTempView(name)
    except (PySparkException, Py4JError) as e:
        raise TransientError(f"the tables in {root} cannot be read: {_first_line(e)}") from e


def _check_session(spark: SparkSession) -> None:
    problems = [
        f"spark: {key} must name {value}: start the job with ./spark-submit.sh, or give --properties-file conf/spark.conf"
        for key, value in _NEEDED.items()
        if value not in (spark.conf.get(key, "") or "")
    ]
    if problems:
        raise SettingsError(tuple(problems))


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
