"""A cycle as findings: each action with its scores by goal and what came second; else why nothing. Part of *goals*."""

from collections.abc import Callable, Iterator

import numpy as np

from autoscaler.goals.actions import Action, MoveLeadership
from autoscaler.goals.cycle import Cycle, Outcome
from autoscaler.goals.goal import Name
from autoscaler.goals.plan import Plan
from autoscaler.goals.problem import Problem, holding
from autoscaler.goals.rightsizing import provision
from autoscaler.goals.score import Floats, weighted
from autoscaler.goals.snapshot import Bools
from autoscaler.goals.statistics import crowded, loads_of
from autoscaler.goals.stuck import held_everywhere, racks_emptied, staying
from autoscaler.model import Finding, TopicPartition
from autoscaler.model.findings import What

Label = Callable[[int], TopicPartition]  # from ``Snapshot.partitions``
_SAME = 1e-9
_UNITS = {Name.BYTES_IN: "_bytes_per_s", Name.BYTES_OUT: "_bytes_per_s", Name.STORAGE: "_bytes", Name.LAG: "_bytes"}


def unit_of(load: Name) -> str:
    """Return what the name of a number of this load ends in."""
    return _UNITS.get(load, "")


def actions_explained(plan: Plan, label: Label) -> Iterator[Finding]:
    """Return a finding for each action of a plan, in order, as if the ones before it were done.

    Its numbers are ``source``, ``target`` (brokers' ids), ``size_bytes``, ``leads`` if the replica does, ``score`` (above 0.5: it
    helps), and for each goal that it touches ``GOAL_before`` and ``GOAL_after``, the lower score of both brokers. The text
    ``why`` is ``leaving``, ``racks``, the load that it does the most for, with what both brokers have of it and should have, or
    ``others`` if it helps only together with them. ``next_ratio`` says what the next best was worth beside it; the text ``next``
    says which that was.
    """
    problem, snapshot, loads = plan.problem, plan.problem.snapshot, loads_of(plan.problem, plan.before)
    sharing = crowded(problem, plan.before)
    places = zip(snapshot.partitions[snapshot.partition[sharing]], snapshot.brokers[plan.before.broker[sharing]], strict=True)
    shared, leaving = {(int(p), int(b)) for p, b in places}, frozenset(snapshot.brokers[snapshot.leaving].tolist())
    for action in plan.actions:
        a, b, x = _shift(problem, action)
        pair = np.array([a, b])
        before, after = _scores(problem, loads[pair]), _scores(problem, loads[pair] + np.stack([-x, x]))
        why: tuple[str, dict[str, float]] = _sought(problem, loads, (a, b), x, after - before)
        if action.source in leaving:
            why = "leaving", {}
        elif (action.partition, action.source) in shared and not isinstance(action, MoveLeadership):
            why = "racks", {}
        loads[a] -= x
        loads[b] += x
        yield _finding(plan, action, before, after, why, label)


def _sought(problem: Problem, loads: Floats, ends: tuple[int, int], x: Floats, rise: Floats) -> tuple[str, dict[str, float]]:
    """Return the load that an action does the most for, and what both of its brokers have of it and should have."""
    a, b = ends
    over = np.flatnonzero((loads[a] > problem.limit[a]) & (x > 0.0))
    weights = np.array([g.weight for g in problem.goals])
    if not len(over) and not (weights * rise > _SAME).any():
        return "others", {}
    g = int(over[0]) if len(over) else int(np.argmax(weights * rise))
    found = {"source_load": loads[a, g], "target_load": loads[b, g]}
    if len(over):
        found["most"] = problem.limit[a, g]
    else:
        found |= dict(zip(("low", "high"), problem.bands[g].limits(), strict=True))
    name = problem.loads[g]
    return str(name), {f"{n}{unit_of(name)}": round(float(v), 1) for n, v in found.items()}


def _finding(  # noqa: PLR0917  as it is found, one after the other
    plan: Plan, action: Action, before: Floats, after: Floats, why: tuple[str, dict[str, float]], label: Label
) -> Finding:
    goals = plan.problem.goals
    numbers: dict[str, float] = {"source": action.source, "target": action.target, **why[1]}
    by_goal = (after - before + 1.0) / 2.0
    numbers["score"] = float(weighted(by_goal, np.array([g.weight for g in goals]))) if goals else 0.5
    for g, goal in enumerate(goals):
        if abs(after[g] - before[g]) > _SAME:
            numbers |= {f"{goal.name}_before": float(before[g]), f"{goal.name}_after": float(after[g])}
    leadership = isinstance(action, MoveLeadership)
    if not isinstance(action, MoveLeadership):
        numbers["size_bytes"] = action.size_bytes
        if action.leads:
            numbers["leads"] = 1
    second = plan.runners_up.get((action.partition, leadership))
    if second is not None:
        numbers["next_ratio"] = second.worth_ratio
        numbers["next_target"] = second.target
    return Finding.of(
        What.LEADERSHIP_MOVED if leadership else What.REPLICA_MOVED,
        partitions=[label(action.partition)],
        numbers=numbers,
        why=why[0],
        next=None if second is None else str(label(second.partition)),
    )


def _shift(problem: Problem, action: Action) -> tuple[int, int, Floats]:
    """Return the two brokers by position, and what the action shifts by goal."""
    snapshot = problem.snapshot
    p = int(np.searchsorted(snapshot.partitions, action.partition))
    a, b = (int(np.searchsorted(snapshot.brokers, n)) for n in (action.source, action.target))
    if isinstance(action, MoveLeadership):
        return a, b, problem.lead[p]
    return a, b, problem.follow[p] + (problem.lead[p] if action.leads else 0.0)


def _scores(problem: Problem, loads: Floats) -> Floats:
    """Return the lowest score of some brokers by goal; ``loads`` is float64[brokers, goals]."""
    return np.array([at.score(np.maximum(loads[:, g], 0.0)).min() for g, at in enumerate(problem.bands)])


def explained(cycle: Cycle, label: Label) -> Iterator[Finding]:
    """Return everything that a cycle has found, the outcome first; actions come last."""
    yield _outcome(cycle)
    yield from _taking_no_part(cycle, label)
    yield from _full(cycle.problem)
    if (lacking := provision(cycle.problem)).missing:
        goals = [str(n) for n, missing in lacking.by_load.items() if missing > 0]
        yield Finding.of(What.BROKERS_MISSING, missing=lacking.missing, goals=goals)
    for load, lacks in cycle.problem.left_out:
        yield Finding.of(What.GOAL_LEFT_OUT, goal=str(load), lacks=list(lacks))
    if cycle.plan is None:
        return
    yield from _not_moved(cycle.plan, label)
    yield from actions_explained(cycle.plan, label)


def _taking_no_part(cycle: Cycle, label: Label) -> Iterator[Finding]:
    """Return which brokers neither give nor receive, and why: they settle, they are offline, something is not measured."""
    problem, snapshot = cycle.problem, cycle.problem.snapshot
    if cycle.settling:
        yield Finding.of(What.BROKERS_SETTLE, brokers=[str(b) for b in cycle.settling])
    if cycle.outcome is not Outcome.OFFLINE and snapshot.offline.any():
        yield Finding.of(What.BROKERS_AWAY, brokers=_ids(problem, snapshot.offline))
    if snapshot.slow.any():
        yield Finding.of(What.BROKERS_SLOW, brokers=_ids(problem, snapshot.slow))
    if problem.stale.any():
        partitions = [label(p) for p in snapshot.partitions[problem.stale].tolist()]
        yield Finding.of(
            What.BROKERS_NOT_MEASURED, partitions=partitions, brokers=_ids(problem, holding(snapshot, problem.stale))
        )


def _not_moved(plan: Plan, label: Label) -> Iterator[Finding]:
    """Return what should move and cannot, and what a plan that empties brokers brings with it."""
    problem, snapshot = plan.problem, plan.problem.snapshot
    if staying(problem).any():  # else this is all that there is to say
        for (broker, why), kept in plan.cannot_leave.items():
            yield Finding.of(What.BROKER_NOT_EMPTIED, partitions=[label(p) for p in kept], broker=broker, why=str(why))
    if held_everywhere(problem) and not plan.becomes.balanced:
        yield Finding.of(What.HELD_EVERYWHERE)
    brokers, more = racks_emptied(problem)
    if more.any():
        partitions = [label(p) for p in snapshot.partitions[more].tolist()]
        yield Finding.of(What.RACK_EMPTIED, partitions=partitions, brokers=_ids(problem, brokers))
    shared = np.unique(snapshot.partitions[snapshot.partition[crowded(problem, plan.after)]])
    if len(shared):
        yield Finding.of(What.RACK_SHARED, partitions=[label(p) for p in shared.tolist()])


def _ids(problem: Problem, which: Bools) -> list[str]:
    return [str(b) for b in problem.snapshot.brokers[which].tolist()]


def _full(problem: Problem) -> Iterator[Finding]:
    """Return which brokers may not be given a mean replica more, by each load that limits them."""
    loads, replicas = loads_of(problem, problem.snapshot.state), max(1, len(problem.snapshot.partition))
    for g, name in enumerate(problem.loads):
        room = problem.limit[:, g] - loads[:, g]
        for b in np.flatnonzero(problem.counted & (room < loads[:, g].sum() / replicas)).tolist():
            ends = {"load": float(loads[b, g]), "most": float(problem.limit[b, g])}
            numbers = {f"{n}{unit_of(name)}": v for n, v in ends.items()}
            yield Finding.of(What.BROKER_FULL, numbers={"broker": int(problem.snapshot.brokers[b]), **numbers}, goal=str(name))


def loads_explained(problem: Problem) -> Iterator[Finding]:
    """Return a finding for each broker, of what it has by each goal.

    Its numbers are ``broker`` and by load ``LOAD`` (smoothed; bytes, bytes/s or a count), ``LOAD_mean`` of all brokers,
    ``LOAD_low`` and ``LOAD_high``, the ends of the band of a broker that takes part, where the load is a goal, and
    ``LOAD_most``, what it may be given, where that is limited.
    """
    loads = loads_of(problem, problem.snapshot.state)
    for b, broker in enumerate(problem.snapshot.brokers.tolist()):
        numbers: dict[str, float] = {"broker": broker}
        for g, name in enumerate(problem.loads):
            numbers |= {str(name): float(loads[b, g]), f"{name}_mean": float(problem.means[g])}
            if problem.counted[b] and g < len(problem.goals):
                numbers |= dict(zip((f"{name}_low", f"{name}_high"), problem.bands[g].limits(), strict=True))
            if np.isfinite(problem.limit[b, g]):
                numbers[f"{name}_most"] = float(problem.limit[b, g])
        yield Finding.of(What.BROKER_LOADS, numbers=numbers)


def _outcome(cycle: Cycle) -> Finding:
    brokers = [str(b) for b in dict.fromkeys(b for b, _ in cycle.outside)]
    goals = [str(g) for g in dict.fromkeys(g for _, g in cycle.outside)]
    found = Finding.of(What.BROKERS_BALANCED)
    match cycle.outcome:
        case Outcome.ACT if cycle.plan is not None:
            was, becomes = cycle.plan.was.balancedness, cycle.plan.becomes.balancedness
            found = Finding.of(What.BALANCING, actions=len(cycle.plan.actions), before=was, after=becomes)
        case Outcome.REFUSED if cycle.plan is not None:
            found = Finding.of(What.BALANCE_REFUSED, worse=list(cycle.plan.refused_for))
        case Outcome.NOT_LONG:
            most = max(cycle.outside.values())
            found = Finding.of(What.OUTSIDE_NOT_LONG, brokers=brokers, goals=goals, rounds=most)
        case Outcome.NOTHING_HELPS:
            asked = What.LEAVING_ALL if not staying(cycle.problem).any() else What.NONE_CAN_MOVE
            found = Finding.of(What.NO_ACTION_HELPS, brokers=brokers, goals=goals) if brokers else Finding.of(asked)
        case Outcome.OFFLINE:
            found = Finding.of(What.BROKERS_OFFLINE, brokers=_ids(cycle.problem, cycle.problem.snapshot.offline))
        case Outcome.PARTLY:
            counted = cycle.problem.counted
            found = Finding.of(What.REST_BALANCED, brokers=len(counted), counted=int(counted.sum()))
    return found
