"""Lag of a group in records, bytes and seconds, from what a bucket remembers and what the group has committed.

Pure: numpy only. Unknown is never zero: a commit that could not be read, or one beyond the end, gives no lag.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from autoscaler.streaming.counters import Rules
from autoscaler.streaming.state import COMMIT, Array, State, find, keys
from autoscaler.topics import means

UNKNOWN = -2  # of a commit; -1 is "nothing committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRules:
    """What the lag of one group means."""

    group: str
    topics: tuple[str, ...]  # as they are configured: names, patterns, what is left out
    earliest: bool = True
    read_committed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    """Committed offsets of one group: -1 nothing committed, -2 unknown; ``topic`` indexes ``topics``."""

    topics: tuple[str, ...]
    topic: Array
    partition: Array
    ts: Array
    offset: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """One group's columns beside the state's rows ``at``: NaN and -1 are unknown (``committed`` -2: unknown)."""

    at: Array
    records: Array
    bytes: Array
    seconds: Array
    committed: Array
    known: Array


def with_commits(state: State, commits: Mapping[str, Commits]) -> State:
    """Return the state with each group's newly read commits; those that could not be read keep their last value and time."""
    out = {g: c for g, c in state.commits.items() if g in commits}
    for group, read in commits.items():
        kept = np.full(len(state.rows), UNKNOWN, np.int64)
        ts = np.full(len(state.rows), np.nan)
        if (old := out.get(group)) is not None:
            i = find(state.rows["key"], old["key"])
            kept[i[i >= 0]], ts[i[i >= 0]] = old["offset"][i >= 0], old["ts"][i >= 0]
        good = read.offset > UNKNOWN
        i = find(state.rows["key"], keys(state.topics, read.topics, read.topic, read.partition)[good])
        kept[i[i >= 0]], ts[i[i >= 0]] = read.offset[good][i >= 0], read.ts[good][i >= 0]
        entry = np.zeros(len(kept), COMMIT)
        entry["key"], entry["ts"], entry["offset"] = state.rows["key"], ts, kept
        out[group] = entry[kept > UNKNOWN]
    return replace(state, commits=out)


def lag_of(state: State, group: GroupRules, now: float, rules: Rules) -> Lag:
    """Return one group's lag for each partition of its topics."""
    mine = [i for i, t in enumerate(state.topics) if means(group.topics, t)]
    at = np.flatnonzero(np.isin(state.rows["topic"], mine))
    rows = state.rows[at]
    entry = state.commits.get(group.group, np.zeros(0, COMMIT))
    i = find(entry["key"], rows["key"])
    committed = np.where(i >= 0, entry["offset"][i], UNKNOWN) if len(entry) else np.full(len(rows), UNKNOWN, np.int64)
    committed_ts = np.where(i >= 0, entry["ts"][i], np.nan) if len(entry) else np.full(len(rows), np.nan)
    end = rows["stable"] if group.read_committed else rows["end"]
    sampled = ~np.isnan(rows["ts"])
    position = np.where(committed >= 0, np.maximum(committed, rows["start"]), rows["start"] if group.earliest else end)
    beyond = committed > rows["end"]
    certain = sampled & (committed > UNKNOWN) & ~beyond & (end >= 0)
    records = np.where(certain, np.maximum(0, end - position), -1)
    mean = np.where(np.isnan(rows["mean"]), rules.default_record_bytes, rows["mean"])
    seconds = _seconds(state, at, rows, position, records)
    with np.errstate(invalid="ignore"):
        fresh = (now - rows["ts"] <= rules.known_for_s) & (now - committed_ts <= rules.known_for_s)
    return Lag(
        at=at,
        records=records,
        bytes=np.where(certain, records * mean, np.nan),
        seconds=np.where(certain, seconds, np.nan),
        committed=committed,
        known=fresh & certain & ~np.isnan(rows["bytes_per_s"]),
    )


def _seconds(state: State, at: Array, rows: Array, position: Array, records: Array) -> Array:
    """Return how long ago the record at ``position`` arrived: between two marks, else lag over rate, else unknown."""
    out = np.full(len(rows), np.nan)
    newer_ts, newer_end = rows["ts"], rows["end"]
    for k in range(len(state.marks)):
        ts, end = np.minimum(state.marks[k], rows["ts"]), state.ends[k][at]
        hit = np.isnan(out) & (end >= 0) & (end <= position) & (position < newer_end)
        part = (newer_end - position) / np.maximum(newer_end - end, 1)
        out = np.where(hit, rows["ts"] - newer_ts + part * (newer_ts - ts), out)
        newer_ts, newer_end = np.where(end >= 0, ts, newer_ts), np.where(end >= 0, end, newer_end)
    rate = rows["records_per_s"]
    with np.errstate(invalid="ignore", divide="ignore"):
        out = np.where(np.isnan(out) & (rate > 0), records / rate, out)
    return np.where(records == 0, 0.0, np.maximum(out, 0.0))
