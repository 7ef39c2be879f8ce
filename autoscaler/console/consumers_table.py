"""Draws the consumers of one cycle: who they are, how full, and what they hold.

Beside the path: values in, a table out. A slot is named by its number; a member of a native group, which has none, by its
``client.id`` and host. In a narrow terminal a name gives way before a rate does.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from autoscaler.console.cycle_reader import Cycle, WorkerLine
from autoscaler.console.words import bar, count, rate, seconds, shortened
from autoscaler.model.names import compact

WIDE = 96  # columns inside the border from which on latencies have room
_TITLE = "rate against capacity"
_BAR = 14
_LEAST_NAME, _MOST_NAME, _LEAST_PARTITIONS = 12, 44, 12
_NUMBERS = 26  # columns of rate, lag, and the spaces between
_TAIL = 8  # of a member id, where client.id and host are not enough
_STYLES = {"active": "green", "joining": "cyan", "draining": "yellow"}


def consumers(cycle: Cycle, width: int, room: int | None) -> Group:
    """Return a table of ``width`` columns; where not all of them have ``room`` lines, the busiest are shown."""
    wide = width >= WIDE and (not cycle.workers or any(w.latency_p50_s is not None for w in cycle.workers))
    cells = max(_BAR, width // 5) if width >= WIDE else _BAR
    room_for_name = width - cells - _NUMBERS - _LEAST_PARTITIONS - (16 if wide else 0)
    named = _names(cycle.workers, max(_LEAST_NAME, min(_MOST_NAME, room_for_name)))
    table = Table(box=None, padding=(0, 1), expand=True, show_edge=False, header_style="dim", pad_edge=False)
    table.add_column("slot" if all(w.slot is not None for w in cycle.workers) else "client.id, host", no_wrap=True)
    table.add_column(_TITLE if cells > len(_TITLE) else "of capacity", width=cells, no_wrap=True)
    for heading in ("rate", "lag", *(["p50 / p99"] if wide else [])):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("partitions", ratio=1, overflow="ellipsis", no_wrap=True)
    shown = _shown(cycle.workers, room)
    for worker in shown:
        table.add_row(*_row(worker, cycle, named(worker), cells, wide=wide))
    if not cycle.workers:
        table.add_row(Text("not known" if cycle.consumers_now is None else "none yet", style="dim"))
    if len(shown) == len(cycle.workers):
        return Group(table)
    return Group(table, Text(_others(cycle.workers, shown), style="dim"))


def _row(worker: WorkerLine, cycle: Cycle, name: str, cells: int, *, wide: bool) -> list[RenderableType]:
    able = worker.capacity_bytes_per_s or cycle.capacity_bytes_per_s
    usable = cycle.usable_bytes_per_s * able / cycle.capacity_bytes_per_s if cycle.capacity_bytes_per_s else 0.0
    style = _STYLES.get(worker.phase, "red")
    who = Text.assemble(("● ", style), name, ("" if worker.phase == "active" else f" {worker.phase}", style))
    filled = bar(worker.bytes_per_s or 0.0, usable, able, cells)
    row: list[RenderableType] = [who, filled, rate(worker.bytes_per_s), count(worker.lag_records)]
    if wide:
        row.append(f"{seconds(worker.latency_p50_s)} / {seconds(worker.latency_p99_s)}")
    row.append(Text(compact(worker.partitions) or "none", style="" if worker.partitions else "dim"))
    return row


def _names(workers: Sequence[WorkerLine], width: int) -> Callable[[WorkerLine], str]:
    """Return what calls each consumer by a name of its own, in ``width`` columns at most."""
    alike = Counter((w.client_id, w.host) for w in workers)

    def name(worker: WorkerLine) -> str:
        if worker.slot is not None:
            return str(worker.slot)
        if not worker.client_id:  # a line of an older version, or a worker without a slot
            return shortened(worker.name, width)
        host = worker.host.removeprefix("/")
        same = alike[worker.client_id, worker.host] > 1
        end = " ".join(x for x in (host, worker.uuid[-_TAIL:] if same else "") if x)
        left = width - len(end) - 1
        if left >= _LEAST_NAME or not end:
            return f"{shortened(worker.client_id, left if end else width)} {end}".rstrip()
        return f"{shortened(worker.client_id, (width - 1) // 2)} {shortened(end, width // 2)}"

    return name


def _shown(workers: Sequence[WorkerLine], room: int | None) -> Sequence[WorkerLine]:
    """Return those that have room, in order: an unknown rate first, then the highest."""
    if room is None or len(workers) <= room:
        return sorted(workers, key=_slot_order)
    busiest = sorted(workers, key=lambda w: (w.bytes_per_s is not None, -(w.bytes_per_s or 0.0), *_slot_order(w)))
    return sorted(busiest[: max(1, room - 1)], key=_slot_order)


def _others(workers: Sequence[WorkerLine], shown: Sequence[WorkerLine]) -> str:
    left = [w for w in workers if w not in shown]
    return f"and {len(left)} more with {rate(max((w.bytes_per_s or 0.0 for w in left), default=0.0))} each or less"


def _slot_order(worker: WorkerLine) -> tuple[bool, int, str, str]:
    return (worker.slot is None, worker.slot or 0, worker.name, worker.host)
