"""Workers as local processes: implements ``ports.WorkerPool``.

Each slot runs one process in a session of its own, so that it outlives the controller; a restarted one adopts what it finds.
A process that has ended is reported at once with its instance, which is the platform's evidence that its lease is over (rule 8a).
Where the command is a shell, the worker is the shell's child: a slot has ended when nothing of its session is left.
Decides nothing: which slots run is the caller's business.
"""

import contextlib
import fcntl
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import IO, Self
from uuid import uuid4

import psutil

from autoscaler.adapters.workers.process_registry import INSTANCE_VARIABLE, SlotRecord, find, is_alive, left_of, read_all, write
from autoscaler.config.settings import ProcessWorkers
from autoscaler.errors import PermanentError, TransientError
from autoscaler.ports import Clock, MayAct, PoolState, unlimited

_HEALTHY_S = 30.0  # a process that ran this long starts the back-off anew
_DIE_S = 5.0  # after SIGKILL
_DEFAULTS = [signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGHUP]  # what a controller ignores, its workers do not


@dataclass(slots=True, kw_only=True)
class _Slot:
    """A slot that has run; ``process`` is ``None`` when nothing of it runs now."""

    record: SlotRecord
    process: psutil.Process | None = None
    started: float = 0.0
    kill_at: float | None = None  # being drained; killed then
    # The process that was started has ended and left others behind, which were told to end and are killed then
    rest_until: float | None = None
    failures: int = 0
    not_before: float = 0.0


_LONGEST_SLOT = 10  # digits; a worker may write any name into the logs


def slot_of(group: str, worker_name: str) -> int | None:
    """Return the slot that a worker of this name fills in a group's pool; ``None`` if it is none of that pool's."""
    number = worker_name.removeprefix(f"{group}-")
    plain = number != worker_name and number.isascii() and number.isdecimal() and len(number) < _LONGEST_SLOT
    return int(number) if plain and str(int(number)) == number else None


class ProcessPool:
    """Starts, drains, restarts and adopts the worker processes of one group, which are named ``{group}-{slot}``.

    ``directory``, one per group and on a local disk, has the workers' logs (``worker-<slot>.log``), the records that survive a
    restart, and the lock. ``environment`` is added to every worker's; that of the settings overrides it.
    """

    def __init__(
        self,
        *,
        group: str,
        settings: ProcessWorkers,
        directory: Path,
        environment: Mapping[str, str],
        clock: Clock,
        may_act: MayAct = unlimited,
    ) -> None:
        self._group, self._settings, self._directory, self._clock, self._may_act = group, settings, directory, clock, may_act
        self._environment = {**environment, **settings.environment}
        self._slots: dict[int, _Slot] = {}
        self._lock: IO[str] | None = None

    def slot_of(self, worker_name: str) -> int | None:
        """Return the slot that a worker of this name fills; ``None`` if it is not one of this pool's."""
        return slot_of(self._group, worker_name)

    def observe(self) -> PoolState:
        """Look at the processes, without blocking.

        Raises:
            TransientError: Another pool holds the directory.
        """
        self._acquire()
        self._look()
        now = self._clock.monotonic()
        return PoolState(
            running={n: s.record.instance for n, s in sorted(self._slots.items()) if s.process and s.record.instance},
            ended=frozenset(instance for s in self._slots.values() for instance in s.record.ended),
            draining=frozenset(n for n, s in self._slots.items() if s.process and s.record.told),
            restarting={n: max(0.0, s.not_before - now) for n, s in sorted(self._slots.items()) if not s.process and s.failures},
        )

    def apply(self, requested: frozenset[int], *, expected: frozenset[int], releasable: frozenset[int]) -> None:
        """Make exactly ``requested`` run; returns at once, drains go on over the following calls.

        Slots that ended since ``expected`` was seen are no obstacle: they are started again if requested.

        Raises:
            TransientError: Slots run that are not expected; nothing was done. Or a process could not be started for now.
            PermanentError: The command cannot be started at all; says why.
        """
        self._may_act()
        self._acquire()
        self._look()
        running = {n for n, s in self._slots.items() if s.process}
        if others := running - expected:
            raise TransientError(f"slots {sorted(others)} of group {self._group} run and were not expected to")
        now = self._clock.monotonic()
        for slot in sorted(running - requested):
            if slot in releasable and self._slots[slot].kill_at is None:
                self._drain(self._slots[slot], now)
        for slot in sorted(set(self._slots) - requested - running):
            self._slots[slot].failures = 0  # ended as it should
        for slot in sorted(requested - running):
            if slot not in self._slots or now >= self._slots[slot].not_before:
                self._start(slot, now)

    def stop_all(self, timeout_s: float | None = None) -> None:
        """Drain every worker, wait, and kill those that are left after ``timeout_s`` (default: the drain timeout)."""
        self._acquire()
        self._look()
        wait_s = self._settings.drain_timeout_s if timeout_s is None else timeout_s
        now = self._clock.monotonic()
        for slot in self._slots.values():
            if slot.process:
                self._drain(slot, now, wait_s)
        limit = now + wait_s + _DIE_S
        while any(s.process for s in self._slots.values()) and self._clock.monotonic() < limit:
            time.sleep(0.02)
            self._look()

    def close(self) -> None:
        """Forget the workers without stopping them: they go on while the controller is away."""
        self._slots.clear()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close."""
        self.close()

    # --- looking ---

    def _acquire(self) -> None:
        """Hold the directory's lock, and adopt what a predecessor left, the first time."""
        if self._lock is not None:
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        lock = (self._directory / "pool.lock").open("a", encoding="utf-8")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            lock.close()
            raise TransientError(f"another controller runs the workers in {self._directory}") from e
        self._lock = lock
        now = self._clock.monotonic()
        for record in read_all(self._directory):
            process = find(record)
            if process is not None and record.pid is None:
                record = self._remember(record.slot, record.instance, process, record.ended)  # noqa: PLW2901  completes it
            slot = self._slots[record.slot] = _Slot(record=record, process=process, started=now)
            if process is not None and record.told:
                slot.kill_at = now + self._settings.drain_timeout_s
            if process is None and record.instance is not None:
                self._note_end(self._slots[record.slot], now)

    def _look(self) -> None:
        """Notice which workers have ended, and kill those that were told to end too long ago."""
        now = self._clock.monotonic()
        for slot in self._slots.values():
            if slot.process is None:
                continue
            _reap(slot.process.pid)
            if not is_alive(slot.process):
                if rest := left_of(slot.record):
                    self._end_rest(slot, rest, now)
                else:
                    self._note_end(slot, now)
            elif slot.kill_at is not None and now >= slot.kill_at:
                _signal(slot.process, signal.SIGKILL)

    def _note_end(self, slot: _Slot, now: float) -> None:
        asked = slot.kill_at is not None
        healthy = now - slot.started >= _HEALTHY_S
        slot.process, slot.kill_at, slot.rest_until, slot.record = None, None, None, slot.record.after_end()
        write(self._directory, slot.record)
        slot.failures = 0 if asked else 1 if healthy else slot.failures + 1
        pause_s = 0.0 if asked else self._settings.restart_backoff_s * 2.0 ** min(slot.failures - 1, 30)
        slot.not_before = now + min(pause_s, self._settings.restart_backoff_max_s)

    # --- acting ---

    def _drain(self, slot: _Slot, now: float, wait_s: float | None = None) -> None:
        slot.record = replace(slot.record, told=True)
        write(self._directory, slot.record)  # before the signal: after a restart, one that was told is not one that is asked for
        slot.kill_at = now + (self._settings.drain_timeout_s if wait_s is None else wait_s)
        if slot.process is not None:
            _signal(slot.process, signal.SIGTERM)

    def _end_rest(self, slot: _Slot, rest: Sequence[psutil.Process], now: float) -> None:
        """Tell what a worker has left behind to end, once, and kill it in the end; until then it may still act for the worker."""
        told = slot.rest_until is not None
        if slot.rest_until is None:
            slot.rest_until = now + self._settings.drain_timeout_s
        over = now >= (slot.rest_until if slot.kill_at is None else slot.kill_at)
        if over or not told:
            for process in rest:
                _signal(process, signal.SIGKILL if over else signal.SIGTERM)

    def _start(self, number: int, now: float) -> None:
        known = self._slots.get(number)
        ended = known.record.ended if known else ()
        instance = str(uuid4())
        write(self._directory, SlotRecord(slot=number, instance=instance, ended=ended))
        slot = _Slot(record=SlotRecord(slot=number, instance=instance, ended=ended), started=now)
        slot.failures = known.failures if known else 0
        self._slots[number] = slot
        try:
            pid = self._spawn(number, instance)
        except OSError as e:
            self._note_end(slot, now)
            message = f"worker {self._group}-{number} cannot be started: {self._settings.command[0]}: {e.strerror}"
            if isinstance(e, FileNotFoundError | PermissionError):
                raise PermanentError(f"{message}; correct workers.command of the group") from e
            raise TransientError(message) from e
        try:
            slot.process = psutil.Process(pid)
            slot.record = self._remember(number, instance, slot.process, ended)
        except psutil.NoSuchProcess:
            self._note_end(slot, now)

    def _remember(self, number: int, instance: str | None, process: psutil.Process, ended: tuple[str, ...]) -> SlotRecord:
        record = SlotRecord(slot=number, instance=instance, pid=process.pid, created=process.create_time(), ended=ended)
        write(self._directory, record)
        return record

    def _spawn(self, number: int, instance: str) -> int:
        command = [sys.executable if part == "{python}" else part for part in self._settings.command]
        environment = {
            **os.environ,
            **self._environment,
            "AUTOSCALER_WORKER_NAME": f"{self._group}-{number}",
            INSTANCE_VARIABLE: instance,
        }
        log = str(self._directory / f"worker-{number}.log")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        return os.posix_spawnp(  # no Popen: its owner would have to wait for it, and this process lives on without us
            command[0],
            command,
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, flags, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=_DEFAULTS,
        )


def _reap(pid: int) -> None:
    """Take the exit status of an own child; an adopted one is another process's."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    """Signal a worker; killing takes whatever it started in its session's group along."""
    with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError, PermissionError):
        if number is signal.SIGKILL and os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
