"""Gets the planner's machine code ready: compiled once after a change and kept, loaded at each start. Beside the path.

The control loop must not wait for a compiler, so the job calls ``prepare`` before its first cycle, and ``make`` runs this module,
so that a newcomer's first job finds everything compiled.
"""

import logging
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from numba.core import event

from autoscaler.adapters.clock import SystemClock
from autoscaler.packing import ALGORITHMS
from autoscaler.packing.pace.portfolio import improve
from autoscaler.packing.precompile import warm
from autoscaler.ports import Clock

log = logging.getLogger(__name__)


def prepare(clock: Clock, algorithms: Collection[str] = ("PACE",)) -> str:
    """Load or compile everything that decisions by these algorithms call, and return what that took, in words."""
    began = clock.monotonic()
    with event.install_recorder("numba:compile") as recorder:
        warm(algorithms)
    took = clock.monotonic() - began
    compiled = sum(1 for _, seen in recorder.buffer if seen.is_end)
    if not compiled:
        return f"the planner's machine code was loaded in {took:.1f} s"
    return f"the planner was compiled in {took:.0f} s ({compiled} functions); {_where()}"


@contextmanager
def announced(say: Callable[[str], object]) -> Iterator[None]:
    """Say, once and as soon as anything of the planner is compiled meanwhile, that this is what is waited for."""
    listener = _Announcer(say)
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]


class _Announcer(event.Listener):
    def __init__(self, say: Callable[[str], object]) -> None:
        self._say, self._said = say, False

    def on_start(self, event: Any) -> None:  # noqa: ARG002  of the library
        if not self._said:
            self._say("compiling the planner, which takes about a minute and is kept for later\n")
        self._said = True

    def on_end(self, event: Any) -> None:
        pass


def _where() -> str:
    path = getattr(getattr(improve, "stats", None), "cache_path", None)
    if path is None:
        return (
            "it is not kept, because neither the package's directory nor this user's cache can be written: every start compiles; "
            "set NUMBA_CACHE_DIR to a directory that can be written"
        )
    return f"kept in {path}, later starts load it"


if __name__ == "__main__":
    solver = find_spec("ortools") is not None
    sys.stdout.write(f"{prepare(SystemClock(), [a for a in ALGORITHMS if solver or a != 'EXACT'])}\n")
