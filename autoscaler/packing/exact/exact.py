"""EXACT: the fewest consumers beyond those paid for, and then the least moved. Part of *pack*.

A plan of PACE comes first, so that there is a good one whenever the time is over; it stays unless something better is found. Then
a local search and CP-SAT look for fewer consumers, column generation for fewer moves, and CP-SAT for the rest. Up to some 50
partitions the answer is proven in a second as a rule, at 200 now and then; where it is not, another call goes on from there.
Groups too large for all that keep their plan.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from autoscaler.packing.exact.columns import improve_by_columns
from autoscaler.packing.exact.solver import new_model, solve
from autoscaler.packing.exact.task import Task
from autoscaler.packing.exact.whole_units import whole_costs, whole_sizes
from autoscaler.packing.kernels.bins import LIMIT, Floats
from autoscaler.packing.pace.pace import pace
from autoscaler.packing.problem.lower_bounds import martello_toth
from autoscaler.packing.problem.options import Labels, Options, Planned
from autoscaler.packing.vector.elimination import eliminate
from autoscaler.packing.vector.fill import Demand, Room
from autoscaler.packing.vector.overlap import match

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from ortools.sat.python.cp_model import CpModel, IntVar

_MOST_CHOICES = 10_000  # partitions times consumers: with 20,000 CP-SAT proved nothing in 20 s
_MOST_AT_ALL = 1_000_000  # above, not even the prices of the relaxation get good within seconds
_LEAN = 100.0  # price of a consumer: more than any moves that another one saves
_TRIES = 2000  # to empty consumers: 25 ms at 200 partitions


class Choice(NamedTuple):
    """A model in which each partition has one consumer: x[j][c], and y[c] says whether c is used."""

    model: "CpModel"
    x: "list[list[IntVar]]"
    y: "list[IntVar]"

    def hint(self, owner: Labels) -> "dict[IntVar, bool]":
        """Return a placement as values of the variables."""
        used = set(owner.tolist())
        return {x: c == owner[j] for j, row in enumerate(self.x) for c, x in enumerate(row)} | {
            y: c in used for c, y in enumerate(self.y)
        }

    def owner(self, true: frozenset[int]) -> Labels:
        """Return the placement of a solution."""
        return np.array([next(c for c, x in enumerate(row) if x.index in true) for row in self.x], np.int64)


def _choice(task: Task, consumers: int) -> Choice:
    model = new_model()
    n = task.home.shape[0]
    x = [[model.new_bool_var("") for _ in range(consumers)] for _ in range(n)]
    y = [model.new_bool_var("") for _ in range(consumers)]
    for row in x:
        model.add_exactly_one(row)
    for c in range(consumers):
        for whole in task.sizes:
            model.add(sum(size * row[c] for size, row in zip(whole.sizes.tolist(), x, strict=True)) <= whole.capacity * y[c])
        for row in x:
            model.add_implication(row[c], y[c])
    return Choice(model, x, y)


def _contents(task: Task, consumers: int, seconds: float) -> tuple[Labels | None, bool, float]:
    """Return a packing onto so many consumers, whether the answer is sure, and the seconds it took.

    Consumers are alike here: the largest partition is on the first, the next on the first or the second, and so on.
    """
    choice = _choice(task, consumers)
    order = np.argsort(-np.max([whole.sizes / whole.capacity for whole in task.sizes], axis=0), kind="stable")
    for i, j in enumerate(order[:consumers].tolist()):
        for c in range(i + 1, consumers):
            choice.model.add(choice.x[j][c] == 0)
    solved = solve(choice.model, {}, seconds)
    return None if solved.true is None else choice.owner(solved.true), solved.proven, solved.seconds


def _fewest(task: Task, known: Labels, least: int, seconds: float) -> tuple[Labels, bool, float]:
    """Return a packing onto the fewest consumers found, whether there are no fewer, and the seconds it took."""
    spent = 0.0
    if np.unique(known).shape[0] > least:
        known = _emptied(task, known, least)
    while (consumers := np.unique(known).shape[0] - 1) >= least:
        if not _can_search(task, consumers):
            return known, False, spent
        found, sure, took = _contents(task, consumers, max(0.0, seconds - spent))
        spent += took
        if found is None:
            return known, sure, spent
        known = found
    return known, True, spent


def _emptied(task: Task, known: Labels, least: int) -> Labels:
    """Return a packing onto fewer consumers if pushing partitions around finds one, else the known one."""
    need = [np.minimum(whole.sizes / whole.capacity, 1.0) for whole in task.sizes]
    demand = Demand(need[0], need[-1] if len(need) > 1 else np.zeros_like(need[0]))
    contents = np.unique(known, return_inverse=True)[1]
    room = np.ones(int(contents.max()) + 1)
    fewer = eliminate(demand, Room(room, room, 0), contents, least, _TRIES)
    fits = all(
        (np.bincount(fewer, whole.sizes) <= whole.capacity).all() for whole in task.sizes
    )  # the search allows for rounding
    return fewer if fits and np.unique(fewer).shape[0] < room.shape[0] else known


def least_moved_model(task: Task, consumers: int) -> Choice:
    """Return the model of the placements on so many consumers that move least.

    A consumer that is not there yet is of use only when there are fewer than needed: otherwise an old one that is empty does.
    """
    choice = _choice(task, max(task.labels, consumers))
    choice.model.add(sum(choice.y) <= consumers)
    costs = zip(task.cost.multiples.tolist(), choice.x, task.home.tolist(), strict=True)
    choice.model.minimize(sum(cost * (1 - row[h]) for cost, row, h in costs if h >= 0))
    return choice


def _least_moved(task: Task, known: Labels, consumers: int, seconds: float) -> tuple[Labels, bool]:
    """Return the placement on so many consumers at most that moves least, and whether that is proven."""
    if not task.moved(known):
        return known, True
    spent = 0.0
    if len(task.sizes) == 1:
        known, proven, spent = improve_by_columns(task, known, consumers, seconds)
        if proven:
            return known, True
    if spent >= seconds or not _can_search(task, consumers):
        return known, False
    choice = least_moved_model(task, consumers)
    solved = solve(choice.model, choice.hint(known), seconds - spent)
    if solved.true is None:
        return known, False
    owner = choice.owner(solved.true)
    return (owner if task.moved(owner) < task.moved(known) else known), solved.proven


def _can_search(task: Task, consumers: int) -> bool:
    """Say whether CP-SAT can get anywhere with a task."""
    return len(task.home) * max(task.labels, consumers) <= _MOST_CHOICES


def plan_exactly(task: Task, known: Labels, least: int, seconds: float) -> Planned:
    """Return the best placement found in time, and whether nothing better exists; ``known`` unless it is better.

    ``least`` consumers cost nothing: no placement has fewer, or they are paid for.
    """
    known = _compact(known, task.labels)
    if task.home.shape[0] * max(np.unique(known).shape[0], task.labels) > _MOST_AT_ALL:
        return Planned(known, proven=not task.moved(known) and np.unique(known).shape[0] <= least)
    fewest, sure, spent = _fewest(task, known, least, seconds / 2)
    start = known if fewest is known else _named_after_homes(fewest, task)
    owner, least_moved = _least_moved(task, start, max(least, np.unique(start).shape[0]), max(0.0, seconds - spent))
    return Planned(owner, proven=sure and least_moved)


def _named_after_homes(contents: Labels, task: Task) -> Labels:
    """Return contents as labels: those of the consumers that hold most of them, else free ones, the lowest first."""
    contents = np.unique(contents, return_inverse=True)[1]
    named = match(contents, task.home, task.cost.multiples.astype(np.float64))
    return _compact(np.where(named >= 0, named, task.labels + np.arange(named.shape[0]))[contents], task.labels)


def _compact(labels: Labels, known: int) -> Labels:
    """Return labels in which new consumers have the lowest labels that are free: an old one that is empty serves as well."""
    used, at = np.unique(labels, return_inverse=True)
    kept = used[used < known]
    free = np.setdiff1d(np.arange(known + used.shape[0]), kept)
    return np.concatenate((kept, free[: used.shape[0] - kept.shape[0]]))[at]


def exact(e: Floats, cost: Floats, home: Labels, options: Options) -> Planned:
    """Place every partition on the fewest consumers, and of such placements take one that moves least; see ``ArrayPlanner``.

    Consumers that are paid for do not count: so many may be used in any case.

    Raises:
        PermanentError: OR-Tools is not installed.
    """
    new_model()
    lean = replace(options, consumer_price=_LEAN, drift_weight=0.0)
    known = pace(e, cost, home, lean).labels
    busy = e > 0
    task = Task([whole_sizes(cost[busy])], whole_costs(cost[busy]), home[busy], int(home.max(initial=-1)) + 1)
    if not busy.any():
        return Planned(known, proven=True)
    paid_for = int(min(options.paid_for, float(busy.sum())))  # more cannot be used
    planned = plan_exactly(task, known[busy], max(paid_for, martello_toth(e[busy], 1.0)), options.time_limit_s)
    return Planned(with_idle(planned.labels, busy, cost > LIMIT, home), planned.proven)


def with_idle(placed: Labels, busy: "NDArray[np.bool_]", alone: "NDArray[np.bool_]", home: Labels) -> Labels:
    """Add the partitions without traffic: at home if that is used, else on the lowest label that no oversized partition has."""
    labels = np.empty_like(home)
    labels[busy] = placed
    used = np.unique(placed)
    open_to_all = np.setdiff1d(used, labels[busy & alone])
    fresh = np.setdiff1d(np.arange(used.shape[0] + 1), used)
    labels[~busy] = np.where(np.isin(home[~busy], used), home[~busy], (open_to_all if open_to_all.size else fresh)[0])
    return labels
