"""The window in Spark: state keyed by a cluster's topic bucket, kept in RocksDB and the checkpoint, advanced once per batch.

Unpacks what the source sampled, lets ``rate_window.py`` do the arithmetic, and packs one load row per group and partition. The
sub-tables of a bucket are single binary values: Spark's rows cost far more than the arithmetic.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from autoscaler.streaming import rate_window, schema
from autoscaler.streaming.lag import UNKNOWN, Commits, GroupRules, Lags, lags, places, renumbered, with_commits
from autoscaler.streaming.rate_window import Step
from autoscaler.streaming.state import SLOT, State, dump, keys, load
from autoscaler.streaming.window_inputs import Facts, Rules
from autoscaler.topic_selection import means

log = logging.getLogger(__name__)


def step(
    state: State,
    facts: pa.Table,
    commits: pa.Table,
    groups: Sequence[GroupRules],
    rules: Rules,
    *,
    slot: Callable[[int], bytes],
    now: float,
) -> tuple[Step, pa.Table]:
    """Advance a bucket by one batch of ``FACTS`` and ``COMMITS``; return what to keep, and the ``LOADS`` of every group.

    ``slot`` reads a slot of the window. ``now`` (seconds since the epoch) is for a batch that has no sample: what is known
    grows old in it all the same.
    """
    read_ts = float(pc.max(facts["sample_ts"]).as_py() or now)
    whole = pc.less(facts["partition"], 0)
    lost, facts = facts.filter(whole), facts.filter(pc.invert(whole)) if pc.any(whole).as_py() else facts
    read = _facts(facts)
    used = rate_window.base_slot(state, read, rules)
    base = None if used is None else np.frombuffer(slot(used), SLOT)
    nothing = not lost.num_rows and not facts.num_rows
    done = rate_window.advance(state, read, base, rules, none_at=read_ts if nothing else 0.0)
    state = with_commits(done.state, [g.group for g in groups], _commits(commits))
    loads = _loads(state, groups, lags(state, groups, read_ts, rules, done.state), read_ts, facts=facts, commits=commits)
    if lost.num_rows:
        loads = pa.concat_tables([loads, _lost(lost, groups, read_ts)]).unify_dictionaries()
    return Step(state=state, write=done.write, write_id=done.write_id, drop=done.drop), loads


def _facts(table: pa.Table) -> Facts:
    topic, ids = schema.names(table, "topic"), schema.names(table, "topic_id")
    number = {c: schema.numbers(table, c) for c in _NUMBERS}
    failed = (schema.names(table, "error").index >= 0) | (number["log_end"] < 0) | (number["log_start"] < 0)
    id_of = ["" for _ in topic.names]
    read = np.stack([topic.index, ids.index])[:, ~failed]  # an id counts once something of that topic could be read
    for t, i in np.unique(read, axis=1).T.tolist() if read.size else ():
        id_of[t] = ids.names[i] or id_of[t]
    return Facts(
        topics=topic.names, topic_ids=tuple(id_of), topic=topic.index, partition=number["partition"], ts=number["sample_ts"],
        leader=number["leader"], epoch=number["leader_epoch"], start=number["log_start"], end=number["log_end"],
        stable=number["last_stable"], size=number["size_bytes"], failed=failed,
    )  # fmt: skip


_NUMBERS = ("partition", "sample_ts", "leader", "leader_epoch", "log_start", "log_end", "last_stable", "size_bytes")


def _commits(table: pa.Table) -> Commits:
    group, topic, error = (schema.names(table, c) for c in ("group", "topic", "error"))
    return Commits(
        groups=group.names, topics=topic.names, group=group.index, topic=topic.index,
        partition=schema.numbers(table, "partition"), ts=schema.numbers(table, "sample_ts"),
        offset=np.where(error.index >= 0, UNKNOWN, schema.numbers(table, "committed")),
    )  # fmt: skip


def _errors(state: State, groups: Sequence[GroupRules], lag: Lags, facts: pa.Table, commits: pa.Table) -> schema.Names:
    """Return what went wrong in this read with each row of ``lag``: with the partition, or else with the group's commit."""
    of_fact, of_commit = schema.names(facts, "error"), schema.names(commits, "error")
    out = np.full(len(lag.at), -1, np.int32)
    bad = of_commit.index >= 0
    if bad.any():
        group = schema.names(commits, "group")
        of = renumbered(group.names, [g.group for g in groups], group.index)[bad]
        out = _looked_up(
            places(state, of, _keys(state, commits)[bad]), of_commit.index[bad] + len(of_fact.names),
            lag.group * max(len(state.rows), 1) + lag.at,
        )  # fmt: skip
    bad = of_fact.index >= 0
    if bad.any():
        found = _looked_up(_keys(state, facts)[bad], of_fact.index[bad], state.rows["key"][lag.at])
        out = np.where(found >= 0, found, out)
    return schema.Names((*of_fact.names, *of_commit.names), out.astype(np.int32))


def _keys(state: State, table: pa.Table) -> Any:
    topic = schema.names(table, "topic")
    return keys(state.topics, topic.names, topic.index, schema.numbers(table, "partition"))


def _looked_up(known: Any, values: Any, wanted: Any) -> Any:
    """Return the value at each wanted key, -1 where there is none; the last one, where a key has several."""
    order = np.argsort(known, kind="stable")
    at = np.searchsorted(known[order], wanted, side="right") - 1
    hit = (at >= 0) & (known[order][at] == wanted)
    return np.where(hit, values[order][at], -1)


def _loads(
    state: State, groups: Sequence[GroupRules], lag: Lags, read_ts: float, *, facts: pa.Table, commits: pa.Table
) -> pa.Table:
    rows, n = state.rows[lag.at], len(lag.at)
    sampled = ~np.isnan(rows["ts"])
    committed_only = np.array([g.read_committed for g in groups], bool)[lag.group]

    def text(names: Sequence[str], index: Any) -> pa.Array:
        return schema.Names(tuple(names), np.asarray(index, np.int32)).column()

    def offset(values: Any) -> pa.Array:
        return pa.array(values, pa.int64(), mask=~sampled | (values < 0))

    def number(values: Any) -> pa.Array:
        return schema.known(np.asarray(values, float), pa.float64())

    columns = {
        "group": text([g.group for g in groups], lag.group),
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
        "last_stable": offset(np.where(committed_only, rows["stable"], -1)),
        "size_bytes": offset(rows["size"]),
        "known": pa.array(lag.known),
        "age_s": pa.array(read_ts - np.where(sampled, rows["ts"], rows["first"])),
        "window_s": pa.array(rows["span"]),
        "rate_source": text([str(s) for s in rate_window.SOURCES], rows["source"]),
        "bytes_total": pa.array(rows["bytes"]),
        "records_total": pa.array(rows["records"]),
        "error": _errors(state, groups, lag, facts, commits).column(),
    }
    return pa.Table.from_arrays([columns[f.name].cast(f.type) for f in schema.LOADS], schema=schema.LOADS)


def _lost(lost: pa.Table, groups: Sequence[GroupRules], read_ts: float) -> pa.Table:
    """Return a row of partition -1 for each of a group's topics, or patterns, of which nothing could be read at all."""
    rows = [
        {
            "group": group.group, "topic": r["topic"], "partition": -1, "topic_id": "", "read_ts": read_ts, "known": False,
            "age_s": 0.0, "window_s": 0.0, "rate_source": "none", "bytes_total": 0.0, "records_total": 0.0, "error": r["error"],
        }
        for r in lost.select(["topic", "error"]).to_pylist()
        for group in groups
        if r["topic"] in group.topics or means(group.topics, r["topic"])
    ]  # fmt: skip
    return schema.table(rows, schema.LOADS)


class Window(StatefulProcessor):
    """One bucket's state machine for ``transformWithStateInPandas``."""

    def __init__(self, groups: Mapping[int, Sequence[GroupRules]], rules: Rules, buckets: int) -> None:
        """Keep what the settings say, groups by the place of their cluster; state is opened by ``init``."""
        self._groups, self._rules, self._buckets = dict(groups), rules, buckets

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state: one value for the bucket, one per slot of the window."""
        self._state = handle.getValueState("state", "blob binary")
        self._slots = handle.getMapState("slots", "slot long", "blob binary")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Advance the bucket by what one batch read; only the groups of its cluster have anything in it."""
        del timerValues
        began = time.monotonic()
        groups = self._groups[int(key[0]) // self._buckets]
        read = pd.concat(list(rows), ignore_index=True)
        facts = schema.unpack(read["facts"], schema.FACTS)
        commits = schema.unpack(read["commits"], schema.COMMITS)
        state = self._remembered(int(key[0]))
        done, loads = step(state, facts, commits, groups, self._rules, slot=self._slot, now=float(read["read_ts"].max()))
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

    def _remembered(self, bucket: int) -> State:
        kept = self._state.get()
        try:
            return load(bytes(kept[0])) if kept is not None else State()
        except ValueError as e:
            log.warning("the window of bucket %d cannot be read (%s): the rates of its topics start anew", bucket, e)
            self._slots.clear()
            return State()

    def _slot(self, number: int) -> bytes:
        kept = self._slots.getValue((number,))
        return bytes(kept[0]) if kept is not None else b""
