"""One broker's share of a read: offsets and sizes back to back on the leader's connection, and its groups' commits.

Runs in the executors. Offsets and sizes of a partition that are read apart give wrong bytes per record when much arrives in
between; so both are asked for on one connection, directly after each other. What cannot be read is a row with an error.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from autoscaler.clients.kafka_python import named
from autoscaler.errors import TransientError
from autoscaler.streaming import schema, wire_codec
from autoscaler.streaming.broker_clients import Client

Array = npt.NDArray[Any]

_NO_ANSWER = -99  # not among Kafka's error codes
_ENDS, _SIZES = 1, 2  # places among the requests for the partitions that a broker leads


@dataclass(frozen=True, slots=True)
class Part:
    """Partitions of one topic."""

    topic_id: str
    partitions: Array


@dataclass(frozen=True, slots=True)
class Share:
    """What one broker is asked for."""

    node: int  # the broker's id
    address: str  # its ``host:port``
    leads: Mapping[str, Part]  # partitions that it leads, by topic
    groups: Mapping[str, Mapping[str, Array]]  # partitions whose commits it is asked for as coordinator, by group and topic
    stable: bool  # read the last stable offset too (some group reads committed records only)


def read(client: Client, share: Share, deadline: float, clock: Callable[[], float]) -> tuple[pa.Table, pa.Table]:
    """Read a share and return its ``FACTS`` and ``COMMITS``, stamped by ``clock`` (seconds since the Unix epoch).

    Raises:
        TransientError: Nothing was answered.
    """
    wanted = {t: p.partitions for t, p in share.leads.items()}
    asked: list[tuple[wire_codec.Request, int]] = []
    if wanted:
        asked += [
            (wire_codec.list_offsets(wanted, wire_codec.EARLIEST), share.node),
            (wire_codec.list_offsets(wanted, wire_codec.LATEST), share.node),
            (wire_codec.log_dirs(wanted), share.node),
        ]
        if share.stable:
            asked.append((wire_codec.list_offsets(wanted, wire_codec.LATEST, wire_codec.READ_COMMITTED), share.node))
    if share.groups:
        asked.append((wire_codec.committed(share.groups), share.node))
    before, took_s = clock(), list[float]()
    if client.fast:
        answers = client.ask(asked, deadline)
        took_s = client.took_s
    else:
        plain = client.plainly(share.node, wanted, share.groups)
        answers = plain.answers(leads=bool(wanted), stable=share.stable, coordinates=bool(share.groups))
    if answers and all(isinstance(a, BaseException) for a in answers):
        raise TransientError(named(answers[0])) from answers[0]
    sample_ts = _sampled_at(before, clock(), took_s if wanted else ())
    facts = _facts(share, answers, sample_ts) if wanted else schema.FACTS.empty_table()
    commits = _commits(share.groups, answers[-1], sample_ts) if share.groups else schema.COMMITS.empty_table()
    return facts, commits


def _sampled_at(before: float, after: float, took_s: Sequence[float]) -> float:
    """Return when ends and sizes were looked up: between the two answers, because a broker works off a connection in order."""
    if len(took_s) <= _SIZES:
        return (before + after) / 2
    return before + (took_s[_ENDS] + took_s[_SIZES]) / 2


def unread(share: Share, error: str, now: float) -> tuple[pa.Table, pa.Table]:
    """Return a share's rows when its broker could not be asked: as many as if it had answered, each with the error."""
    return failed_facts(share.leads, share.node, error, now), failed_commits(share.groups, error, now)


def failed_facts(parts: Mapping[str, Part], leader: int, error: str, now: float) -> pa.Table:
    """Return an error row per partition."""
    rows = Rows.of({t: p.partitions for t, p in parts.items()})
    unknown = np.full(rows.count, -1, np.int64)
    nothing, why = _same(None, rows.count), _same(error, rows.count)
    values = _Values(
        leader=leader, epoch=unknown, start=unknown, end=unknown, stable=unknown, size=unknown, size_error=nothing, error=why
    )
    return _facts_table(rows, parts, now, values)


def failed_commits(groups: Mapping[str, Mapping[str, Array]], error: str, now: float) -> pa.Table:
    """Return an error row per group and partition."""
    tables = []
    for group, wanted in groups.items():
        rows = Rows.of(wanted)
        tables.append(_commits_table(group, rows, now, np.full(rows.count, -2, np.int64), _same(error, rows.count)))
    return pa.concat_tables([schema.COMMITS.empty_table(), *tables])


def topic_errors(missing: Mapping[str, str], now: float) -> pa.Table:
    """Return one row, of partition -1, per topic of which nothing can be read."""
    parts = {t: Part("", np.array([-1], np.int32)) for t in missing}
    return pa.concat_tables(
        [schema.FACTS.empty_table(), *(failed_facts({t: parts[t]}, -1, error, now) for t, error in missing.items())]
    )


@dataclass(frozen=True, slots=True)
class Rows:
    """Partitions of several topics as one run of rows, and where each topic's part of it begins and ends."""

    topics: tuple[str, ...]
    span: Mapping[str, tuple[int, int]]
    topic: Array
    partition: Array

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return len(self.partition)

    @staticmethod
    def of(wanted: Mapping[str, Array]) -> "Rows":
        """Lay the partitions out topic by topic; each topic's are in rising order."""
        counts = [len(p) for p in wanted.values()]
        bounds = [0, *np.cumsum(counts).tolist()]
        return Rows(
            tuple(wanted),
            dict(zip(wanted, itertools.pairwise(bounds), strict=True)),
            np.repeat(np.arange(len(counts), dtype=np.int32), counts),
            np.concatenate([np.zeros(0, np.int32), *wanted.values()]).astype(np.int32),
        )

    def put(self, target: Array, topic: str, partitions: Array, values: Array) -> None:
        """Write one topic's values into a column, wherever the answer has them."""
        begin, end = self.span[topic]
        mine = self.partition[begin:end]
        if len(mine) == len(partitions) and (mine == partitions).all():
            target[begin:end] = values
            return
        at = np.searchsorted(mine, partitions).clip(0, max(len(mine) - 1, 0))
        hit = mine[at] == partitions
        target[begin + at[hit]] = values[hit]


def _facts(share: Share, answers: Sequence[Any], sample_ts: float) -> pa.Table:
    rows = Rows.of({t: p.partitions for t, p in share.leads.items()})
    errors = np.zeros(rows.count, np.int16)
    whole: str | None = None
    columns: list[Array] = []
    epoch = np.full(rows.count, -1, np.int32)
    offsets = [answers[0], answers[1], *(answers[3:4] if share.stable else ())]
    for answer in offsets:
        column = np.full(rows.count, -1, np.int64)
        code = np.full(rows.count, _NO_ANSWER, np.int16)
        if isinstance(answer, BaseException):
            whole = whole or named(answer)
        else:
            for topic, got in answer.items():
                rows.put(column, topic, got["partition"], got["offset"])
                rows.put(code, topic, got["partition"], got["error"])
                if answer is answers[1]:
                    rows.put(epoch, topic, got["partition"], got["epoch"])
        errors = np.where(errors == 0, code, errors)
        columns.append(column)
    start, end = columns[0], columns[1]
    stable = columns[2] if share.stable else end
    size, size_error = _sizes(rows, answers[2])
    error = _same(whole, rows.count) if whole is not None else _coded(errors)
    bad = error.index >= 0
    for column in (start, end, stable, size):
        column[bad] = -1
    values = _Values(
        leader=share.node, epoch=epoch, start=start, end=end, stable=stable, size=size, size_error=size_error, error=error
    )
    return _facts_table(rows, share.leads, sample_ts, values)


def _sizes(rows: Rows, answer: Any) -> tuple[Array, schema.Names]:
    size = np.full(rows.count, -1, np.int64)
    if isinstance(answer, BaseException):
        return size, _same(named(answer), rows.count)
    for topic, dirs in answer.topics.items():
        for got in dirs:
            here = got[~got["future"]]  # the copy that a move between log directories is still writing does not count
            if topic in rows.span:
                rows.put(size, topic, here["partition"], here["size"])
    why = named(answer.error) if answer.error else "in none of the leader's log directories"
    return size, schema.Names((why,), np.where(size < 0, 0, -1).astype(np.int32))


def _commits(groups: Mapping[str, Mapping[str, Array]], answer: Any, sample_ts: float) -> pa.Table:
    if isinstance(answer, BaseException):
        return failed_commits(groups, named(answer), sample_ts)
    tables = []
    for group, wanted in groups.items():
        rows = Rows.of(wanted)
        offset = np.full(rows.count, -2, np.int64)
        errors = np.full(rows.count, _NO_ANSWER, np.int16)
        got = answer.get(group)
        if got is not None and got.error:
            errors[:] = got.error
        elif got is not None:
            for topic, entries in got.topics.items():
                rows.put(offset, topic, entries["partition"], np.maximum(entries["offset"], -1))
                rows.put(errors, topic, entries["partition"], entries["error"])
        offset[errors != 0] = -2
        tables.append(_commits_table(group, rows, sample_ts, offset, _coded(errors)))
    return pa.concat_tables(tables)


def _same(text: str | None, count: int) -> schema.Names:
    return schema.Names((text or "",), np.full(count, -1 if text is None else 0, np.int32))


def _coded(errors: Array) -> schema.Names:
    codes = [int(c) for c in np.unique(errors) if c]
    index = np.full(len(errors), -1, np.int32)
    for i, code in enumerate(codes):
        index[errors == code] = i
    return schema.Names(tuple("not in the broker's answer" if c == _NO_ANSWER else named(c) for c in codes), index)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Values:
    """Columns of ``FACTS`` besides who and when; -1 is unknown."""

    leader: int
    epoch: Array
    start: Array
    end: Array
    stable: Array
    size: Array
    size_error: schema.Names
    error: schema.Names


def _facts_table(rows: Rows, parts: Mapping[str, Part], ts: float, values: _Values) -> pa.Table:
    ids = schema.Names(tuple(parts[t].topic_id for t in rows.topics), rows.topic)
    columns = [
        schema.Names(rows.topics, rows.topic).column(), ids.column(), pa.array(rows.partition, pa.int32()),
        pa.array(np.full(rows.count, ts)), pa.array(np.full(rows.count, values.leader), pa.int32()),
        pa.array(values.epoch, pa.int32()), schema.known(values.start, pa.int64()), schema.known(values.end, pa.int64()),
        schema.known(values.stable, pa.int64()), schema.known(values.size, pa.int64()),
        values.size_error.column(), values.error.column(),
    ]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=schema.FACTS)


def _commits_table(group: str, rows: Rows, ts: float, offset: Array, error: schema.Names) -> pa.Table:
    columns = [
        _same(group, rows.count).column(), schema.Names(rows.topics, rows.topic).column(),
        pa.array(rows.partition, pa.int32()), pa.array(np.full(rows.count, ts)),
        pa.array(offset, pa.int64(), mask=offset < -1), error.column(),
    ]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=schema.COMMITS)
