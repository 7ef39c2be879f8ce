"""``autoscaler replay``: decides what is recorded of a group again, and says where something else comes out."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial

from rich.table import Table

from autoscaler.adapters.audit.decision_reader import DecisionTables
from autoscaler.cli.asked import Asked, nothing, terminal
from autoscaler.cli.processes import Processes, processes
from autoscaler.cli.times import shown
from autoscaler.errors import Exit
from autoscaler.replay.redecide import COLUMNS, Replayed, Row, redecide, segments

_AT_A_TIME = timedelta(hours=1)  # of the tables
_WAITING = 8  # parts that are being decided again
_ALONE = 3000  # cycles that are decided again before other processes would have started
Read = Callable[[datetime, datetime], tuple[list[Row], list[Row]]]
Part = tuple[list[Row], list[Row], Row | None]
_WIDTH = 60  # characters of a value that differs


def replay(args: argparse.Namespace) -> int:
    """Decide recorded cycles of a group again, and print what came out.

    Raises:
        AutoscalerError: There are no tables, or they cannot be read.
        TimeError: A time is none.
    """
    asked = Asked.of(args)
    since, until = asked.span(args)
    if args.policy is not None:
        from autoscaler.cli.what_if import compare  # noqa: PLC0415  loads the simulation

        return compare(args, asked, since, until)
    tables = DecisionTables(asked.tables)
    try:
        found, first, last = _replayed(tables, args.group, since, until)
    except ValueError as e:
        sys.stderr.write(f"the tables cannot be replayed: {e}\n")
        return Exit.FAILED
    if first is None or last is None:
        times = f"between {shown(since, asked.zone)} and {shown(until, asked.zone)}"
        return nothing(args.group, tables.groups(), asked, times)
    if args.json:
        sys.stdout.write(_as_json(args.group, found, first, last))
    else:
        tell(args.group, found, f"from {shown(first, asked.zone)} to {shown(last, asked.zone)}")
    return code_of(found)


def tell(group: str, found: Replayed, times: str) -> None:
    """Print what came out of a group's cycles of a time."""
    console = terminal()
    console.print(f"group {group}, {times}: {_said(found)}", highlight=False, soft_wrap=True)
    if found.differences:
        console.print(_drawn(found), highlight=False)


def code_of(found: Replayed) -> int:
    """Return the exit code: 0 if every decision that could be made again came out the same, and one could."""
    return Exit.FAILED if found.differing or not found.same else 0


def _replayed(
    tables: DecisionTables, group: str, since: datetime, until: datetime
) -> tuple[Replayed, datetime | None, datetime | None]:
    """Return what comes out, and when the first and the last cycle were."""
    total, waiting, first, last, alone = Replayed(), list[Future[Replayed]](), None, None, 0
    with _processes(since, until) as pool:
        read = partial(tables.cycles, group, columns=COLUMNS)
        for part, decided, following in parts(read, since, until):
            first, last = first or part[0]["at"], part[-1]["at"]
            if pool is None or alone < _ALONE:
                alone += len(part)
                total += redecide(part, decided, following)
            else:
                waiting.append(pool.submit(redecide, part, decided, following))
            if len(waiting) > _WAITING:  # lest a day must fit into memory
                total += waiting.pop(0).result()
        for each in waiting:
            total += each.result()
    return total, first, last


def _processes(since: datetime, until: datetime) -> AbstractContextManager[Processes | None]:
    """Return processes for a long time; none for a short one, which is over before they have started."""
    count = os.cpu_count() or 1
    return nullcontext() if until - since <= timedelta(seconds=_ALONE) or count == 1 else processes(count)


def parts(read: Read, since: datetime, until: datetime) -> Iterator[Part]:
    """Yield what can be decided again apart from the rest: cycles, the decisions of that time, and the cycle that follows.

    Args:
        read: Returns the rows of ``loads``, with ``COLUMNS``, and of ``decisions`` between two times, both included.
        since: When the first of them was, or later.
        until: When the last of them was, or earlier.
    """
    decided: list[Row] = []

    def cycles() -> Iterator[Row]:
        at = since
        while at <= until:
            end = min(until, at + _AT_A_TIME)
            rows, more = read(at, end)
            decided.extend(more)
            yield from rows
            at = end + timedelta(microseconds=1)

    for part, following in segments(cycles()):
        to = part[-1]["at"]
        yield part, [d for d in decided if d["at"] <= to], following
        decided[:] = [d for d in decided if d["at"] > to]


def _said(found: Replayed) -> str:
    """Return the result in a sentence."""
    same = "all came out the same" if not found.differing else f"{found.differing} came out otherwise"
    if not found.same and not found.differing:
        same = "none could be decided again"
    more = [
        (found.plans, "of them with their plan, which was recorded too"),
        (found.held, "held because carrying out failed: not compared"),
        (found.undecided, "with nothing decided, or recorded by an earlier release"),
        (found.unconnected, "behind a cycle that is missing, up to the next that begins anew"),
    ]
    told = "".join(f"; {n} {text}" for n, text in more if n)
    return f"{found.cycles} cycles, {found.same + found.differing} decided again, {same}{told}"


def _drawn(found: Replayed) -> Table:
    """Return the first cycle that differs, field by field."""
    first = found.differences[0]
    table = Table(title=f"first: {first.decision_id}, {first.at}", title_justify="left")
    for name in ("field", "recorded", "decided again"):
        table.add_column(name, overflow="fold")
    for d in found.differences:
        table.add_row(d.field, _short(d.recorded), _short(d.again))
    return table


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}…"


def _as_json(group: str, found: Replayed, first: datetime, last: datetime) -> str:
    times = {"from": first.astimezone(UTC).isoformat(), "to": last.astimezone(UTC).isoformat()}
    return json.dumps({"group": group, **times, **asdict(found)}, default=str, indent=2) + "\n"
