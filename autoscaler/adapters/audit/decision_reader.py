"""Reads decisions back from the tables without Spark: an operator who asks waits a moment, not half a minute.

Beside the path: reads only, may run beside the job and its upkeep. DataFusion, which deltalake brings, answers: it opens the
files whose statistics say that they may hold what is asked for, and of these the columns asked for. ``views.py`` tells the same
in SQL for a Spark session; a test compares both. Columns that the tables of an earlier release lack are null.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError

from autoscaler.adapters.audit.balance_table import BALANCE, of_brokers
from autoscaler.adapters.audit.place import TablesPlace
from autoscaler.adapters.audit.tables import ACTIONS, DECISIONS, HANDOVERS, LOADS, TIMESTAMP, Table, differences
from autoscaler.config import places
from autoscaler.errors import SettingsError, TransientError

Row = Mapping[str, Any]

_SPELL = (
    "group", "cluster", "at", "decision_id", "mode", "reason", "limited_by", "detail", "acted", "recovered", "consumers_now",
    "consumers", "recommended", "recommended_age_s", "total_bytes_per_s", "total_lag_records", "r_score", "steps",
)  # fmt: skip
_OF_THE_LAST = ("group", "cluster", "mode", "reason", "limited_by", "detail", "recommended_age_s", "r_score")
_BRIEF = (
    "group", "at", "decision_id", "mode", "reason", "limited_by", "detail", "consumers_now", "consumers", "recommended",
    "total_bytes_per_s", "total_lag_records", "capacity_bytes_per_s", "steps",
)  # fmt: skip
_HANDED_OVER = ("topic", "partition", "epoch", "pause_s")
_MEASURED = ("decision_id", "at", "group", "sample_ts", "known", "error", "measured", "inputs")
_OUTCOME = ("decision_id", "at", "phase", "status", "epoch", "error")
_LOOK_BACK = (timedelta(minutes=2), timedelta(hours=1), timedelta(days=1), timedelta(days=31))  # most answers lie in the first
_SPARK_ONLY = frozenset({"hdfs", "dbfs"})  # deltalake has no access to these
_LOOKS = 100  # at brokers: the newest
_MONTH = timedelta(days=31)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
_STATISTICS = timedelta(milliseconds=1)  # that a file's greatest time may be rounded down by
_SESSION = {"datafusion.execution.parquet.pushdown_filters": "true"}  # what is filtered out is not decoded


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """An action, or a time of doing nothing for the same reason; the fields are the columns of the view ``history``."""

    group: str
    cluster: str | None
    at: datetime
    until: datetime
    mode: str
    acted: bool
    observed_consumers: int | None
    requested_consumers: int | None
    advised_consumers: int | None
    recommended: int | None
    recommended_age_s: float | None
    reason: str
    limited_by: str | None
    added: int
    moved: int
    removed: int
    bytes_per_s: float | None
    lag_records: int | None
    r_score: float | None
    detail: str
    recovered: bool

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Spell":
        """Return what rows of ``decisions`` with the same answer say together; they are in the order of time."""
        last, steps = rows[-1], [s["kind"] for s in rows[-1]["steps"] or ()]
        advised = last["mode"] == "advise"
        return cls(
            **{n: last[n] for n in _OF_THE_LAST},
            at=rows[0]["at"],
            until=last["at"],
            acted=any(r["acted"] for r in rows),
            observed_consumers=rows[0]["consumers_now"],
            requested_consumers=None if advised else last["consumers"] or None,
            advised_consumers=(last["consumers"] or None) if advised else None,
            recommended=last["recommended"] or None,
            added=steps.count("add"),
            moved=steps.count("move"),
            removed=steps.count("remove"),
            bytes_per_s=_most(r["total_bytes_per_s"] for r in rows),
            lag_records=_most(r["total_lag_records"] for r in rows),
            recovered=any(r["recovered"] for r in rows),
        )


class DecisionTables:
    """The tables of one job, opened when they are asked.

    At an address they are read with deltalake's own access, which takes keys, regions and endpoints from the environment
    (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``, ``AZURE_STORAGE_ACCOUNT_KEY``, ``GOOGLE_APPLICATION_CREDENTIALS``).
    """

    def __init__(self, where: str | Path) -> None:
        """Keep where they are.

        Raises:
            SettingsError: Nothing but Spark can read there.
        """
        self._place = TablesPlace.of(where)
        if self._place.catalog or places.scheme_of(self._place.root) in _SPARK_ONLY:
            raise SettingsError((f"tables: {where} can be read by Spark only: ask with ./spark-submit.sh --job jobs/history.py",))
        self._opened: dict[str, DeltaTable] = {}  # as they were when they were asked first

    def spells(self, group: str, since: datetime, until: datetime) -> tuple[Spell, ...]:
        """Return what was done, and why nothing was, oldest first; what began before ``since`` is told from there on.

        Raises:
            SettingsError: There are no tables, they are none of ours, or they cannot be read.
            TransientError: They were rewritten meanwhile: the same again gives an answer.
        """
        rows = self._rows(DECISIONS, _SPELL, group, since, until)
        return tuple(map(Spell.of, _spells(rows)))

    def decision(self, group: str, at: datetime) -> Row | None:
        """Return the latest decision at or before ``at`` with all columns, ``None``: there is none.

        Raises:
            SettingsError: As ``spells``.
            TransientError: As ``spells``.
        """
        for since in (*(at - x for x in _LOOK_BACK), _BEGINNING):
            found = self._rows(DECISIONS, ("group", "at", "decision_id"), group, since, at)
            if found:
                latest = found[-1]["at"]
                rows = self._rows(DECISIONS, DECISIONS.schema.names, group, latest, latest)
                return next(r for r in reversed(rows) if r["decision_id"] == found[-1]["decision_id"])
        return None

    def cycles(self, group: str, since: datetime, until: datetime, columns: Sequence[str]) -> tuple[list[Row], list[Row]]:
        """Return what every cycle was decided from, with these columns of ``loads``, and all of ``decisions``, oldest first.

        Raises:
            SettingsError: As ``spells``.
            TransientError: As ``spells``.
        """
        decided = self._rows(DECISIONS, DECISIONS.schema.names, group, since, until)
        return self._rows(LOADS, columns, group, since, until), decided

    def measured(self, decision: Row) -> Row | None:
        """Return what a decision was made from, as a row of ``loads``; ``None`` where that was not written, or not kept.

        Raises:
            SettingsError: As ``spells``.
            TransientError: As ``spells``.
        """
        if not self._is_there(LOADS):
            return None
        at, ids = decision["at"], (decision["decision_id"],)
        return next(iter(self._rows(LOADS, _MEASURED, decision["group"], at, at, ids=ids)), None)

    def times(self, group: str, since: datetime, until: datetime) -> list[datetime]:
        """Return when each cycle was, from one time to another.

        Raises:
            SettingsError: As ``spells``.
            TransientError: As ``spells``.
        """
        return [r["at"] for r in self._rows(LOADS, ("at",), group, since, until)]

    def outcomes(self, decision: Row) -> tuple[Row, ...]:
        """Return what a decision set out to do and what became of it, as rows of ``actions``; none where it did nothing.

        Raises:
            SettingsError: As ``spells``.
            TransientError: As ``spells``.
        """
        if not decision["acted"] or not self._is_there(ACTIONS):
            return ()
        at = decision["at"]
        rows = self._rows(ACTIONS, _OUTCOME, decision["group"], at - timedelta(minutes=1), at + timedelta(days=1))
        return tuple(r for r in rows if r["decision_id"] == decision["decision_id"])

    def brief(self, group: str, since: datetime, until: datetime) -> list[Row]:
        """Return decisions with what is listed of each, oldest first, without loads and places.

        Raises:
            SettingsError: As ``spells``.
            TransientError: As ``spells``.
        """
        return self._rows(DECISIONS, _BRIEF, group, since, until)

    def whole(self, decisions: Sequence[Row]) -> list[Row]:
        """Return these decisions of one group with all columns, oldest first.

        Raises:
            SettingsError: As ``spells``.
            TransientError: As ``spells``.
        """
        if not decisions:
            return []
        first, last = decisions[0], decisions[-1]
        ids = frozenset(d["decision_id"] for d in decisions)
        return self._rows(DECISIONS, DECISIONS.schema.names, first["group"], first["at"], last["at"], ids=ids)

    def outcomes_in(self, group: str, since: datetime, until: datetime) -> list[Row]:
        """Return what decisions set out to do and what became of it, as rows of ``actions``.

        Raises:
            SettingsError: As ``spells``.
            TransientError: As ``spells``.
        """
        return self._rows(ACTIONS, _OUTCOME, group, since, until) if self._is_there(ACTIONS) else []

    def handovers(self, group: str, since: datetime, until: datetime) -> list[Row]:
        """Return which partitions have changed hands, by which plan, and how long each stood still.

        Raises:
            SettingsError: As ``spells``.
            TransientError: As ``spells``.
        """
        return self._rows(HANDOVERS, ("at", *_HANDED_OVER), group, since, until) if self._is_there(HANDOVERS) else []

    def balancing(self, topic: str, partition: int, until: datetime) -> list[Row]:
        """Return what was planned for a partition's brokers and became of it, as rows of ``balance``: by cluster, oldest first.

        Raises:
            SettingsError: As ``spells``.
            TransientError: As ``spells``.
        """
        sql = (
            f"SELECT * FROM {BALANCE.name} WHERE topic = {_text(topic)} AND partition = {int(partition)} "  # noqa: S608  as above
            f"AND at <= {_text(_utc(until).isoformat())} ORDER BY cluster, at, kind"
        )
        return self._balancing(sql)

    def looks(self, until: datetime) -> dict[str, Row]:
        """Return the latest ``look`` of the table ``balance`` by cluster.

        Raises:
            SettingsError: As ``spells``.
            TransientError: As ``spells``.
        """
        sql = (
            f"SELECT * FROM {BALANCE.name} WHERE kind = 'look' AND at <= {_text(_utc(until).isoformat())} "  # noqa: S608  as above
            f"ORDER BY at DESC LIMIT {_LOOKS}"
        )
        return {r["cluster"]: r for r in reversed(self._balancing(sql))}

    def plans(self, until: datetime) -> list[Row]:
        """Return the latest looks at the brokers of each cluster, and all rows of its latest plan, of a month, oldest first.

        A job that runs says every day what it finds. Files of days before are not opened.

        Raises:
            SettingsError: As ``spells``.
            TransientError: As ``spells``.
        """
        beside = DecisionTables(of_brokers(self._place.root).root)
        if not beside._is_there(BALANCE):
            return []
        there, days = beside._open(BALANCE), f"date >= {_text(str(_utc(until - _MONTH).date()))}"
        sql = (
            "SELECT cluster, max(at) FILTER (WHERE kind = 'look') AS looked, "  # noqa: S608  as above
            "max(at) FILTER (WHERE kind = 'action') AS planned, "
            "last_value(plan ORDER BY at) FILTER (WHERE kind = 'action') AS plan "
            f"FROM {BALANCE.name} WHERE {days} GROUP BY cluster ORDER BY cluster"
        )
        found = [r for latest in beside._asked(BALANCE, there, sql) for r in beside._latest_of(there, latest)]
        return sorted(found, key=lambda r: (r["at"], r["partition"] or 0))

    def _latest_of(self, there: DeltaTable, latest: Row) -> list[dict[str, Any]]:
        """Return the latest looks at a cluster's brokers, of its last day with any, and the rows of its latest plan."""
        found, cluster = list[dict[str, Any]](), _text(latest["cluster"])
        if (looked := latest["looked"]) is not None:
            where = f"date = {_text(str(_utc(looked).date()))} AND cluster = {cluster} AND kind = 'look'"
            sql = f"SELECT * FROM {BALANCE.name} WHERE {where} ORDER BY at DESC LIMIT {_LOOKS}"  # noqa: S608  as above
            found += self._asked(BALANCE, there, sql)
        if (planned := latest["planned"]) is not None:
            where = f"date >= {_text(str(_utc(planned).date()))} AND cluster = {cluster} AND plan = {_text(latest['plan'])}"
            found += self._asked(BALANCE, there, f"SELECT * FROM {BALANCE.name} WHERE {where}")  # noqa: S608  as above
        return found

    def _balancing(self, sql: str) -> list[Row]:
        beside = DecisionTables(of_brokers(self._place.root).root)
        return list(beside._asked(BALANCE, beside._open(BALANCE), sql))

    def groups(self) -> dict[str, datetime]:
        """Return every group that there is a decision of, with the time of its latest one, the latest first.

        Raises:
            SettingsError: As ``spells``.
            TransientError: As ``spells``.
        """
        sql = 'SELECT "group", max(at) AS last_at FROM decisions GROUP BY "group" ORDER BY last_at DESC, "group"'
        return {r["group"]: r["last_at"] for r in self._asked(DECISIONS, self._open(DECISIONS), sql)}

    def _rows(
        self, table: Table, columns: Iterable[str], group: str, since: datetime, until: datetime, *, ids: Iterable[str] = ()
    ) -> list[Row]:
        """Return the rows of a group between two times, both included, in the order of time; with ``ids`` of these decisions."""
        there = self._open(table)
        names = {f.name for f in there.schema().fields}
        chosen = [c for c in columns if c in names]
        first = since - _STATISTICS
        these = f"AND decision_id IN ({', '.join(map(_text, sorted(ids)))}) " if ids else ""
        sql = (
            f"SELECT {', '.join(map(_quoted, chosen))} FROM {table.name} "  # noqa: S608  names of ours, values in quotes
            f"WHERE date BETWEEN {_text(str(_utc(first).date()))} AND {_text(str(_utc(until).date()))} "
            f'AND "group" = {_text(group)} AND at >= {_text(_utc(first).isoformat())} AND at <= {_text(_utc(until).isoformat())} '
            f"{these}ORDER BY {', '.join(c for c in ('at', 'decision_id') if c in names)}"
        )
        absent = dict.fromkeys(c for c in columns if c not in names)
        return [absent | r for r in self._asked(table, there, sql) if r["at"] >= since]

    def _asked(self, table: Table, there: DeltaTable, sql: str) -> list[dict[str, Any]]:
        try:
            reader = QueryBuilder(_SESSION).register(table.name, there).execute(sql)
            found = pa.RecordBatchReader.from_stream(reader).read_all()
        except Exception as e:  # as which DataFusion reports a file that is gone or damaged
            if (damage := self._damaged(table)) is not None:
                raise SettingsError((f"tables: table {self._place.at(table.name)} cannot be read: {damage}",)) from e
            raise TransientError(
                f"table {self._place.at(table.name)} was rewritten meanwhile: try again ({_first_line(e)})"
            ) from e
        columns = [_values(column) for column in found.columns]
        return [dict(zip(found.column_names, values, strict=True)) for values in zip(*columns, strict=True)]

    def _open(self, table: Table) -> DeltaTable:
        if (known := self._opened.get(table.name)) is not None:
            return known
        path = self._place.at(table.name)
        try:
            there = DeltaTable(path)
            found = list(differences(table.schema, pa.schema(there.schema().to_arrow())))
        except TableNotFoundError as e:
            raise SettingsError((f"tables: no tables in {self._place}; the job makes them with its first decision",)) from e
        except (DeltaError, OSError, ValueError) as e:
            raise SettingsError((f"tables: table {path} cannot be read: {_first_line(e)}",)) from e
        wrong = [x.path.replace("`", "") for x in found if x.found is not None]
        lost = {x.path.replace("`", "") for x in found if x.found is None} & {"date", "group", "at", *table.key}
        if wrong or lost:
            said = ", ".join([*(f"another type of {x}" for x in wrong), *(f"no {x}" for x in sorted(lost))])
            raise SettingsError((f"tables: table {path} is none that this release can read: it has {said}",))
        self._opened[table.name] = there
        return there

    def _damaged(self, table: Table) -> str | None:
        """Return what is wrong with the files of the table as it is now, as far as that can be looked at; ``None``: nothing."""
        try:
            files = sizes_of(DeltaTable(self._place.at(table.name)))
        except (DeltaError, OSError, ValueError) as e:
            return _first_line(e)
        if self._place.local is None:
            return None
        root = self._place.local / table.name
        lost = [name for name, size in files if _size(root / name) != size]
        return f"{root / lost[0]} is missing or damaged: put it back from a copy, or move the tables away" if lost else None

    def _is_there(self, table: Table) -> bool:
        try:
            return DeltaTable.is_deltatable(self._place.at(table.name))
        except (DeltaError, OSError, ValueError):
            return True  # who opens it says what is wrong


def _size(file: Path) -> int | None:
    return file.stat().st_size if file.is_file() else None


def sizes_of(there: DeltaTable) -> list[tuple[str, int]]:
    """Return the files of a table as its log names them, each with its size in bytes."""
    files = there.get_add_actions(flatten=True)
    return list(zip(*(map(unquote, files.column("path").to_pylist()), files.column("size_bytes").to_pylist()), strict=True))


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values; times without pandas, which Arrow loads to make them: it takes longer than the answer."""
    if not pa.types.is_timestamp(column.type):
        values: list[Any] = column.to_pylist()
        return values
    micros = column.cast(TIMESTAMP).cast(pa.int64()).to_pylist()
    return [None if v is None else _EPOCH + timedelta(microseconds=v) for v in micros]


def _spells(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield runs of rows with the same answer; one that acted is a run of its own."""
    run: list[Row] = []
    for row in rows:
        if run and (row["acted"] or run[-1]["acted"] or _said(row) != _said(run[-1])):
            yield run
            run = []
        run.append(row)
    if run:
        yield run


def _said(row: Row) -> tuple[object, ...]:
    advised = row["mode"] == "advise"
    return (row["mode"], row["reason"], row["limited_by"], row["consumers"], row["consumers_now"] if advised else None)


def _most(values: Iterable[Any]) -> Any:
    return max((v for v in values if v is not None), default=None)


def _utc(at: datetime) -> datetime:
    return at.astimezone(UTC)


def _quoted(name: str) -> str:
    return f'"{name}"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:300]
