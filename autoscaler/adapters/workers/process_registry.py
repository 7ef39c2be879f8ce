"""What a pool of processes remembers on disk, and how it finds a process again: a restarted controller adopts its workers.

Each slot has a JSON file, written whole or not at all. It names the instance *before* the process is started: after a crash
between the two, the process is found by the instance in its environment, and never started twice. The directory must be local to
the machine that runs the processes. Used by ``processes`` only.
"""

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

INSTANCE_VARIABLE = "AUTOSCALER_INSTANCE"
_ENDED_KEPT = 20  # per slot
_START_S = 1.0  # between writing ahead and the new process carrying its environment
_CREATED_TOLERANCE_S = 2.0  # the boot time that it is derived from is adjusted with the wall clock


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRecord:
    """One slot's file."""

    slot: int
    instance: str | None = None  # unique per start; ``None`` if nothing runs
    pid: int | None = None  # ``None`` while it is not known whether the process was started
    created: float | None = None  # when the process was created, seconds since the epoch
    told: bool = False  # it was told to end: after a restart of the controller too it is not one that was asked for
    # Instances of this slot that ended, newest last: told again after a restart, because the one who had to be told may have
    # crashed in between
    ended: tuple[str, ...] = ()

    def after_end(self) -> "SlotRecord":
        """Return the record once its instance has ended."""
        ended = (*self.ended, self.instance) if self.instance else self.ended
        return SlotRecord(slot=self.slot, ended=ended[-_ENDED_KEPT:])


def write(directory: Path, record: SlotRecord) -> None:
    """Write a slot's file, whole or not at all."""
    file = directory / f"worker-{record.slot}.json"
    new = file.with_suffix(".json.new")
    with new.open("w", encoding="utf-8") as out:
        json.dump(asdict(record), out)
        out.flush()
        os.fsync(out.fileno())
    new.replace(file)


def read_all(directory: Path) -> list[SlotRecord]:
    """Return every slot's record; a file that cannot be read is none (it was never written by ``write``)."""
    out = []
    for file in sorted(directory.glob("worker-*.json")):
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
            out.append(SlotRecord(**{**data, "ended": tuple(data["ended"])}))
        except (OSError, ValueError, TypeError, KeyError):
            continue
    return out


def find(record: SlotRecord) -> psutil.Process | None:
    """Return the living process of a record; ``None`` if it has ended (a zombie has), and all that it started in its session."""
    if record.instance is None:
        return None
    if record.pid is not None:
        return _known(record) or next(iter(left_of(record)), None)
    deadline = time.monotonic() + _START_S
    while True:
        for process in psutil.process_iter():
            if _leads_session(process) and _instance_of(process) == record.instance and is_alive(process):
                return process
        if time.monotonic() > deadline:
            return None
        time.sleep(_START_S / 10)


def left_of(record: SlotRecord) -> tuple[psutil.Process, ...]:
    """Return what still runs of a record's session besides its leader, such as the worker that a shell had started.

    By the session and by the instance in the environment: after a restart of the machine both numbers may be another process's.
    """
    found = []
    for pid in psutil.pids():
        try:
            if pid != record.pid and os.getsid(pid) == record.pid:
                found.append(psutil.Process(pid))
        except (OSError, psutil.NoSuchProcess):
            continue
    return tuple(p for p in found if _instance_of(p) == record.instance and is_alive(p))


def is_alive(process: psutil.Process) -> bool:
    """Return whether a process runs; signals reach a zombie, but it does nothing any more."""
    try:
        return process.is_running() and process.status() not in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
    except psutil.NoSuchProcess:
        return False


def _known(record: SlotRecord) -> psutil.Process | None:
    try:
        process = psutil.Process(record.pid)
        instance = _instance_of(process)
        if instance is not None:
            same = instance == record.instance
        else:  # environment not readable, by permission or because it is ending
            same = record.created is not None and abs(process.create_time() - record.created) < _CREATED_TOLERANCE_S
    except psutil.NoSuchProcess:
        return None
    return process if same and is_alive(process) else None


def _leads_session(process: psutil.Process) -> bool:
    """A worker leads its session; what it started itself carries the same environment and does not."""
    try:
        return os.getsid(process.pid) == process.pid
    except OSError:
        return False


def _instance_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(INSTANCE_VARIABLE)
    except (psutil.Error, OSError):
        return None
