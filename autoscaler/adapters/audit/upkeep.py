"""Keeps the audit's tables small: merges the files of past days and lets go of days that need not be kept. Beside the path.

Every commit leaves a file, and Spark's driver holds an entry for each that is in a table. The job merges those of past days by
itself (``Keeper``); ``autoscaler maintain`` does it for tables whose job does not run. Must not hold up a cycle or a commit.
"""

import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from autoscaler.adapters.audit.delta_audit import SESSION, first_line, is_table
from autoscaler.adapters.audit.place import TablesPlace
from autoscaler.adapters.audit.rows import day
from autoscaler.adapters.audit.tables import MANY_FILES, TABLES
from autoscaler.errors import AutoscalerError, TransientError
from autoscaler.ports import Clock

log = logging.getLogger(__name__)

_FIRST_S = 600.0  # after the start: a job that is tried out is not disturbed
_EVERY_S = 3600.0
_LISTERS = 8  # tasks that list a table's files for VACUUM: with the default of 10,000 that takes half a minute, whatever there is
_DAY = re.compile(r"/date=(\d{4}-\d\d-\d\d)/")
_OWN = {
    "spark.databricks.delta.optimize.maxThreads": "1",  # one day after the other: measuring needs the other processors
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(_LISTERS),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What keeping a table in order has done; files and bytes before and after."""

    name: str
    days_deleted: int
    files: tuple[int, int]
    bytes: tuple[int, int]

    def __str__(self) -> str:
        """Return one line for a log."""
        files, size = (f"{a:,} -> {b:,}" for a, b in (self.files, (self.bytes[0] // 1000, self.bytes[1] // 1000)))
        return f"{self.name}: {files} files, {size} kB" + (f", {self.days_deleted} days deleted" if self.days_deleted else "")


def is_due(files: Mapping[date, int], *, before: date, keep_from: date | None) -> bool:
    """Return whether a table with so many files per day has past days to be merged, or days that need not be kept."""
    return any(d < before and (n >= MANY_FILES or (keep_from is not None and d < keep_from)) for d, n in files.items())


def files_per_day(spark: SparkSession, where: str | Path | TablesPlace, name: str) -> Mapping[date, int]:
    """Return how many files a table has of each day, by its log; empty if there is no table.

    Raises:
        TransientError: The log cannot be read now.
    """
    place = TablesPlace.of(where)
    try:
        if not is_table(spark, place, name):
            return {}
        files = spark.table(place.named(name))._jdf.inputFiles()  # noqa: SLF001  the wrapper asks for each name by itself
        jvm: Any = spark._jvm  # noqa: SLF001
        joined = jvm.scala.collection.mutable.ArraySeq.make(files).mkString("\n")
    except (PySparkException, Py4JError) as e:
        raise TransientError(f"{place.at(name)} cannot be read: {first_line(e)}") from e
    return Counter(date.fromisoformat(day) for day in _DAY.findall(joined))


def compact(spark: SparkSession, where: str | Path | TablesPlace, name: str, *, before: date, keep_from: date | None) -> Upkeep:
    """Merge the small files of a table's past days, and let go of days that need not be kept; may run beside the job.

    Only whole days before ``before`` are merged, because later ones are still being written. Days before ``keep_from`` are
    deleted. Sets what it needs in the session.

    Raises:
        TransientError: The table cannot be read or rewritten now; what was done so far stays, and doing it again does no harm.
    """
    place = TablesPlace.of(where)
    table = place.named(name)
    for key, value in (SESSION | _OWN).items():
        spark.conf.set(key, value)
    try:
        began = _extent(spark, table)
        days = 0
        if keep_from is not None:
            days = spark.table(table).where(col("date") < keep_from).select("date").distinct().count()
        if keep_from is not None and days:
            _delete_days(spark, table, before=keep_from)
        spark.sql(f"OPTIMIZE {table} WHERE `date` < DATE'{before}'")
        ended = _extent(spark, table)
        spark.sql(f"VACUUM {table}")
    except (PySparkException, Py4JError) as e:
        raise TransientError(f"{place.at(name)} cannot be kept in order: {first_line(e)}") from e
    return Upkeep(name=name, days_deleted=days, files=(began[0], ended[0]), bytes=(began[1], ended[1]))


def _extent(spark: SparkSession, table: str) -> tuple[int, int]:
    row = spark.sql(f"DESCRIBE DETAIL {table}").select("numFiles", "sizeInBytes").collect()[0]
    return int(row[0]), int(row[1])


def _delete_days(spark: SparkSession, table: str, *, before: date) -> None:
    """Delete whole days: nothing is rewritten. A commit of the job that comes in between is made again by it."""
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.appendOnly' = 'false')")
    try:
        spark.sql(f"DELETE FROM {table} WHERE `date` < DATE'{before}'")  # noqa: S608  both are ours
    finally:
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.appendOnly' = 'true')")


class Keeper:
    """A daemon thread of the job that looks every hour whether a table has something to merge or to delete, and does it.

    What is due stands in the tables, so nothing has to be remembered over a restart. What fails is tried again an hour later.
    """

    def __init__(
        self,
        spark: SparkSession,
        where: str | Path,
        clock: Clock,
        *,
        keep_days: int | None,
        first_s: float = _FIRST_S,
        check_turn: Callable[[], None] = lambda: None,
    ) -> None:
        """Start nothing yet.

        Args:
            spark: The job's session.
            where: The place of the tables.
            clock: That days are told by.
            keep_days: Whole days before today that are kept; ``None`` keeps everything.
            first_s: Seconds until it looks first.
            check_turn: Raises ``TransientError`` while another driver writes the tables.
        """
        self._spark, self._place, self._clock = spark.newSession(), TablesPlace.of(where), clock
        self._keep_days, self._first_s, self._check_turn = keep_days, first_s, check_turn
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit-upkeep", daemon=True)

    def start(self) -> None:
        """Begin to look, ten minutes from now."""
        self._thread.start()

    def close(self) -> None:
        """Do no more; what is being merged ends with Spark, which leaves a table as it was."""
        self._closing.set()

    def _run(self) -> None:
        pause_s = self._first_s
        while not self._closing.wait(pause_s):
            pause_s = _EVERY_S
            for name in TABLES:
                self._tried(name)

    def _tried(self, name: str) -> None:
        try:
            self._keep(name)
        except AutoscalerError as e:
            if not self._closing.is_set():
                log.warning("the audit's upkeep waits for an hour: %s", e)
        except Exception:  # a defect here must not end the thread: tables would grow unseen
            if not self._closing.is_set():
                log.exception("the audit's upkeep waits for an hour")

    def _keep(self, name: str) -> None:
        today = day(self._clock.now())
        keep_from = None if self._keep_days is None else today - timedelta(days=self._keep_days)
        if self._closing.is_set() or not is_due(files_per_day(self._spark, self._place, name), before=today, keep_from=keep_from):
            return
        self._check_turn()
        began = self._clock.monotonic()
        done = compact(self._spark, self._place, name, before=today, keep_from=keep_from)
        log.info("upkeep of the audit: %s, in %.0f s", done, self._clock.monotonic() - began)
