"""What the tables of a run hold, as far as the rules look at it, and the job's line per cycle.

Read with a library of its own (delta-rs): nothing of the program that wrote them is used.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Annotated, Any, TypeVar

from deltalake import DeltaTable
from pydantic import BeforeValidator, TypeAdapter, ValidationError

from autoscaler.devtools.verify.run import EvidenceError, Run

_Row = TypeVar("_Row")
Seconds = Annotated[float, BeforeValidator(lambda at: at.timestamp() if isinstance(at, datetime) else at)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A step of a decision that gives a partition to a slot; ``source`` is ``None`` if no live worker held it."""

    partition: int
    source: int | None
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow:
    """A decision that the tables hold; ``at`` in seconds since the Unix epoch."""

    decision_id: str
    at: Seconds
    reason: str
    consumers_now: int | None
    consumers: int | None
    acted: bool
    moves: tuple[Move, ...]


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
    at: Seconds
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


_ROWS: Mapping[type, TypeAdapter[Any]] = {kind: TypeAdapter(kind) for kind in (DecisionRow, CycleRow, ActionRow, HandoverRow)}


def read_table(run: Run, name: str, columns: Sequence[str]) -> Sequence[Mapping[str, Any]]:
    """Return some columns of a Delta table's rows that belong to the run's group.

    Raises:
        EvidenceError: The table is not there or lacks a column.
    """
    place = f"{run.tables}/{name}"
    try:
        rows = DeltaTable(place).to_pyarrow_table(columns=[*columns, "group"]).to_pylist()
    except Exception as e:  # the reader raises types of its own and of Arrow
        raise EvidenceError(f"table {place} cannot be read: {e}") from e
    return [r for r in rows if r["group"] == run.group]


def decisions(run: Run) -> Iterator[DecisionRow]:
    """Yield the decisions."""
    columns = ("decision_id", "at", "reason", "consumers_now", "consumers", "acted", "steps")
    for row in read_table(run, "decisions", columns):
        moves = [s for s in row["steps"] or () if s["kind"] == "move" and s["topic"] == run.topic]
        yield _checked(DecisionRow, {**row, "moves": moves})


def cycles(run: Run) -> Iterator[CycleRow]:
    """Yield the cycles."""
    for row in read_table(run, "loads", [f.name for f in fields(CycleRow)]):
        yield _checked(CycleRow, row)


def actions(run: Run) -> Iterator[ActionRow]:
    """Yield the intents and outcomes."""
    for row in read_table(run, "actions", [f.name for f in fields(ActionRow)]):
        yield _checked(ActionRow, row)


def handovers(run: Run) -> Iterator[HandoverRow]:
    """Yield the changes of hands of the run's topic."""
    for row in read_table(
        run, "handovers", ("topic", "partition", "from_worker", "from_uuid", "to_worker", "to_uuid", "epoch", "offset", "pause_s")
    ):
        if row["topic"] == run.topic:
            incarnations = {"from_worker": row["from_uuid"], "to_worker": row["to_uuid"]}
            slots = {"slot": _slot(row["to_worker"]), "from_slot": _slot(row["from_worker"])}
            yield _checked(HandoverRow, {**row, **incarnations, **slots})


def _checked(kind: type[_Row], row: Mapping[str, object]) -> _Row:
    try:
        checked: _Row = _ROWS[kind].validate_python(row)
    except ValidationError as e:
        raise EvidenceError(f"a table holds what does not belong there: {e}") from e
    return checked


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
        raise EvidenceError(f"{run.cycles} does not say which cycles there were: {type(e).__name__} {e}") from e


def _slot(worker: object) -> int | None:
    number = str(worker).rpartition("-")[2]
    return int(number) if number.isdecimal() else None
