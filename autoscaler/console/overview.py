"""Draws all groups of a configuration at a glance: a line each, those that ask for an operator first.

Beside the path: it takes the cycles that ``cycle_reader.py`` read and returns text; it reads nothing itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from autoscaler.console.cycle_reader import Cycle
from autoscaler.console.group_view import Progress, View, consumers_of, health_text, panel, reason_style, urgency
from autoscaler.console.job_state import FINE, Health
from autoscaler.console.words import count, lasted, rate, shortened
from autoscaler.core.messages import many
from autoscaler.model import Reason

_FRAME = 3  # lines of the border and of the heading
_LEAST_NAME, _MOST_NAME = 10, 40
_REASON = 26
_OTHERS = 40  # columns of consumers, rate and lag, and the spaces between
_WIDE = 110  # columns from which on the sentence has room


@dataclass(slots=True)
class Overview:
    """What is shown of several groups."""

    views: dict[str, View]
    quiet_s: float  # seconds without a cycle that are nothing unusual
    health: Health = FINE  # of the job
    now: float | None = None  # that ages are told against, seconds since the Unix epoch
    _said: dict[str, tuple[object, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, groups: Iterable[str], *, quiet_s: float) -> "Overview":
        """Return an overview of these groups, with nothing known of them yet."""
        return cls(views={g: View(group=g) for g in groups}, quiet_s=quiet_s)

    def take(self, cycle: Cycle) -> None:
        """Add the next cycle, if its group is shown."""
        if (view := self.views.get(cycle.group)) is not None:
            view.take(cycle)

    @property
    def happened(self) -> tuple[object, ...]:
        """Return what makes another look worth lines of its own."""
        return (self.health.level, *(v.happened for v in self.views.values()))

    def render(
        self,
        width: int,
        progress: Progress | None = None,  # noqa: ARG002  no run with an end has several groups
        height: int | None = None,
    ) -> RenderableType:
        """Return the groups for a terminal of ``width`` columns, in ``height`` lines at most."""
        top: list[RenderableType] = [health_text(self.health)] if self.health.text else []
        lines = len(self.health.text) // max(1, width - 4) + 1 if top else 0
        room = len(self.views) if height is None else max(1, height - _FRAME - lines)
        views = sorted(self.views.values(), key=urgency)
        shown = views if len(views) <= room else views[: max(1, room - 1)]
        parts = [*top, self._table(shown, width - 4)]
        if left := len(views) - len(shown):
            parts.append(Text(f"and {many(left, 'group')} more; one of them: autoscaler status GROUP", style="dim"))
        return panel(parts, title=Text(f" {many(len(views), 'group')} ", style="bold"), subtitle="")

    def line(self, progress: Progress | None = None) -> str:
        """Return a line for each group of which something happened since the last time; for all of them where nothing did."""
        news = [v for v in self.views.values() if self._said.get(v.group) != v.happened] or list(self.views.values())
        self._said = {v.group: v.happened for v in self.views.values()}
        lines = [f"{v.group}: {v.line(progress) if v.latest is not None else 'no decision yet'}" for v in news]
        return "\n".join([*([self.health.text] if self.health.text else []), *lines])

    def _table(self, views: Sequence[View], width: int) -> Table:
        wide = width >= _WIDE
        longest = max((len(v.group) for v in views), default=0)
        name = max(_LEAST_NAME, min(_MOST_NAME, longest, width - _OTHERS - _REASON))
        table = Table(box=None, padding=(0, 1), expand=True, show_edge=False, header_style="dim", pad_edge=False)
        table.add_column("group", no_wrap=True, min_width=min(longest, name))
        for heading in ("consumers", "rate", "lag"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("why", no_wrap=True, overflow="ellipsis", ratio=None if wide else 1)
        if wide:
            table.add_column("", ratio=1, no_wrap=True, overflow="ellipsis")
        for view in views:
            table.add_row(*self._row(view, name, wide=wide))
        return table

    def _row(self, view: View, name: int, *, wide: bool) -> list[RenderableType]:
        cycle, who = view.latest, shortened(view.group, name)
        if cycle is None:
            return [who, "?", "?", "?", Text("no decision yet", style="yellow"), *([""] if wide else [])]
        known = "" if cycle.known else "?"
        why, held = Text(cycle.reason, style=reason_style(cycle.reason)), cycle.limited_by
        if held and not wide and held != Reason.ADVISORY:
            why, held = Text.assemble((f"{held}: ", "yellow"), why), None  # in front: the end may have no room
        if self.now is not None and self.now - cycle.t > self.quiet_s:
            why = Text.assemble((f"{lasted(self.now - cycle.t)} ago ", "bold red"), why)
        why.append(view.lasting(), style="dim")
        if held:
            why.append(f" limited by {held}", style="yellow")
        figures = (consumers_of(cycle), f"{rate(cycle.total_bytes_per_s)}{known}", count(cycle.total_lag_records))
        return [who, *figures, why, *([Text(cycle.detail, style="dim")] if wide else [])]
