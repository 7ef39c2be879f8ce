"""Prints what the autoscaler decided and why, from its tables, through Spark SQL.

``python jobs/history.py --config FILE`` shows the decisions; ``--sql`` asks anything else of the views that
``docs/reference/views.md`` describes. Reads only; may run beside the job.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from pyspark.errors import PySparkException
from rich.console import Console

from autoscaler.cli.decision_history import show
from autoscaler.config.places import resolved
from autoscaler.config.settings import load
from autoscaler.errors import AutoscalerError, Exit, SettingsError


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line, print, and turn errors into messages."""
    parser = argparse.ArgumentParser(prog="history.py", description="Show what the autoscaler decided and why.")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--config", help="configuration of the job whose tables are read")
    where.add_argument("--tables", help="the tables themselves, such as .run/demo-TIME/state/tables or s3a://bucket/tables")
    parser.add_argument("--sql", help="a query over the views of docs/reference/views.md instead")
    parser.add_argument("--limit", type=int, default=200, help="most lines to print (the newest), 200 by default")
    args = parser.parse_args(argv)
    console = Console(width=None if sys.stdout.isatty() else 160)
    try:
        given = args.tables
        place = resolved(given, catalog=True) if given is not None else load(args.config, connects=False).tables_place
        show(place, console, sql=args.sql, limit=args.limit)
    except SettingsError as e:
        sys.stderr.write("\n".join(f"{args.config or args.tables}: {p}" for p in e.problems) + "\n")
        return Exit.SETTINGS
    except AutoscalerError as e:
        sys.stderr.write(f"{e}\n")
        return Exit.FAILED
    except PySparkException as e:
        sys.stderr.write(f"the query failed: {e.getMessage() or e}\n")
        return Exit.FAILED
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # the JVM ends with its parent; its orderly end costs a second
