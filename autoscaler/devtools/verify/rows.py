"""What the tables of a run hold, as far as the rules look at it, and the job's line per cycle.

Read with a library of its own (delta-rs): nothing of the program that wrote them is used.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from deltalake import DeltaTable

from autoscaler.devtools.verify.run import EvidenceError, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow:
    """A decision that the tables hold; ``at`` in seconds since the Unix epoch."""

    decision_id: str
    at: float
    reason: str
    consumers_now: int | None
    consumers: int | None
    acted: bool
    moves: tuple["Move", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A step of a decision that gives a partition to a slot; ``source`` is ``None`` if no live worker held it."""

    partition: int
    source: int | None
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleLine:
    """A cycle as the job wrote it beside the tables, for people who watch."""

    number: int
    at: float
    acts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleRow:
    """A cycle that the tables hold; there is one for each, while decisions that change nothing are thinned out."""

    decision_id: str
    at: float
    consumers_now: int | None
    acted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRow:
    """An intent or an outcome that the tables hold."""

    decision_id: str
    phase: str
    status: str
    epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverRow:
    """A change of hands that the tables hold."""

    partition: int
    from_worker: str | None
    to_worker: str
    slot: int | None  # that the new owner fills, by its name
    from_slot: int | None  # and the one before it
    epoch: int
    offset: int
    pause_s: float | None


def read_table(run: Run, name: str, columns: Sequence[str]) -> Sequence[Mapping[str, object]]:
    """Return some columns of a Delta table's rows that belong to the run's group.

    Raises:
        EvidenceError: The table is not there or lacks a column.
    """
    place = run.tables / name
    try:
        rows = DeltaTable(str(place)).to_pyarrow_table(columns=[*columns, "group"]).to_pylist()
    except Exception as e:  # the reader raises types of its own and of Arrow
        msg = f"table {place} cannot be read: {e}"
        raise EvidenceError(msg) from e
    return [r for r in rows if r["group"] == run.group]


def decisions(run: Run) -> Iterator[DecisionRow]:
    """Yield the decisions."""
    columns = ("decision_id", "at", "reason", "consumers_now", "consumers", "acted", "steps")
    for row in read_table(run, "decisions", columns):
        yield DecisionRow(
            decision_id=str(row["decision_id"]),
            at=_seconds(row["at"]),
            reason=str(row["reason"]),
            consumers_now=_count(row["consumers_now"]),
            consumers=_count(row["consumers"]),
            acted=row["acted"] is True,
            moves=tuple(_moves(row["steps"], run.topic)),
        )


def cycles(run: Run) -> Iterator[CycleRow]:
    """Yield the cycles."""
    for row in read_table(run, "loads", ("decision_id", "at", "consumers_now", "acted")):
        yield CycleRow(
            decision_id=str(row["decision_id"]),
            at=_seconds(row["at"]),
            consumers_now=_count(row["consumers_now"]),
            acted=row["acted"] is True,
        )


def actions(run: Run) -> Iterator[ActionRow]:
    """Yield the intents and outcomes."""
    for row in read_table(run, "actions", ("decision_id", "phase", "status", "epoch")):
        yield ActionRow(
            decision_id=str(row["decision_id"]),
            phase=str(row["phase"]),
            status=str(row["status"]),
            epoch=_count(row["epoch"]),
        )


def handovers(run: Run) -> Iterator[HandoverRow]:
    """Yield the changes of hands of the run's topic."""
    for row in read_table(
        run, "handovers", ("topic", "partition", "from_worker", "from_uuid", "to_worker", "to_uuid", "epoch", "offset", "pause_s")
    ):
        before, pause = row["from_uuid"], row["pause_s"]
        if row["topic"] != run.topic:
            continue
        yield HandoverRow(
            partition=_whole(row["partition"]),
            from_worker=None if before is None else str(before),
            to_worker=str(row["to_uuid"]),
            slot=_slot(row["to_worker"]),
            from_slot=_slot(row["from_worker"]),
            epoch=_whole(row["epoch"]),
            offset=_whole(row["offset"]),
            pause_s=None if pause is None else _number(pause),
        )


def lines(run: Run) -> Iterator[CycleLine]:
    """Yield the run's cycles as the job's line per cycle has them, oldest first.

    Raises:
        EvidenceError: The file is not there or holds something else.
    """
    try:
        text = run.cycles.read_text(encoding="utf-8")
        for line in text.split("\n")[:-1]:  # what a kill cut off is not read
            said = json.loads(line)
            if said["group"] == run.group:
                yield CycleLine(number=said["cycle"], at=said["t"], acts=said["mode"] == "act" and bool(said["actions"]))
    except (OSError, KeyError, TypeError, ValueError) as e:
        msg = f"{run.cycles} does not say which cycles there were: {type(e).__name__} {e}"
        raise EvidenceError(msg) from e


def _moves(steps: object, topic: str) -> Iterator[Move]:
    for step in steps if isinstance(steps, list) else ():
        if step["kind"] == "move" and step["topic"] == topic:
            yield Move(partition=_whole(step["partition"]), source=_count(step["source"]), target=_whole(step["target"]))


def _slot(worker: object) -> int | None:
    number = str(worker).rpartition("-")[2]
    return int(number) if number.isdecimal() else None


def _whole(value: object) -> int:
    return int(_number(value))


def _count(value: object) -> int | None:
    return None if value is None else _whole(value)


def _number(value: object) -> float:
    if isinstance(value, int | float):
        return float(value)
    msg = f"a table holds {value!r} where a number belongs"
    raise EvidenceError(msg)


def _seconds(value: object) -> float:
    return value.timestamp() if isinstance(value, datetime) else _number(value)
