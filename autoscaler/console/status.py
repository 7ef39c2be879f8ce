"""Watches a running job from the outside, by the line that it writes per cycle.

Beside the path: it reads the cycle log only, so it can watch any job whose state directory it can read and cannot disturb it.
"""

import signal
import time
from pathlib import Path

from rich.console import Console

from autoscaler.console.cycle_reader import CycleTail
from autoscaler.console.group_view import View
from autoscaler.console.live import Screen

_TAIL_BYTES = 2_000_000
_LOOK_EVERY_S = 0.25


def once(file: Path, group: str) -> bool:
    """Print what the group does now and return whether anything is known of it."""
    console = Console()
    view = View(group=group)
    for cycle in CycleTail(file, last_bytes=_TAIL_BYTES).read():
        view.take(cycle)
    if view.latest is None:
        console.print(_nothing(file, group), markup=False, highlight=False, soft_wrap=True)
        return False
    console.print(view.render(console.width))
    return True


def watch(file: Path, group: str) -> None:
    """Show the group until the user or SIGTERM ends it."""
    view = View(group=group, note=_nothing(file, group))
    tail = CycleTail(file, last_bytes=_TAIL_BYTES)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Screen(Console()) as screen:
            while True:
                for cycle in tail.read():
                    view.take(cycle)
                    view.note = ""
                screen.show(view)
                time.sleep(_LOOK_EVERY_S)
    except KeyboardInterrupt:
        return


def _nothing(file: Path, group: str) -> str:
    return f"no cycle of group {group} in {file}: is the job running?"
