"""A snapshot as the planner sees it: loads by goal, who counts, bands and limits. Part of *goals*."""

from dataclasses import dataclass

import numpy as np

from autoscaler.goals.goal import CATALOGUE, Goal, Name, band, missing
from autoscaler.goals.kernels import NONE, Model, link
from autoscaler.goals.score import Band
from autoscaler.goals.settings import Settings
from autoscaler.goals.snapshot import LOADS, UNKNOWN, Bools, Floats, Ints, Snapshot

_COPIED = 5.0  # what copying a mean replica counts against, beside the action itself
_ROOM = 0.8  # of what a small broker may be given, where its band begins


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is to be balanced.

    Attributes:
        snapshot: Of which cluster.
        goals: Those whose data is there, in their order.
        loads: Their names, then those of loads that are limited only; in this order they are columns of the arrays below.
        left_out: Goals and limited loads whose data is not there, with what they lack.
        follow: float64[partitions, loads], what a replica puts on its broker.
        lead: float64[partitions, loads], what the leader puts on its broker besides.
        stale: bool[partitions], whose loads are out of date or unknown: the brokers that hold one take no part.
        counted: bool[brokers], whose loads make the mean.
        means: float64[loads], of a broker that counts.
        bands: By goal.
        limit: float64[brokers, loads], the most of it that a broker may be given.
        racks: int64[brokers], with a rack of its own for each broker where none is known or racks do not matter.
        spread_racks: Whether racks matter.
        movable: bool[partitions].
    """

    snapshot: Snapshot
    goals: tuple[Goal, ...]
    loads: tuple[Name, ...]
    left_out: tuple[tuple[Name, tuple[str, ...]], ...]
    follow: Floats
    lead: Floats
    stale: Bools
    counted: Bools
    means: Floats
    bands: tuple[Band, ...]
    limit: Floats
    racks: Ints
    spread_racks: bool
    movable: Bools


def problem_of(snapshot: Snapshot, settings: Settings, *, sits_out: Bools | None = None, stays: Bools | None = None) -> Problem:
    """Return what is to be balanced.

    Args:
        snapshot: What is known.
        settings: What is wanted.
        sits_out: bool[brokers], brokers that neither count nor take part, besides those of which something is out of date.
        stays: bool[partitions], partitions that do not move, besides those of excluded topics.
    """
    wanted = (*(g.name for g in settings.goals), *_limited_only(snapshot, settings))
    lacks = {n: missing(n, snapshot) for n in wanted}
    goals, names = tuple(g for g in settings.goals if not lacks[g.name]), tuple(n for n in wanted if not lacks[n])
    demands = [CATALOGUE[n].demand(snapshot) for n in names]
    partitions, brokers = len(snapshot.partitions), len(snapshot.brokers)
    follow = np.ascontiguousarray(np.stack([d.follow for d in demands], axis=1)) if names else np.zeros((partitions, 0))
    lead = np.ascontiguousarray(np.stack([d.lead for d in demands], axis=1)) if names else np.zeros((partitions, 0))
    old = stale(snapshot, settings, names)
    out = holding(snapshot, old) | snapshot.offline
    out = out if sits_out is None else out | sits_out
    counted = ~out & ~snapshot.leaving
    spread = Name.RACKS in settings.hard and bool(np.any(snapshot.racks != UNKNOWN))
    own = np.arange(brokers) + 1 + max(0, snapshot.racks.max(initial=0))
    limit = np.full((brokers, len(names)), np.inf)
    if Name.CAPACITY in settings.hard:
        for g, name in enumerate(names):
            limit[:, g] = snapshot.capacity.get(name, np.inf)
    load = _loads(snapshot, follow, lead)
    means = load[~out].sum(axis=0) / max(1, counted.sum())
    movable = ~np.isin(snapshot.topics, np.array(sorted(settings.excluded), np.int64))
    return Problem(
        snapshot=snapshot,
        goals=goals,
        loads=names,
        left_out=tuple((n, lacks[n]) for n in wanted if lacks[n]),
        follow=follow,
        lead=lead,
        stale=old,
        counted=counted,
        means=means,
        bands=tuple(band(g, snapshot, float(m), counted) for g, m in zip(goals, means, strict=False)),
        limit=limit,
        racks=np.where(snapshot.racks == UNKNOWN, own, snapshot.racks) if spread else own,
        spread_racks=spread,
        movable=movable if stays is None else movable & ~stays,
    )


def _limited_only(snapshot: Snapshot, settings: Settings) -> list[Name]:
    """Return the loads that no goal makes alike and of which a broker may be given so much only."""
    goals = {g.name for g in settings.goals}
    limited = (n for n, most in snapshot.capacity.items() if n not in goals and np.isfinite(most).any())
    return [Name(n) for n in sorted(limited)] if Name.CAPACITY in settings.hard else []


def stale(snapshot: Snapshot, settings: Settings, loads: tuple[Name, ...]) -> Bools:
    """Return of which partitions these loads are out of date or unknown: bool[partitions]."""
    old = np.zeros(len(snapshot.partitions), np.bool_)
    if snapshot.age_s is not None:
        old |= ~(snapshot.age_s <= settings.stale_after_s)
    for name in {n for load in loads for n in CATALOGUE[load].needs if n in LOADS}:
        old |= np.isnan(getattr(snapshot, name))
    return old


def holding(snapshot: Snapshot, partitions: Bools) -> Bools:
    """Return which brokers hold any of these partitions: bool[brokers]."""
    held = np.zeros(len(snapshot.brokers), np.bool_)
    held[snapshot.state.broker[partitions[snapshot.partition]]] = True
    return held


def _loads(snapshot: Snapshot, follow: Floats, lead: Floats) -> Floats:
    brokers, of_leaders = len(snapshot.brokers), snapshot.state.broker[snapshot.state.leader]
    load = np.zeros((brokers, follow.shape[1]))
    for g in range(follow.shape[1]):
        load[:, g] = np.bincount(snapshot.state.broker, follow[snapshot.partition, g], brokers)
        load[:, g] += np.bincount(of_leaders, lead[:, g], brokers)
    return load


def model_of(problem: Problem, acting: Bools | None, inner: float) -> Model:
    """Return the model that a plan is made on.

    Args:
        problem: What is to be balanced.
        acting: bool[brokers, loads], which brokers are brought into the inner part of which band; the others are only kept from
            getting further outside. ``None``: all that are outside the band.
        inner: The inner part of a band.
    """
    snapshot, goals = problem.snapshot, len(problem.goals)
    load = _loads(snapshot, problem.follow, problem.lead)
    brokers, replicas = len(snapshot.brokers), len(snapshot.partition)
    low = np.full(load.shape, -np.inf)
    high = np.where(problem.counted[:, None], problem.limit, np.inf)  # a load that is limited only has no other end
    for g, at in enumerate(problem.bands):
        outside = ~at.holds(load[:, g]) | (load[:, g] > problem.limit[:, g])
        served = outside if acting is None else acting[:, g]
        ends = np.where(served[:, None], at.limits(inner), at.limits())
        kept = np.stack([np.minimum(ends[:, 0], load[:, g]), np.maximum(ends[:, 1], load[:, g])], axis=1)
        ends = np.where((outside & ~served)[:, None], kept, ends)
        top = np.minimum(ends[:, 1], problem.limit[:, g])
        low[problem.counted, g] = np.minimum(ends[:, 0], np.where(top < ends[:, 1], top * _ROOM, np.inf))[problem.counted]
        high[problem.counted, g] = top[problem.counted]
    means = problem.means
    centre = np.tile(means, (brokers, 1))
    centre[problem.counted, :goals] = (low[problem.counted, :goals] + high[problem.counted, :goals]) / 2.0
    centre[:, goals:] = np.minimum(problem.limit, load.sum(axis=0))[:, goals:]  # how much room there is decides
    weights = np.array([*(g.weight for g in problem.goals), *[1.0] * (len(problem.loads) - goals)])
    sizes = np.zeros(len(snapshot.partitions)) if snapshot.size_bytes is None else np.nan_to_num(snapshot.size_bytes, nan=0.0)
    typical = float(sizes[snapshot.partition].mean()) if replicas else 0.0
    model = Model(
        follow=problem.follow,
        lead=problem.lead,
        copied=np.zeros(len(sizes)) if typical == 0.0 else _COPIED * sizes / typical,
        partition=snapshot.partition.astype(np.int64),
        first=snapshot.first,
        broker=snapshot.state.broker.astype(np.int64),
        leader=snapshot.state.leader.astype(np.int64),
        load=np.zeros(load.shape),
        low=low,
        high=high,
        centre=centre,
        limit=problem.limit * (1 + 1e-12),
        unit=np.where(means > 0, weights / np.where(means > 0, means, 1.0) ** 2, 0.0),
        rack=problem.racks.astype(np.int64),
        gives=problem.counted,
        receives=problem.counted & ~snapshot.slow,
        movable=problem.movable,
        head=np.full(brokers, NONE),
        after=np.full(replicas, NONE),
        before=np.full(replicas, NONE),
        held=np.zeros(brokers, np.int64),
    )
    link(model)
    return model
