"""Whose turn it is: a job that starts waits until no other one acts in its place.

Beside the path, once at a start. A Lease, where the job has one, says who should act; ticks in the control logs say who does.
"""

import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from autoscaler.config.settings import Settings

if TYPE_CHECKING:
    from autoscaler.adapters.lease import Lease


def job_id(state: Path) -> str:
    """Return the id of the job whose state lies there, the same over its restarts; made at its first start."""
    file = state / "job-id"
    if not file.exists():
        state.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        part.write_text(f"{uuid4()}\n", encoding="ascii")
        part.replace(file)
    return file.read_text(encoding="ascii").strip()


def take(settings: Settings, job_id: str, lease: "Lease | None", stop: threading.Event) -> None:
    """Wait until no other job acts in place of this one, or this one is told to end."""
    from autoscaler.adapters.control_log import others  # noqa: PLC0415  of no use after the start

    if lease is not None and (not lease.take(stop) or lease.lapsed):
        return  # a job that let it expire and still ticks is cut off from Kubernetes: this one takes over from it
    others.wait_for_end(settings.served, job_id, others.acted_on(settings.served, job_id), stop)


def wait_for(turn: Future[None], address: tuple[str, int] | None, lease: "Lease | None") -> None:
    """Wait until the turn has come, and answer at an address meanwhile that this job lives and is not ready."""
    if turn.done() or address is None:
        turn.result()
        return
    from autoscaler.adapters.http.server import Server, waiting  # noqa: PLC0415  a job that opens no port loads none of it

    other = "another controller that acts on a group of this job"
    server = Server(address, waiting(lambda: (lease is not None and lease.waits_for) or other))
    server.start()
    try:
        turn.result()
    finally:
        server.close()
