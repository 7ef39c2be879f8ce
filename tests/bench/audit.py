"""What the audit writes in a day: files, bytes and commits of its tables, by the number of groups and ``audit.flush_s``.

``python -m tests.bench.audit`` records cycles, one per second and group, with the real buffer, flusher and Delta writer, as fast
as they are written and without waiting between them. It counts what some flushes leave, the first one aside, and multiplies that
by 86,400 over the seconds that these cycles stand for. Groups do not act: an action makes up to four commits more. Checkpoints of
the log, one per 100 commits, are left out.
"""

import argparse
import logging
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from random import Random

from pyspark.sql import SparkSession

from autoscaler import jars
from autoscaler.adapters.audit.buffer import Buffer
from autoscaler.adapters.audit.delta_audit import SparkTables, small_session
from autoscaler.adapters.audit.flusher import Flusher
from autoscaler.adapters.audit.journal import Journal
from autoscaler.adapters.audit.rows import Cycle, day
from autoscaler.adapters.audit.tables import TABLES
from autoscaler.adapters.audit.upkeep import compact
from autoscaler.adapters.clock import SystemClock
from autoscaler.model import PartitionLoad
from tests import builders as b
from tests.adapters.audit import audit_cases as cases

_DAY_S = 86_400
_FLUSHES = 3


@dataclass(frozen=True, slots=True)
class Written:
    """What there is: commits, files and bytes."""

    commits: int
    files: int
    bytes: int

    @classmethod
    def below(cls, root: Path) -> "Written":
        """Count the tables below a directory, checksums included."""
        files = [f for name in TABLES for f in (root / name).rglob("*") if f.is_file()]
        commits = sum(f.suffix == ".json" and not f.name.startswith(".") for f in files)
        return cls(commits, len(files), sum(f.stat().st_size for f in files))


def cycles(groups: int, partitions: int, at: float) -> Iterator[list[Cycle]]:
    """Yield, for each second from ``at`` on, a calm cycle of every group."""
    random = Random(7)
    decision, snapshot, _ = cases.calm(at)
    loads = [b.load(b.tp(p), 50.0) for p in range(partitions)]
    ends = [[0] * partitions for _ in range(groups)]
    while True:
        yield [
            Cycle(
                decision=replace(decision, group=f"group-{g}", decision_id=f"group-{g}/{int(at * 1000)}", at=at),
                snapshot=replace(snapshot, group=f"group-{g}", sample_ts=at - 0.3, loads=_next(loads, ends[g], random)),
                outcomes=(), handovers=(), owner={x.partition: x.partition.partition % 4 for x in loads}, cluster="kafka",
            )
            for g in range(groups)
        ]  # fmt: skip
        at += 1.0


def _next(loads: Sequence[PartitionLoad], ends: list[int], random: Random) -> tuple[PartitionLoad, ...]:
    out = []
    for i, load in enumerate(loads):
        ends[i] += (n := random.randrange(40, 60))
        rate, lag = round(n * 30_000) / 30, random.randrange(20)
        x = replace(load, log_end=ends[i], committed=ends[i] - lag, lag_records=lag)
        out.append(replace(x, bytes_per_s=rate, records_per_s=float(n)))
    return tuple(out)


def measured(spark: SparkSession, root: Path, groups: int, partitions: int, flush_s: float) -> str:
    """Write some flushes and return the line about them."""
    clock, buffer, journal = SystemClock(), Buffer(), Journal(root / "journal", "bench")
    flusher = Flusher(buffer, SparkTables(spark, root, clock), journal, flush_s)
    seconds, flushed, waited, first, before, began = 0.0, 0, 0, 0, Written(0, 0, 0), time.monotonic()
    for cycle in cycles(groups, partitions, clock.now()):
        for each in cycle:
            buffer.add(each)
        waited += 1
        if waited < flush_s and not buffer.crowded:
            continue
        flusher.flush()
        if flushed == 0:
            before, first = Written.below(root), waited
        else:
            seconds += waited
        flushed, waited = flushed + 1, 0
        if flushed > _FLUSHES:
            break
    after, times = Written.below(root), _DAY_S / seconds
    journal.close()
    tomorrow = day(clock.now()) + timedelta(days=1)
    kept = sum(compact(spark, root, name, before=tomorrow, keep_from=None).bytes[1] for name in TABLES) / (seconds + first)
    commits, files, size = ((x - y) * times for x, y in zip(_all(after), _all(before), strict=True))
    return (
        f"{groups:6,} {flush_s:8.0f} {seconds / _FLUSHES:8.1f} {commits:12,.0f} {files:12,.0f} {size / 1e6:10,.0f} "
        f"{kept * _DAY_S / 1e6:10,.1f}   ({time.monotonic() - began:.0f} s)"
    )


def _all(written: Written) -> tuple[int, int, int]:
    return written.commits, written.files, written.bytes


def main() -> None:
    """Measure each number of groups with each interval."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, nargs="+", default=[1, 100, 1000])
    parser.add_argument("--partitions", type=int, default=10, help="of each group (default 10)")
    parser.add_argument("--flush-s", type=float, nargs="+", default=[60.0])
    args = parser.parse_args()
    logging.disable(logging.INFO)
    spark = small_session("bench", jars.class_path(jars.DELTA))
    print("groups  flush_s  every s  commits/day    files/day     MB/day  merged MB")
    for flush_s in args.flush_s:
        for groups in args.groups:
            place = Path(tempfile.mkdtemp(prefix="audit-"))
            try:
                print(measured(spark, place, groups, args.partitions, flush_s), flush=True)
            finally:
                shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
