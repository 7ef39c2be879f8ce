"""Histories as the audit writes them: every value goes through the rows of its tables."""

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

import pyarrow as pa

from autoscaler.adapters.audit import rows
from autoscaler.adapters.audit.buffer import Buffer
from autoscaler.ports import Inputs
from tests.fakes import AuditEntry

Rows = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def written(entries: Iterable[AuditEntry]) -> Rows:
    """Return the rows of ``loads`` and ``decisions`` that the audit writes of these cycles."""
    cycles, decided = tables(entries)
    return cycles.to_pylist(), decided.to_pylist()


def tables(entries: Iterable[AuditEntry]) -> tuple[pa.Table, pa.Table]:
    """Return the same as the audit appends it to the tables."""
    buffer = Buffer()
    for e in entries:
        told = {f.name: getattr(e, f.name) for f in fields(e)}
        buffer.add(rows.Cycle(**told))
    batch = buffer.take()
    assert batch is not None
    cycles = [e.cycle for e in batch.entries]
    decided = rows.decisions([e.cycle for e in batch.entries if e.due])
    return rows.loads(cycles, batch.dropped), decided


def remade(entries: Sequence[AuditEntry], **changes: object) -> list[AuditEntry]:
    """Return the same cycles, recorded as decided by a policy with these changes."""
    return [replace(e, inputs=e.inputs and _by(e.inputs, changes)) for e in entries]


def _by(inputs: Inputs, changes: dict[str, object]) -> Inputs:
    if inputs.start is None:
        return inputs
    return replace(inputs, start=replace(inputs.start, policy=inputs.start.policy.model_copy(update=changes)))
