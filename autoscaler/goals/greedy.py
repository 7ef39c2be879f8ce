"""The published greedy way to choose actions, its defects included: to compare with. Part of *goals*.

Source: as ``score``. Goal by goal, each broker outside its band gives its replicas, the largest first, each to the broker with
the best action score above 0.5, until it is in its band; those of internal topics come last. A broker's plan that changes its
load by less than a twentieth of the mean is undone. It never looks for what a broker below its band lacks, and gets stuck.
"""

import numpy as np

from autoscaler.goals.kernels import Model, link, may_hold, move
from autoscaler.goals.problem import Problem
from autoscaler.goals.score import NEUTRAL, Floats, weighted
from autoscaler.goals.snapshot import Bools, Ints

_WORTH_IT = 0.05  # of the mean: a broker's plan that changes less is undone


def greedy(problem: Problem, model: Model, internal: Bools) -> Ints:
    """Move replicas on the model and return them in the order of their last move.

    Args:
        problem: What is balanced.
        model: Of the same; it is changed.
        internal: bool[partitions], those that come last.
    """
    moved = dict[int, None]()
    for g, at in enumerate(problem.bands):
        for a in np.flatnonzero(problem.counted).tolist():
            if not at.holds(model.load[a, g]):
                for r in _from(problem, model, a, g, internal):
                    moved.pop(r, None)
                    moved[r] = None
    return np.array(list(moved), np.int64)


def _from(problem: Problem, model: Model, a: int, g: int, internal: Bools) -> list[int]:
    """Let one broker give replicas for one goal."""
    at, before, plan = problem.bands[g], float(model.load[a, g]), list[int]()
    mine = np.flatnonzero((model.broker == a) & model.movable[model.partition])
    share = loads_of_replicas(model, mine)[:, g]
    for r in mine[np.lexsort((-share, internal[model.partition[mine]]))].tolist():
        if at.holds(model.load[a, g]):
            break
        b = _best(problem, model, r, a)
        if b is not None:
            move(model, r, b)
            plan.append(r)
    if abs(float(model.load[a, g]) - before) < _WORTH_IT * at.mean:
        for r in reversed(plan):
            move(model, r, a)
        link(model)  # what was undone leaves no rounding
        return []
    return plan


def loads_of_replicas(model: Model, replicas: Ints) -> Floats:
    """Return what each of these replicas puts on its broker: float64[replicas, goals]."""
    p = model.partition[replicas]
    return np.asarray(model.follow[p] + np.where((model.leader[p] == replicas)[:, None], model.lead[p], 0.0))


def _best(problem: Problem, model: Model, r: int, a: int) -> int | None:
    """Return the broker to which moving a replica has the best score, if that helps and breaks nothing hard."""
    x = loads_of_replicas(model, np.array([r]))[0]
    others = np.flatnonzero(model.receives & np.all(model.load + x <= model.limit, axis=1))
    others = np.array([b for b in others.tolist() if b != a and may_hold(model, r, b)], np.int64)
    if not len(others):
        return None
    weights = np.array([goal.weight for goal in problem.goals])
    scores = weighted(action_scores(problem, model.load, a, others, x), weights)
    best = int(np.argmax(scores))
    return int(others[best]) if scores[best] > NEUTRAL + 1e-12 else None


def action_scores(problem: Problem, load: Floats, a: int, others: Ints, x: Floats) -> Floats:
    """Return the score by goal of shifting ``x`` from one broker to each of others: float64[others, goals]."""
    columns = [
        at.action(
            (np.full(len(others), load[a, g]), load[others, g]), (np.full(len(others), load[a, g] - x[g]), load[others, g] + x[g])
        )
        for g, at in enumerate(problem.bands)
    ]
    return np.stack(columns, axis=1)
