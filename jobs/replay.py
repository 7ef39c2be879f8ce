"""Decides every recorded cycle of a group again, from tables that Spark reads: in a catalog, or where only Spark has access.

``python jobs/replay.py GROUP --config FILE`` says the same as ``autoscaler replay``, which needs no Spark; the parts of the
history that are independent of each other are spread over Spark's workers. Reads only; may run beside the job.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit

from autoscaler.adapters.audit.delta_audit import is_table, small_session
from autoscaler.adapters.audit.place import TablesPlace
from autoscaler.adapters.clock import SystemClock
from autoscaler.cli.replaying import Part, code_of, parts, tell
from autoscaler.cli.times import TimeError, moment
from autoscaler.config.places import resolved
from autoscaler.config.settings import load
from autoscaler.errors import AutoscalerError, Exit, SettingsError
from autoscaler.replay.redecide import COLUMNS, Replayed, Row, redecide

_AT_ONCE = 8  # parts that Spark is given


def replayed(spark: SparkSession, where: str, group: str, since: datetime, until: datetime) -> Replayed:
    """Return what comes out when a group's cycles between two times are decided again.

    Raises:
        SettingsError: There are no tables, or the job of an earlier release has made them.
    """
    place = TablesPlace.of(where)
    if not is_table(spark, place, "loads"):
        raise SettingsError((f"tables: no tables in {where}; the job makes them with its first decision",))
    loads, decisions = (spark.table(place.named(name)) for name in ("loads", "decisions"))
    if missing := set(COLUMNS) - set(loads.columns):
        raise SettingsError((f"tables: {where} is of an earlier release: no column {', '.join(sorted(missing))}",))

    def read(first: datetime, last: datetime) -> tuple[list[Row], list[Row]]:
        return tuple(_rows(t, group, first, last) for t in (loads.select("date", *COLUMNS), decisions))  # type: ignore[return-value]

    total, rest = Replayed(), parts(read, since, until)
    while batch := list(islice(rest, _AT_ONCE)):
        for found in spark.sparkContext.parallelize(batch, len(batch)).map(_redecide).toLocalIterator():
            total += found
    return total


def _rows(table: DataFrame, group: str, first: datetime, last: datetime) -> list[Row]:
    """Return a group's rows between two times, both included, in the order of time."""
    days = col("date").between(lit(first.astimezone(UTC).date()), lit(last.astimezone(UTC).date()))
    found = table.where(days & (col("group") == group) & col("at").between(lit(first), lit(last))).orderBy("at", "decision_id")
    return list(found.toArrow().to_pylist())


def _redecide(part: Part) -> Replayed:
    cycles, decided, following = part
    return redecide(cycles, decided, following)


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line, replay, and turn errors into messages."""
    parser = argparse.ArgumentParser(prog="replay.py", description="Decide every recorded cycle of a group again.")
    parser.add_argument("group", metavar="GROUP", help="consumer group, by its id")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--config", help="configuration of the job whose tables are read")
    where.add_argument("--tables", help="the tables themselves: a path, an address, or catalog.schema")
    parser.add_argument("--since", default="24h", help="from when on: 2h, 14:30, 2026-03-29T14:30+02:00 (default 24h)")
    parser.add_argument("--until", help="until when, written the same way (default now)")
    args = parser.parse_args(argv)
    now = datetime.fromtimestamp(SystemClock().now(), UTC)
    try:
        since, until = moment(args.since, now, None), now if args.until is None else moment(args.until, now, None)
        given = args.tables
        place = resolved(given, catalog=True) if given is not None else load(args.config, connects=False).tables_place
        found = replayed(small_session("replay", place), place, args.group, since, until)
    except TimeError as e:
        parser.error(str(e))
    except SettingsError as e:
        sys.stderr.write("\n".join(f"{args.config or args.tables}: {p}" for p in e.problems) + "\n")
        return Exit.SETTINGS
    except (AutoscalerError, ValueError) as e:
        sys.stderr.write(f"{e}\n")
        return Exit.FAILED
    except PySparkException as e:
        sys.stderr.write(f"the tables cannot be replayed: {e.getMessage() or e}\n")
        return Exit.FAILED
    tell(args.group, found, f"from {since:%Y-%m-%d %H:%M:%S} to {until:%Y-%m-%d %H:%M:%S}")
    return code_of(found)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # the JVM ends with its parent; its orderly end costs a second
