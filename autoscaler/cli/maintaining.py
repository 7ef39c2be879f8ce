"""``autoscaler maintain``: merges files of past days, deletes days that are old enough, removes files that are not used."""

import argparse
import sys
from datetime import timedelta

from autoscaler.adapters.audit.delta_audit import is_table, small_session
from autoscaler.adapters.audit.place import TablesPlace
from autoscaler.adapters.audit.rows import day
from autoscaler.adapters.audit.tables import TABLES
from autoscaler.adapters.audit.upkeep import compact
from autoscaler.adapters.audit.writer_turn import WriterTurn
from autoscaler.adapters.clock import SystemClock
from autoscaler.cli.asked import Asked
from autoscaler.errors import SettingsError


def maintain(args: argparse.Namespace) -> int:
    """Work on every table of a place, and print what was done.

    Raises:
        AutoscalerError: There are no tables, or one cannot be rewritten now.
    """
    where = Asked.of(args).tables
    place = TablesPlace.of(where)
    absent = SettingsError((f"tables: no tables in {where}; the job makes them with its first decision",))
    if place.local is not None and not place.local.is_dir():
        raise absent  # without waiting for Spark
    spark = small_session("maintain_audit", where)
    there = [name for name in TABLES if is_table(spark, place, name)]
    if not there:
        raise absent
    today, turn = day(SystemClock().now()), WriterTurn(spark, place)
    keep_from = None if args.keep_days is None else today - timedelta(days=args.keep_days)
    turn.take()
    try:
        for name in there:
            sys.stdout.write(f"{compact(spark, place, name, before=today, keep_from=keep_from)}\n")
            sys.stdout.flush()
    finally:
        turn.give_back()
    return 0
