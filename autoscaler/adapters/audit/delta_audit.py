"""The audit in Delta tables: decisions, actions, handovers and loads, appended off the critical path.

Last stage of the loop. ``record`` keeps a cycle's values in memory, and on disk if it acted; a thread turns them into rows and
commits them with Spark. The only adapter that knows Spark; everything that can be wrong without it lies in ``delta/``.
Must never block or fail a cycle.
"""

import logging
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, max_by, struct

from autoscaler.adapters.audit.buffer import Buffer
from autoscaler.adapters.audit.decision_json import restore
from autoscaler.adapters.audit.flusher import Flusher, Key
from autoscaler.adapters.audit.journal import Journal, recovered
from autoscaler.adapters.audit.rows import Cycle, day, measured_of
from autoscaler.adapters.audit.schema_check import check_tables, lacking
from autoscaler.adapters.audit.tables import MEASURED, TABLES, Table, addition, columns, ddl, sql_type
from autoscaler.adapters.audit.views import UNPACK, VIEWS
from autoscaler.errors import SettingsError, TransientError
from autoscaler.model import CapacitySource, Decision, HandoverDone, LoadSnapshot, TopicPartition
from autoscaler.ports import ActionOutcome, Clock

log = logging.getLogger(__name__)

SESSION = {
    "spark.databricks.delta.snapshotPartitions": "1",  # 50 by default: seconds per commit on a small machine
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",  # a few rows a commit: compiling code for them costs more than it saves
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",  # half of what the default leaves of packed measurements
}
_NEEDED = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_SMALL = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",  # an operator waits for the first answer
}
_POOL = "audit"
_CAUSED = "Caused by: "


class DeltaAudit:
    """Implements ``ports.AuditLog``."""

    def __init__(
        self,
        spark: SparkSession,
        root: Path,
        flush_s: float,
        clock: Clock,
        *,
        cluster_of: Mapping[str, str],
        close_timeout_s: float = 30.0,
    ) -> None:
        """Check existing tables and start nothing: they are opened behind the first cycle.

        The audit takes a session of its own from ``spark``. Rows of cycles that did nothing wait for at most about ``flush_s``.
        What acted and is not written when ``close_timeout_s`` is over, the next start writes.

        Raises:
            SettingsError: Tables below ``root`` are of another schema (names each, what differs and what to do), or the session
                cannot write Delta tables.
        """
        _check_session(spark)
        check_tables(root)
        life = str(uuid4())
        self._clock = clock
        self._cluster_of = dict(cluster_of)
        self._close_timeout_s = close_timeout_s
        self._buffer = Buffer()
        self._journal = Journal(root / "journal", life)
        self._tables = SparkTables(spark, root, clock)
        self._flusher = Flusher(self._buffer, self._tables, self._journal, flush_s)

    def measured(self, groups: Collection[str]) -> dict[str, float]:
        """Return the capacities in bytes/s that these groups' latest decisions went by, where one had been measured.

        For groups whose plan stands nowhere else; takes a second or two. What is older than yesterday counts no more.
        """
        if not groups:
            return {}
        try:
            return self._tables.measured(groups)
        except TransientError as e:
            log.warning("what consumers had been measured to do is not known any more: %s", e)
            return {}

    def record(
        self,
        decision: Decision,
        snapshot: LoadSnapshot,
        outcomes: Sequence[ActionOutcome],
        handovers: Sequence[HandoverDone],
        owner: Mapping[TopicPartition, int | str],
    ) -> None:
        """Take one cycle's rows, see ``ports.AuditLog``."""
        cycle = Cycle(
            decision=decision, snapshot=snapshot, outcomes=tuple(outcomes), handovers=tuple(handovers), owner=dict(owner),
            cluster=self._cluster_of.get(decision.group),
        )  # fmt: skip
        number = self._journal.add(cycle) if cycle.acted or cycle.handovers else None
        self._buffer.add(cycle, number)
        self._flusher.wake(at_once=any(o.phase == "intent" for o in outcomes))

    def complete(self, summary: str) -> None:
        """Write the rows of a published plan that a crash kept from being written; does nothing if they are there.

        The plan was committed, which is its intent; what became of it after that is not known, so its outcome, if missing, has
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
        self._flusher.complete(recovered(decision, outcomes, cluster=self._cluster_of.get(decision.group)))

    def waiting(self) -> tuple[int, float | None]:
        """Return how many cycles have no rows yet, and when the oldest of them was decided (seconds since 1970)."""
        return self._flusher.waiting()

    def close(self) -> None:
        """Write what is left, for ``close_timeout_s`` at most; the session must still be alive."""
        self._flusher.close(self._close_timeout_s)


class SparkTables:
    """Implements ``TableWriter`` with delta-spark; used by the flusher's thread only."""

    def __init__(self, spark: SparkSession, root: Path, clock: Clock, tables: Mapping[str, Table] = TABLES) -> None:
        """Keep what is needed; ``prepare`` opens the tables."""
        self._spark = spark.newSession()
        self._root = root
        self._clock = clock
        self._wanted = tables
        self._unsure: set[tuple[str, int]] = set()  # commits whose answer was an error: made or not
        for key, value in SESSION.items():
            self._spark.conf.set(key, value)

    def today(self) -> date:
        """Return the present UTC date."""
        return day(self._clock.now())

    def prepare(self) -> None:
        """Make the tables that are not there and add the columns that earlier releases did not have, in the audit's pool.

        Raises:
            TransientError: They cannot be made now.
        """
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", _POOL)
        try:
            for table in self._wanted.values():
                path = self._root / table.name
                if not any((path / "_delta_log").glob("*.json")):
                    self._spark.sql(ddl(table, str(path)))
                elif new := lacking(table, path):
                    self._spark.sql(addition(str(path), new))
                    names = ", ".join(x.path.replace("`", "") for x in new)
                    log.info("table %s has new columns, null in the rows of earlier releases: %s", path, names)
        except (PySparkException, Py4JError, OSError, DeltaError) as e:
            raise TransientError(f"the tables in {self._root} cannot be opened: {first_line(e)}") from e

    def append(self, table: str, rows: pa.Table, version: int) -> None:
        """Append rows in one commit, unless this life has committed this version of the table.

        Delta's own transaction identifiers would see to that, at three times the cost: each commit then reads what all earlier
        ones said about theirs. Here only a commit after one that failed looks whether its rows are there.

        Raises:
            TransientError: The commit failed, or its answer was lost.
        """
        attempt = (table, version)
        if attempt in self._unsure and self._holds(table, rows):
            self._unsure.discard(attempt)
            return
        self._unsure.add(attempt)
        try:
            frame = self._spark.createDataFrame(rows).coalesce(1)
            frame.write.format("delta").mode("append").save(str(self._root / table))
        except (PySparkException, Py4JError, OSError) as e:
            raise TransientError(f"{rows.num_rows} rows for {self._root / table} were not written: {first_line(e)}") from e
        self._unsure.discard(attempt)

    def _holds(self, table: str, rows: pa.Table) -> bool:
        """Say whether rows are in a table: a commit has all of its rows or none."""
        first = rows.slice(0, 1).select([*self._wanted[table].key, "date"]).to_pylist()[0]
        return tuple(v for k, v in first.items() if k != "date") in self.keys(table, first["date"])

    def measured(self, groups: Collection[str]) -> dict[str, float]:
        """Return the capacity of each of these groups' latest decision, where that had been measured.

        Raises:
            TransientError: The table cannot be read.
        """
        path = self._root / "decisions"
        if not any((path / "_delta_log").glob("*.json")):
            return {}
        try:
            rows = self._spark.read.format("delta").load(str(path))
            lately = rows.where((col("date") >= self.today() - timedelta(days=1)) & col("group").isin(*groups))
            latest = lately.groupBy("group").agg(max_by(struct("capacity_source", "capacity_bytes_per_s"), "at").alias("latest"))
            found = latest.select("group", "latest.*").toArrow().to_pylist()
        except (PySparkException, Py4JError, OSError) as e:
            raise TransientError(f"{path} cannot be read: {first_line(e)}") from e
        return {r["group"]: r["capacity_bytes_per_s"] for r in found if r["capacity_source"] == CapacitySource.MEASURED}

    def keys(self, table: str, since: date) -> set[Key]:
        """Return the keys of all rows of this date and later.

        Raises:
            TransientError: The table cannot be read.
        """
        try:
            found = self._spark.read.format("delta").load(str(self._root / table)).where(col("date") >= since)
            return {tuple(r.values()) for r in found.select(*self._wanted[table].key).toArrow().to_pylist()}
        except (PySparkException, Py4JError, OSError) as e:
            raise TransientError(f"{self._root / table} cannot be read: {first_line(e)}") from e


def register_views(spark: SparkSession, root: Path) -> None:
    """Make temporary views of the tables below ``root`` and of the questions that ``docs/tasks/history.md`` explains.

    Where Spark's Python workers cannot import this package, all but ``partition_loads`` can be asked. Columns that the tables of
    an earlier release do not have yet are null; nothing is written.

    Raises:
        TransientError: A table is not there (yet) or cannot be read.
    """
    try:
        for name, table in TABLES.items():
            there = spark.read.format("delta").load(str(root / name))
            there.to(spark.createDataFrame([], columns(table)).schema).createOrReplaceTempView(name)
        spark.udf.register(UNPACK, measured_of, f"ARRAY<{sql_type(MEASURED)}>")
        for name, sql in VIEWS.items():
            spark.sql(sql).createOrReplaceTempView(name)
    except (PySparkException, Py4JError) as e:
        raise TransientError(f"the tables in {root} cannot be read: {first_line(e)}") from e


def small_session(name: str, class_path: str) -> SparkSession:
    """Return a local session that works on Delta tables and takes little; ``class_path`` is where Delta's jars are."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).config("spark.driver.extraClassPath", class_path)
    for key, value in (_SMALL | _NEEDED | SESSION).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _check_session(spark: SparkSession) -> None:
    problems = [
        f"spark: {key} must name {value}: start the job with ./spark-submit.sh, or give --properties-file conf/spark.conf"
        for key, value in _NEEDED.items()
        if value not in (spark.conf.get(key, "") or "")
    ]
    if problems:
        raise SettingsError(tuple(problems))


def first_line(error: Exception) -> str:
    """Return an error in a line; of one of Java's its root cause, because its own first line names a call of ours only."""
    lines = str(error).strip().splitlines() or [""]
    causes = [line.strip().removeprefix(_CAUSED) for line in lines if line.strip().startswith(_CAUSED)]
    return f"{type(error).__name__}: {causes[-1] if causes else lines[0]}"
