"""What one bucket remembers between batches, and how it is written down.

Pure: numpy and the standard library. ``rate_window.py`` advances it, ``lag.py`` reads it, ``windows.py`` keeps it in Spark.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Layout = Mapping[str, Any]  # as JSON has it

COUNTERS = [("bytes", "f8"), ("records", "f8"), ("growth", "f8"), ("grown", "f8"), ("estimated", "f8"), ("guessed", "f8")]
NAMES = [name for name, _ in COUNTERS]
# One row per partition. Counters only grow: bytes and records arrived; growth and grown: bytes and records of clean intervals;
# estimated: bytes that were records times a mean; guessed: those that were records times the configured size.
# Held: for how many intervals more has come than is plausible, from which end and size on, and what was counted for it so far.
# Ahead: bytes that the size showed of records which came after the end was read.
_ROW_3 = [
    ("key", "i8"), ("topic", "i4"), ("partition", "i4"), ("first", "f8"), ("seen", "f8"), ("ts", "f8"), ("error", "?"),
    ("leader", "i4"), ("epoch", "i4"), ("start", "i8"), ("end", "i8"), ("stable", "i8"), ("size", "i8"),
    *COUNTERS, ("mean", "f8"), ("rejected", "i4"),
    ("held", "i4"), ("held_end", "i8"), ("held_size", "i8"), ("owed", "f8"), ("ahead", "f8"),
    ("uneven_until", "f8"),
    ("since", "f8"), *[(f"since_{n}", t) for n, t in COUNTERS],
    ("bytes_per_s", "f8"), ("records_per_s", "f8"), ("span", "f8"), ("source", "i1"),
]  # fmt: skip
# New fields go here, and their first values into ``fresh``: rows that were written without them take those.
ROW = np.dtype([*_ROW_3])
SLOT = np.dtype([("key", "i8"), ("ts", "f8"), *COUNTERS])
COMMIT = np.dtype([("key", "i8"), ("ts", "f8"), ("offset", "i8")])
SLOTS = np.dtype([("ts", "f8"), ("id", "i8")])


def _layout(number: int, row: np.dtype[Any]) -> Layout:
    tables = {"row": row, "slots": SLOTS, "commit": COMMIT, "slot": SLOT}
    return {"format": number, "tables": {name: [list(f) for f in dtype.descr] for name, dtype in tables.items()}}


# What state is written as. The number rises when a field means something else or goes, or Spark is to keep other values; a new
# field of ``ROW`` leaves it.
LAYOUT = _layout(4, ROW)
_LAYOUT_3 = _layout(3, np.dtype(_ROW_3))  # of records that do not say theirs


@dataclass(frozen=True, slots=True)
class State:
    """All that one bucket remembers, except the slots of the window, which are kept apart by number."""

    topics: tuple[str, ...] = ()  # names by index (only ever appended), and their latest ids
    topic_ids: tuple[str, ...] = ()
    rows: Array = field(default_factory=lambda: np.zeros(0, ROW))  # one ``ROW`` per partition, by rising key
    commits: Mapping[str, Array] = field(default_factory=dict)  # latest commit per partition, by group
    slots: Array = field(default_factory=lambda: np.zeros(0, SLOTS))
    next_slot: int = 0
    # Times, newest first, at which ``ends`` (times x partitions, -1 unknown) holds the end offsets
    marks: Array = field(default_factory=lambda: np.zeros(0))
    ends: Array = field(default_factory=lambda: np.zeros((0, 0), np.int64))


def keys(known: Sequence[str], topics: Sequence[str], topic: Array, partition: Array) -> Array:
    """Return the keys of partitions whose ``topic`` indexes ``topics``; ``known`` are the state's own names, in its order."""
    number = {t: i for i, t in enumerate(known)}
    index = np.array([number.get(t, -1) for t in topics], np.int64)
    return (index[topic] << 32) | partition if len(index) else np.zeros(0, np.int64)


def find(rising: Array, wanted: Array) -> Array:
    """Return positions of ``wanted`` in ``rising``; -1 where absent."""
    if not len(rising):
        return np.full(len(wanted), -1)
    at = np.searchsorted(rising, wanted).clip(0, len(rising) - 1)
    return np.where(rising[at] == wanted, at, -1)


def fresh(count: int) -> Array:
    """Return rows of partitions of which nothing is known yet."""
    rows = np.zeros(count, ROW)
    rows["size"], rows["end"] = -1, -1
    for name in ("ts", "mean", "since", "bytes_per_s", "records_per_s"):
        rows[name] = np.nan
    return rows


def readable(head: Mapping[str, Any]) -> bool:
    """Say whether state can be read that was written as ``head`` says: only rows may have more fields, or fewer."""
    said = _said(head)
    ours, theirs = (dict(x["tables"]) for x in (LAYOUT, said))
    mine, row = (dict(t.pop("row")) for t in (ours, theirs))
    return said["format"] in (LAYOUT["format"], 3) and theirs == ours and all(row[f] == mine[f] for f in row.keys() & mine)


def _said(head: Mapping[str, Any]) -> Layout:
    return head if "tables" in head else {**_LAYOUT_3, "format": head["format"]}


def dump(state: State) -> bytes:
    """Return a state as bytes: a line of JSON that says what follows, then the arrays."""
    groups = list(state.commits)
    arrays = [state.rows, state.slots, state.marks, state.ends.astype(np.int64), *(state.commits[g] for g in groups)]
    head = {
        **LAYOUT, "topics": state.topics, "topic_ids": state.topic_ids, "groups": groups,
        "next_slot": state.next_slot, "lengths": [a.nbytes for a in arrays],
    }  # fmt: skip
    return json.dumps(head).encode() + b"\n" + b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)


def load(data: bytes) -> State:
    """Return the state that ``dump`` wrote, also one of a release whose rows have more fields or fewer.

    Raises:
        ValueError: It is of a format that this release cannot read, or damaged.
    """
    try:
        line, _, body = data.partition(b"\n")
        head = json.loads(line)
        if not readable(head):
            raise ValueError(f"format {head['format']}")
        return _loaded(head, body)
    except (LookupError, TypeError, AttributeError) as e:
        raise ValueError(f"{type(e).__name__}: {e}") from e


def _loaded(head: Mapping[str, Any], body: bytes) -> State:
    row = np.dtype([(name, kind) for name, kind in _said(head)["tables"]["row"]])
    types = [row, SLOTS, np.dtype("f8"), np.dtype("i8"), *(COMMIT for _ in head["groups"])]
    arrays, begin = [], 0
    for dtype, length in zip(types, head["lengths"], strict=True):
        arrays.append(np.frombuffer(body, dtype, length // dtype.itemsize, begin))
        begin += length
    rows, slots, marks, ends, *commits = arrays
    return State(
        tuple(head["topics"]), tuple(head["topic_ids"]), _with_own_fields(rows), dict(zip(head["groups"], commits, strict=True)),
        slots, head["next_slot"], marks, ends.reshape(len(marks), len(rows)),
    )  # fmt: skip


def _with_own_fields(rows: Array) -> Array:
    if rows.dtype == ROW:
        return rows
    out = fresh(len(rows))
    for name in set(ROW.names or ()) & set(rows.dtype.names or ()):
        out[name] = rows[name]
    return out
