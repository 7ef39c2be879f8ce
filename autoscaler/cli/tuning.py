"""``autoscaler tune``: which preset and utilisation would have been cheapest at the same backlog, with what speaks for it."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC

from rich.table import Table

from autoscaler.adapters.audit.decision_reader import DecisionTables
from autoscaler.cli.asked import Asked, nothing, terminal
from autoscaler.cli.recorded_load import RecordedLoad, outcomes, read_load
from autoscaler.cli.times import shown
from autoscaler.config.policy import Policy
from autoscaler.config.setting_paths import path_of
from autoscaler.errors import SettingsError
from autoscaler.replay.tuning import Tuned, candidates, judged
from autoscaler.simulation.outcome import Outcome

_DAY_H = 24
_WIDE = 130  # columns from which on all figures fit
_WHOLE = 1000  # from which on a fraction says nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What is told: the first of ``simulated`` are the settings that hold."""

    read: RecordedLoad
    policies: Mapping[str, Policy]
    was: Outcome
    simulated: Mapping[str, Outcome]
    tuned: Tuned

    @property
    def held(self) -> str:
        return next(iter(self.simulated))

    @property
    def settings(self) -> dict[str, object]:
        """Return what to set, by path; ``None``: to take out."""
        if self.tuned.best is None:
            return {}
        now, then = self.policies[self.held], self.policies[self.tuned.best]
        names = ("preset", "consumer_price", "target_utilisation")
        return {path_of(n): getattr(then, n) for n in names if getattr(then, n) != getattr(now, n)}


def tune(args: argparse.Namespace) -> int:
    """Print which settings would have been cheapest.

    Raises:
        AutoscalerError: There are no tables, or they cannot be read.
        TimeError: A time is none.
    """
    asked = Asked.of(args)
    since, until = asked.span(args)
    tables = DecisionTables(asked.tables)
    read = read_load(tables, args.group, since, until)
    if read is None:
        return nothing(args.group, tables.groups(), asked, f"between {shown(since, asked.zone)} and {shown(until, asked.zone)}")
    policy = read.policy_of(asked, args.group)
    if policy.sizing != "rates":
        path = path_of("sizing")
        raise SettingsError(
            (f"tables: group {args.group} is sized by {policy.sizing}: preset and utilisation tune {path} rates",)
        )
    policies = candidates(policy)
    was, simulated = outcomes(read, policies, args.start, args.within, _counting(len(policies)))
    tuned = judged(simulated, next(iter(simulated.values())), read.capacity[0])
    found = _Found(read=read, policies=policies, was=was, simulated=simulated, tuned=tuned)
    if args.json:
        sys.stdout.write(_as_json(args, found))
    else:
        _tell(args, found, asked)
    return 0


def _counting(total: int) -> Callable[[int], object]:
    """Return what says on a terminal how far the simulations are: those of a week of many partitions take minutes."""
    if not sys.stderr.isatty():
        return lambda _: None
    sys.stderr.write(f"simulating {total} settings\r")
    return lambda done: sys.stderr.write(f"{done} of {total} settings simulated" + ("\r" if done < total else "\n"))


def _tell(args: argparse.Namespace, found: _Found, asked: Asked) -> None:
    console = terminal()
    console.print(_drawn(found, args, console.width), highlight=False)
    read = found.read
    first, last = (shown(read.rows[i]["at"], asked.zone) for i in (0, -1))
    each = f"{read.capacity[0]:,.0f} bytes/s per consumer, which takes {args.start:g} s to start"
    lines = [
        f"group {args.group}, from {first} to {last}, a decision every {read.every_s:.3g} s; simulated with {each}",
        _suggestion(found, args.price),
        *_reservations(found),
    ]
    if dearer := len(found.simulated) - len(_cheapest_first(found)):
        lines.insert(1, f"{dearer} other settings take more consumer-hours (--json has them)")
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)


def _suggestion(found: _Found, price: float | None) -> str:
    held = found.simulated[found.held]
    if found.tuned.best is None:
        return f"suggestion: keep {found.held}; no other of these takes fewer consumer-hours at the same backlog"
    best = found.simulated[found.tuned.best]
    saved = held.consumer_hours - best.consumer_hours
    money = "" if price is None else f", {_amount(saved * price)} in money"
    settings = ", ".join(f"{name}: {'left out' if value is None else value}" for name, value in found.settings.items())
    return (
        f"suggestion: {settings}, which takes {_amount(saved)} consumer-hours less than {found.held} "
        f"({saved / held.consumer_hours:.0%}{money}) at the same backlog"
    )


def _reservations(found: _Found) -> list[str]:
    """Return what must be known of the group before the suggestion is followed."""
    policy, read = found.policies[found.held], found.read
    said = []
    recorded = read.policy or policy
    if recorded.paused is not None or recorded.pinned is not None:
        said.append("what holds the group (holds.paused, holds.pinned) is left out of every simulation")
    if policy.assignment == "native":
        said.append(
            "presets do not matter to a group with its own assignor; it is simulated as if its partitions were placed by load"
        )
    if found.tuned.best is not None:
        said.append(
            "by the recorded load alone: consumers that fail, and a load that grows faster than this one did, need room above it"
        )
    return said


def _drawn(found: _Found, args: argparse.Namespace, width: int) -> Table:
    cells: dict[str, Callable[[Outcome], str]] = {
        "consumer hours": lambda x: _amount(x.consumer_hours),
        "at most": lambda x: f"{x.most}",
        "moved load": lambda x: _amount(x.r_score),
        "behind, at most": lambda x: f"{x.worst_behind_s:,.1f} s",
        "on average": lambda x: f"{x.mean_behind_s:,.2f} s",
        "backlog at most": lambda x: f"{x.worst_backlog_bytes / 1e6:,.2f} MB",
    }
    if args.within is not None:
        cells[f"within {args.within:g} s"] = lambda x: "not known" if x.in_time is None else f"{x.in_time:.2%}"
    if args.price is not None:
        cells["money"] = lambda x: _amount(x.consumer_hours * args.price)
    if width < _WIDE:
        cells = {head: cell for head, cell in cells.items() if head not in {"at most", "moved load", "on average"}}
    table = Table()
    table.add_column("", overflow="fold")
    for head in cells:
        table.add_column(head, justify="right")
    table.add_column("worse")
    table.add_row("as it was", *(cell(found.was) for cell in cells.values()), "")
    for name in _cheapest_first(found):
        mark = " (now)" if name == found.held else ""
        style = "bold" if name == (found.tuned.best or found.held) else None
        row = (cell(found.simulated[name]) for cell in cells.values())
        table.add_row(name + mark, *row, ", ".join(found.tuned.worse[name]), style=style)
    return table


def _cheapest_first(found: _Found) -> list[str]:
    """Return what takes fewer consumer-hours than the settings that hold, and these; the others speak for nothing."""
    order = sorted(found.simulated, key=lambda n: (found.simulated[n].consumer_hours, n != found.held, n))
    return order[: order.index(found.held) + 1]


def _amount(number: float) -> str:
    """Return a number to three digits, or whole."""
    return f"{number:.3g}" if number < _WHOLE else f"{number:,.0f}"


def _as_json(args: argparse.Namespace, found: _Found) -> str:
    read = found.read
    first, last = (read.rows[i]["at"].astimezone(UTC).isoformat() for i in (0, -1))

    def told(x: Outcome) -> dict[str, object]:
        return asdict(x) | ({} if args.price is None else {"money": x.consumer_hours * args.price})

    tried = {
        name: {
            "preset": found.policies[name].preset,
            "target_utilisation": found.policies[name].target_utilisation,
            "worse": found.tuned.worse[name],
            **told(x),
        }
        for name, x in found.simulated.items()
    }
    answer = {
        "group": args.group, "from": first, "to": last, "every_s": read.every_s, "now": found.held, "best": found.tuned.best,
        "settings": found.settings, "as_it_was": told(found.was), "simulated": tried, "reservations": _reservations(found),
    }  # fmt: skip
    return json.dumps(answer, indent=2) + "\n"
