"""Shows a view where it is looked at: in place on a terminal, as plain lines everywhere else.

Beside the path; used by ``autoscaler status`` and the demo. It knows nothing of where the cycles come from.
"""

import time
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, RenderableType
from rich.live import Live

from autoscaler.console.group_view import Progress


class Terminal(Console):
    """A console that leaves it to the program what to do when its output is not read to the end."""

    def on_broken_pipe(self) -> None:
        """Say that what reads the output has gone away.

        Raises:
            BrokenPipeError: Always.
        """
        raise BrokenPipeError


class Shown(Protocol):
    """What a screen can show: a picture for a terminal, and lines for anything else."""

    @property
    def happened(self) -> tuple[object, ...]:
        """Return what compares unequal when something happened that is worth lines of its own."""
        ...

    def render(self, width: int, progress: Progress | None = None, height: int | None = None) -> RenderableType:
        """Return the picture."""
        ...

    def line(self, progress: Progress | None = None) -> str:
        """Return it as plain lines."""
        ...


class Screen:
    """A place that a view is drawn on again and again; a context manager that leaves the last picture standing."""

    def __init__(self, console: Console, *, line_every_s: float = 5.0) -> None:
        """Draw on ``console``; where that is no terminal and nothing happens, a line every ``line_every_s``."""
        self._console = console
        self._line_every_s = line_every_s
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

    def show(self, view: Shown, progress: Progress | None = None) -> None:
        """Draw the view; where there is no terminal, a line when something happened and otherwise every few seconds."""
        if self._live is not None:
            picture = view.render(self._console.width, progress, self._console.height - 1)  # the cursor's line stays free
            self._live.update(picture, refresh=True)
            return
        if view.happened == self._said and time.monotonic() - self._said_at < self._line_every_s:
            return
        self._said, self._said_at = view.happened, time.monotonic()
        self._console.print(view.line(progress), markup=False, highlight=False, soft_wrap=True)
