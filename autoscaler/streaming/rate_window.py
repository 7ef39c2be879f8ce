"""Arithmetic of the window: monotone counters per partition, and rates by one subtraction.

Pure: numpy in, numpy out; no Spark, no clock, no I/O. ``windows.py`` keeps the state between batches. What the numbers mean
and which faults shaped them: ``docs/concepts/load.md``.
"""

from dataclasses import dataclass, replace

import numpy as np

from autoscaler.model import RateSource
from autoscaler.streaming.interval_bytes import arrived
from autoscaler.streaming.state import NAMES, SLOT, SLOTS, Array, State, find, fresh, keys
from autoscaler.streaming.window_inputs import Facts, Rules

SOURCES = (RateSource.NONE, RateSource.LOG_DIRS, RateSource.OFFSET_X_MEAN, RateSource.OFFSET_X_DEFAULT)
_NONE, _LOG_DIRS, _MEAN, _DEFAULT = range(4)
_REMEMBERED_S = 86_400.0  # that ends are remembered, by thirty marks: a backlog's age is not told by the rate there is now
_SET_BACK_S = 1.0  # a clock that goes back further than this was set, and no span across that is true


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one batch did to a bucket: its new state, the slot to write, the slots to drop."""

    state: State
    write: Array | None
    write_id: int
    drop: tuple[int, ...]


def base_slot(state: State, facts: Facts, rules: Rules) -> int | None:
    """Return the slot that this batch subtracts from: the newest at least a window older than the last good sample."""
    if not len(state.slots):
        return None
    good = facts.ts[~facts.failed]
    newest = good.max() if len(good) else np.nanmax(state.rows["ts"]) if len(state.rows) else 0.0
    slots = state.slots[state.slots["ts"] <= newest]  # later ones: the clock was set back since
    if not len(slots):
        return None
    old = np.flatnonzero(slots["ts"] <= newest - rules.window_s)
    return int(slots["id"][old[-1] if len(old) else 0])


def advance(state: State, facts: Facts, base: Array | None, rules: Rules, *, none_at: float = 0.0) -> Step:
    """Count one batch of facts on the state that the previous one left; ``base`` is the content of ``base_slot``.

    Facts are of partitions read or failed, never of partition -1 (a topic that could not be read). There are none where a look at
    the cluster found no topic that is meant: ``none_at`` is when, 0 if it did not.
    """
    if not len(facts.topic) and not len(state.rows):
        return Step(state=state, write=None, write_id=-1, drop=())
    renewed = _renewed(state, facts)
    state = _with_topics(state, facts)
    rows, ends = _with_partitions(state, facts)
    at = find(rows["key"], keys(state.topics, facts.topics, facts.topic, facts.partition))
    rows["seen"][at] = facts.ts
    rows["error"][at[facts.failed]] = True
    good = ~facts.failed
    _count(rows, ends, at[good], _picked(facts, good), renewed[good], rules=rules)
    _rate(rows, at[good], base, rules)
    ends[:, _made_anew(rows, at, renewed, good)] = -1
    now = float(facts.ts.max()) if len(facts.ts) else none_at
    keep = rows["seen"] >= now - rules.forget_s
    rows, ends = rows[keep], ends[:, keep]
    return _kept(replace(state, rows=rows, ends=ends), bool(good.any()), base_slot(state, facts, rules), rules)


def _made_anew(rows: Array, at: Array, renewed: Array, good: Array) -> Array:
    """Forget what was known of partitions that could not be read just when their topic was seen to be another; returns which."""
    anew = np.flatnonzero(np.isin(rows["topic"], np.unique(rows["topic"][at[good & renewed]])))
    anew = np.setdiff1d(anew, at[good])
    for name in ("ts", "mean", "since", "bytes_per_s", "records_per_s"):
        rows[name][anew] = np.nan
    rows["size"][anew], rows["end"][anew], rows["source"][anew], rows["span"][anew] = -1, -1, _NONE, 0.0
    return anew


def _with_topics(state: State, facts: Facts) -> State:
    ids = dict(zip(state.topics, state.topic_ids, strict=True))
    ids |= {t: i for t, i in zip(facts.topics, facts.topic_ids, strict=True) if i}
    ids |= {t: "" for t in facts.topics if t not in ids}
    return replace(state, topics=tuple(ids), topic_ids=tuple(ids.values()))


def _renewed(state: State, facts: Facts) -> Array:
    """Return which facts belong to a topic made anew since the state was written."""
    before = dict(zip(state.topics, state.topic_ids, strict=True))
    anew = [bool(i) and before.get(t, "") not in ("", i) for t, i in zip(facts.topics, facts.topic_ids, strict=True)]
    return np.array(anew, bool)[facts.topic] if anew else np.zeros(len(facts.topic), bool)


def _with_partitions(state: State, facts: Facts) -> tuple[Array, Array]:
    """Return copies of rows and end offsets in which every partition of ``facts`` has a place."""
    wanted = keys(state.topics, facts.topics, facts.topic, facts.partition)
    new = find(state.rows["key"], wanted) < 0
    if not new.any():
        return state.rows.copy(), state.ends.copy()
    added = fresh(int(new.sum()))
    added["key"], added["topic"], added["partition"] = wanted[new], wanted[new] >> 32, wanted[new] & 0xFFFFFFFF
    added["first"] = facts.ts[new]
    rows = np.concatenate([state.rows, added])
    order = np.argsort(rows["key"], kind="stable")
    unknown = np.full((len(state.marks), len(added)), -1, np.int64)
    return rows[order], np.concatenate([state.ends, unknown], axis=1)[:, order]


def _picked(facts: Facts, which: Array) -> Facts:
    columns = ("topic", "partition", "ts", "leader", "epoch", "start", "end", "stable", "size", "failed")
    return replace(facts, **{c: getattr(facts, c)[which] for c in columns})


def _count(rows: Array, ends: Array, at: Array, facts: Facts, renewed: Array, *, rules: Rules) -> None:
    """Add what arrived since each partition's previous good sample to its counters."""
    was = rows[at]
    first = np.isnan(was["ts"])
    reset = ~first & ((facts.end < was["end"]) | renewed | (facts.ts < was["ts"] - _SET_BACK_S))
    counted = ~first & ~reset
    got = arrived(was, facts, counted, rules)
    now = was.copy()
    now["bytes"] += got.bytes
    now["records"] += got.records
    now["estimated"] += np.where(got.measured, 0.0, got.bytes)
    now["guessed"] += np.where(got.measured | ~np.isnan(was["mean"]), 0.0, got.bytes)
    now["growth"] += np.where(got.measured, got.growth, 0.0)
    now["grown"] += np.where(got.measured, got.since, 0)
    sized = got.measured & (got.since > 0) & (got.growth > 0)
    now["mean"] = np.where(sized & (np.isnan(was["mean"]) | got.another), got.growth / np.maximum(got.since, 1), was["mean"])
    for name, value in got.judgement.items():
        now[name] = value
    begin = first | reset | got.another  # what was learnt before is not mixed with what is believed now
    now["mean"][reset] = np.nan
    now["rejected"][reset] = 0
    ends[:, at[reset]] = -1
    now["leader"], now["epoch"], now["start"], now["end"] = facts.leader, facts.epoch, facts.start, facts.end
    now["stable"], now["size"], now["ts"], now["error"] = facts.stable, facts.size, facts.ts, False
    for name in ("growth", "grown"):
        now[f"since_{name}"][begin] = now[name][begin]
    anew = first | reset
    now["since"][anew] = facts.ts[anew]
    for name in NAMES:
        now[f"since_{name}"][anew] = now[name][anew]
    for name in ("bytes_per_s", "records_per_s"):
        now[name][reset] = np.nan
    now["source"][reset] = _NONE
    now["uneven_until"][anew] = 0.0
    now["span"][reset] = 0.0
    rows[at] = now


def _rate(rows: Array, at: Array, base: Array | None, rules: Rules) -> None:
    """Subtract: counters now, less counters in the base slot or at the partition's own beginning, whichever is later."""
    now = rows[at]
    then_ts = now["since"].copy()
    then = {n: now[f"since_{n}"].copy() for n in NAMES}
    if base is not None:
        i = find(base["key"], now["key"])
        later = (i >= 0) & (base["ts"][i] > then_ts) if len(base) else np.zeros(len(now), bool)
        then_ts[later] = base["ts"][i[later]]
        for n in NAMES:
            usable = later if n not in ("growth", "grown") else later & (base[n][i] >= then[n])
            then[n][usable] = base[n][i[usable]]
    span = now["ts"] - then_ts
    enough = span >= rules.min_span_s
    per = np.where(enough, span, 1.0)
    new_bytes = now["bytes"] - then["bytes"]
    now["bytes_per_s"] = np.where(enough, new_bytes / per, now["bytes_per_s"])
    now["records_per_s"] = np.where(enough, (now["records"] - then["records"]) / per, now["records_per_s"])
    now["span"] = np.where(enough, span, now["span"])
    estimated, guessed = now["estimated"] - then["estimated"], now["guessed"] - then["guessed"]
    source = np.where(estimated * 2 <= new_bytes, _LOG_DIRS, np.where(guessed * 2 > estimated, _DEFAULT, _MEAN))
    source = np.where((now["size"] < 0) & (new_bytes <= 0), np.where(np.isnan(now["mean"]), _DEFAULT, _MEAN), source)
    now["source"] = np.where(enough, source, now["source"])
    growth, grown = now["growth"] - then["growth"], now["grown"] - then["grown"]
    size = growth / np.maximum(grown, 1)
    with np.errstate(invalid="ignore"):
        like = np.isnan(now["mean"]) | ((size <= now["mean"] * rules.plausible) & (size * rules.plausible >= now["mean"]))
    like |= (grown >= rules.plausible_records) | (now["ts"] <= now["uneven_until"])
    learnt = (grown > 0) & (growth > 0) & like
    now["mean"] = np.where(learnt, size, now["mean"])
    rows[at] = now


def _kept(state: State, sampled: bool, used: int | None, rules: Rules) -> Step:  # noqa: FBT001
    """Write the newest sample into the window and the marks, and drop what nothing needs any more."""
    if not sampled or not len(state.rows):
        return Step(state=state, write=None, write_id=-1, drop=())
    rows = state.rows
    newest = float(np.nanmax(rows["ts"]))
    past = state.marks <= newest
    marks, ends = _thinned(
        np.concatenate([[newest], state.marks[past]]),
        np.concatenate([np.where(np.isnan(rows["ts"]), -1, rows["end"])[None, :], state.ends[past]]),
        max(4 * rules.window_s, _REMEMBERED_S),
    )
    kept = (state.slots["ts"] <= newest) & (state.slots["id"] >= (0 if used is None else used))
    slots, drop = state.slots[kept], tuple(int(i) for i in state.slots["id"][~kept])
    if len(slots) and newest < slots["ts"][-1] + rules.window_s / rules.slots:
        return Step(state=replace(state, slots=slots, marks=marks, ends=ends), write=None, write_id=-1, drop=drop)
    write = np.zeros(len(rows), SLOT)
    for name in ("key", "ts", *NAMES):
        write[name] = rows[name]
    number = state.next_slot
    slots = np.concatenate([slots, np.array([(newest, number)], SLOTS)])
    state = replace(state, slots=slots, next_slot=number + 1, marks=marks, ends=ends)
    return Step(state=state, write=write, write_id=number, drop=drop)


def _thinned(marks: Array, ends: Array, horizon_s: float) -> tuple[Array, Array]:
    """Keep marks ever farther apart, the older they are: a gap may be a third of its age, so a few cover the horizon."""
    keep = [0]
    for i in range(1, len(marks)):
        needed = i in (1, len(marks) - 1) or marks[keep[-1]] - marks[i + 1] > (marks[0] - marks[i + 1]) / 3
        if needed and marks[0] - marks[i] <= horizon_s:
            keep.append(i)
    return marks[keep], ends[keep]
