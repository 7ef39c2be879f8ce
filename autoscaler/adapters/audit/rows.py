"""Turns cycles into rows of the tables, and a row of ``loads`` back into what was measured.

Stands between the buffer, which holds values, and whatever writes Arrow tables. Pure: no clock, no I/O. Columns are built one
by one, because a cycle may hold ten thousand partitions and another thread is deciding meanwhile.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from operator import attrgetter
from typing import Any

import pyarrow as pa

from autoscaler.adapters.audit import encoding
from autoscaler.adapters.audit.cycle_log import steps
from autoscaler.adapters.audit.inputs import pack_inputs
from autoscaler.adapters.audit.tables import ACTIONS, DECISIONS, HANDOVERS, LOAD, LOADS, MEASURED
from autoscaler.model import Decision, Finding, HandoverDone, LoadSnapshot, PartitionLoad, TopicPartition, few
from autoscaler.ports import ActionOutcome, Inputs

Owners = Mapping[TopicPartition, int | str]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """What one cycle gives the audit."""

    decision: Decision
    snapshot: LoadSnapshot | None  # ``None`` where only the plan's summary survived a crash
    outcomes: tuple[ActionOutcome, ...]
    handovers: tuple[HandoverDone, ...]
    owner: Owners
    recovered: bool = False  # the cycle's own life ended before its rows were written
    cluster: str | None = None  # name of the group's cluster
    inputs: Inputs | None = None  # what was decided from; ``None`` where nothing was decided

    @property
    def acted(self) -> bool:
        """Return whether anything outside was, or was tried to be, changed."""
        return bool(self.outcomes)


def decisions(cycles: Sequence[Cycle]) -> pa.Table:
    """Return one row of ``decisions`` per cycle."""
    rows = [_decision(c) for c in cycles]
    loads = _nested([c.snapshot.loads if c.snapshot else None for c in cycles], LOAD)
    return _table(rows, DECISIONS.schema, {"loads": loads})


def loads(cycles: Sequence[Cycle], dropped: Sequence[int]) -> pa.Table:
    """Return one row of ``loads`` per cycle; ``dropped`` says how many cycles of its group are missing before each."""
    rows = [_common(c) | _measured(c) | {"dropped_before": n} for c, n in zip(cycles, dropped, strict=True)]
    return _table(rows, LOADS.schema, {})


def actions(cycles: Iterable[Cycle]) -> pa.Table:
    """Return the intents and outcomes of the cycles, one row for each phase of a decision."""
    rows = [
        _fields(o)
        | {
            "date": day(o.at),
            "cluster": c.cluster,
            "at": when(o.at),
            "steps": steps(c.decision.actions),
            "recovered": c.recovered,
        }
        for c in cycles
        for o in c.outcomes
    ]
    return _table(rows, ACTIONS.schema, {})


def handovers(done: Iterable[tuple[Cycle, HandoverDone]]) -> pa.Table:
    """Return one row per handover, with the cycle that reported it."""
    rows = [
        _fields(h)
        | {"date": day(h.at), "group": c.decision.group, "cluster": c.cluster, "at": when(h.at)}
        | {"topic": h.partition.topic, "partition": h.partition.partition}
        for c, h in done
    ]
    return _table(rows, HANDOVERS.schema, {})


def handover_key(cycle: Cycle, done: HandoverDone) -> tuple[object, ...]:
    """Return what makes a handover the same one when it is reported again, in the order of the table's key."""
    return (cycle.decision.group, done.topic_id, done.partition.partition, done.epoch, done.to_uuid)


def snapshot_of(row: Mapping[str, Any]) -> LoadSnapshot:
    """Return exactly what was measured from a row of ``loads`` (a dict, as every reader of the table gives), to decide it again.

    Raises:
        ValueError: Another release packed it, in a version that this one does not read.
    """
    measured, _ = encoding.unpack(row["measured"])
    return LoadSnapshot(group=row["group"], sample_ts=row["sample_ts"], known=row["known"], error=row["error"], loads=measured)


def owners_of(row: Mapping[str, Any]) -> dict[TopicPartition, str]:
    """Return each partition's owner, from a row of ``loads``: slot or member id as text; those without one are left out."""
    measured, owners = encoding.unpack(row["measured"])
    return {x.partition: o for x, o in zip(measured, owners, strict=True) if o is not None}


def when(seconds: float) -> datetime:
    """Return seconds since the Unix epoch as a UTC timestamp."""
    return datetime.fromtimestamp(seconds, tz=UTC)


def day(seconds: float) -> date:
    """Return the UTC date, the partition that a row belongs to."""
    return when(seconds).date()


def _fields(value: Decision | ActionOutcome | HandoverDone | Finding) -> Row:
    """Return a value's fields by name; those without a column are left out, and those that are written otherwise replaced."""
    return {f.name: getattr(value, f.name) for f in fields(value)}


def _of(cycle: Cycle) -> tuple[PartitionLoad, ...]:
    return cycle.snapshot.loads if cycle.snapshot else ()


def _common(cycle: Cycle) -> Row:
    d, s = cycle.decision, cycle.snapshot
    return _fields(d) | {
        "date": day(d.at),
        "cluster": cycle.cluster,
        "at": when(d.at),
        "acted": cycle.acted,
        "consumers": d.consumers or None,
        "sample_ts": s.sample_ts if s else None,
        "known": s.known if s else None,
        "error": s.error if s else None,
    }


def measured_of(blob: bytes) -> list[Row]:
    """Return the column ``measured`` of ``loads`` as one struct per partition, of the type ``tables.MEASURED``.

    Raises:
        ValueError: Another release packed it, in a version that this one does not read.
    """
    measured, owners = encoding.unpack(blob)
    read = {name: _reader(name) for name in (f.name for f in MEASURED) if name != "owner"}
    return [{n: r(x) for n, r in read.items()} | {"owner": o} for x, o in zip(measured, owners, strict=True)]


def _measured(cycle: Cycle) -> Row:
    unknown = [x for x in _of(cycle) if not x.known]
    return {
        "partitions": len(_of(cycle)),
        "unknown_partitions": len(unknown),
        "first_unknown": [f"{x.partition}: {x.error}" if x.error else str(x.partition) for x in few(unknown)],
        "oldest_s": max((x.age_s for x in _of(cycle)), default=None),
        "measured": encoding.pack(_of(cycle), cycle.owner),
        "inputs": None if cycle.inputs is None else pack_inputs(cycle.inputs),
    }


def _decision(cycle: Cycle) -> Row:
    d = cycle.decision
    return _common(cycle) | {
        "recovered": cycle.recovered,
        "hot": [str(p) for p in d.hot],
        "oversized": [str(p) for p in d.oversized],
        "requested": sorted(d.requested),
        "steps": steps(d.actions),
        "members": _members(cycle),
        "assignment_before": _places(cycle.owner),
        "assignment_after": _places(d.target),
        "findings": [finding_row(f) for f in d.findings],
    }


def finding_row(finding: Finding) -> Row:
    """Return a finding as the tables hold it."""
    return _fields(finding) | {
        "partitions": [str(p) for p in finding.partitions],
        "numbers": list(finding.numbers.items()),
        "texts": list(finding.texts.items()),
    }


def _members(cycle: Cycle) -> list[Row]:
    rates = {x.partition: x.bytes_per_s for x in _of(cycle)}
    own = {str(slot): rate for slot, rate in cycle.decision.own_bytes_per_s.items()}
    held: dict[str, list[TopicPartition]] = {}
    for partition, owner in sorted(cycle.owner.items()):
        held.setdefault(str(owner), []).append(partition)
    return [
        {
            "member": member,
            "partitions": [str(p) for p in partitions],
            "bytes_per_s": sum(known) if (known := [r for p in partitions if (r := rates.get(p)) is not None]) else None,
            "capacity_bytes_per_s": own.get(member, cycle.decision.capacity_bytes_per_s),
        }
        for member, partitions in sorted(held.items(), key=lambda kv: (len(kv[0]), kv[0]))
    ]


def _places(owner: Owners) -> list[Row]:
    return [{"topic": p.topic, "partition": p.partition, "owner": str(o)} for p, o in sorted(owner.items())]


_READ: Mapping[str, Callable[[PartitionLoad], object]] = {
    "topic": lambda x: x.partition.topic,
    "partition": lambda x: x.partition.partition,
    "rate_source": lambda x: x.rate_source.value,
}


def _reader(field: str) -> Callable[[PartitionLoad], object]:
    return _READ.get(field, attrgetter(field))


def _nested(groups: Sequence[Sequence[PartitionLoad] | None], kind: pa.DataType) -> pa.Array:
    """Return a list column: one list of load structs per group, null for ``None``."""
    flat = [x for g in groups for x in g or ()]
    columns = []
    for field in kind:
        read = _reader(field.name)
        values = [read(x) for x in flat]
        columns.append(pa.array(values, field.type))
    offsets = [0]
    for g in groups:
        offsets.append(offsets[-1] + len(g or ()))
    structs = pa.StructArray.from_arrays(columns, fields=list(kind))
    mask = pa.array([g is None for g in groups], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs, type=pa.list_(kind), mask=mask)


def _table(rows: Sequence[Row], schema: pa.Schema, given: Mapping[str, pa.Array]) -> pa.Table:
    columns = [given[f.name] if f.name in given else pa.array([r.get(f.name) for r in rows], f.type) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)
