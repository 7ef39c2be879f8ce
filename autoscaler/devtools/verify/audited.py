"""Rules about what the tables say of decisions, held against the workers' logs and the job's line per cycle."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from autoscaler.devtools.verify.evidence import Evidence, Tenure
from autoscaler.devtools.verify.finding import SHOWN, Finding
from autoscaler.devtools.verify.rows import CycleLine, DecisionRow, HandoverRow, Move

_DONE = ("done", "recovered")  # recovered: carried out, and written down by the job's next life
_TAKEN_S = 10.0  # a move that nothing came after is carried out within this time
_WRITING_S = 3.0  # rows that are being written when a kill comes have waited for their turn before
_DOWN_S = 5.0  # between two cycles: the job was started again, which takes longer than a cycle may


def done(e: Evidence) -> list[DecisionRow]:
    """Return the decisions that were carried out."""
    outcomes = {a.decision_id for a in e.actions if a.phase == "outcome" and a.status in _DONE}
    return [d for d in e.decisions if d.acted and d.decision_id in outcomes]


def steps_agree(e: Evidence) -> Finding:
    """Every partition went where a decision's step says, and nowhere that no step says."""
    slots = {h.to_worker: h.slot for h in e.handovers}
    plans = _plans(e)
    steps = _steps(e, plans)
    tenures: dict[int, list[Tenure]] = defaultdict(list)
    for t in sorted(e.tenures, key=lambda t: t.epoch):
        tenures[t.partition].append(t)
    cases = []
    for partition in sorted(steps.keys() | tenures.keys()):
        held = [_Held(plan=t.epoch, slot=slots.get(t.worker)) for t in tenures[partition]]
        faults = (
            *_worked(steps[partition], held, frozenset(plans.values())),
            *_decided(steps[partition], held, _last_appended(e, partition)),
        )
        cases += [f"{e.run.topic}-{partition}: {fault}" for fault in faults]
    count = sum(map(len, steps.values()))
    return Finding(rule="steps match the logs", ok=not cases, measured=f"{count} moves decided, {len(cases)} wrong",
                   numbers={"steps": count, "wrong": len(cases)}, evidence=tuple(cases[:SHOWN]))  # fmt: skip


def given(e: Evidence, row: HandoverRow, last: Tenure) -> bool:
    """Return whether a plan in between gave the partition to the worker that the row says had it before, which then never began.

    Such a plan has a step to its slot; another life of the slot that had it last needs none.
    """
    steps = _steps(e, _plans(e)).get(row.partition, {})
    sent = any(last.epoch < plan < row.epoch and step.move.target == row.from_slot for plan, step in steps.items())
    same = row.from_slot in {h.slot for h in e.handovers if h.to_worker == last.worker}
    return sent or (same and row.epoch - last.epoch > 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """A decided move of one partition, and when it was decided."""

    at: float
    move: Move


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """The slot of a worker that worked on a partition, and the plan that granted it; ``None``: no handover names that worker."""

    plan: int
    slot: int | None


def _plans(e: Evidence) -> dict[str, int]:
    """Return the plan that each decision published."""
    known = {d.decision_id for d in e.decisions}
    return {a.decision_id: a.epoch for a in e.actions if a.phase == "outcome" and a.epoch is not None and a.decision_id in known}


def _steps(e: Evidence, plans: Mapping[str, int]) -> dict[int, dict[int, _Step]]:
    """Return every step that was published, by partition and plan."""
    out: dict[int, dict[int, _Step]] = defaultdict(dict)
    for d in e.decisions:
        if (plan := plans.get(d.decision_id)) is not None:
            for move in d.moves:
                out[move.partition][plan] = _Step(at=d.at, move=move)
    return out


def _worked(steps: Mapping[int, _Step], held: Sequence[_Held], plans: frozenset[int]) -> Iterator[str]:
    """Say where the logs show a partition and the steps do not; another life of the same slot needs no step."""
    for before, now in pairwise([None, *held]):
        if now is None:
            continue
        if now.plan not in steps:
            if now.plan in plans and (before is None or before.slot != now.slot):
                yield f"slot {now.slot} worked on it under plan {now.plan}, whose decision has no such step"
        elif now.slot != (wanted := steps[now.plan].move.target):
            yield f"plan {now.plan} gave it to slot {wanted}, slot {now.slot} worked on it"


def _decided(steps: Mapping[int, _Step], held: Sequence[_Held], appended_until: float) -> Iterator[str]:
    """Say where the steps send a partition and the logs do not; what a later step overtook need not have happened."""
    for plan, step in sorted(steps.items()):
        if plan == max(steps) and all(h.plan != plan for h in held) and appended_until > step.at + _TAKEN_S:
            yield f"plan {plan} gave it to slot {step.move.target}, which never worked on it"
        before = next((h for h in reversed(held) if h.plan < plan), None)
        if before is None or step.move.source is None or any(before.plan < p < plan for p in steps):
            continue
        if before.slot != step.move.source:
            yield f"plan {plan} took it from slot {step.move.source}, slot {before.slot} had it"


def _last_appended(e: Evidence, partition: int) -> float:
    there = e.partitions.get(partition)
    return max(there.appended_ms, default=0) / 1000 if there is not None else 0.0


def cycles_recorded(e: Evidence) -> Finding:
    """Every cycle that the job wrote a line about has its row, once; a kill may lose the last ones."""
    written = sorted(_micros(c.at) for c in e.cycles)
    missing = [x for x in e.lines if not _is_there(written, _micros(x.at))]
    lost = _lost_by_a_kill(e, missing)
    cases = [f"cycle {x.number} has no row" for x in missing if x not in lost]
    cases += [f"no line about the cycles from {a.number} to {b.number}" for a, b in pairwise(e.lines) if b.number > a.number + 1]
    cases += [f"{i} is written {n} times" for i, n in Counter(c.decision_id for c in e.cycles).items() if n > 1]
    said = f", {len(lost)} lost by a kill" if lost else ""
    return Finding(rule="cycles have their rows", ok=not cases and bool(e.lines),
                   measured=f"{len(e.lines)} cycles, {len(cases)} wrong{said}",
                   numbers={"cycles": len(e.lines), "wrong": len(cases), "lost_by_kill": len(lost)},
                   evidence=tuple(cases[:SHOWN]))  # fmt: skip


def _lost_by_a_kill(e: Evidence, missing: Sequence[CycleLine]) -> set[CycleLine]:
    """Return the cycles without a row that waited to be written when the job was killed.

    They are the last ones before a pause in which the job was started again, within the time that rows may wait; what acted among
    them is in the decisions nevertheless, and may have its row from the plan record.
    """
    gone, lost = set(missing), set[CycleLine]()
    told = sorted(_micros(d.at) for d in e.decisions if d.acted)
    for last, first in pairwise(e.lines):
        if first.at - last.at > _DOWN_S:
            tail = [x for x in e.lines if last.at - e.run.flush_s - _WRITING_S <= x.at <= last.at]
            run = [list(g) for waited, g in groupby(tail, key=lambda x: x in gone or x.acts) if waited]
            if run and run[-1][-1] == last:
                lost |= {x for x in gone.intersection(run[-1]) if not x.acts or _is_there(told, _micros(x.at))}
    return lost


def _micros(at: float) -> int:
    return round(at * 1e6)


def _is_there(ordered: Sequence[int], at: int) -> bool:
    """Say whether a time is there, which one side rounded to microseconds."""
    return bisect_right(ordered, at + 1) > bisect_right(ordered, at - 2)
