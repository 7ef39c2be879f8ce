"""``autoscaler replay --policy FILE``: the recorded load under another policy, beside the recorded one and what happened."""

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.table import Table

from autoscaler.adapters.audit import encoding
from autoscaler.adapters.audit.decision_reader import DecisionTables
from autoscaler.adapters.audit.inputs import unpack_inputs
from autoscaler.adapters.audit.rows import snapshot_of
from autoscaler.cli.asked import Asked, nothing, terminal
from autoscaler.cli.few import few_of
from autoscaler.cli.times import shown
from autoscaler.config.policy import Policy
from autoscaler.config.settings import load
from autoscaler.errors import Exit, SettingsError
from autoscaler.model import PartitionLoad
from autoscaler.replay.redecide import COLUMNS, Row, starts
from autoscaler.replay.what_if import as_it_was, load_of
from autoscaler.simulation.group import simulate
from autoscaler.simulation.outcome import Outcome
from autoscaler.simulation.world import World

_MOST = 20_000  # measurements: a day by five seconds, less than the time that rates are measured over
_AT_A_TIME = timedelta(hours=1)
_LEAST = 2  # measurements between which time passes


@dataclass(slots=True)
class _Read:
    """What the tables hold of a time."""

    rows: list[Row]  # those that are used, without what is packed
    measured: list[tuple[PartitionLoad, ...]]
    owners: list[dict[Any, str]]
    policy: Policy | None = None  # the last that was recorded
    capacity: tuple[float, float] | None = None  # of one consumer, and what was planned of it, bytes/s

    @property
    def times(self) -> list[float]:
        return [r["sample_ts"] for r in self.rows]

    @property
    def every_s(self) -> float:
        return median(b - a for a, b in pairwise(self.times))


def compare(args: argparse.Namespace, asked: Asked, since: datetime, until: datetime) -> int:
    """Print what the policy of a file would have done with the load of a group.

    Raises:
        AutoscalerError: There are no tables, or they cannot be read.
    """
    try:
        groups = {g.group: g for g in load(args.policy, connects=False).groups}
    except SettingsError as e:
        sys.stderr.writelines(f"{args.policy}: {problem}\n" for problem in e.problems)
        return Exit.SETTINGS
    if args.group not in groups:
        sys.stderr.write(f"{args.policy}: groups: no group {args.group!r}; there are {few_of(groups)}\n")
        return Exit.SETTINGS
    tables = DecisionTables(asked.tables)
    count = tables.count(args.group, since, until)
    read = _read(tables, args.group, since, until, every=max(1, math.ceil(count / _MOST)))
    if len(read.rows) < _LEAST or read.capacity is None:
        return nothing(args.group, tables.groups(), asked, f"between {shown(since, asked.zone)} and {shown(until, asked.zone)}")
    here = {g.group: g for g in asked.settings.groups} if asked.settings is not None else {}
    policy = read.policy or here.get(args.group)
    if policy is None:
        raise SettingsError((f"tables: no settings of group {args.group} are recorded then: name its configuration by --config",))
    found = _outcomes(read, {"recorded policy": policy, Path(args.policy).name: groups[args.group]}, args.start, args.within)
    first, last = read.rows[0]["at"], read.rows[-1]["at"]
    if args.json:
        sys.stdout.write(_as_json(args, found, first, last, read.every_s))
        return 0
    console = terminal()
    console.print(_drawn(found, args.price, args.within), highlight=False)
    times = f"from {shown(first, asked.zone)} to {shown(last, asked.zone)}, a decision every {read.every_s:.3g} s"
    each = f"{read.capacity[0]:,.0f} bytes/s per consumer, which takes {args.start:g} s to start"
    console.print(f"group {args.group}, {times}; simulated with {each}", highlight=False, soft_wrap=True)
    return 0


def _read(tables: DecisionTables, group: str, since: datetime, until: datetime, *, every: int) -> _Read:
    read = _Read([], [], [])
    for number, (row, decided) in enumerate(_hours(tables, group, since, until)):
        if decided:
            read.capacity = decided[-1]["capacity_bytes_per_s"], decided[-1]["usable_bytes_per_s"]
        if starts(row):
            began = unpack_inputs(row["inputs"], snapshot_of(row)).start
            read.policy = began.policy if began is not None else read.policy
        if number % every == 0:
            measured, owners = encoding.unpack(row["measured"])
            read.measured.append(measured)
            read.owners.append({x.partition: o for x, o in zip(measured, owners, strict=True) if o is not None})
            read.rows.append({n: row[n] for n in ("at", "sample_ts", "consumers", "consumers_now", "mode")})
    return read


def _hours(tables: DecisionTables, group: str, since: datetime, until: datetime) -> Iterator[tuple[Row, list[Row]]]:
    """Yield cycles that were measured, the first of each hour with the decisions of the hour."""
    at = since
    while at <= until:
        end = min(until, at + _AT_A_TIME)
        rows, decided = tables.cycles(group, at, end, COLUMNS)
        for row in rows:
            if row["sample_ts"] is not None:
                yield row, decided
                decided = []
        at = end + timedelta(microseconds=1)


def _outcomes(read: _Read, policies: Mapping[str, Policy], start_s: float, within_s: float | None) -> dict[str, Outcome]:
    able, usable = read.capacity or (0.0, 0.0)
    known = load_of(read.times, read.measured, read.owners[0])
    names = {name: i for i, name in enumerate(sorted({o for owners in read.owners for o in owners.values()}))}
    held = [np.array([names[o[p]] if p in o else -1 for p in known.partitions], np.int64) for o in read.owners]
    behind = [
        (max((x.lag_s or 0.0 for x in loads), default=0.0), sum(x.lag_bytes or 0.0 for x in loads)) for loads in read.measured
    ]
    running = [(r["consumers_now"] if r["mode"] == "advise" else r["consumers"]) or len(set(o.values()))
               for r, o in zip(read.rows, read.owners, strict=True)]  # fmt: skip
    first = next(iter(policies.values()))
    world = World(
        consumer_bytes_per_s=able, usable_bytes_per_s=usable, start_s=start_s, pause_s=first.move_pause_s, within_s=within_s
    )
    with ProcessPoolExecutor(len(policies), mp_context=get_context("spawn")) as pool:
        plain = {name: Policy.model_validate(p.model_dump(include=set(Policy.model_fields), exclude_unset=True))
                 for name, p in policies.items()}  # fmt: skip
        waiting = {name: pool.submit(simulate, known, p, world) for name, p in plain.items()}
        was = as_it_was(known, running, held, behind, world)
        return {"as it was": was} | {f"{name}, simulated": each.result() for name, each in waiting.items()}


def _drawn(found: Mapping[str, Outcome], price: float | None, within_s: float | None) -> Table:
    table = Table()
    table.add_column("")
    for name in found:
        table.add_column(name, justify="right", overflow="fold")
    lines: dict[str, Callable[[Outcome], str]] = {
        "consumer-hours": lambda x: f"{x.consumer_hours:,.2f}",
        "consumers on average": lambda x: f"{x.consumer_hours / x.hours:,.2f}",
        "consumers at most": lambda x: f"{x.most}",
        "changes of their number": lambda x: f"{x.scalings}",
        "partitions moved": lambda x: f"{x.moves}",
        "moved load, in consumers": lambda x: f"{x.r_score:,.2f}",
        "above capacity": lambda x: f"{x.above_s:,.0f} s",
        "behind, at most": lambda x: f"{x.worst_behind_s:,.1f} s",
        "behind, on average": lambda x: f"{x.mean_behind_s:,.2f} s",
        "backlog at most": lambda x: f"{x.worst_backlog_bytes / 1e6:,.2f} MB",
    }
    if within_s is not None:
        lines[f"read within {within_s:g} s"] = lambda x: "not known" if x.in_time is None else f"{x.in_time:.2%}"
    if price is not None:
        lines["money"] = lambda x: f"{x.consumer_hours * price:,.2f}"
    for name, text in lines.items():
        table.add_row(name, *(text(x) for x in found.values()))
    return table


def _as_json(args: argparse.Namespace, found: Mapping[str, Outcome], first: datetime, last: datetime, every_s: float) -> str:
    times = {"from": first.astimezone(UTC).isoformat(), "to": last.astimezone(UTC).isoformat(), "every_s": every_s}
    money = {} if args.price is None else {n: {"money": x.consumer_hours * args.price} for n, x in found.items()}
    figures = {n: asdict(x) | money.get(n, {}) for n, x in found.items()}
    return json.dumps({"group": args.group, **times, "outcomes": figures}, indent=2) + "\n"
