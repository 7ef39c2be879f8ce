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
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
from delta.tables import DeltaTable
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, max_by, struct

from autoscaler.adapters.audit.buffer import Buffer
from autoscaler.adapters.audit.decision_json import restore
from autoscaler.adapters.audit.flusher import Flusher, Key
from autoscaler.adapters.audit.journal import Journal, recovered, take_over
from autoscaler.adapters.audit.place import TablesPlace
from autoscaler.adapters.audit.rows import Cycle, day, measured_of
from autoscaler.adapters.audit.schema_check import check_tables, faults, lacking, unfit
from autoscaler.adapters.audit.tables import MEASURED, TABLES, Table, addition, columns, ddl, sql_type
from autoscaler.config.places import scheme_of
from autoscaler.errors import SettingsError, TransientError
from autoscaler.model import CapacitySource, Decision, HandoverDone, LoadSnapshot, TopicPartition
from autoscaler.ports import ActionOutcome, Clock, Inputs

if TYPE_CHECKING:
    from autoscaler.adapters.audit.writer_turn import WriterTurn

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
        where: str | Path,
        flush_s: float,
        clock: Clock,
        *,
        journal: Path,
        cluster_of: Mapping[str, str],
        close_timeout_s: float = 30.0,
    ) -> None:
        """Check existing tables and start nothing: they are opened behind the first cycle.

        The audit takes a session of its own from ``spark``. Rows of cycles that did nothing wait for at most about ``flush_s``.
        What acted and is not written when ``close_timeout_s`` is over, the next start writes.

        Args:
            spark: The job's session.
            where: The place of the tables: a path, an address, or ``catalog.schema``.
            flush_s: As above.
            clock: That days are told by.
            journal: A directory of this machine, for what must survive a kill.
            cluster_of: The cluster of each group.
            close_timeout_s: As above.

        Raises:
            SettingsError: The tables are of another schema (names each, what differs and what to do), or the session cannot
                write Delta tables.
            TransientError: They lie elsewhere and cannot be reached.
        """
        _check_session(spark)
        place = TablesPlace.of(where)
        self._tables = SparkTables(spark, place, clock)
        if place.local is None:
            self._tables.check()
        else:
            check_tables(place.local)
            take_over(place.local / "journal", journal)
        life = str(uuid4())
        self._clock = clock
        self._cluster_of = dict(cluster_of)
        self._close_timeout_s = close_timeout_s
        self._buffer = Buffer()
        self._journal = Journal(journal, life)
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

    def record(  # noqa: PLR0917  what one cycle leaves
        self,
        decision: Decision,
        snapshot: LoadSnapshot,
        outcomes: Sequence[ActionOutcome],
        handovers: Sequence[HandoverDone],
        owner: Mapping[TopicPartition, int | str],
        inputs: Inputs | None = None,
    ) -> None:
        """Take one cycle's rows, see ``ports.AuditLog``."""
        cycle = Cycle(
            decision=decision, snapshot=snapshot, outcomes=tuple(outcomes), handovers=tuple(handovers), owner=dict(owner),
            cluster=self._cluster_of.get(decision.group), inputs=inputs,
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

    def close(self) -> int:
        """Write what is left, for ``close_timeout_s`` at most; the session must still be alive.

        Returns:
            How many cycles could not be written: those that acted the next start writes, the others are lost.
        """
        left = self._flusher.close(self._close_timeout_s)
        self._tables.close()
        return left

    def check_turn(self) -> None:
        """Look whether this driver may write the tables, see ``WriterTurn``.

        Raises:
            TransientError: Another driver has begun to, or that cannot be looked at now.
        """
        self._tables.check_turn()


class SparkTables:
    """Implements ``TableWriter`` with delta-spark; used by the flusher's thread only."""

    def __init__(
        self, spark: SparkSession, where: str | Path | TablesPlace, clock: Clock, tables: Mapping[str, Table] = TABLES
    ) -> None:
        """Keep what is needed; ``prepare`` opens the tables."""
        self._spark = spark.newSession()
        self._place = TablesPlace.of(where)
        self._clock = clock
        self._turn = self._own_turn()
        self._wanted = tables
        self._unsure: set[tuple[str, int]] = set()  # commits whose answer was an error: made or not
        for key, value in SESSION.items():
            self._spark.conf.set(key, value)

    def _own_turn(self) -> "WriterTurn | None":
        """Return what keeps drivers apart; ``None`` where Delta does by itself."""
        if self._place.catalog or scheme_of(self._place.root) != "s3a":
            return None
        from autoscaler.adapters.audit.writer_turn import WriterTurn  # noqa: PLC0415  loaded only where tables are in such a store

        return WriterTurn(self._spark, self._place)

    def today(self) -> date:
        """Return the present UTC date."""
        return day(self._clock.now())

    def check(self) -> None:
        """Refuse existing tables that cannot be appended to, see ``schema_check``.

        Raises:
            SettingsError: One problem per table that does not fit.
            TransientError: They cannot be read now.
        """
        problems = []
        try:
            for table in self._wanted.values():
                if not is_table(self._spark, self._place, table.name):
                    continue
                named = self._place.named(table.name)
                partitioned = self._spark.sql(f"DESCRIBE DETAIL {named}").select("partitionColumns").collect()[0][0]
                if said := "; ".join(faults(table, self._schema(table.name), partitioned)):
                    problems.append(unfit(self._place.at(table.name), self._place.root, said))
        except (PySparkException, Py4JError) as e:
            raise TransientError(f"the tables in {self._place} cannot be read: {first_line(e)}") from e
        if problems:
            raise SettingsError(tuple(problems))

    def prepare(self) -> None:
        """Make the tables that are not there and add the columns that earlier releases did not have, in the audit's pool.

        Raises:
            TransientError: They cannot be made now.
        """
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", _POOL)
        if self._turn is not None:
            self._turn.take()
        try:
            if self._place.catalog and not self._spark.catalog.databaseExists(self._place.root):
                self._spark.sql(f"CREATE SCHEMA {'.'.join(f'`{x}`' for x in self._place.root.split('.'))}")
            for table in self._wanted.values():
                named = self._place.named(table.name)
                if not is_table(self._spark, self._place, table.name):
                    self._spark.sql(ddl(table, named))
                elif new := lacking(table, self._schema(table.name)):
                    self._spark.sql(addition(named, new))
                    names = ", ".join(x.path.replace("`", "") for x in new)
                    at = self._place.at(table.name)
                    log.info("table %s has new columns, null in the rows of earlier releases: %s", at, names)
        except (PySparkException, Py4JError) as e:
            raise TransientError(f"the tables in {self._place} cannot be opened: {first_line(e)}") from e

    def _schema(self, table: str) -> pa.Schema:
        return self._spark.sql(f"SELECT * FROM {self._place.named(table)} LIMIT 0").toArrow().schema  # noqa: S608  a name of ours

    def append(self, table: str, rows: pa.Table, version: int) -> None:
        """Append rows in one commit, unless this life has committed this version of the table.

        Delta's own transaction identifiers would see to that, at three times the cost: each commit then reads what all earlier
        ones said about theirs. Here only a commit after one that failed looks whether its rows are there.

        Raises:
            TransientError: The commit failed, or its answer was lost; or another driver writes these tables.
        """
        self.check_turn()
        attempt = (table, version)
        if attempt in self._unsure and self._holds(table, rows):
            self._unsure.discard(attempt)
            return
        self._unsure.add(attempt)
        try:
            frame = self._spark.createDataFrame(rows).coalesce(1)
            writer = frame.write.format("delta").mode("append")
            if self._place.catalog:
                writer.saveAsTable(self._place.named(table))
            else:
                writer.save(self._place.at(table))
        except (PySparkException, Py4JError, OSError) as e:
            raise TransientError(f"{rows.num_rows} rows for {self._place.at(table)} were not written: {first_line(e)}") from e
        self._unsure.discard(attempt)

    def check_turn(self) -> None:
        """Look whether another driver has begun to write, see ``WriterTurn``.

        Raises:
            TransientError: One has, or that cannot be looked at now.
        """
        if self._turn is not None:
            self._turn.check()

    def close(self) -> None:
        """Let another driver write."""
        if self._turn is not None:
            self._turn.give_back()

    def _holds(self, table: str, rows: pa.Table) -> bool:
        """Say whether rows are in a table: a commit has all of its rows or none."""
        first = rows.slice(0, 1).select([*self._wanted[table].key, "date"]).to_pylist()[0]
        return tuple(v for k, v in first.items() if k != "date") in self.keys(table, first["date"])

    def measured(self, groups: Collection[str]) -> dict[str, float]:
        """Return the capacity of each of these groups' latest decision, where that had been measured.

        Raises:
            TransientError: The table cannot be read.
        """
        try:
            if not is_table(self._spark, self._place, "decisions"):
                return {}
            rows = self._spark.table(self._place.named("decisions"))
            lately = rows.where((col("date") >= self.today() - timedelta(days=1)) & col("group").isin(*groups))
            latest = lately.groupBy("group").agg(max_by(struct("capacity_source", "capacity_bytes_per_s"), "at").alias("latest"))
            found = latest.select("group", "latest.*").toArrow().to_pylist()
        except (PySparkException, Py4JError, OSError) as e:
            raise TransientError(f"{self._place.at('decisions')} cannot be read: {first_line(e)}") from e
        return {r["group"]: r["capacity_bytes_per_s"] for r in found if r["capacity_source"] == CapacitySource.MEASURED}

    def keys(self, table: str, since: date) -> set[Key]:
        """Return the keys of all rows of this date and later.

        Raises:
            TransientError: The table cannot be read.
        """
        try:
            found = self._spark.table(self._place.named(table)).where(col("date") >= since)
            return {tuple(r.values()) for r in found.select(*self._wanted[table].key).toArrow().to_pylist()}
        except (PySparkException, Py4JError, OSError) as e:
            raise TransientError(f"{self._place.at(table)} cannot be read: {first_line(e)}") from e


def is_table(spark: SparkSession, place: TablesPlace, name: str) -> bool:
    """Say whether a table has been made.

    Raises:
        PySparkException: Spark cannot look.
        Py4JError: As above.
    """
    if place.catalog:
        return bool(spark.catalog.tableExists(place.named(name)))
    return bool(DeltaTable.isDeltaTable(spark, place.at(name)))


def register_views(spark: SparkSession, where: str | Path) -> None:
    """Make temporary views of the tables in a place and of the questions that ``docs/tasks/history.md`` explains.

    Where Spark's Python workers cannot import this package, all but ``partition_loads`` can be asked. Columns that the tables of
    an earlier release do not have yet are null; nothing is written.

    Raises:
        TransientError: A table is not there (yet) or cannot be read.
    """
    from autoscaler.adapters.audit.views import UNPACK, VIEWS  # noqa: PLC0415  of no use to the job

    place = TablesPlace.of(where)
    try:
        for name, table in TABLES.items():
            there = spark.table(place.named(name))
            there.to(spark.createDataFrame([], columns(table)).schema).createOrReplaceTempView(name)
        spark.udf.register(UNPACK, measured_of, f"ARRAY<{sql_type(MEASURED)}>")
        for name, sql in VIEWS.items():
            spark.sql(sql).createOrReplaceTempView(name)
    except (PySparkException, Py4JError) as e:
        raise TransientError(f"the tables in {place} cannot be read: {first_line(e)}") from e


def small_session(name: str, where: str | Path) -> SparkSession:
    """Return a local session that works on Delta tables in a place and takes little; fetches the jars if needed."""
    from autoscaler import jars  # noqa: PLC0415  of no use to the job

    class_path = jars.class_path(*jars.needed([scheme_of(str(where))]))
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
