"""Keeps the audit's tables small: merges the files of past days, deletes days that are old enough, removes unused files.

``python jobs/maintain_audit.py --config FILE --keep-days 90``, for tables whose job does not run (one that does keeps them small
by itself), or to delete at once; may run beside the job. Without ``--keep-days`` nothing is deleted.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import timedelta

from autoscaler.adapters.audit.delta_audit import is_table, small_session
from autoscaler.adapters.audit.place import TablesPlace
from autoscaler.adapters.audit.rows import day
from autoscaler.adapters.audit.tables import TABLES
from autoscaler.adapters.audit.upkeep import compact
from autoscaler.adapters.audit.writer_turn import WriterTurn
from autoscaler.adapters.clock import SystemClock
from autoscaler.config.places import resolved
from autoscaler.config.settings import load
from autoscaler.errors import AutoscalerError, Exit, SettingsError


def keep_in_order(where: str, keep_days: int | None) -> None:
    """Work on every table in a place (``config.places``) and print what was done.

    Raises:
        AutoscalerError: There are no tables, or one cannot be rewritten now.
    """
    place = TablesPlace.of(where)
    absent = SettingsError((f"tables: no tables in {where}; the job makes them with its first decision",))
    if place.local is not None and not place.local.is_dir():
        raise absent  # without waiting for Spark
    spark = small_session("maintain_audit", where)
    there = [name for name in TABLES if is_table(spark, place, name)]
    if not there:
        raise absent
    today, turn = day(SystemClock().now()), WriterTurn(spark, place)
    turn.take()
    try:
        for name in there:
            keep_from = None if keep_days is None else today - timedelta(days=keep_days)
            print(compact(spark, place, name, before=today, keep_from=keep_from))
    finally:
        turn.give_back()


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line, work, and turn errors into messages."""
    parser = argparse.ArgumentParser(prog="maintain_audit.py", description="Keep the audit's tables small.")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--config", help="configuration of the job whose tables these are")
    where.add_argument("--tables", help="the tables themselves: a path, an address, or catalog.schema")
    parser.add_argument("--keep-days", type=int, help="delete what is older; without it everything is kept")
    args = parser.parse_args(argv)
    if args.keep_days is not None and args.keep_days < 1:
        parser.error("--keep-days must be at least 1")
    try:
        given = args.tables
        place = resolved(given, catalog=True) if given is not None else load(args.config, connects=False).tables_place
        keep_in_order(place, args.keep_days)
    except SettingsError as e:
        sys.stderr.write("\n".join(f"{args.config or args.tables}: {p}" for p in e.problems) + "\n")
        return Exit.SETTINGS
    except AutoscalerError as e:
        sys.stderr.write(f"{e}\n")
        return Exit.FAILED
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # the JVM ends with its parent; its orderly end costs a second
