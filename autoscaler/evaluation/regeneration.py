"""Regenerates the published experiments on Spark's workers, with this project's algorithms beside them.

Algorithms × deltas × seeds × numbers of partitions are spread over the workers, rows go to Delta tables, figures come from Spark
SQL over them. ``jobs/evaluate.py`` parses the command line, and writes the page and the document.
"""

import argparse
import shlex
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from autoscaler.evaluation import experiments, queries
from autoscaler.evaluation.algorithms_compared import contenders
from autoscaler.evaluation.host_info import machine
from autoscaler.evaluation.report import Report
from autoscaler.evaluation.results import Lateness, Packed, Results, Score
from autoscaler.evaluation.sizing import TRACES, Run
from autoscaler.evaluation.sizing_cells import SCHEMA_CELL, SCHEMA_SIZING, sizing_cells, sizing_work
from autoscaler.evaluation.sizing_report import sizing_report
from autoscaler.evaluation.trace_reader import read_stream, read_trace
from autoscaler.evaluation.workloads import PUBLISHED_PARTITIONS

ROOT = Path(__file__).resolve().parents[2]
TABLES = ("plans", "latencies", "two_dimensions", "recorded", "made")  # in the order in which they are written
SIZING_TABLES = ("sizing", "sizing_made")


def spread(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: str, work: experiments.Work, gives: str) -> DataFrame:
    """Return what ``work`` makes of the rows, each of which is a task of its own: they differ much in how long they take."""
    sliced = spark.sparkContext.parallelize([tuple(row) for row in rows], len(rows))
    return spark.createDataFrame(sliced, schema).mapInPandas(work, gives)


@contextmanager
def progress(spark: SparkSession, what: str, total: int) -> Iterator[None]:
    """Say on standard error how many cells are done: in place on a terminal, else now and then a line."""
    done, over, terminal = 0, threading.Event(), sys.stderr.isatty()
    start = time.monotonic()

    def say(end: str) -> None:
        lead = "\r" if terminal else ""
        sys.stderr.write(f"{lead}  {what}: {done} of {total} cells, {time.monotonic() - start:.0f} s{end}")
        sys.stderr.flush()

    def watch() -> None:
        nonlocal done
        tracker = spark.sparkContext.statusTracker()
        said = -1
        while not over.wait(0.5 if terminal else 5):
            stages = [s for i in tracker.getActiveStageIds() if (s := tracker.getStageInfo(i)) and s.numTasks == total]
            done = max([done, *(s.numCompletedTasks for s in stages)])
            if done != said:
                say("  " if terminal else "\n")
                said = done

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
        done = total
    finally:
        over.set()
        thread.join()
    say("  \n" if terminal else "\n")


def keep(frame: DataFrame, place: Path) -> None:
    """Write a frame as a Delta table in place of what is there."""
    frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(str(place))


def run(spark: SparkSession, args: argparse.Namespace) -> None:
    """Run all cells and keep their rows."""
    tables = args.out.absolute() / "tables"
    plans = experiments.plan_cells(args.deltas, args.seeds, args.partitions, args.measurements)
    late = experiments.latency_cells(args.seeds)
    packed = experiments.two_dimension_cells(2 * args.seeds, PUBLISHED_PARTITIONS)
    with progress(spark, "placing", len(plans)):
        schema = "contender string, delta int, seed int, partitions int, measurements int"
        keep(spread(spark, plans, schema, experiments.run_plans, experiments.SCHEMA_PLANS), tables / "plans")
    with progress(spark, "latencies", len(late)):
        schema = "contender string, seeds int"
        keep(spread(spark, late, schema, experiments.run_latencies, experiments.SCHEMA_LATENCIES), tables / "latencies")
    with progress(spark, "rate and backlog", len(packed)):
        schema = "algorithm string, family string, seed int, partitions int"
        keep(
            spread(spark, packed, schema, experiments.run_two_dimensions, experiments.SCHEMA_TWO_DIMENSIONS),
            tables / "two_dimensions",
        )
    recorded = [tuple(row) for row in experiments.recorded_lateness(read_stream(args.stream))] if args.stream else []
    keep(spark.createDataFrame(recorded, experiments.SCHEMA_LATENCIES), tables / "recorded")
    made = f"Streams per delta: {args.seeds}, {args.measurements} measurements, on {machine(ROOT)}."
    keep(spark.createDataFrame([(args.command, made)], "command string, made string"), tables / "made")


def run_sizing(spark: SparkSession, args: argparse.Namespace) -> None:
    """Run every sizing policy on every workload and keep the rows."""
    tables = args.out.absolute() / "tables"
    found = {name: args.traces / f"{name}.csv" for name in TRACES} if args.traces else {}
    traces = {name: read_trace(file) for name, file in found.items() if file.is_file()}
    cells = sizing_cells(traces)
    with progress(spark, "sizing", len(cells)):
        keep(spread(spark, cells, SCHEMA_CELL, sizing_work(traces), SCHEMA_SIZING), tables / "sizing")
    made = f"Made on {machine(ROOT)}."
    keep(spark.createDataFrame([(args.command, made)], "command string, made string"), tables / "sizing_made")


def read_sizing(spark: SparkSession, args: argparse.Namespace) -> Report:
    """Return what is told of the rows that are kept."""
    rows, told = (spark.read.format("delta").load(str(args.out.absolute() / "tables" / name)) for name in SIZING_TABLES)
    [made] = told.collect()
    return sizing_report([Run(**row.asDict()) for row in rows.collect()], made.command, made.made)


def read(spark: SparkSession, args: argparse.Namespace) -> Results:
    """Return the figures from the rows that are kept."""
    kept = {name: f"delta.`{args.out.absolute() / 'tables' / name}`" for name in TABLES}
    order = {name: at for at, name in enumerate([*(c.name for c in contenders()), *(f"kd_{n}" for n in experiments.STATIC)])}
    [made] = spark.table(kept["made"]).collect()

    def lateness(table: str) -> tuple[Lateness, ...]:
        rows = (Lateness(**row.asDict()) for row in spark.table(kept[table]).collect())
        return tuple(sorted(rows, key=lambda row: order[row.contender]))

    return Results(
        scores=tuple(Score(**row.asDict()) for row in spark.sql(queries.SCORES.format(**kept)).collect()),
        lateness=lateness("latencies"),
        packed=tuple(Packed(**row.asDict()) for row in spark.sql(queries.TWO_DIMENSIONS.format(**kept)).collect()),
        recorded=lateness("recorded"),
        command=made.command,
        made=made.made,
    )


def command(given: Sequence[str]) -> str:
    """Return what makes the same again: without where files lie, which says nothing elsewhere."""
    pairs = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for option in ("--document", "--out", "--stream", "--traces"):
        pairs.add_argument(option, type=Path)
    files, words = pairs.parse_known_args(given)
    stream = ("--stream", files.stream.name) if files.stream else ()
    said = shlex.join([*words, *stream, *(("--traces", "DIR") if files.traces else ())])
    return f"make evaluate ARGS={shlex.quote(said)}" if said else "make evaluate"
