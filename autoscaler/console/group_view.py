"""Draws what a group does: the live view of a terminal and the plain lines of anything else.

Beside the path: it takes the cycles that ``cycle_reader.py`` read and returns text; it reads nothing itself. Everything fits the
width it is given, from 60 columns up.
"""

import io
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from autoscaler.console.cycle_reader import Cycle, Step, WorkerLine

_LEVELS = "▁▂▃▄▅▆▇█"
_CALM = frozenset({"WITHIN_TARGET", "STABILISING", "COOLING_DOWN", "NOT_WORTH_MOVING", "HANDOVER_IN_PROGRESS", "ADVISORY"})
_WARNING = frozenset({"NOT_READY", "STALE_INPUT", "WORKER_LOST", "PARTITION_EXCEEDS_CAPACITY", "AT_MAXIMUM", "STUCK_PARTITION"})
_CHANGES_SHOWN = 4
_HISTORY = 600
_WIDE = 100
_TITLE = len("rate against capacity")
_MOVES_LISTED = 2
_FRAME = 3  # lines of the border and of the consumers' heading


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run with an end has come: its phases with their lengths in seconds, and the seconds since its start."""

    phases: tuple[tuple[str, float], ...]
    elapsed_s: float

    @property
    def total_s(self) -> float:
        """Return the planned length of the run in seconds."""
        return sum(length for _, length in self.phases)

    @property
    def phase(self) -> str:
        """Return the name of the phase that runs now; after the last one ``end``."""
        left = self.elapsed_s
        for name, length in self.phases:
            if left < length:
                return name
            left -= length
        return "end"


@dataclass(slots=True)
class View:
    """What is shown of one group: its latest cycle, what it changed last, and how it went."""

    group: str
    started_at: float | None = None  # what times are counted from, seconds since the Unix epoch; ``None``: from the first cycle
    latest: Cycle | None = None
    changes: deque[Cycle] = field(default_factory=lambda: deque(maxlen=_CHANGES_SHOWN))
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    note: str = ""  # a line of the program that shows the view, such as what it is waiting for

    def take(self, cycle: Cycle) -> None:
        """Add the next cycle, if it is the group's."""
        if cycle.group != self.group:
            return
        if self.started_at is None:
            self.started_at = cycle.t
        self.latest = cycle
        if cycle.known and cycle.total_bytes_per_s is not None:
            self.rates.append(cycle.total_bytes_per_s)
        if cycle.actions:
            self.changes.append(cycle)

    def render(self, width: int, progress: Progress | None = None, height: int | None = None) -> RenderableType:
        """Return the view for a terminal of ``width`` columns.

        In one of ``height`` lines not all consumers may have room: the busiest are shown, the others are summed up.
        """
        parts: list[RenderableType] = []
        if progress is not None:
            parts.append(_phases(progress, width - 4))
        if self.latest is None:
            parts.append(Text(self.note or "waiting for the first cycle …", style="yellow"))
            return _panel(parts, title="autoscaler", subtitle="")
        cycle = self.latest
        parts += [_totals(cycle), _rates(self.rates, cycle, width - 4)] if width >= _WIDE else [_totals(cycle)]
        below: list[RenderableType] = [_decision(cycle)]
        if self.changes:
            below.append(_changes(self.changes, self.started_at or 0.0, width - 4))
        if self.note:
            below.append(Text(self.note, style="yellow"))
        room = None if height is None else height - _lines([*parts, *below], width - 4) - _FRAME
        parts += [_workers(cycle, width - 4, room), *below]
        return _panel(parts, title=_title(cycle), subtitle=_subtitle(cycle, width))

    def line(self, progress: Progress | None = None) -> str:
        """Return the view as one plain line."""
        cycle = self.latest
        if cycle is None:
            return self.note or "waiting for the first cycle"
        when = progress.elapsed_s if progress else cycle.t - (self.started_at or 0.0)
        phase = f" {progress.phase:<5}" if progress else ""
        actions = f"  [{_short_actions(cycle.actions)}]" if cycle.actions else ""
        limited = f" limited by {cycle.limited_by}" if cycle.limited_by else ""
        return (
            f"{when:5.0f} s{phase}  consumers {_consumers(cycle)}  {rate(cycle.total_bytes_per_s)}"
            f"  lag {count(cycle.total_lag_records)}  {cycle.reason}{limited}{actions}  {cycle.detail}"
        )


def rate(bytes_per_s: float | None) -> str:
    """Return a rate for people: ``1.24 MB/s``; ``?`` if unknown."""
    return "?" if bytes_per_s is None else f"{_scaled(bytes_per_s)}B/s"


def count(value: int | None) -> str:
    """Return a count with thousands marked, ``?`` if unknown."""
    return "?" if value is None else f"{value:,}"


def consumers_text(
    observed: int | None,
    *,
    requested: int | None = None,
    advised: int | None = None,
    recommended: int | None = None,
    recommended_age_s: float | None = None,
) -> str:
    """Return how many consume (``?``: unknown), and how many are asked for or advised where that is another number.

    A group that acts has ``requested``, one that is only advised ``advised``; where none is advised now, the number that was
    ``recommended`` last is said with its age.
    """
    if requested is not None and requested != observed:
        return f"{count(observed)} → {requested}"
    if advised is not None and advised != observed:
        return f"{count(observed)}, advised {advised}"
    if advised is None and recommended is not None:
        return f"{count(observed)}, advised {recommended} {seconds(recommended_age_s)} ago"
    return count(observed)


def seconds(value: float | None) -> str:
    """Return a duration in the unit that suits it, ``?`` if unknown."""
    if value is None:
        return "?"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def partitions(names: Sequence[str]) -> str:
    """Return partitions compactly: ``0-3, 7`` for one topic, ``orders 0-3 · bills 1`` for several."""
    topics: dict[str, list[int]] = {}
    for name in names:
        topic, _, number = name.rpartition("-")
        if number.isdigit():
            topics.setdefault(topic, []).append(int(number))
        else:
            topics.setdefault(name, [])
    if len(topics) == 1:
        return _ranges(next(iter(topics.values())))
    return " · ".join(f"{topic} {_ranges(numbers)}".strip() for topic, numbers in sorted(topics.items()))


def bar(value: float, limit: float, capacity: float, width: int) -> Text:
    """Return a bar of ``width`` cells from 0 to ``capacity`` with a mark at ``limit``.

    Green up to the limit, yellow up to the capacity, red beyond it.
    """
    if capacity <= 0 or width < 1:
        return Text(" " * max(0, width))
    halves = round(min(1.0, max(0.0, value / capacity)) * width * 2)
    filled = "━" * (halves // 2) + "╸" * (halves % 2)
    style = "green" if value <= limit else "yellow" if value <= capacity else "red"
    text = Text.assemble((filled, style), ("─" * (width - len(filled)), "dim"))
    mark = int(limit / capacity * width)
    if mark < width:
        sign = ("┿", style) if mark < len(filled) else ("┼", "")
        text = Text.assemble(text[:mark], sign, text[mark + 1 :])
    return text


def sparkline(values: Sequence[float], width: int) -> str:
    """Return the values as ``width`` columns at most, each the mean of its share, scaled from 0 to the greatest."""
    if not values or width < 1:
        return ""
    top = max(values) or 1.0
    columns = min(width, len(values))
    edges = [round(i * len(values) / columns) for i in range(columns + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    return "".join(_LEVELS[min(7, int(m / top * 7.999))] for m in means)


def _scaled(value: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size * 0.9995:
            return f"{value / size:.2f} {unit}" if value < size * 10 else f"{value / size:.0f} {unit}"
    return f"{value:.0f} "


def _ranges(numbers: Sequence[int]) -> str:
    out: list[list[int]] = []
    for n in sorted(numbers):
        if out and n == out[-1][1] + 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in out)


def _panel(parts: Sequence[RenderableType], *, title: str | Text, subtitle: str | Text) -> Panel:
    return Panel(Group(*parts), title=title, subtitle=subtitle, title_align="left", subtitle_align="right", box=box.ROUNDED)


def _title(cycle: Cycle) -> Text:
    return Text.assemble(
        (f" {cycle.group} ", "bold"), (f"{cycle.mode} ", "cyan"), (f"cycle {cycle.cycle} · plan {cycle.epoch} ", "dim")
    )


def _subtitle(cycle: Cycle, width: int) -> Text:
    took = sum(v for k, v in cycle.stages.items() if k.endswith("_s"))
    age = f"sample {seconds(cycle.sample_age_s)} old" if cycle.sample_age_s is not None else ""
    text = f" {age} · cycle took {seconds(took)} " if took and width >= _WIDE else f" {age} "
    return Text(text, style="dim")


def _phases(progress: Progress, width: int) -> Text:
    total = progress.total_s or 1.0
    clock = f"  {min(progress.elapsed_s, total):.0f} of {total:.0f} s"
    room = width - len(clock)
    text = Text()
    left = progress.elapsed_s
    for i, (name, length) in enumerate(progress.phases):
        cells = max(len(name) + 3, round(room * length / total))
        if i == len(progress.phases) - 1:
            cells = max(len(name) + 3, room - len(text))
        line = cells - len(name) - 2
        done = round(line * min(1.0, max(0.0, left / length if length else 1.0)))
        now = 0 <= left < length
        text.append(f"{name} ", style="bold" if now else "dim")
        text.append("━" * done, style="green" if left >= length else "cyan")
        text.append("─" * (line - done) + " ", style="dim")
        left -= length
    return text.append(clock.strip().rjust(len(clock) - 1), style="default")


def _totals(cycle: Cycle) -> Text:
    changing = cycle.consumers is not None and cycle.consumers != cycle.consumers_now
    usable = None if cycle.consumers_now is None else cycle.usable_bytes_per_s * max(cycle.consumers_now, 1)
    return Text.assemble(
        "consumers ",
        (_consumers(cycle), "bold yellow" if changing else "bold"),
        (f" (fewest {count(cycle.lower_bound)})", "dim"),
        "   rate ",
        (rate(cycle.total_bytes_per_s), "bold"),
        (f" of {rate(usable)}", "dim"),
        "   lag ",
        (count(cycle.total_lag_records), "bold"),
        ("" if cycle.known else "   load not known", "bold red"),
    )


def _consumers(cycle: Cycle) -> str:
    if cycle.mode != "advise":
        return consumers_text(cycle.consumers_now, requested=cycle.consumers)
    return consumers_text(
        cycle.consumers_now, advised=cycle.consumers, recommended=cycle.recommended, recommended_age_s=cycle.recommended_age_s
    )


def _rates(rates: Sequence[float], cycle: Cycle, width: int) -> Text:
    label = "rate so far "
    top = f" peak {rate(max(rates) if rates else cycle.total_bytes_per_s)}"
    return Text.assemble((label, "dim"), (sparkline(list(rates), width - len(label) - len(top)), "cyan"), (top, "dim"))


def _lines(parts: Sequence[RenderableType], width: int) -> int:
    console = Console(width=width, file=io.StringIO())
    return sum(len(console.render_lines(p, pad=False)) for p in parts)


def _shown(workers: Sequence[WorkerLine], room: int | None) -> Sequence[WorkerLine]:
    """Return those that have room, in order: an unknown rate first, then the highest."""
    if room is None or len(workers) <= room:
        return sorted(workers, key=_slot_order)
    busiest = sorted(workers, key=lambda w: (w.bytes_per_s is not None, -(w.bytes_per_s or 0.0), *_slot_order(w)))
    return sorted(busiest[: max(1, room - 1)], key=_slot_order)


def _others(workers: Sequence[WorkerLine], shown: Sequence[WorkerLine]) -> str:
    left = [w for w in workers if w not in shown]
    return f"and {len(left)} more with {rate(max((w.bytes_per_s or 0.0 for w in left), default=0.0))} each or less"


def _workers(cycle: Cycle, width: int, room: int | None) -> Group:
    table = Table(box=None, padding=(0, 1), expand=True, show_edge=False, header_style="dim", pad_edge=False)
    table.add_column("slot", no_wrap=True)
    wide = width >= _WIDE - 4
    cells = max(10, width // 5) if wide else 14
    table.add_column("rate against capacity" if cells > _TITLE else "of capacity", width=max(cells, 14), no_wrap=True)
    table.add_column("rate", justify="right", no_wrap=True)
    table.add_column("lag", justify="right", no_wrap=True)
    if wide:
        table.add_column("p50 / p99", justify="right", no_wrap=True)
    table.add_column("partitions", ratio=1, overflow="ellipsis", no_wrap=True)
    shown = _shown(cycle.workers, room)
    for worker in shown:
        able = worker.capacity_bytes_per_s or cycle.capacity_bytes_per_s
        usable = cycle.usable_bytes_per_s * able / cycle.capacity_bytes_per_s if cycle.capacity_bytes_per_s else 0.0
        filled = bar(worker.bytes_per_s or 0.0, usable, able, max(cells, 14))
        row: list[RenderableType] = [_slot(worker), filled, rate(worker.bytes_per_s), count(worker.lag_records)]
        if wide:
            row.append(f"{seconds(worker.latency_p50_s)} / {seconds(worker.latency_p99_s)}")
        row.append(Text(partitions(worker.partitions) or "none", style="" if worker.partitions else "dim"))
        table.add_row(*row)
    if not cycle.workers:
        table.add_row(Text("not known" if cycle.consumers_now is None else "none yet", style="dim"))
    if len(shown) == len(cycle.workers):
        return Group(table)
    return Group(table, Text(_others(cycle.workers, shown), style="dim"))


def _slot_order(worker: WorkerLine) -> tuple[bool, int, str]:
    return (worker.slot is None, worker.slot or 0, worker.name)


def _slot(worker: WorkerLine) -> Text:
    style = {"active": "green", "joining": "cyan", "draining": "yellow"}.get(worker.phase, "red")
    name = worker.name if worker.slot is None else str(worker.slot)
    return Text.assemble(("● ", style), name, ("" if worker.phase == "active" else f" {worker.phase}", style))


def _reason_style(reason: str) -> str:
    return "bold green" if reason in _CALM else "bold red" if reason in _WARNING else "bold yellow"


def _decision(cycle: Cycle) -> Text:
    text = Text.assemble(("\n" + cycle.reason, _reason_style(cycle.reason)))
    if cycle.limited_by:
        text.append(f" limited by {cycle.limited_by}", style="yellow")
    return text.append(f"  {cycle.detail}")


def _changes(changes: Sequence[Cycle], started_at: float, width: int) -> Table:
    table = Table(box=None, padding=(0, 1), show_header=False, pad_edge=False, width=width)
    table.add_column(justify="right", style="dim", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for c in reversed(changes):
        when = f"{max(0.0, c.t - started_at):.0f} s"
        table.add_row(when, Text(c.reason, style=_reason_style(c.reason)), _short_actions(c.actions))
    return table


def _short_actions(actions: Sequence[Step]) -> str:
    """Return actions in a line; of several moves only the partitions are named."""
    others = [a.what for a in actions if a.kind != "move"]
    moves = [a for a in actions if a.kind == "move"]
    if len(moves) <= _MOVES_LISTED:
        return ", ".join([*others, *(m.what for m in moves)])
    return ", ".join([*others, f"{len(moves)} moves: {partitions([f'{m.topic}-{m.partition}' for m in moves])}"])
