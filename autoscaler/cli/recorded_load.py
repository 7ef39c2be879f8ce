"""The recorded load of a group, read from the tables, and what policies do with it by simulation."""

import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import as_completed
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from os import cpu_count
from statistics import median
from typing import Any

import numpy as np

from autoscaler.adapters.audit import encoding
from autoscaler.adapters.audit.decision_reader import DecisionTables
from autoscaler.adapters.audit.inputs import unpack_inputs
from autoscaler.adapters.audit.rows import snapshot_of
from autoscaler.cli.asked import Asked
from autoscaler.cli.processes import processes
from autoscaler.config.policy import Policy
from autoscaler.errors import SettingsError
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
class RecordedLoad:
    """What the tables hold of a time."""

    rows: list[Row]  # those that are used, without what is packed
    measured: list[tuple[PartitionLoad, ...]]
    owners: list[dict[Any, str]]
    policy: Policy | None = None  # the last that was recorded
    capacity: tuple[float, float] = (0.0, 0.0)  # of one consumer, and what was planned of it, bytes/s

    @property
    def times(self) -> list[float]:
        """Return when each measurement was made."""
        return [r["sample_ts"] for r in self.rows]

    @property
    def every_s(self) -> float:
        """Return the time between two measurements."""
        return median(b - a for a, b in pairwise(self.times))

    def policy_of(self, asked: Asked, group: str) -> Policy:
        """Return the settings that held last.

        Raises:
            SettingsError: They were not recorded, and no configuration has them.
        """
        here = {g.group: g for g in asked.settings.groups} if asked.settings is not None else {}
        policy = self.policy or here.get(group)
        if policy is None:
            raise SettingsError((f"tables: no settings of group {group} are recorded then: name its configuration by --config",))
        return policy


def read_load(tables: DecisionTables, group: str, since: datetime, until: datetime) -> RecordedLoad | None:
    """Return what is recorded of a group's load, or of a long time each second, third and so on measurement; ``None``: nothing.

    Raises:
        AutoscalerError: There are no tables, or they cannot be read.
    """
    times = tables.times(group, since, until)
    if not times:
        return None
    every = max(1, math.ceil(len(times) / _MOST))
    read = RecordedLoad([], [], [])
    try:
        for number, (row, decided) in enumerate(_hours(tables, group, times[0], times[-1])):
            for of in decided:
                if of["capacity_bytes_per_s"]:
                    read.capacity = of["capacity_bytes_per_s"], of["usable_bytes_per_s"]
            if starts(row):
                began = unpack_inputs(row["inputs"], snapshot_of(row)).start
                read.policy = began.policy if began is not None else read.policy
            if number % every == 0:
                measured, owners = encoding.unpack(row["measured"])
                read.measured.append(measured)
                read.owners.append({x.partition: o for x, o in zip(measured, owners, strict=True) if o is not None})
                read.rows.append({n: row[n] for n in ("at", "sample_ts", "consumers", "consumers_now", "mode")})
    except ValueError as e:
        raise SettingsError((f"tables: what they hold of group {group} cannot be simulated: {e}",)) from e
    return read if len(read.rows) >= _LEAST and read.capacity[0] else None


def _hours(tables: DecisionTables, group: str, since: datetime, until: datetime) -> Iterator[tuple[Row, list[Row]]]:
    """Yield cycles that were measured, the first of each hour with the decisions of the hour."""
    at = since
    while at <= until:
        end = min(until, at + _AT_A_TIME)
        rows, decided = tables.cycles(group, at, end, COLUMNS)
        for row in rows:
            if row["sample_ts"] is not None and row["measured"] is not None:
                yield row, decided
                decided = []
        at = end + timedelta(microseconds=1)


def outcomes(
    read: RecordedLoad,
    policies: Mapping[str, Policy],
    start_s: float,
    within_s: float | None,
    done: Callable[[int], object] = lambda _: None,
) -> tuple[Outcome, dict[str, Outcome]]:
    """Return what happened, and what each policy does with the load.

    Args:
        read: The load.
        policies: By any name.
        start_s: Seconds that a consumer takes to start.
        within_s: Age that a record shall not pass before it is read; ``None``: that is not asked.
        done: Called with how many policies are simulated, after each.
    """
    able, usable = read.capacity
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
    with processes(min(len(policies), cpu_count() or 1)) as pool:
        plain = {name: Policy.model_validate(p.model_dump(include=set(Policy.model_fields), exclude_unset=True))
                 for name, p in policies.items()}  # fmt: skip
        waiting = {name: pool.submit(simulate, known, p, world) for name, p in plain.items()}
        was = as_it_was(known, running, held, behind, world)
        for number, _ in enumerate(as_completed(waiting.values()), 1):
            done(number)
        return was, {name: each.result() for name, each in waiting.items()}
