"""What must hold of a run, and the numbers that describe it; each rule is a function of the evidence.

A rule whose ``ok`` is ``None`` only tells a number; every other one turns the check red when it is broken.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import median

from autoscaler.devtools.verify.audited import cycles_recorded, done, given, steps_agree
from autoscaler.devtools.verify.evidence import Evidence, Tenure
from autoscaler.devtools.verify.fewest import fewest
from autoscaler.devtools.verify.finding import SHOWN, Finding
from autoscaler.devtools.verify.rows import HandoverRow

_HOT_RATIO = 1.5  # over the median: the cool ones of the demo differ by less, and a hot one may be moved while it begins to be
_SETTLE_S = 60.0  # a consumer that a decision ends has processed its last record within this time


def nothing_lost(e: Evidence) -> Finding:
    """Every record in the topic was processed at least once."""
    produced = lost = gone = 0
    cases: list[str] = []
    for number, p in sorted(e.partitions.items()):
        gone += p.start
        for index, at_ms in enumerate(p.appended_ms):
            produced += at_ms != 0
            if at_ms and not p.times[index]:
                lost += 1
                if len(cases) < SHOWN:
                    cases.append(f"{e.run.topic}-{number}@{p.start + index}")
    if gone:
        cases.append(f"{gone} records have left the topic and cannot be checked")
    numbers = {"produced": produced, "lost": lost, "gone": gone}
    measured = f"{produced:,} produced, {lost:,} lost"
    return Finding(rule="every record processed", ok=not lost and not gone and produced > 0, measured=measured,
                   numbers=numbers, evidence=tuple(cases))  # fmt: skip


def nothing_missing(e: Evidence) -> Finding:
    """What the broker acknowledged to the producer is in the topic.

    More may be there: records that were appended and not acknowledged, and that the producer, which cannot know, has sent again
    under a new epoch. Each is counted once, so that those hide no loss.
    """
    cases, more = [], 0
    for number in sorted(e.acknowledged.keys() | e.partitions.keys()):
        partition, counted = e.partitions.get(number), e.acknowledged.get(number, 0)
        if partition is not None:
            more += sum(1 for at_ms in partition.appended_ms if at_ms) - counted
        if (there := 0 if partition is None else len(partition.values)) < counted:
            cases.append(f"{e.run.topic}-{number} holds {there:,} different records, {counted:,} were acknowledged")
    total = sum(e.acknowledged.values())
    said = f", {more:,} more in it" if more else ""
    return Finding(rule="acknowledged is in the topic", ok=not cases, measured=f"{total:,} acknowledged{said}",
                   numbers={"acknowledged": total, "more": more}, evidence=tuple(cases[:SHOWN]))  # fmt: skip


def processed_twice(e: Evidence) -> Finding:
    """How many records were processed more than once; allowed after a crash, counted always."""
    twice = sum(sum(1 for t in p.times if t > 1) for p in e.partitions.values())
    return Finding(rule="processed twice", ok=None, measured=f"{twice:,} records", numbers={"twice": twice})


def nothing_invented(e: Evidence) -> Finding:
    """Workers processed only what is in the topic."""
    return Finding(rule="only records of the topic", ok=not e.unknown, measured=f"{len(e.unknown):,} others",
                   numbers={"unknown": len(e.unknown)}, evidence=tuple(e.unknown[:SHOWN]))  # fmt: skip


def order_kept(e: Evidence) -> Finding:
    """Offsets ascend within each worker's tenure, and records were first processed in the order of the topic."""
    cases = [f"{_tenure(e, t)}: {t.descents} steps back" for t in e.tenures if t.descents]
    late = 0
    for number, p in sorted(e.partitions.items()):
        latest = 0
        for index, at_ns in enumerate(p.processed_ns):
            if at_ns and at_ns < latest:
                late += 1
                cases.append(f"{e.run.topic}-{number}@{p.start + index} before the one in front of it")
            latest = max(latest, at_ns)
    back = sum(t.descents for t in e.tenures)
    return Finding(rule="order per partition", ok=not back and late <= e.run.paused, measured=f"{back + late:,} out of order",
                   numbers={"descents": back, "late": late}, evidence=tuple(cases[:SHOWN]))  # fmt: skip


def one_at_a_time(e: Evidence) -> Finding:
    """No two workers processed the same partition at the same time, but for the record in work where one was paused."""
    cases: list[str] = []
    late: list[str] = []
    for tenures in _by_partition(e.tenures).values():
        for i, before in enumerate(tenures):
            for after in tenures[i + 1 :]:
                if after.worker != before.worker and after.first_ns <= before.last_ns:
                    overlap_ms = (min(before.last_ns, after.last_ns) - after.first_ns) / 1e6
                    past_check = before.epoch < after.epoch and before.before_last_ns < after.first_ns
                    (late if past_check else cases).append(
                        f"{_tenure(e, before)} and {_tenure(e, after)} for {overlap_ms:.1f} ms"
                    )
    records = len({case.split(" and ")[0] for case in late})
    if records > e.run.paused:
        cases += late
    measured = f"{len(e.tenures)} tenures, {len(cases)} overlaps"
    if e.run.paused:
        measured += f"; {records} of {e.run.paused} pauses beyond a lease finished the record in work"
    return Finding(rule="one worker at a time", ok=not cases, measured=measured,
                   numbers={"tenures": len(e.tenures), "overlaps": len(cases), "late_records": records},
                   evidence=tuple(cases[:SHOWN]))  # fmt: skip


def handovers_agree(e: Evidence) -> Finding:
    """Who processed a partition is who the table of handovers says, from the offset it says."""
    rows = defaultdict(list)
    for h in e.handovers:
        rows[h.partition, h.epoch, h.to_worker].append(h)
    cases = [f"{_tenure(e, t)} stands in no handover" for t in e.tenures if (t.partition, t.epoch, t.worker) not in rows]
    tenures = {(t.partition, t.epoch, t.worker): t for t in e.tenures}
    for key, same in rows.items():
        if len(same) > 1:
            cases.append(f"handover of {e.run.topic}-{key[0]} at plan {key[1]} is written {len(same)} times")
        cases += _handover_faults(e, same[0], tenures.get(key))
    return Finding(rule="handovers match the logs", ok=not cases, measured=f"{len(e.handovers)} handovers, {len(cases)} wrong",
                   numbers={"handovers": len(e.handovers), "wrong": len(cases)}, evidence=tuple(cases[:SHOWN]))  # fmt: skip


def _handover_faults(e: Evidence, row: HandoverRow, tenure: Tenure | None) -> Iterator[str]:
    name = f"handover of {e.run.topic}-{row.partition} at plan {row.epoch}"
    partition = e.partitions.get(row.partition)
    if partition is None:
        yield f"{name}: no such partition"
        return
    first = next((o for o in range(max(row.offset, partition.start), partition.end)
                  if partition.appended_ms[o - partition.start]), partition.end)  # fmt: skip
    if tenure is not None and tenure.first_offset != first:
        yield f"{name} says offset {row.offset}, {row.to_worker[:8]} began at {tenure.first_offset}"
    before = [t for t in e.tenures if t.partition == row.partition and t.epoch < row.epoch]
    if before and row.from_worker is not None:
        last = max(before, key=lambda t: t.epoch)
        idle = _idle(e, row.partition, row.from_worker, last.epoch, row.epoch)
        if last.worker != row.from_worker and not (idle or given(e, row, last)):
            yield f"{name} says from {row.from_worker[:8]}, {last.worker[:8]} had it"
    if (
        tenure is None
        and first < partition.end
        and not any(h.partition == row.partition and h.epoch > row.epoch and h.offset <= first for h in e.handovers)
    ):
        yield f"{name}: {row.to_worker[:8]} processed nothing although records were there"


def _idle(e: Evidence, partition: int, worker: str, after: int, before: int) -> bool:
    """Return whether the worker held the partition in between without a record to process."""
    return any(h.partition == partition and h.to_worker == worker and after < h.epoch < before for h in e.handovers)


def actions_recorded(e: Evidence) -> Finding:
    """Every decision that acted has its intent and its outcome, once each, and no action is without its decision."""
    by_decision: dict[str, list[str]] = defaultdict(list)
    published = {a.decision_id for a in e.actions if a.epoch is not None}
    for a in e.actions:
        by_decision[a.decision_id].append(a.phase)
    cases: list[str] = []
    acted = [d for d in e.decisions if d.acted]
    for d in acted:
        phases = by_decision.get(d.decision_id, [])
        wanted = ["intent", "outcome"] if d.decision_id in published or "intent" in phases else ["outcome"]
        if sorted(phases) != wanted:
            cases.append(f"{d.decision_id} {d.reason}: has {sorted(phases) or 'nothing'}, needs {wanted}")
    known = Counter(d.decision_id for d in e.decisions)
    cases += [
        f"{c.decision_id} acted in its cycle but is no decision" for c in e.cycles if c.acted and c.decision_id not in known
    ]
    cases += [f"{i} has actions but no decision" for i in by_decision if i not in known]
    cases += [f"{i} is written {n} times" for i, n in known.items() if n > 1]
    published_epochs = {a.epoch for a in e.actions if a.epoch is not None}
    cases += [f"plan {n} was worked under but no action published it" for n in sorted({t.epoch for t in e.tenures})
              if n not in published_epochs]  # fmt: skip
    # Plans are numbered 1, 2, 3 …: a number without an action is one whose rows are missing, unless it was reported as failed
    # although it came through.
    gaps = sorted(set(range(1, max(published_epochs, default=0))) - published_epochs)
    failed = sum(a.phase == "outcome" and a.epoch is None and a.status == "failed" for a in e.actions)
    if len(gaps) > failed:
        cases.append(f"plans {', '.join(map(str, gaps[:SHOWN]))} were published, but no action says so")
    return Finding(rule="decisions have their rows", ok=not cases and bool(acted),
                   measured=f"{len(e.decisions)} decisions, {len(acted)} acted, {len(cases)} incomplete",
                   numbers={"decisions": len(e.decisions), "acted": len(acted), "incomplete": len(cases)},
                   evidence=tuple(cases[:SHOWN]))  # fmt: skip


def scaled_up(e: Evidence) -> Finding:
    """A decision asked for more consumers than ran, and a new one processed records after it."""
    started = sorted(min(t.first_ns for t in ts) / 1e9 for ts in _by_worker(e.tenures).values())
    up = [d for d in done(e) if d.consumers_now and d.consumers and d.consumers_now < d.consumers]
    count = 0
    for d in up:
        claimed = next((s for s in started if s > d.at), None)
        if claimed is not None:
            started.remove(claimed)
            count += 1
    return Finding(rule="scale-up", ok=count > 0, measured=_times(count), numbers={"scale_ups": count})


def scaled_down(e: Evidence) -> Finding:
    """A decision asked for fewer consumers than ran, and one of them ended while others went on."""
    ended = sorted(max(t.last_ns for t in ts) / 1e9 for ts in _by_worker(e.tenures).values())
    ended = [s for s in ended[:-1] if s < ended[-1] - 1.0]
    count = 0
    for d in (d for d in done(e) if d.consumers_now and d.consumers and d.consumers < d.consumers_now):
        claimed = next((s for s in ended if d.at - e.run.window_s <= s <= d.at + _SETTLE_S), None)
        if claimed is not None:
            ended.remove(claimed)
            count += 1
    return Finding(rule="scale-down", ok=count > 0, measured=_times(count), numbers={"scale_downs": count})


def hot_moved(e: Evidence) -> Finding:
    """A partition with at least one and a half times the median rate went from one worker to another."""
    moves = []
    for before, after in _transitions(e.tenures):
        rates = _rates(e, after.first_ns // 1_000_000_000)
        middle = median(rates.values()) if rates else 0.0
        if rates[after.partition] >= _HOT_RATIO * middle > 0:
            moves.append(f"{e.run.topic}-{after.partition} from {before.worker[:8]} to {after.worker[:8]}"
                         f" at {rates[after.partition] / middle:.1f} times the median rate")  # fmt: skip
    return Finding(rule="move of a hot partition", ok=bool(moves), measured=_times(len(moves)),
                   numbers={"hot_moves": len(moves)}, evidence=tuple(moves[:SHOWN]))  # fmt: skip


def consumers_used(e: Evidence) -> Finding:
    """Consumer-seconds used while the load ran, against the fewest that each second's rates allow."""
    times = [c.at for c in e.cycles]
    used = least = exact = 0
    seconds = range(int(e.run.load_from_s + e.run.window_s), int(e.run.load_to_s))
    counted = 0
    for second in seconds:
        at = bisect_right(times, second) - 1
        running = e.cycles[at].consumers_now if at >= 0 else None
        if not running:
            continue
        n, is_exact = fewest(list(_rates(e, second).values()), e.run.usable_bytes_per_s)
        used += running
        least += max(1, n)
        exact += is_exact
        counted += 1
    ratio = used / least if least else None
    shown = f"{used:,} consumer-seconds, fewest possible {least:,}" + (f", {ratio:.2f} times as many" if ratio else "")
    return Finding(rule="consumers used", ok=None, measured=f"{shown}; exact in {exact} of {counted} s",
                   numbers={"used_s": used, "fewest_s": least, "ratio": ratio, "exact_s": exact, "seconds": counted})  # fmt: skip


def latency(e: Evidence) -> Finding:
    """Time from a record's append to its (first) processing."""
    waits = sorted(max(0.0, at_ns / 1e9 - p.appended_ms[i] / 1e3)
                   for p in e.partitions.values() for i, at_ns in enumerate(p.processed_ns) if at_ns)  # fmt: skip
    p50, p99, top = quantile(waits, 0.5), quantile(waits, 0.99), quantile(waits, 1)
    return Finding(rule="append to processed", ok=None, measured=f"p50 {_ms(p50)}, p99 {_ms(p99)}, max {_ms(top)}",
                   numbers={"p50_s": p50, "p99_s": p99, "max_s": top})  # fmt: skip


def pauses(e: Evidence) -> Finding:
    """How long a moved partition's records waited for the new owner: beyond the old one's last and the record's arrival."""
    waits = []
    for before, after in _transitions(e.tenures):
        p = e.partitions[after.partition]
        arrived_ns = p.appended_ms[after.first_offset - p.start] * 1_000_000
        waits.append(max(0, after.first_ns - max(before.last_ns, arrived_ns)) / 1e9)
    waits.sort()
    told = sorted(h.pause_s for h in e.handovers if h.pause_s is not None)
    p50, p95, top = quantile(waits, 0.5), quantile(waits, 0.95), quantile(waits, 1)
    told50, told95 = quantile(told, 0.5), quantile(told, 0.95)
    measured = (
        f"{len(waits)} moves: old owner's last to new owner's first record p50 {_ms(p50)}, p95 {_ms(p95)}, max {_ms(top)}; "
        f"without any queue (released to taken) p50 {_ms(told50)}, p95 {_ms(told95)}"
    )
    numbers = {"moves": len(waits), "p50_s": p50, "p95_s": p95, "max_s": top, "told_p50_s": told50, "told_p95_s": told95}
    return Finding(rule="pause of a moved partition", ok=None, measured=measured, numbers=numbers)


RULES: tuple[Callable[[Evidence], Finding], ...] = (
    nothing_missing,
    nothing_lost,
    processed_twice,
    nothing_invented,
    order_kept,
    one_at_a_time,
    handovers_agree,
    steps_agree,
    actions_recorded,
    cycles_recorded,
    scaled_up,
    hot_moved,
    scaled_down,
    consumers_used,
    latency,
    pauses,
)

NATIVE_RULES: tuple[Callable[[Evidence], Finding], ...] = (
    nothing_missing,
    nothing_lost,
    processed_twice,
    nothing_invented,
    cycles_recorded,
    scaled_up,
    scaled_down,
    consumers_used,
    latency,
)


def quantile(ordered: Sequence[float], q: float) -> float | None:
    """Return the ``q`` quantile of ascending values (nearest rank), ``None`` without any."""
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, max(0, -int(-q * len(ordered) // 1) - 1))]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _ms(value: float | None) -> str:
    return "?" if value is None else f"{value * 1000:,.0f} ms"


def _tenure(e: Evidence, t: Tenure) -> str:
    return f"{t.worker[:8]} on {e.run.topic}-{t.partition} (plan {t.epoch}, offsets {t.first_offset}-{t.last_offset})"


def _by_partition(tenures: Sequence[Tenure]) -> dict[int, list[Tenure]]:
    out: dict[int, list[Tenure]] = defaultdict(list)
    for t in sorted(tenures, key=lambda t: t.first_ns):
        out[t.partition].append(t)
    return out


def _by_worker(tenures: Sequence[Tenure]) -> dict[str, list[Tenure]]:
    out: dict[str, list[Tenure]] = defaultdict(list)
    for t in tenures:
        out[t.worker].append(t)
    return out


def _transitions(tenures: Sequence[Tenure]) -> Iterator[tuple[Tenure, Tenure]]:
    for held in _by_partition(tenures).values():
        for before, after in pairwise(held):
            if before.worker != after.worker:
                yield before, after


def _rates(e: Evidence, second: int) -> dict[int, float]:
    """Return each partition's payload bytes per second over the window that ends with ``second``."""
    window = max(1, round(e.run.window_s))
    return {n: sum(p.bytes_by_second.get(s, 0) for s in range(second - window, second)) / window
            for n, p in e.partitions.items()}  # fmt: skip
