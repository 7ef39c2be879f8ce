"""Sizing policies × workloads on Spark's workers: rows in, rows out. Spark itself is not known here; see ``experiments``."""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from typing import NamedTuple

import pandas as pd

from autoscaler.evaluation.sizing import POLICIES, Floats, Run, run, workloads

SCHEMA_SIZING = (
    "workload string, about string, least_consumer_min double, policy string, settings string, in_time double, "
    "consumer_min double, most int, scalings int, moves int"
)
SCHEMA_CELL = "workload string, policy string"

Frames = Iterator[pd.DataFrame]


class SizingCell(NamedTuple):
    """One policy on one workload."""

    workload: str
    policy: str


def sizing_cells(traces: Mapping[str, Floats]) -> list[SizingCell]:
    """Return every policy on every workload, the longest workloads first: the last cells to end are short."""
    named = sorted(workloads(traces), key=lambda w: -w.rates.size)
    return [SizingCell(w.name, policy) for w, policy in product(named, POLICIES)]


def sizing_work(traces: Mapping[str, Floats]) -> "partial[Frames]":
    """Return what a Spark worker does with frames of cells."""
    return partial(_run, traces)


def _run(traces: Mapping[str, Floats], frames: Frames) -> Frames:
    known = {w.name: w for w in workloads(traces)}
    for frame in frames:
        cells = [SizingCell(*row) for row in frame.itertuples(index=False)]
        yield pd.DataFrame([run(cell.policy, known[cell.workload]) for cell in cells], columns=Run._fields)
