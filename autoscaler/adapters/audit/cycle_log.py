"""One JSON line per cycle and group, for the live view and for people with ``tail -f``.

Stands after the decision and beside the audit: the tables are for questions, this file is for watching. It is appended to and
rotated by size; a line that cannot be written is reported once and never stops a cycle.
"""

import json
import logging
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import assert_never

from autoscaler.adapters.audit.decision_json import PLAIN
from autoscaler.core.load.backlog import backlog_told
from autoscaler.model import (
    Action,
    AddWorkers,
    Decision,
    LoadSnapshot,
    MovePartition,
    Observation,
    ParkPartition,
    PartitionLoad,
    RemoveWorkers,
    ResetOffset,
    TopicPartition,
)
from autoscaler.ports import Clock

log = logging.getLogger(__name__)

_NAMES = ("decision_id", "at", "policy_fingerprint")  # of a decision: for its rows in the tables; ``at`` is the line's ``t``
DECIDED = ("reason", "limited_by", "capacity_source", *(name for name in PLAIN if name not in _NAMES))


class _File(RotatingFileHandler):
    """Makes its directory, and returns an error instead of printing it."""

    _error: BaseException | None = None

    def append(self, text: str) -> BaseException | None:
        """Write a text and a line's end in one go, and return what kept them from being written."""
        self._error = None
        self.emit(logging.makeLogRecord({"msg": text}))
        return self._error

    def _open(self) -> TextIOWrapper:
        Path(self.baseFilename).parent.mkdir(parents=True, exist_ok=True)
        return super()._open()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802
        self._error = sys.exc_info()[1]


class CycleLog:
    """An append-only file of JSON lines, rotated to ``.1``, ``.2``, … before it grows over ``max_bytes``.

    Lines reach the file when ``flush`` is called, once for all groups: with hundreds of them, each write by itself would hand the
    interpreter to whatever else wants to run.
    """

    def __init__(self, path: Path, clock: Clock, *, max_bytes: int = 64 << 20, keep: int = 3) -> None:
        """Open nothing yet; ``clock`` stamps lines that carry no ``t``, and ``keep`` rotated files stay, one at least."""
        self._path = path
        self._clock = clock
        self._file = _File(path, maxBytes=max_bytes, backupCount=keep, encoding="utf-8", delay=True)
        self._lines: list[str] = []
        self._guard = threading.Lock()  # clusters are looked after side by side
        self._failing = False

    def write(self, mapping: Mapping[str, object]) -> None:
        """Take one line; it is in the file after the next ``flush``."""
        try:
            text = json.dumps({"t": self._clock.now(), **mapping}, separators=(",", ":"), ensure_ascii=False)
            text.encode()
        except ValueError as e:  # a text that no file can be written with
            self._failed(e)
        else:
            with self._guard:
                self._lines.append(text)

    def flush(self) -> None:
        """Append the lines taken since; an unwritable file is reported when it starts to fail, and tried again the next time."""
        with self._guard:
            lines, self._lines = self._lines, []
            if not lines:
                return
            if (error := self._file.append("\n".join(lines))) is not None:
                self._failed(error)
                self._let_go()
            else:
                self._failing = False

    def close(self) -> None:
        """Write what is left and close the file; a later ``flush`` opens it again."""
        self.flush()
        self._let_go()

    def _failed(self, error: BaseException) -> None:
        if not self._failing:
            log.warning("%s cannot be written (%s); cycles go on without it", self._path, error)
        self._failing = True

    def _let_go(self) -> None:
        with suppress(OSError):  # of what could not be written either
            self._file.close()


def cycle_record(
    *, cluster: str, cycle: int, decision: Decision, snapshot: LoadSnapshot, observation: Observation, stages: Mapping[str, float]
) -> dict[str, object]:
    """Return the line of one cycle: what was decided, on what, and how long each stage took.

    Rates are log bytes/s, ages, latencies and stages seconds. In a managed group ``workers`` are the live incarnations; in a
    native one they are the members, named by client id (by member id where two share one), with client id and host, and no slot.
    """
    loads = {load.partition: load for load in snapshot.loads}
    decided = {name: getattr(decision, name) for name in DECIDED} | {"consumers": decision.consumers or None}
    return {
        "t": decision.at,
        "cycle": cycle,
        "cluster": cluster,
        **decided,
        "known": snapshot.known,
        "partitions": len(snapshot.loads),
        "parked": [str(p) for p in decision.parked],
        "backlog": backlog_told((f.what, f.numbers) for f in decision.findings),
        "actions": steps(decision.actions),
        "workers": _workers(observation, loads, decision),
        "stages": dict(stages),
        "sample_age_s": max(0.0, decision.at - snapshot.sample_ts),
    }


def steps(actions: Iterable[Action]) -> list[dict[str, object]]:
    """Return the steps to take, each for one worker or partition: its kind, what it is about, and ``what`` in a few words."""
    return [step for action in actions for step in _steps(action)]


def _steps(action: Action) -> Iterable[dict[str, object]]:
    match action:
        case ParkPartition(partition=p, owners=owners, offset=offset):
            yield _step("park", f"park {p} at {offset} after {owners} owners", p)
        case ResetOffset(partition=p, offset=offset, start=start):
            yield _step("reset", f"reset {p} from {offset} to {start}", p)
        case AddWorkers(slots=slots):
            yield from (_step("add", f"add {s}", target=s) for s in slots)
        case MovePartition(partition=p, source=source, target=target):
            yield _step("move", f"move {p} {'-' if source is None else source}->{target}", p, source, target)
        case RemoveWorkers(slots=slots):
            yield from (_step("remove", f"remove {s}", source=s) for s in slots)
        case _:
            assert_never(action)


def _step(
    kind: str, what: str, p: TopicPartition | None = None, source: int | None = None, target: int | None = None
) -> dict[str, object]:
    where = {"topic": p.topic if p else None, "partition": p.partition if p else None}
    return {"kind": kind, **where, "source": source, "target": target, "what": what}


def _workers(
    observation: Observation, loads: Mapping[TopicPartition, PartitionLoad], decision: Decision
) -> list[dict[str, object]]:
    able, own = decision.capacity_bytes_per_s, decision.own_bytes_per_s
    if observation.state is not None:
        ordered = sorted(observation.state.workers, key=lambda w: (w.slot is None, w.slot or 0, w.name, w.uuid))
        return [
            _worker(loads, w.owned, slot=w.slot, name=w.name, uuid=w.uuid, phase=w.phase.value)
            | {"latency_p50_s": w.latency_p50_s, "latency_p99_s": w.latency_p99_s}
            | {"capacity_bytes_per_s": able if w.slot is None else own.get(w.slot, able)}
            for w in ordered
        ]
    members = observation.members.members if observation.members else ()
    clients = [m.client_id for m in members]
    return [
        _worker(
            loads,
            m.assigned,
            slot=None,
            name=m.client_id if clients.count(m.client_id) == 1 else m.member_id,
            uuid=m.member_id,
            phase="active",
        )
        | {"latency_p50_s": None, "latency_p99_s": None, "capacity_bytes_per_s": able}
        | {"client_id": m.client_id, "host": m.host}
        for m in sorted(members, key=lambda m: (m.client_id, m.member_id))
    ]


def _worker(
    loads: Mapping[TopicPartition, PartitionLoad],
    partitions: Iterable[TopicPartition],
    *,
    slot: int | None,
    name: str,
    uuid: str,
    phase: str,
) -> dict[str, object]:
    owned = sorted(partitions)
    known = [loads[p] for p in owned if p in loads]
    rates = [x.bytes_per_s for x in known if x.bytes_per_s is not None]
    lags = [x.lag_records for x in known if x.lag_records is not None]
    return {
        "slot": slot,
        "name": name,
        "uuid": uuid,
        "phase": phase,
        "bytes_per_s": sum(rates) if rates or not owned else None,
        "lag_records": sum(lags) if lags or not owned else None,
        "partitions": [str(p) for p in owned],
    }
