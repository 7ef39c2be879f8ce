"""The table ``balance``: written through Spark by the job that balances brokers, read back by ``autoscaler explain --partition``.

A row that cannot be written now is written with the next ones; what acts does not wait for it. A command that ends what the job
has begun appends its rows without Spark.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from autoscaler.adapters.audit.place import TablesPlace
from autoscaler.adapters.audit.rows import day, finding_row, when
from autoscaler.adapters.audit.tables import FINDING, TIMESTAMP, Table, dated
from autoscaler.brokers.ports import Entry
from autoscaler.config.places import scheme_of
from autoscaler.errors import SettingsError, TransientError

if TYPE_CHECKING:
    from autoscaler.adapters.audit.delta_audit import SparkTables as TableWriter

BALANCE = Table(  # written by jobs/balance_brokers.py, in a place of its own: see ``of_brokers``
    name="balance",
    key=("row_id",),
    about="what the balancing of brokers has found, each action with its scores, and what became of each partition",
    schema=dated(
        row_id=pa.string(), cluster=pa.string(), at=TIMESTAMP, mode=pa.string(), kind=pa.string(), plan=pa.string(),
        topic=pa.string(), partition=pa.int32(), status=pa.string(), source=pa.int32(), target=pa.int32(),
        replicas=pa.list_(pa.int32()), detail=pa.string(), findings=pa.list_(FINDING),
    ),
)  # fmt: skip
WANTED = {BALANCE.name: BALANCE}
_BY_SPARK = frozenset({"s3a", "hdfs", "dbfs"})  # in the first one drivers take turns, to the others deltalake has no access
log = logging.getLogger(__name__)
_MOST_ROWS = 100_000  # that wait while the tables cannot be written; older ones are left out, and that is said


def of_brokers(where: str | Path) -> TablesPlace:
    """Return the place of the table ``balance``, by that of the others: another driver writes it, and has its own turn."""
    place = TablesPlace.of(where)
    return place if place.catalog else TablesPlace(f"{place.root}/brokers")


def row(entry: Entry, *, cluster: str, mode: str, detail: str) -> dict[str, Any]:
    """Return a row of ``BALANCE``; ``source`` and ``target`` are those of its action, ``detail`` its findings in words."""
    numbers = entry.findings[0].numbers if entry.kind == "action" and entry.findings else {}
    ends = {n: int(numbers[n]) if n in numbers else None for n in ("source", "target")}
    return {
        "date": day(entry.at),
        "row_id": uuid4().hex,
        "cluster": cluster,
        "at": when(entry.at),
        "mode": mode,
        "kind": entry.kind,
        "plan": entry.plan or None,
        "topic": None if entry.partition is None else entry.partition.topic,
        "partition": None if entry.partition is None else entry.partition.partition,
        "status": entry.status or None,
        **ends,
        "replicas": list(entry.replicas) or None,
        "detail": detail or None,
        "findings": [finding_row(f) for f in entry.findings],
    }


def append(where: str | Path, rows: Sequence[dict[str, Any]]) -> None:
    """Append rows without Spark, for a command that ends soon.

    Raises:
        SettingsError: There is no such table yet, or Spark alone can write there.
        TransientError: It cannot be written now.
    """
    from deltalake import DeltaTable, write_deltalake  # noqa: PLC0415  the job writes with Spark
    from deltalake.exceptions import DeltaError, TableNotFoundError  # noqa: PLC0415  as above

    place = of_brokers(where)
    path = place.at(BALANCE.name)
    if place.catalog or scheme_of(place.root) in _BY_SPARK:
        raise SettingsError((f"tables: Spark alone can write {path}",))
    try:
        write_deltalake(DeltaTable(path), pa.Table.from_pylist(list(rows), BALANCE.schema), mode="append")
    except TableNotFoundError as e:
        raise SettingsError((f"tables: there is no table {path}",)) from e
    except (DeltaError, OSError, ValueError) as e:
        raise TransientError(f"{len(rows)} rows for {path} were not written: {str(e).strip().partition(chr(10))[0]}") from e


class BalanceTable:
    """Writes rows, those of a look in one commit; used by one thread."""

    def __init__(self, tables: "TableWriter") -> None:
        """Write nothing yet; ``tables`` writes those of ``WANTED``."""
        self._tables = tables
        self._rows: list[dict[str, Any]] = []
        self._version = 0
        self._prepared = False

    def add(self, rows: Sequence[dict[str, Any]]) -> None:
        """Take rows for the next ``flush``."""
        self._rows += rows
        if (over := len(self._rows) - _MOST_ROWS) > 0:
            log.warning("%d rows of table balance are left out, because it could not be written for long", over)
            del self._rows[:over]

    def flush(self) -> None:
        """Write what was taken; what cannot be written waits."""
        if not self._rows:
            return
        try:
            if not self._prepared:
                self._tables.prepare()
                self._prepared = True
            self._tables.append(BALANCE.name, pa.Table.from_pylist(self._rows, BALANCE.schema), self._version)
        except TransientError as e:
            log.warning("%s", e)
            return
        self._version += 1
        self._rows.clear()

    def close(self) -> None:
        """Write what is left."""
        self.flush()
        self._tables.close()
