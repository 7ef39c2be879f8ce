"""Makes every recorded decision once more, from what it was made from, and compares it with what was written down.

A decision is a pure function of what ``loads`` records of it (``ports.Inputs``): equal inputs must give an equal answer. One that
differs is a defect: something that decides is not recorded, is not written without loss, or is no function of its inputs.
Pure: takes rows and gives values.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

from autoscaler.adapters.audit import rows
from autoscaler.adapters.audit.inputs import plain, unpack_inputs
from autoscaler.adapters.audit.tables import DECISIONS
from autoscaler.config.policy import Policy
from autoscaler.core.decide import History, decide
from autoscaler.model import Decision
from autoscaler.ports import Inputs

Row = Mapping[str, Any]

# Columns of ``loads`` and of ``decisions`` that a decision gives. What others say beside it, and whether it could be carried out,
# is added to its findings afterwards.
OF_A_CYCLE = ("mode", "reason", "limited_by", "epoch", "consumers_now", "total_bytes_per_s", "total_lag_records")
_NOT_DECIDED = frozenset({
    "date", "group", "cluster", "at", "acted", "recovered", "policy_fingerprint", "sample_ts", "known", "error", "members",
    "assignment_before", "loads", "detail", "findings",
})  # fmt: skip
OF_A_DECISION = tuple(name for name in DECISIONS.schema.names if name not in _NOT_DECIDED)
COLUMNS = ("decision_id", "at", "group", *OF_A_CYCLE, "consumers", "detail", "sample_ts", "known", "error", "measured", "inputs")

_STARTS = b'"start":{"follows":'


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where a decision made again is not what was recorded.

    Attributes:
        field: A column of ``decisions`` or ``loads``, or ``history.`` and a field of ``History``: what was remembered.
        recorded: Its value in the tables.
        again: Its value now.
    """

    decision_id: str
    at: str
    field: str
    recorded: object
    again: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What came out.

    Attributes:
        cycles: Recorded ones.
        same: Those whose decision came out the same, held ones left out.
        plans: Those of them whose plan was recorded too, and is the same: rows of ``decisions``.
        held: Those in whose place another decision was recorded, because carrying it out failed; they are decided again, for what
            is remembered, and not compared.
        undecided: Those in which nothing was decided, as after a failed look at the group, or by an earlier release.
        unconnected: Those before which a cycle is missing, up to the next start.
        differences: The fields that differ in the first cycle that does.
        differing: How many cycles differ.
    """

    cycles: int = 0
    same: int = 0
    plans: int = 0
    held: int = 0
    undecided: int = 0
    unconnected: int = 0
    differing: int = 0
    differences: tuple[Difference, ...] = ()

    def __add__(self, other: "Replayed") -> "Replayed":
        """Return both together; ``self`` is the earlier one."""
        counts = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self) if f.name != "differences"}
        return Replayed(**counts, differences=self.differences or other.differences)


@dataclass(slots=True)
class _Replay:
    """One walk through cycles, in the order of time."""

    decisions: Mapping[str, Row]
    history: History | None = None
    policy: Policy | None = None
    number: int = 0  # of the next call, if it follows

    def cycle(self, row: Row) -> Replayed:
        if row["inputs"] is None or row["measured"] is None:
            return Replayed(cycles=1, undecided=1)
        inputs = unpack_inputs(row["inputs"], rows.snapshot_of(row))
        found = self._remembered(row, inputs)
        if self.history is None or self.policy is None:
            return Replayed(cycles=1, unconnected=1)
        again, self.history = decide(inputs.observation, self.history, self.policy, inputs.moment)
        self.number = inputs.number + 1
        written = self.decisions.get(row["decision_id"])
        if inputs.held:
            return _counted(found, Replayed(cycles=1, held=1))
        return _counted([*found, *_differences(row, written, again)], Replayed(cycles=1, same=1, plans=int(written is not None)))

    def end(self, row: Row) -> Replayed:
        """Compare what is remembered with what the next part begins with."""
        found = self._remembered(row, unpack_inputs(row["inputs"], rows.snapshot_of(row)))
        return Replayed(differing=1, differences=tuple(found)) if found else Replayed()

    def _remembered(self, row: Row, inputs: Inputs) -> list[Difference]:
        """Go on from what is recorded as a whole; return where that is not what the decisions up to here have left."""
        mine = self.history if inputs.number == self.number else None
        if (start := inputs.start) is None:
            self.history = mine
            return []
        self.history, self.policy = start.history, start.policy
        if mine is None or not start.follows:
            return []
        names = [f.name for f in fields(History) if getattr(mine, f.name) != getattr(start.history, f.name)]
        return [_difference(row, f"history.{n}", plain(getattr(start.history, n)), plain(getattr(mine, n))) for n in names]


def redecide(cycles: Iterable[Row], decisions: Iterable[Row], until: Row | None = None) -> Replayed:
    """Return what comes out when recorded cycles of one group are decided again.

    Args:
        cycles: Rows of ``loads`` with ``COLUMNS``, in the order of time.
        decisions: Rows of ``decisions``, of the same time.
        until: The cycle after them, of which only is looked at what it begins with.

    Raises:
        ValueError: Another release packed a row, in a version that this one does not read.
    """
    replay = _Replay({d["decision_id"]: d for d in decisions})
    total = Replayed()
    for row in cycles:
        total += replay.cycle(row)
    return total if until is None else total + replay.end(until)


def segments(cycles: Iterable[Row]) -> Iterator[tuple[list[Row], Row | None]]:
    """Yield recorded cycles in parts that can be decided again apart from each other, each with the cycle that follows it."""
    part: list[Row] = []
    for row in cycles:
        if part and starts(row):
            yield part, row
            part = []
        part.append(row)
    if part:
        yield part, None


def starts(row: Row) -> bool:
    """Say whether a cycle can be decided again without those before."""
    return row["measured"] is not None and _STARTS in (row["inputs"] or b"")


def _counted(found: Sequence[Difference], fine: Replayed) -> Replayed:
    if found:
        return Replayed(cycles=1, differing=1, differences=tuple(found))
    return fine


def _differences(row: Row, written: Row | None, again: Decision) -> Iterator[Difference]:
    told = {name: getattr(again, name) for name in OF_A_CYCLE} | {"consumers": again.consumers or None}
    yield from (_difference(row, n, row[n], v) for n, v in told.items() if row[n] != v)
    if not (row["detail"] or "").startswith(again.detail):
        yield _difference(row, "detail", row["detail"], again.detail)
    if written is None:
        return
    cycle = rows.Cycle(decision=again, snapshot=None, outcomes=(), handovers=(), owner={})
    (made,) = rows.decisions([cycle]).to_pylist()
    for name in (n for n in OF_A_DECISION if n not in told and n in written and made[n] != written[n]):
        yield _difference(row, name, *_apart(written[name], made[name]))
    said = made["findings"]
    if (written.get("findings") or [])[: len(said)] != said:
        yield _difference(row, "findings", *_apart(written.get("findings"), said))


def _apart(recorded: object, again: object) -> tuple[object, object]:
    """Return of two lists the first elements that differ, of anything else both."""
    if not isinstance(recorded, list) or not isinstance(again, list):
        return recorded, again
    both = zip(chain(recorded, [None] * len(again)), chain(again, [None] * len(recorded)), strict=False)
    return next((pair for pair in both if pair[0] != pair[1]), (recorded, again))


def _difference(row: Row, name: str, recorded: object, again: object) -> Difference:
    return Difference(decision_id=row["decision_id"], at=str(row["at"]), field=name, recorded=recorded, again=again)
