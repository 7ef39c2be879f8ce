"""``autoscaler replay --policy FILE``: the recorded load under another policy, beside the recorded one and what happened."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from rich.table import Table

from autoscaler.adapters.audit.decision_reader import DecisionTables
from autoscaler.cli.asked import Asked, nothing, terminal
from autoscaler.cli.few import few_of
from autoscaler.cli.recorded_load import outcomes, read_load
from autoscaler.cli.times import shown
from autoscaler.config.settings import load
from autoscaler.errors import Exit, SettingsError
from autoscaler.simulation.outcome import Outcome


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
    read = read_load(tables, args.group, since, until)
    if read is None:
        return nothing(args.group, tables.groups(), asked, f"between {shown(since, asked.zone)} and {shown(until, asked.zone)}")
    policies = {"recorded policy": read.policy_of(asked, args.group), Path(args.policy).name: groups[args.group]}
    was, simulated = outcomes(read, policies, args.start, args.within)
    found = {"as it was": was} | {f"{name}, simulated": x for name, x in simulated.items()}
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
