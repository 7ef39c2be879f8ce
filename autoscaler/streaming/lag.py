"""Lag of a group in records, bytes and seconds, from what a bucket remembers and what the group has committed.

Pure: numpy only. Unknown is never zero: a commit that could not be read, or one beyond the end, gives no lag. Ends and commits
come from different brokers, a moment apart: a commit lies beyond the end only if it already did when it was read before that
end, or nothing was read of it before. One that is merely newer than the end has caught up with it.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from autoscaler.streaming.state import COMMIT, Array, State, find, keys
from autoscaler.streaming.window_inputs import Rules
from autoscaler.topic_selection import means, names, patterns

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
    """Committed offsets of one read: -1 nothing committed, -2 unknown; ``group`` indexes ``groups``, ``topic`` ``topics``."""

    groups: tuple[str, ...]
    topics: tuple[str, ...]
    group: Array
    topic: Array
    partition: Array
    ts: Array
    offset: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Lags:
    """Columns of every partition of every group: NaN and -1 are unknown (``committed`` -2: unknown)."""

    group: Array  # index of the group, rising
    at: Array  # index of the state's row, rising within a group
    records: Array
    bytes: Array
    seconds: Array
    committed: Array
    known: Array


def places(state: State, group: Array, key: Array) -> Array:
    """Return one number for each pair of a group's index and a partition's key, rising by group, then row; -1: no such row."""
    row = find(state.rows["key"], key)
    return np.where((row >= 0) & (group >= 0), group * max(len(state.rows), 1) + row, -1)


def with_commits(state: State, groups: Sequence[str], read: Commits) -> State:
    """Return the state with the newly read commits of ``groups``; those that could not be read keep their last value and time.

    Commits of other groups are forgotten. All groups at once: with hundreds of them, what is done for each is what costs.
    """
    kept, of = _flat(state, groups)
    good = read.offset > UNKNOWN
    entry = np.zeros(int(good.sum()), COMMIT)
    entry["key"] = keys(state.topics, read.topics, read.topic, read.partition)[good]
    entry["ts"], entry["offset"] = read.ts[good], read.offset[good]
    every = np.concatenate([kept, entry])
    place = places(state, np.concatenate([of, renumbered(read.groups, groups, read.group)[good]]), every["key"])
    order = np.argsort(place, kind="stable")
    order = order[place[order] >= 0]
    last = np.diff(place[order], append=-1) != 0  # the newest of each, since what was kept stands before what was read
    every, group = every[order][last], place[order][last] // max(len(state.rows), 1)
    each = np.split(every, np.searchsorted(group, np.arange(1, len(groups))))
    return replace(state, commits=dict(zip(groups, each, strict=True)))


def lags(state: State, groups: Sequence[GroupRules], now: float, rules: Rules, before: State | None = None) -> Lags:
    """Return the lag of every group for each partition of its topics.

    ``state`` has the ends and the commits of this read, ``before`` the commits of the read before and the same rows.
    """
    group, at = _rows(state, groups)
    rows = state.rows[at]
    place = group * max(len(state.rows), 1) + at
    committed, committed_ts = _committed(state, groups, place)
    earlier, _ = _committed(before, groups, place) if before is not None else (np.full(len(rows), UNKNOWN), None)
    earliest = np.array([g.earliest for g in groups], bool)[group]
    end = np.where(np.array([g.read_committed for g in groups], bool)[group], rows["stable"], rows["end"])
    sampled = ~np.isnan(rows["ts"])
    position = np.where(committed >= 0, np.maximum(committed, rows["start"]), np.where(earliest, rows["start"], end))
    beyond = (committed > rows["end"]) & ((earlier == UNKNOWN) | (earlier > rows["end"]))
    certain = sampled & (committed > UNKNOWN) & ~beyond & (end >= 0)
    records = np.where(certain, np.maximum(0, end - position), -1)
    mean = np.where(np.isnan(rows["mean"]), rules.default_record_bytes, rows["mean"])
    seconds = _seconds(state, at, rows, position, records)
    with np.errstate(invalid="ignore"):
        fresh = (now - rows["ts"] <= rules.known_for_s) & (now - committed_ts <= rules.known_for_s)
    return Lags(
        group=group,
        at=at,
        records=records,
        bytes=np.where(certain, records * mean, np.nan),
        seconds=np.where(certain, seconds, np.nan),
        committed=committed,
        known=fresh & certain & ~np.isnan(rows["bytes_per_s"]),
    )


def renumbered(names: Sequence[str], known: Sequence[str], index: Array) -> Array:
    """Return an index into ``names`` as one into ``known``; -1 for a name that is not among these."""
    number = {name: i for i, name in enumerate(known)}
    return np.array([number.get(n, -1) for n in names], np.int64)[index] if len(names) else np.full(len(index), -1, np.int64)


def _committed(state: State, groups: Sequence[GroupRules], wanted: Array) -> tuple[Array, Array]:
    """Return what is committed at each of ``places``, and when that was read."""
    entry, of = _flat(state, [g.group for g in groups])
    place = places(state, of, entry["key"])
    entry, place = entry[place >= 0], place[place >= 0]
    if not len(entry):
        return np.full(len(wanted), UNKNOWN, np.int64), np.full(len(wanted), np.nan)
    i = find(place, wanted)
    return np.where(i >= 0, entry["offset"][i], UNKNOWN), np.where(i >= 0, entry["ts"][i], np.nan)


def _flat(state: State, groups: Sequence[str]) -> tuple[Array, Array]:
    """Return the commits of these groups one after the other, and the index of the group of each."""
    kept = [state.commits.get(g, np.zeros(0, COMMIT)) for g in groups]
    return np.concatenate([np.zeros(0, COMMIT), *kept]), np.repeat(np.arange(len(groups)), [len(x) for x in kept])


def _rows(state: State, groups: Sequence[GroupRules]) -> tuple[Array, Array]:
    """Return the index of the group and that of the row, of every partition of every group's topics."""
    number = {t: i for i, t in enumerate(state.topics)}
    begin = np.searchsorted(state.rows["topic"], np.arange(len(state.topics) + 1))
    of_topic = [np.arange(a, b) for a, b in itertools.pairwise(begin)]
    found = [np.concatenate([np.arange(0), *(of_topic[t] for t in _meant(g.topics, number))]) for g in groups]
    return np.repeat(np.arange(len(groups)), [len(x) for x in found]), np.concatenate([np.arange(0), *found])


def _meant(topics: tuple[str, ...], number: Mapping[str, int]) -> list[int]:
    """Return the numbers of the topics that a group means, rising; most groups have no pattern, and then few are looked at."""
    found = {number[t] for t in names(topics) if t in number}
    if patterns(topics):
        found |= {i for t, i in number.items() if means(topics, t)}
    return sorted(found)


def _seconds(state: State, at: Array, rows: Array, position: Array, records: Array) -> Array:
    """Return how long ago the record at ``position`` arrived: between two marks, or by the mean rate since the oldest.

    The rate of the present window says nothing of a backlog that is older than that: unknown where nothing has arrived since.
    """
    out = np.full(len(rows), np.nan)
    newer_ts, newer_end = rows["ts"], rows["end"]
    for k in range(len(state.marks)):
        ts, end = np.minimum(state.marks[k], rows["ts"]), state.ends[k][at]
        hit = np.isnan(out) & (end >= 0) & (end <= position) & (position < newer_end)
        part = (newer_end - position) / np.maximum(newer_end - end, 1)
        out = np.where(hit, rows["ts"] - newer_ts + part * (newer_ts - ts), out)
        newer_ts, newer_end = np.where(end >= 0, ts, newer_ts), np.where(end >= 0, end, newer_end)
    older = rows["ts"] - newer_ts
    with np.errstate(invalid="ignore", divide="ignore"):
        rate = np.where(older > 0, (rows["end"] - newer_end) / older, rows["records_per_s"])
        out = np.where(np.isnan(out) & (rate > 0), older + (newer_end - position) / rate, out)
    return np.where(records == 0, 0.0, np.maximum(out, 0.0))
