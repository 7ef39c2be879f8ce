"""One cycle: smooth the loads, see who is outside for long enough, plan, and say why or why not. Part of *goals*.

What is remembered from cycle to cycle is a value that goes in and comes back; the time is given.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum, auto

import numpy as np

from autoscaler.goals.goal import Name
from autoscaler.goals.plan import Plan, balance
from autoscaler.goals.problem import Problem, holding, problem_of
from autoscaler.goals.settings import Settings
from autoscaler.goals.snapshot import LOADS, Bools, Floats, Ints, Snapshot
from autoscaler.goals.statistics import crowded, loads_of


class Outcome(StrEnum):
    """What a cycle came to."""

    ACT = auto()  # there are actions
    BALANCED = auto()  # every broker is in its bands
    PARTLY = auto()  # none of the brokers that take part is outside; some take none
    NOT_LONG = auto()  # some are outside, not in enough cycles in a row
    NOTHING_HELPS = auto()  # no action makes it better
    REFUSED = auto()  # the plan would have made something worse
    OFFLINE = auto()  # too many brokers are away


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a cycle leaves for the next one.

    Attributes:
        at: When it was.
        partitions: int64[partitions], of the arrays below.
        loads: Smoothed loads by field of ``Snapshot``, float64[partitions].
        moved_at: float64[partitions], when each was last moved; -inf for never.
        rounds: In how many cycles in a row a broker was outside a band, by broker's id and goal; 0 is left out.
        noise: Variance of a single measurement of a broker's load beside the mean, by broker's id and goal.
        spread: Variance of a smoothed load, as a part of that of a single measurement.
    """

    at: float = -np.inf
    partitions: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    loads: Mapping[str, Floats] = field(default_factory=dict)
    moved_at: Floats = field(default_factory=lambda: np.empty(0))
    rounds: Mapping[tuple[int, Name], int] = field(default_factory=dict)
    noise: Mapping[tuple[int, Name], float] = field(default_factory=dict)
    spread: float = 1.0

    def moved(self, partitions: Collection[int], now: float) -> "Memory":
        """Return the memory after these partitions were moved: each cools down, and its brokers settle until it is measured."""
        times = self.moved_at.copy()
        times[np.isin(self.partitions, np.fromiter(partitions, np.int64))] = now
        return replace(self, moved_at=times)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """What a cycle answers.

    Attributes:
        outcome: What it came to.
        plan: What was planned; ``None`` if nothing was.
        memory: For the next cycle.
        problem: What it was judged by: smoothed loads, bands and limits.
        settling: Ids of brokers that take no part until what was moved is measured.
        outside: For how many cycles brokers are outside bands, by broker's id and goal.
    """

    outcome: Outcome
    plan: Plan | None
    memory: Memory
    problem: Problem
    settling: tuple[int, ...] = ()
    outside: Mapping[tuple[int, Name], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a cycle judges by.

    Attributes:
        problem: Smoothed loads, bands and limits.
        memory: For the next cycle.
        moved_at: float64[partitions], when each was last moved; -inf for never.
        settling: bool[brokers], those with a partition that was moved after it was last measured: they take no part.
        outside: bool[brokers, loads], beyond doubt.
    """

    problem: Problem
    memory: Memory
    moved_at: Floats
    settling: Bools
    outside: Bools


def see(snapshot: Snapshot, memory: Memory, settings: Settings, now: float) -> Seen:
    """Smooth the loads and look who is outside; the arguments are those of ``decide``."""
    share = _share(memory, settings, now)
    smooth, moved_at = _smoothed(snapshot, memory, share)
    settling = _settling(smooth, moved_at, now)
    problem = problem_of(smooth, settings, sits_out=settling)
    loads = loads_of(problem, smooth.state)
    raw = loads_of(problem_of(snapshot, settings, sits_out=settling), smooth.state)
    noise, spread = _noise(problem, memory, raw - loads, share)
    outside = _outside(problem, loads, settings.confidence * np.sqrt(noise * spread))
    keys = _keys(problem)
    left = Memory(
        at=now,
        partitions=smooth.partitions,
        loads={n: getattr(smooth, n) for n in LOADS if getattr(smooth, n) is not None},
        moved_at=moved_at,
        rounds={keys[b][g]: memory.rounds.get(keys[b][g], 0) + 1 for b, g in zip(*np.nonzero(outside), strict=True)},
        noise={keys[b][g]: float(noise[b, g]) for b, g in np.ndindex(noise.shape)},
        spread=spread,
    )
    return Seen(problem=problem, memory=left, moved_at=moved_at, settling=settling, outside=outside)


def decide(snapshot: Snapshot, memory: Memory, settings: Settings, now: float) -> Cycle:
    """Decide what to move now, if anything.

    Args:
        snapshot: What was measured.
        memory: What the cycle before has left; ``Memory()`` at first.
        settings: What is wanted.
        now: Seconds on any clock that does not go back.
    """
    seen = see(snapshot, memory, settings, now)
    problem, smooth, outside = seen.problem, seen.problem.snapshot, seen.outside
    left, rounds, keys = seen.memory, seen.memory.rounds, _keys(seen.problem)
    ids = tuple(smooth.brokers[seen.settling].tolist())
    if snapshot.offline.sum() > settings.offline_ratio * len(snapshot.brokers):
        return Cycle(outcome=Outcome.OFFLINE, plan=None, memory=left, problem=problem, settling=ids, outside=rounds)
    acting = np.zeros(outside.shape, np.bool_)
    for b, g in zip(*np.nonzero(outside), strict=True):
        acting[b, g] = rounds[keys[b][g]] >= settings.rounds
    asked = bool(snapshot.leaving[snapshot.state.broker].any()) or len(crowded(problem, smooth.state)) > 0
    if not acting.any() and not asked:
        whole = bool((problem.counted | smooth.leaving).all())
        outcome = Outcome.NOT_LONG if outside.any() else Outcome.BALANCED if whole else Outcome.PARTLY
        return Cycle(outcome=outcome, plan=None, memory=left, problem=problem, settling=ids, outside=rounds)
    plan = balance(smooth, settings, acting=acting, sits_out=seen.settling, stays=now - seen.moved_at < settings.cooldown_s)
    outcome = Outcome.REFUSED if plan.refused_for else Outcome.ACT if plan.actions else Outcome.NOTHING_HELPS
    return Cycle(outcome=outcome, plan=plan, memory=left, problem=problem, settling=ids, outside=rounds)


def _keys(problem: Problem) -> list[list[tuple[int, Name]]]:
    """Return what a broker's load is remembered under."""
    return [[(int(b), n) for n in problem.loads] for b in problem.snapshot.brokers]


def _share(memory: Memory, settings: Settings, now: float) -> float:
    """Return what a new measurement counts in a smoothed load."""
    first = not np.isfinite(memory.at) or not settings.smoothing_s
    return 1.0 if first else float(1.0 - np.exp(-(now - memory.at) / settings.smoothing_s))


def _noise(problem: Problem, memory: Memory, beside: Floats, share: float) -> tuple[Floats, float]:
    """Return how much measurements of brokers' loads vary (variances, float64[brokers, loads]), and what smoothing leaves of it.

    ``beside`` is how far the measured loads are from the smoothed ones, which have moved by ``share`` towards them. What all
    brokers have in common is no noise: the band moves with it.
    """
    known = np.array([[memory.noise.get(k, 0.0) for k in row] for row in _keys(problem)]).reshape(beside.shape)
    if share == 1.0:
        return known, 1.0
    beside = (beside - (beside[problem.counted].mean(axis=0) if problem.counted.any() else 0.0)) / (1.0 - share)
    seen = beside**2 / (1.0 + memory.spread)
    spread = (1.0 - share) ** 2 * memory.spread + share**2
    return np.where(known == 0.0, seen, known + share * (seen - known)), spread


def _outside(problem: Problem, loads: Floats, error: Floats) -> Bools:
    """Return which brokers that count are outside which band, beyond doubt, or above what they may be given."""
    outside = loads > problem.limit
    for g, band in enumerate(problem.bands):
        low, high = band.limits()
        nearest = np.clip(loads[:, g], low, high)
        outside[:, g] |= (np.abs(loads[:, g] - nearest) > error[:, g]) & ~band.holds(loads[:, g])
    return np.asarray(outside & problem.counted[:, None])


def _smoothed(snapshot: Snapshot, memory: Memory, share: float) -> tuple[Snapshot, Floats]:
    """Return the snapshot with smoothed loads, and when each of its partitions was last moved."""
    at = np.searchsorted(memory.partitions, snapshot.partitions)
    at = np.minimum(at, max(0, len(memory.partitions) - 1))
    known = memory.partitions[at] == snapshot.partitions if len(memory.partitions) else np.zeros(len(at), np.bool_)
    moved_at = np.full(len(at), -np.inf)
    moved_at[known] = memory.moved_at[at[known]]
    loads = {}
    for name in LOADS:
        value = getattr(snapshot, name)
        if value is None or name not in memory.loads:
            continue
        old = np.full(len(at), np.nan)
        old[known] = memory.loads[name][at[known]]
        loads[name] = np.where(np.isnan(old) | np.isnan(value), value, old + share * (value - old))
    return replace(snapshot, **loads), moved_at


def _settling(snapshot: Snapshot, moved_at: Floats, now: float) -> Bools:
    """Return the brokers with a partition that was moved after it was last measured: bool[brokers]."""
    age = np.zeros(len(moved_at)) if snapshot.age_s is None else snapshot.age_s
    waits = (now - age < moved_at) | ((now - age == moved_at) & np.isfinite(moved_at))
    return holding(snapshot, waits)
