"""Draws what a group does: the live view of a terminal and the plain lines of anything else.

Beside the path: it takes the cycles that ``cycle_reader.py`` read and returns text; it reads nothing itself. Everything fits the
width it is given, from 60 columns up.
"""

import io
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from autoscaler.console.consumers_table import consumers
from autoscaler.console.cycle_reader import Cycle, Step
from autoscaler.console.job_state import FINE, Health
from autoscaler.console.words import clock, consumers_text, count, lasted, rate, seconds, sparkline
from autoscaler.model.names import compact, ranges

_CALM = frozenset({"WITHIN_TARGET", "STABILISING", "COOLING_DOWN", "NOT_WORTH_MOVING", "HANDOVER_IN_PROGRESS", "ADVISORY"})
_WARNING = frozenset({"NOT_READY", "STALE_INPUT", "WORKER_LOST", "PARTITION_EXCEEDS_CAPACITY", "AT_MAXIMUM", "STUCK_PARTITION"})
_CHANGES_SHOWN = 4
_HISTORY = 600
_WIDE = 100
_MOVES_LISTED = 2
_LASTING_S = 5.0  # from which on it is said how long an answer has been the same
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
    started_at: float | None = None  # what times of a run with an end are counted from; ``None``: from the first cycle
    latest: Cycle | None = None
    since: float | None = None  # when the latest answer was given first; an earlier one may have been before what was read
    complete: bool = False  # ``since`` is when it began, not only when reading began
    changes: deque[Cycle] = field(default_factory=lambda: deque(maxlen=_CHANGES_SHOWN))
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    note: str = ""  # a line of the program that shows the view, such as what it is waiting for
    health: Health = FINE  # of the job
    now: float | None = None  # that ages are told against, seconds since the Unix epoch; ``None``: none are told

    def take(self, cycle: Cycle) -> None:
        """Add the next cycle, if it is the group's."""
        if cycle.group != self.group:
            return
        if self.started_at is None:
            self.started_at = cycle.t
        if self.latest is None or _answer(cycle) != _answer(self.latest):
            self.since, self.complete = cycle.t, self.latest is not None
        self.latest = cycle
        if cycle.known and cycle.total_bytes_per_s is not None:
            self.rates.append(cycle.total_bytes_per_s)
        if not cycle.actions:
            return
        if self.changes and _same_change(cycle, self.changes[-1]):  # advice, or a step that failed: said once, with since when
            cycle = cycle.model_copy(update={"t": self.changes.pop().t})
        self.changes.append(cycle)

    @property
    def happened(self) -> tuple[object, ...]:
        """Return what makes the view worth a line of its own: it compares unequal when something happened."""
        cycle = self.latest
        if cycle is None:
            return (self.note, self.health.level)
        advised = cycle.mode == "advise"  # its steps are told anew with every cycle, for a load that is never quite the same
        return (*_answer(cycle), () if advised else cycle.actions, self.health.level)

    def render(self, width: int, progress: Progress | None = None, height: int | None = None) -> RenderableType:
        """Return the view for a terminal of ``width`` columns.

        In one of ``height`` lines not all consumers may have room: the busiest are shown, the others are summed up.
        """
        parts: list[RenderableType] = []
        if self.health.text:
            parts.append(health_text(self.health))
        if progress is not None:
            parts.append(_phases(progress, width - 4))
        if self.latest is None:
            parts.append(Text(self.note or "waiting for the first cycle …", style="yellow"))
            return panel(parts, title="autoscaler", subtitle="")
        cycle = self.latest
        parts += [_totals(cycle), _rates(self.rates, cycle, width - 4)] if width >= _WIDE else [_totals(cycle)]
        below: list[RenderableType] = [_decision(cycle, self.lasting(progress))]
        if self.changes:
            below.append(_changes(self.changes, self.started_at if progress else None, width - 4))
        if self.note:
            below.append(Text(self.note, style="yellow"))
        room = None if height is None else height - _lines([*parts, *below], width - 4) - _FRAME
        parts += [consumers(cycle, width - 4, room), *below]
        return panel(parts, title=_title(cycle), subtitle=_subtitle(cycle, width, self.now))

    def line(self, progress: Progress | None = None) -> str:
        """Return the view as one plain line."""
        cycle, health = self.latest, f"{self.health.text}  " if self.health.text else ""
        if cycle is None:
            return f"{health}{self.note or 'waiting for the first cycle'}"
        when = f"{progress.elapsed_s:5.0f} s" if progress else clock(cycle.t)
        phase = f" {progress.phase:<5}" if progress else ""
        actions = f"  [{short_steps(cycle.actions)}]" if cycle.actions else ""
        limited = f" limited by {cycle.limited_by}" if cycle.limited_by else ""
        return (
            f"{health}{when}{phase}  consumers {consumers_of(cycle)}  {rate(cycle.total_bytes_per_s)}"
            f"  lag {count(cycle.total_lag_records)}  {cycle.reason}{limited}{self.lasting(progress)}{actions}  {cycle.detail}"
        )

    def lasting(self, progress: Progress | None = None) -> str:
        """Return for how long the latest answer has been the same, where that is worth saying."""
        if progress is not None or self.latest is None or self.since is None:
            return ""
        spell_s = self.latest.t - self.since
        return f" for {lasted(spell_s)}{'' if self.complete else ' or longer'}" if spell_s >= _LASTING_S else ""


def panel(parts: Sequence[RenderableType], *, title: str | Text, subtitle: str | Text) -> Panel:
    """Return what is drawn, one below the other, with a border."""
    return Panel(Group(*parts), title=title, subtitle=subtitle, title_align="left", subtitle_align="right", box=box.ROUNDED)


def _title(cycle: Cycle) -> Text:
    return Text.assemble(
        (f" {cycle.group} ", "bold"), (f"{cycle.mode} ", "cyan"), (f"cycle {cycle.cycle} · plan {cycle.epoch} ", "dim")
    )


def _subtitle(cycle: Cycle, width: int, now: float | None) -> Text:
    took = sum(v for k, v in cycle.stages.items() if k.endswith("_s"))
    decided = [] if now is None else [f"decided at {clock(cycle.t)}, {lasted(max(0.0, now - cycle.t))} ago"]
    sampled = [] if cycle.sample_age_s is None else [f"sample then {seconds(cycle.sample_age_s)} old"]
    spent = [f"cycle took {seconds(took)}"] if took and width >= _WIDE else []
    return Text(f" {' · '.join([*decided, *sampled, *spent])} ", style="dim")


def health_text(health: Health) -> Text:
    """Return how the job is, as the first line of a view."""
    text = f"{health.text[0].upper()}{health.text[1:]}"
    return Text(text, style="bold white on red" if health.level == "dead" else "bold yellow")


def _answer(cycle: Cycle) -> tuple[object, ...]:
    return (cycle.mode, cycle.reason, cycle.limited_by, cycle.consumers_now, cycle.consumers)


def _same_change(cycle: Cycle, before: Cycle) -> bool:
    return _answer(cycle) == _answer(before) and (cycle.mode == "advise" or cycle.actions == before.actions)


def _phases(progress: Progress, width: int) -> Text:
    total = progress.total_s or 1.0
    time = f"  {min(progress.elapsed_s, total):.0f} of {total:.0f} s"
    room = width - len(time)
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
    return text.append(time.strip().rjust(len(time) - 1), style="default")


def _totals(cycle: Cycle) -> Text:
    changing = cycle.consumers is not None and cycle.consumers != cycle.consumers_now
    usable = None if cycle.consumers_now is None else cycle.usable_bytes_per_s * max(cycle.consumers_now, 1)
    return Text.assemble(
        "consumers ",
        (consumers_of(cycle), "bold yellow" if changing else "bold"),
        (_would_do(cycle), "dim"),
        "   rate ",
        (rate(cycle.total_bytes_per_s), "bold"),
        (f" of {rate(usable)}", "dim"),
        "   lag ",
        (count(cycle.total_lag_records), "bold"),
        ("" if cycle.known else "   load not known", "bold red"),
    )


def _would_do(cycle: Cycle) -> str:
    """Return how many the load takes where the group is asked for another number; what is advised is said already."""
    asked, takes = cycle.consumers, cycle.recommended
    if cycle.mode == "advise" or asked is None or takes is None or takes == asked:
        return ""
    return f" ({takes} would do)" if takes < asked else f" (the load takes {takes})"


def urgency(view: View) -> tuple[int, str]:
    """Return what sorts groups: those that an operator should look at first, calm ones last, each by name."""
    reason = view.latest.reason if view.latest is not None else None
    return (0 if reason in _WARNING else 1 if reason is None else 3 if reason in _CALM else 2, view.group)


def consumers_of(cycle: Cycle) -> str:
    """Return how many consume, and how many are asked for or advised where that is another number."""
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


def reason_style(reason: str) -> str:
    """Return how a reason is written: green where all is calm, red where an operator should look."""
    return "bold green" if reason in _CALM else "bold red" if reason in _WARNING else "bold yellow"


def _decision(cycle: Cycle, lasting: str) -> Text:
    text = Text.assemble(("\n" + cycle.reason, reason_style(cycle.reason)))
    if cycle.limited_by:
        text.append(f" limited by {cycle.limited_by}", style="yellow")
    return text.append(lasting, style="dim").append(f"  {cycle.detail}")


def _changes(changes: Sequence[Cycle], started_at: float | None, width: int) -> Table:
    table = Table(box=None, padding=(0, 1), show_header=False, pad_edge=False, width=width)
    table.add_column(justify="right", style="dim", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for c in reversed(changes):
        when = clock(c.t) if started_at is None else f"{max(0.0, c.t - started_at):.0f} s"
        table.add_row(when, Text(c.reason, style=reason_style(c.reason)), short_steps(c.actions))
    return table


_GROUPED = frozenset({"add", "remove", "move"})


def _counted(actions: Sequence[Step], kind: str) -> list[str]:
    slots = [int(n) for a in actions if a.kind == kind and (n := a.what.rpartition(" ")[2]).isdecimal()]
    return [f"{kind} {ranges(slots)}"] if slots else []


def short_steps(actions: Sequence[Step]) -> str:
    """Return actions in a line: consumers that come or go as ranges, and of several moves only the partitions."""
    others = [*_counted(actions, "add"), *(a.what for a in actions if a.kind not in _GROUPED), *_counted(actions, "remove")]
    moves = [a for a in actions if a.kind == "move"]
    if len(moves) <= _MOVES_LISTED:
        return ", ".join([*others, *(m.what for m in moves)])
    return ", ".join([*others, f"{len(moves)} moves: {compact([f'{m.topic}-{m.partition}' for m in moves])}"])
