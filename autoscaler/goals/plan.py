"""From a snapshot to a plan: choose actions on a model, check that nothing became worse, take the difference. Part of *goals*."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from autoscaler.goals.actions import Action, applied, difference
from autoscaler.goals.best_fit import Log, improve, lead_elsewhere, settle_elsewhere
from autoscaler.goals.greedy import greedy
from autoscaler.goals.kernels import LEAD, NONE, Model
from autoscaler.goals.order import most_for_its_cost
from autoscaler.goals.problem import Problem, model_of, problem_of
from autoscaler.goals.settings import Settings, Strategy
from autoscaler.goals.snapshot import Bools, Ints, Snapshot, State
from autoscaler.goals.statistics import Statistics, crowded, loads_of, statistics, worse
from autoscaler.goals.stuck import Why, cannot_leave
from autoscaler.goals.trim import PASSES, trim

Chosen = tuple[int, bool]  # a partition, as in ``Snapshot.partitions``, and whether its leadership was moved, or else a replica


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerUp:
    """What would have been chosen in an action's place.

    Attributes:
        partition: As in ``Snapshot.partitions``.
        target: Id of the broker that would have got it.
        worth_ratio: What it was worth, as a part of what the action was worth.
    """

    partition: int
    target: int
    worth_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What shall be done, and what it was judged by.

    Attributes:
        problem: What was to be balanced.
        before: State that was found.
        after: State that is wanted; as found if the plan was refused.
        actions: Their difference, in order.
        was: Statistics before.
        becomes: Statistics afterwards, of a refused plan those that it was refused for.
        refused_for: What would have become worse, by name; empty if nothing.
        cannot_leave: Partitions of brokers that shall be emptied, by the broker's id and what keeps them.
        runners_up: By what was chosen instead.
        forced: Replicas that had to move, or to lead, because of racks or brokers that are emptied.
    """

    problem: Problem
    before: State
    after: State
    actions: tuple[Action, ...]
    was: Statistics
    becomes: Statistics
    refused_for: tuple[str, ...] = ()
    cannot_leave: Mapping[tuple[int, Why], tuple[int, ...]] = field(default_factory=dict)
    runners_up: Mapping[Chosen, RunnerUp] = field(default_factory=dict)
    forced: int = 0


def balance(
    snapshot: Snapshot,
    settings: Settings,
    *,
    acting: Bools | None = None,
    sits_out: Bools | None = None,
    stays: Bools | None = None,
) -> Plan:
    """Plan how a cluster becomes balanced; brokers of ``snapshot.leaving`` are emptied, new ones are filled.

    Args:
        snapshot: What is known.
        settings: What is wanted.
        acting: bool[brokers, loads], which brokers to bring into which band; ``None``: all that are outside.
        sits_out: bool[brokers], brokers that take no part.
        stays: bool[partitions], partitions that do not move.
    """
    problem = problem_of(snapshot, settings, sits_out=sits_out, stays=stays)
    model = model_of(problem, acting, settings.inner)
    left, forced = _forced(problem, model)
    kept = cannot_leave(problem, State(broker=model.broker, leader=model.leader), left)
    order, runners_up = _chosen(problem, model, settings)
    after = State(broker=model.broker, leader=model.leader)
    return _checked(problem, after, order, runners_up, forced=forced, kept=kept, published=settings.strategy is Strategy.GREEDY)


def _forced(problem: Problem, model: Model) -> tuple[Ints, Ints]:
    """Empty brokers that leave, and spread what shares a rack; return what could not leave, and what moved."""
    snapshot = problem.snapshot
    size = problem.follow.sum(axis=1)[model.partition]
    leaving = np.flatnonzero(snapshot.leaving[model.broker])
    leaving = leaving[np.argsort(-size[leaving], kind="stable")]  # the largest first: they find room while there is some
    may = problem.movable[model.partition[leaving]] & ~snapshot.offline[model.broker[leaving]]
    kept = settle_elsewhere(model, leaving[may], True)
    lead_elsewhere(model, kept)
    left = np.concatenate([leaving[~may], kept])
    beside = crowded(problem, State(broker=model.broker, leader=model.leader))
    beside = beside[problem.movable[model.partition[beside]] & model.gives[model.broker[beside]]]
    settle_elsewhere(model, beside, False)
    led = model.leader[model.leader != snapshot.state.leader]
    return left, np.union1d(np.flatnonzero(model.broker != snapshot.state.broker), led)


def _chosen(problem: Problem, model: Model, settings: Settings) -> tuple[list[int], dict[Chosen, RunnerUp]]:
    """Choose actions; return the positions of partitions in the order of their moves, and what came second."""
    if settings.strategy is Strategy.GREEDY:
        replicas = greedy(problem, model, np.isin(problem.snapshot.topics, np.array(sorted(settings.internal), np.int64)))
        return model.partition[replicas].tolist(), {}
    home = model.broker.copy()
    logs = [improve(model, settings.most_actions, leaders_only) for leaders_only in (True, False)]
    runners_up = dict[Chosen, RunnerUp]()
    for log in logs:
        _note(problem.snapshot, model.partition, log, runners_up)
    moved = _trimmed(problem.snapshot, model, home, logs[1].replica[: logs[1].used[0]], runners_up)
    return model.partition[moved].tolist(), runners_up


def _trimmed(snapshot: Snapshot, model: Model, home: Ints, moved: Ints, noted: dict[Chosen, RunnerUp]) -> Ints:
    """Do without what a plan can do without; return the replicas that move in their order, and note what they replace."""
    instead = trim(model, home)
    name = snapshot.partitions[model.partition]
    for r in np.flatnonzero(instead != NONE).tolist():
        q = int(instead[r])
        if model.broker[q] != home[q]:
            target = int(snapshot.brokers[model.broker[q]])
            cost = (1.0 + model.copied[model.partition[[q, r]]]).tolist()
            noted[int(name[q]), False] = RunnerUp(partition=int(name[r]), target=target, worth_ratio=cost[0] / cost[1])
    for _ in range(PASSES):  # what has replaced a replica may have been replaced itself
        replaced = (instead[moved] != NONE) & (model.broker[moved] == home[moved])
        moved = np.where(replaced, instead[moved], moved)
    return moved


def _note(snapshot: Snapshot, partition: Ints, log: Log, noted: dict[Chosen, RunnerUp]) -> None:
    used = int(log.used[0])
    second = np.where(log.next_replica[:used] == NONE, 0, log.next_replica[:used])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = log.next_worth[:used] / log.worth[:used]
    rows = zip(
        snapshot.partitions[partition[log.replica[:used]]].tolist(),
        (log.kind[:used] == LEAD).tolist(),
        log.next_replica[:used].tolist(),
        snapshot.partitions[partition[second]].tolist(),
        snapshot.brokers[np.clip(log.next_target[:used], 0, len(snapshot.brokers) - 1)].tolist(),
        ratio.tolist(),
        strict=True,
    )
    for p, leads, there, other, target, part in rows:
        noted.pop((p, leads), None)
        if there != NONE:
            noted[p, leads] = RunnerUp(partition=other, target=target, worth_ratio=part)


def _checked(
    problem: Problem,
    after: State,
    order: list[int],
    runners_up: dict[Chosen, RunnerUp],
    *,
    forced: Ints,
    kept: Mapping[tuple[int, Why], tuple[int, ...]],
    published: bool,
) -> Plan:
    """Return the plan, without its actions if anything became worse that nothing hard has asked for."""
    before = problem.snapshot.state
    was, becomes = statistics(problem, before), statistics(problem, after)
    bad = worse(was, becomes)
    plan = Plan(
        problem=problem,
        before=before,
        after=after,
        actions=(),
        was=was,
        becomes=becomes,
        runners_up=runners_up,
        forced=len(forced),
        cannot_leave=kept,
    )
    if bad and (not len(forced) or {"crowded_racks", "over_capacity"} & set(bad)):
        return replace(plan, after=before, refused_for=bad)
    snapshot = problem.snapshot
    order = [*snapshot.partition[forced].tolist(), *order]
    actions = difference(snapshot, before, after, order)
    return replace(plan, actions=actions if published else _by_what_they_do(plan, actions, forced))


def _by_what_they_do(plan: Plan, actions: tuple[Action, ...], forced: Ints) -> tuple[Action, ...]:
    """Return actions in the order in which each does the most for what it copies, after those that something hard asks for."""
    snapshot = plan.problem.snapshot
    asked = frozenset(snapshot.partitions[snapshot.partition[forced]].tolist())
    first = [a for a in actions if a.partition in asked]
    begins = applied(snapshot, plan.before, first) if first else plan.before
    then, end = (loads_of(plan.problem, s) for s in (begins, plan.after))
    return (*first, *most_for_its_cost(plan.problem, then, end, [a for a in actions if a.partition not in asked]))
