"""Shows a view where it is looked at: in place on a terminal, as plain lines everywhere else.

Beside the path; used by ``autoscaler status`` and the demo. It knows nothing of where the cycles come from.
"""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live

from autoscaler.console.group_view import Progress, View

_LINE_EVERY_S = 5.0


class Screen:
    """A place that a view is drawn on again and again; a context manager that leaves the last picture standing."""

    def __init__(self, console: Console) -> None:
        """Draw on ``console``."""
        self._console = console
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._said: tuple[object, ...] = ()
        self._said_at = float("-inf")

    def __enter__(self) -> Self:
        """Take the terminal."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        """Give the terminal back."""
        if self._live is not None:
            self._live.stop()

    def show(self, view: View, progress: Progress | None = None) -> None:
        """Draw the view; where there is no terminal, a line when something happened and otherwise every few seconds."""
        if self._live is not None:
            picture = view.render(self._console.width, progress, self._console.height - 1)  # the cursor's line stays free
            self._live.update(picture, refresh=True)
            return
        cycle = view.latest
        happened = (cycle.reason, cycle.consumers_now, cycle.actions) if cycle else (view.note,)
        if happened == self._said and time.monotonic() - self._said_at < _LINE_EVERY_S:
            return
        self._said, self._said_at = happened, time.monotonic()
        self._console.print(view.line(progress), markup=False, highlight=False, soft_wrap=True)
