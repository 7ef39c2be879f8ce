"""Plans from good fillings of single consumers: column generation, for groups too large for CP-SAT. Part of *pack*.

The prices of the relaxation say which fillings of a consumer are worth having. Of some thousands of these, a solver for integer
programs chooses the cheapest that hold everything. As the relaxation is hardly ever more than a few per cent too low, that takes
less than a second at 200 partitions, and often enough the result is as low as the bound, which proves it.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autoscaler.packing.exact.fill_prices import Relaxation, Steps, best_bound, chance, fill_each
from autoscaler.packing.exact.solver import new_integer_program
from autoscaler.packing.exact.task import Task, by_home
from autoscaler.packing.kernels.bins import Floats, Ints
from autoscaler.packing.kernels.jit import compiled
from autoscaler.packing.problem.options import Labels

_SPREAD = 0.1  # prices are varied by so much either way: 0.02 gave too few different fillings
_ROUNDS = 200
_MOST_BYTES = 10_000_000  # of fillings: 200 rounds at 200 partitions take half of it
_MOST_COLUMNS = 4000  # more took longer and gave no less
_FOR_PRICES = 0.4  # of the time
_WORK_PER_S = 2.5e8  # numbers written for that while a second passes, on a slow machine
_MOST_PRICES = 20_000  # tried
_ROUNDING = 1e-6


class Columns(NamedTuple):
    """Fillings."""

    consumer: Ints  # int64[m], whose filling it is; ``k`` for one that is no partition's home
    takes: NDArray[np.int8]  # int8[m, n], 1 where it takes a partition
    cost: Floats  # float64[m], of moving what is not at home
    known: NDArray[np.bool_]  # bool[m], whether a known placement has it


@compiled
def _vary(given: Relaxation, price: Floats, rounds: int, spread: float) -> NDArray[np.int8]:
    """Return the best fillings at prices that vary around the given ones: int8[rounds * (k + 1), n]."""
    consumers, n = given.start.shape[0] - 1, price.shape[0]
    found = np.zeros((rounds * consumers, n), np.int8)
    state = np.ones(1, np.int64)
    for i in range(rounds):
        varied = price.copy()
        for j in range(n):
            varied[j] *= 1.0 + spread * (2.0 * chance(state) - 1.0) * (i > 0)
        found[i * consumers : (i + 1) * consumers] = fill_each(given, varied).takes
    return found


def good_columns(given: Relaxation, price: Floats, known: Ints) -> Columns:
    """Return different fillings that are worth having at these prices, float64[n], and those of a known placement.

    Sizes are such that what fits by them really fits. ``known`` is the consumer of each partition, ``k`` and above for those
    that have no home.
    """
    homes, n = given.start.shape[0] - 2, price.shape[0]
    rounds = int(min(_ROUNDS, 1 + _MOST_BYTES // ((homes + 1) * n)))
    used = np.unique(known)
    takes = np.concatenate(((known == used[:, None]).astype(np.int8), _vary(given, price, rounds, _SPREAD)))
    consumer = np.concatenate((np.minimum(used, homes), np.tile(np.arange(homes + 1), rounds)))
    key = np.concatenate((np.packbits(takes, axis=1), consumer[:, None].astype(np.int32).view(np.uint8)), axis=1)
    first = np.unique(np.ascontiguousarray(key).view(np.dtype((np.void, key.shape[1]))).ravel(), return_index=True)[1]
    takes, consumer, is_known = takes[first], consumer[first], first < used.shape[0]
    cost = takes @ given.cost
    for c in range(homes):
        own = slice(given.start[c], given.start[c + 1])
        cost[consumer == c] -= takes[consumer == c, own] @ given.cost[own]
    dear = cost - takes @ price + fill_each(given, price).worth[consumer]
    dear = np.where(is_known, -np.inf, np.where(takes.any(axis=1), dear, np.inf))
    kept = np.argsort(dear, kind="stable")[:_MOST_COLUMNS]
    return Columns(consumer[kept], takes[kept], cost[kept], is_known[kept])


def cheapest_cover(columns: Columns, homes: int, consumers: int, seconds: float) -> tuple[Ints | None, float]:
    """Return the fillings, by their place, that hold everything at the least cost, and the seconds it took.

    Each consumer below ``homes`` has one filling at most, all together have ``consumers`` at most. There are none if none were
    found in time.
    """
    solver = new_integer_program()
    most = solver.infinity()
    held = [solver.Constraint(1, most) for _ in range(columns.takes.shape[1])]
    once = [solver.Constraint(0, 1) for _ in range(homes)]
    in_all = solver.Constraint(0, consumers)
    chosen = []
    for c, takes, cost in zip(columns.consumer.tolist(), columns.takes, columns.cost.tolist(), strict=True):
        variable = solver.IntVar(0, 1, "")
        for constraint in (in_all, *once[c : c + 1], *(held[j] for j in np.flatnonzero(takes))):
            constraint.SetCoefficient(variable, 1)
        solver.Objective().SetCoefficient(variable, cost)
        chosen.append(variable)
    solver.Objective().SetMinimization()
    solver.SetHint(chosen, columns.known.astype(float).tolist())
    solver.SetTimeLimit(max(1, int(1000 * seconds)))
    if solver.Solve() not in {solver.OPTIMAL, solver.FEASIBLE}:
        return None, solver.wall_time() / 1000
    return np.flatnonzero([round(variable.solution_value()) for variable in chosen]), solver.wall_time() / 1000


def placement_of(columns: Columns, chosen: Ints, homes: int, home: Ints) -> Ints:
    """Return the consumer of each partition: int64[n]. One that several fillings take stays at home if it can."""
    owner = np.full(columns.takes.shape[1], -1)
    fresh = homes
    for i in chosen.tolist():
        consumer = int(columns.consumer[i])
        if consumer == homes:
            consumer, fresh = fresh, fresh + 1
        taken = columns.takes[i] > 0
        owner[taken & ((owner < 0) | (home == consumer))] = consumer
    return owner


def improve_by_columns(task: Task, known: Labels, consumers: int, seconds: float) -> tuple[Labels, bool, float]:
    """Return the placement that moves least, of those that fillings give, whether no other moves less, and a part of the seconds.

    ``known`` stays unless a better one is found; as many ``consumers`` as it has may be used at least. It takes ``seconds``,
    about.
    """
    groups = by_home(task, np.asarray(task.cost.multiples * task.cost.unit, np.float64))
    loose = groups.relaxation(task, consumers, optimistic=True)
    work = known.shape[0] * math.ceil(math.log2(task.labels + 2)) * loose.capacity
    rounds = int(min(_MOST_PRICES, _WORK_PER_S * seconds / work))
    bound, price = best_bound(loose, task.moved(known) * task.cost.unit, rounds, Steps())
    least = math.ceil(bound / task.cost.unit - _ROUNDING)
    if task.moved(known) <= least:
        return known, True, seconds * _FOR_PRICES
    columns = good_columns(groups.relaxation(task, consumers, optimistic=False), price, known[groups.order])
    chosen, took = cheapest_cover(columns, task.labels, consumers, seconds * (1 - _FOR_PRICES) / 2)
    if chosen is not None:
        owner = np.empty_like(known)
        owner[groups.order] = placement_of(columns, chosen, task.labels, task.home[groups.order])
        known = owner if task.moved(owner) < task.moved(known) else known
    return known, task.moved(known) <= least, seconds * _FOR_PRICES + took
