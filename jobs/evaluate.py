"""Regenerates the published experiments, with this project's algorithms beside them, and writes the page and the document.

``make evaluate``, or ``./spark-submit.sh --job jobs/evaluate.py -- --full``: algorithms × deltas × seeds × numbers of
partitions are spread over Spark's workers, rows go to Delta tables, figures come from Spark SQL over them. With ``--part sizing``
it is sizing policies × loads.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from autoscaler.evaluation import experiments
from autoscaler.evaluation.page import page
from autoscaler.evaluation.regeneration import ROOT, SIZING_TABLES, TABLES, command, read, read_sizing, run, run_sizing
from autoscaler.evaluation.report import document, placement_report
from autoscaler.evaluation.sizing_report import sizing_document
from autoscaler.evaluation.workloads import PUBLISHED_DELTAS, PUBLISHED_MEASUREMENTS, PUBLISHED_PARTITIONS

PARTS = ("placing", "sizing")
_LAST = {"placing": TABLES[-1], "sizing": SIZING_TABLES[-1]}  # what a run writes last
_FULL_SEEDS, _QUICK_SEEDS = 8, 1
_FULL_PARTITIONS = (50, PUBLISHED_PARTITIONS, 800)


def options(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the command line, completed."""
    parser = argparse.ArgumentParser(prog="evaluate.py", description="Regenerate the published experiments.")
    parser.add_argument("--full", action="store_true", help="all seeds and other numbers of partitions (about half an hour)")
    parser.add_argument("--seeds", type=int, help=f"streams per delta (default {_QUICK_SEEDS}, with --full {_FULL_SEEDS})")
    parser.add_argument("--deltas", type=int, nargs="+", default=list(PUBLISHED_DELTAS))
    parser.add_argument("--partitions", type=int, nargs="+", help="numbers of partitions")
    parser.add_argument("--measurements", type=int, default=PUBLISHED_MEASUREMENTS)
    parser.add_argument("--stream", type=Path, help="a recorded stream (iteration,topic,partition,rate) for the latency model")
    parser.add_argument(
        "--part", choices=PARTS, default=PARTS[0], help="how partitions are placed (default), or how groups are sized"
    )
    parser.add_argument(
        "--traces", type=Path, help="a directory with the recorded loads of the sizing experiments, which are left out without it"
    )
    parser.add_argument("--redraw", action="store_true", help="run nothing: page and document from the tables of the last run")
    parser.add_argument("--out", type=Path, default=ROOT / ".run" / "evaluation", help="where tables and page go")
    parser.add_argument(
        "--document",
        type=Path,
        help="where the tables go as Markdown, those of sizing as sizing.md beside it (default: beside the page)",
    )
    given = list(sys.argv[1:] if argv is None else argv)
    args = parser.parse_args(given)
    if args.redraw and not (args.out / "tables" / _LAST[args.part]).is_dir():
        parser.error(f"--redraw: there are no tables in {args.out}; run without it first")
    if args.stream and not args.stream.is_file():
        parser.error(f"--stream: there is no file {args.stream}")
    if args.traces and not args.traces.is_dir():
        parser.error(f"--traces: there is no directory {args.traces}")
    args.seeds = args.seeds or (_FULL_SEEDS if args.full else _QUICK_SEEDS)
    args.partitions = args.partitions or list(_FULL_PARTITIONS if args.full else (PUBLISHED_PARTITIONS,))
    args.document = args.document or args.out / "evaluation.md"
    args.command = command(given)
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Run everything and write the page and the document."""
    args = options(argv)
    if not args.redraw:
        sys.stderr.write("  loading the planners (the first time after a change: compiling them)\n")
        experiments.warm()  # before the workers start: they find the machine code on disk
    spark = SparkSession.builder.appName("evaluate").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    args.out.mkdir(parents=True, exist_ok=True)
    if args.part == "sizing":
        if not args.redraw:
            run_sizing(spark, args)
        report = read_sizing(spark, args)
        shown, told, file = "sizing.html", sizing_document(report), args.document.with_name("sizing.md")
    else:
        if not args.redraw:
            run(spark, args)
        results = read(spark, args)
        report, told = placement_report(results), document(results)
        shown, file = "evaluation.html", args.document
    place = args.out / shown
    place.write_text(page(report), encoding="utf-8")
    file.write_text(told, encoding="utf-8")
    print(f"{place}\n{file}")
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # the JVM ends with its parent; its orderly end costs a second
