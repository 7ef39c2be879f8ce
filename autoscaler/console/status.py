"""Watches a running job from the outside: its line per cycle, and whether it is alive.

Beside the path: it reads files of the state directory only, so it can watch any job whose state directory it can read and cannot
disturb it.
"""

import json
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from autoscaler.console.cycle_reader import Cycle, CycleTail
from autoscaler.console.group_view import View
from autoscaler.console.job_state import Health, judge, read_job
from autoscaler.console.live import Screen, Terminal
from autoscaler.console.overview import Overview
from autoscaler.ports import Clock

_TAIL_BYTES, _GROUP_BYTES = 2_000_000, 16_000  # at least; of each group, which has a line a second
_LATELY_S, _LATELY_BYTES = 60.0, 16_000_000
_LOOK_EVERY_S = 0.25
_LINE_EVERY_S = 60.0  # where there is no terminal and nothing happens
_JOB_EVERY_S = 1.0
_QUIET_S, _QUIET_TRIGGERS = 10.0, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What to look at: one job, and some of its groups.

    Attributes:
        root: Its state directory.
        groups: By name; one is shown in full, several at a glance.
        trigger_s: Seconds between its cycles.
        flush_s: Seconds between writes of its audit, at most.
        clock: That ages are told by.
    """

    root: Path
    groups: tuple[str, ...]
    trigger_s: float
    flush_s: float
    clock: Clock

    @property
    def file(self) -> Path:
        """Return the cycle log."""
        return self.root / "logs" / "cycles.jsonl"

    @property
    def quiet_s(self) -> float:
        """Return the seconds without a cycle that are nothing unusual."""
        return max(_QUIET_S, _QUIET_TRIGGERS * self.trigger_s)

    def tail(self) -> CycleTail:
        """Return what reads the latest cycles."""
        return CycleTail(self.file, last_bytes=max(_TAIL_BYTES, _GROUP_BYTES * len(self.groups)))

    def health(self, latest: float | None) -> Health:
        """Return how the job is, which decided last at ``latest``."""
        return judge(read_job(self.root), latest, self.clock.now(), quiet_s=self.quiet_s, flush_s=self.flush_s)


def decided_lately(root: Path, clock: Clock) -> dict[str, str]:
    """Return the groups that a job has decided for lately, each with its cluster: those of resources stand in no file."""
    since = clock.now() - _LATELY_S
    cycles = CycleTail(root / "logs" / "cycles.jsonl", last_bytes=_LATELY_BYTES).read()
    return {c.group: c.cluster for c in cycles if c.t >= since}


def once(watched: Watched) -> bool:
    """Print what is now and return whether anything is known of the groups."""
    console = Terminal()
    view = _view(watched)
    latest = _take(view, watched.tail())
    view.health, view.now = watched.health(latest), watched.clock.now()
    if latest is None:
        console.print(_nothing(watched, view.health), markup=False, highlight=False, soft_wrap=True)
        return False
    console.print(view.render(console.width))
    return True


def as_json(watched: Watched) -> tuple[str, bool]:
    """Return what is now as JSON, and whether anything is known of the groups."""
    lines: dict[str, Cycle] = {c.group: c for c in watched.tail().read() if c.group in watched.groups}
    job, latest = read_job(watched.root), max((c.t for c in lines.values()), default=None)
    now = watched.clock.now()
    health = judge(job, latest, now, quiet_s=watched.quiet_s, flush_s=watched.flush_s)
    values = {
        "at": now,
        "job": {**health.as_values(), "runs": job.held, "supervisor": job.said.model_dump() if job.said else None},
        "groups": [
            {"group": g, "age_s": now - lines[g].t, "cycle": lines[g].model_dump(mode="json")}
            if g in lines
            else {"group": g, "age_s": None, "cycle": None}
            for g in watched.groups
        ],
    }
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n", bool(lines)


def watch(watched: Watched) -> None:
    """Show the groups until the user or SIGTERM ends it."""
    view, tail, looked_at, latest = _view(watched), watched.tail(), float("-inf"), None
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Screen(Terminal(), line_every_s=_LINE_EVERY_S) as screen:
            while True:
                latest = _take(view, tail, latest)
                if time.monotonic() - looked_at >= _JOB_EVERY_S:
                    view.health, looked_at = watched.health(latest), time.monotonic()
                view.now = watched.clock.now()
                screen.show(view)
                time.sleep(_LOOK_EVERY_S)
    except KeyboardInterrupt:
        return


def _view(watched: Watched) -> View | Overview:
    if len(watched.groups) > 1:
        return Overview.of(watched.groups, quiet_s=watched.quiet_s)
    return View(group=watched.groups[0], note="")


def _take(view: View | Overview, tail: CycleTail, latest: float | None = None) -> float | None:
    """Give the view what has come, and return when the latest cycle of what it shows was."""
    for cycle in tail.read():
        view.take(cycle)
    views = list(view.views.values()) if isinstance(view, Overview) else [view]
    return max((v.latest.t for v in views if v.latest is not None), default=latest)


def _nothing(watched: Watched, health: Health) -> str:
    named = f"group {watched.groups[0]}" if len(watched.groups) == 1 else "any of the groups"
    return f"no cycle of {named} in {watched.file}: {health.text or 'is the job running?'}"
