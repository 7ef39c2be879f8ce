"""The window in Spark: state keyed by topic bucket, kept in RocksDB and the checkpoint, advanced once per micro-batch.

Unpacks what the source sampled, lets ``counters.py`` do the arithmetic, and packs one load row per group and partition. The
sub-tables of a bucket are single binary values: Spark's rows cost far more than the arithmetic.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from autoscaler.streaming import counters, schema
from autoscaler.streaming.counters import Facts, Rules, Step
from autoscaler.streaming.lag import Commits, GroupRules, Lag, lag_of, with_commits
from autoscaler.streaming.state import SLOT, State, dump, load
from autoscaler.topics import means


def step(
    state: State, facts: pa.Table, commits: pa.Table, groups: Sequence[GroupRules], rules: Rules, *, slot: Callable[[int], bytes]
) -> tuple[Step, pa.Table]:
    """Advance a bucket by one batch and return what to keep, and the ``LOADS`` of every group.

    Args:
        state: As the previous batch left it.
        facts: ``FACTS`` of the bucket's topics.
        commits: ``COMMITS`` of the groups for the bucket's topics.
        groups: What is known of the groups from the settings.
        rules: How to count.
        slot: Reads a slot of the window.
    """
    read_ts = float(pc.max(facts["sample_ts"]).as_py() or 0.0)
    whole = pc.less(facts["partition"], 0)
    lost, facts = facts.filter(whole), facts.filter(pc.invert(whole)) if pc.any(whole).as_py() else facts
    read = _facts(facts)
    used = counters.base_slot(state, read, rules)
    base = None if used is None else np.frombuffer(slot(used), SLOT)
    done = counters.advance(state, read, base, rules)
    state = with_commits(done.state, _commits(commits, groups))
    errors = _errors(state, facts)
    tables = [_loads(state, g, lag_of(state, g, read_ts, rules), read_ts, errors=errors, commits=commits) for g in groups]
    tables += [_lost(lost, g, read_ts) for g in groups] if lost.num_rows else []
    loads = pa.concat_tables([t for t in tables if t.num_rows] or [schema.LOADS.empty_table()]).unify_dictionaries()
    return Step(state=state, write=done.write, write_id=done.write_id, drop=done.drop), loads


def _facts(table: pa.Table) -> Facts:
    topic, ids = schema.names(table, "topic"), schema.names(table, "topic_id")
    id_of = ["" for _ in topic.names]
    for t, i in np.unique(np.stack([topic.index, ids.index]), axis=1).T.tolist() if table.num_rows else ():
        id_of[t] = ids.names[i] or id_of[t]
    number = {c: schema.numbers(table, c) for c in _NUMBERS}
    failed = (schema.names(table, "error").index >= 0) | (number["log_end"] < 0) | (number["log_start"] < 0)
    return Facts(
        topics=topic.names, topic_ids=tuple(id_of), topic=topic.index, partition=number["partition"], ts=number["sample_ts"],
        leader=number["leader"], epoch=number["leader_epoch"], start=number["log_start"], end=number["log_end"],
        stable=number["last_stable"], size=number["size_bytes"], failed=failed,
    )  # fmt: skip


_NUMBERS = ("partition", "sample_ts", "leader", "leader_epoch", "log_start", "log_end", "last_stable", "size_bytes")


def _commits(table: pa.Table, groups: Sequence[GroupRules]) -> dict[str, Commits]:
    group, topic = schema.names(table, "group"), schema.names(table, "topic")
    partition, ts = schema.numbers(table, "partition"), schema.numbers(table, "sample_ts")
    offset = np.where(schema.names(table, "error").index >= 0, -2, schema.numbers(table, "committed"))
    out = {}
    for g in groups:
        mine = group.index == (group.names.index(g.group) if g.group in group.names else -9)
        out[g.group] = Commits(
            topics=topic.names, topic=topic.index[mine], partition=partition[mine], ts=ts[mine], offset=offset[mine]
        )
    return out


def _errors(state: State, table: pa.Table, group: str | None = None) -> schema.Names:
    """Return each row's error of this read, by the state's order of partitions."""
    error, topic = schema.names(table, "error"), schema.names(table, "topic")
    out = np.full(len(state.rows), -1, np.int32)
    bad = error.index >= 0
    if group is not None:
        of = schema.names(table, "group")
        bad &= of.index == (of.names.index(group) if group in of.names else -9)
    if not bad.any():
        return schema.Names((), out)
    number = {t: i for i, t in enumerate(state.topics)}
    at = np.array([number.get(t, -1) for t in topic.names], np.int64)[topic.index[bad]]
    keys = (at << 32) | schema.numbers(table, "partition")[bad]
    i = np.searchsorted(state.rows["key"], keys).clip(0, max(len(out) - 1, 0))
    if len(out):
        hit = state.rows["key"][i] == keys
        out[i[hit]] = error.index[bad][hit]
    return schema.Names(error.names, out)


def _loads(state: State, group: GroupRules, lag: Lag, read_ts: float, *, errors: schema.Names, commits: pa.Table) -> pa.Table:
    rows, n = state.rows[lag.at], len(lag.at)
    failed = _errors(state, commits, group.group)
    error = _either(errors, failed, lag.at)
    sampled = ~np.isnan(rows["ts"])

    def text(names: Sequence[str], index: Any) -> pa.Array:
        return schema.Names(tuple(names), np.asarray(index, np.int32)).column()

    def offset(values: Any) -> pa.Array:
        return pa.array(values, pa.int64(), mask=~sampled | (values < 0))

    def number(values: Any) -> pa.Array:
        return schema.known(np.asarray(values, float), pa.float64())

    columns = {
        "group": text([group.group], np.zeros(n)),
        "topic": text(state.topics, rows["topic"]),
        "partition": pa.array(rows["partition"], pa.int32()),
        "topic_id": text(state.topic_ids, rows["topic"]),
        "read_ts": pa.array(np.full(n, read_ts)),
        "sample_ts": number(rows["ts"]),
        "leader": pa.array(rows["leader"], pa.int32(), mask=~sampled),
        "bytes_per_s": number(rows["bytes_per_s"]),
        "records_per_s": number(rows["records_per_s"]),
        "lag_records": pa.array(lag.records, pa.int64(), mask=lag.records < 0),
        "lag_bytes": number(np.rint(lag.bytes)),  # finer than anything is measured, and kept by the audit for every cycle
        "lag_s": number(np.round(lag.seconds, 3)),
        "committed": pa.array(lag.committed, pa.int64(), mask=lag.committed < -1),
        "log_start": offset(rows["start"]),
        "log_end": offset(rows["end"]),
        "last_stable": offset(rows["stable"] if group.read_committed else np.full(n, -1)),
        "size_bytes": offset(rows["size"]),
        "known": pa.array(lag.known),
        "age_s": pa.array(read_ts - np.where(sampled, rows["ts"], rows["first"])),
        "window_s": pa.array(rows["span"]),
        "rate_source": text([str(s) for s in counters.SOURCES], rows["source"]),
        "bytes_total": pa.array(rows["bytes"]),
        "records_total": pa.array(rows["records"]),
        "error": error.column(),
    }
    return pa.Table.from_arrays([columns[f.name].cast(f.type) for f in schema.LOADS], schema=schema.LOADS)


def _either(first: schema.Names, second: schema.Names, at: Any) -> schema.Names:
    second_index = np.where(second.index >= 0, second.index + len(first.names), -1)
    both = np.where(first.index >= 0, first.index, second_index)[at]
    return schema.Names((*first.names, *second.names), both.astype(np.int32))


def _lost(lost: pa.Table, group: GroupRules, read_ts: float) -> pa.Table:
    """Return a row of partition -1 for each of the group's topics that could not be read at all."""
    rows = [
        {
            "group": group.group, "topic": r["topic"], "partition": -1, "topic_id": "", "read_ts": read_ts, "known": False,
            "age_s": 0.0, "window_s": 0.0, "rate_source": "none", "bytes_total": 0.0, "records_total": 0.0, "error": r["error"],
        }
        for r in lost.select(["topic", "error"]).to_pylist()
        if means(group.topics, r["topic"])
    ]  # fmt: skip
    plain = pa.schema([(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema.LOADS])
    return pa.Table.from_pylist(rows, plain).cast(schema.LOADS)


class Window(StatefulProcessor):
    """One bucket's state machine for ``transformWithStateInPandas``."""

    def __init__(self, groups: Sequence[GroupRules], rules: Rules) -> None:
        """Keep what the settings say; state is opened by ``init``."""
        self._groups, self._rules = tuple(groups), rules

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state: one value for the bucket, one per slot of the window."""
        self._state = handle.getValueState("state", "blob binary")
        self._slots = handle.getMapState("slots", "slot long", "blob binary")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Advance the bucket by what one batch read."""
        del timerValues
        began = time.monotonic()
        read = pd.concat(list(rows), ignore_index=True)
        facts = schema.unpack(read["facts"], schema.FACTS)
        commits = schema.unpack(read["commits"], schema.COMMITS)
        kept = self._state.get()
        state = load(bytes(kept[0])) if kept is not None else State()
        done, loads = step(state, facts, commits, self._groups, self._rules, slot=self._slot)
        if done.write is not None:
            self._slots.updateValue((done.write_id,), (done.write.tobytes(),))
        for slot in done.drop:
            self._slots.removeKey((slot,))
        self._state.update((dump(done.state),))
        yield pd.DataFrame({
            "bucket": [int(key[0])], "read_s": [float(read["read_s"].max())], "window_s": [time.monotonic() - began],
            "loads": [schema.pack(loads)],
        })  # fmt: skip

    def close(self) -> None:
        """Hold nothing open."""

    def _slot(self, number: int) -> bytes:
        kept = self._slots.getValue((number,))
        return bytes(kept[0]) if kept is not None else b""
