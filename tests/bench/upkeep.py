"""What a year of the audit costs Spark's driver when past days are merged: files in the table, heap in use, seconds of a commit.

``python -m tests.bench.upkeep`` gives ``loads`` a past of merged days (one file each), then writes days as the job does, a commit
per ``--flush-s``, as fast as they are written, and merges each when it is over, as the job does by itself. Delta's log keeps six
hours by the wall clock, so here it keeps all of it: more than a job has.
"""

import argparse
import logging
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from pyspark.sql import SparkSession

from autoscaler import jars
from autoscaler.adapters.audit import rows
from autoscaler.adapters.audit.delta_audit import SparkTables, small_session
from autoscaler.adapters.audit.rows import Cycle, day
from autoscaler.adapters.audit.tables import TABLES
from autoscaler.adapters.audit.upkeep import compact, files_per_day
from autoscaler.adapters.clock import SystemClock
from tests.bench.audit import cycles

_DAY_S = 86_400
_T0 = 1_700_006_400.0  # midnight, UTC


def heap_mb(spark: SparkSession) -> float:
    """Return the driver's heap in use after a collection."""
    jvm = spark._jvm
    assert jvm is not None
    jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / 1e6


def of_past(days: int) -> list[Cycle]:
    """Return a cycle of each past day."""
    return [next(cycles(1, 10, _T0 - n * _DAY_S))[0] for n in range(days, 0, -1)]


def day_of(start: float, flush_s: int) -> Iterator[list[Cycle]]:
    """Yield the cycles of each commit of one day."""
    each = (c for (c,) in cycles(1, 10, start))
    for _ in range(_DAY_S // flush_s):
        yield list(islice(each, flush_s))


def measured(spark: SparkSession, root: Path, past: int, days: int, flush_s: int) -> Iterator[str]:
    """Write and merge, and yield a line per day."""
    tables = SparkTables(spark, root, SystemClock(), {"loads": TABLES["loads"]})
    tables.prepare()
    version = 0
    if past:
        merged = of_past(past)
        tables.append("loads", rows.loads(merged, [0] * len(merged)), version)
    yield f"{'past':>8} {_files(spark, root):10,} {'':>14} {heap_mb(spark):10.0f}"
    for n in range(days):
        start, took = _T0 + n * _DAY_S, list[float]()
        for of_commit in day_of(start, flush_s):
            version += 1
            began = time.monotonic()
            tables.append("loads", rows.loads(of_commit, [0] * len(of_commit)), version)
            took.append(time.monotonic() - began)
        files, heap, tomorrow = _files(spark, root), heap_mb(spark), day(start + _DAY_S)
        began = time.monotonic()
        compact(spark, root, "loads", before=tomorrow, keep_from=None)
        merging = time.monotonic() - began
        first, last = (statistics.median(x) * 1e3 for x in (took[:100], took[-100:]))
        before = f"{n + 1:8} {files:10,} {first:6.0f} {last:6.0f} {heap:11.0f}"
        yield f"{before} {merging:9.1f} {_files(spark, root):9,} {heap_mb(spark):10.0f}"


def _files(spark: SparkSession, root: Path) -> int:
    return sum(files_per_day(spark, root, "loads").values())


def main() -> None:
    """Measure with a year behind, or as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--past-days", type=int, default=365)
    parser.add_argument("--days", type=int, default=2)
    parser.add_argument("--flush-s", type=int, default=60)
    args = parser.parse_args()
    logging.disable(logging.INFO)
    spark = small_session("bench", jars.class_path(jars.DELTA))  # a heap of 1 GB
    print("     day      files  commit p50 ms     heap MB   merge s     files    heap MB")
    print("                     first   last")
    place = Path(tempfile.mkdtemp(prefix="upkeep-"))
    try:
        for line in measured(spark, place, args.past_days, args.days, args.flush_s):
            print(line, flush=True)
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
