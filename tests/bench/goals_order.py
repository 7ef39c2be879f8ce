"""Goals one after the other, as Cruise Control's analyzer takes them: to compare the bytes that are copied with.

Each goal in the order of its defaults: brokers above the band give, the fullest first, leaderships first where they count, then
replicas, the largest first, each to the emptiest broker that it does not take above the band; brokers below it take from the
fullest. An action is refused if it takes a broker out of the band of an earlier goal, or further outside.
"""

from collections.abc import Iterator

import numpy as np

from autoscaler.goals import Name, Problem
from autoscaler.goals.greedy import loads_of_replicas
from autoscaler.goals.kernels import Model, hand_over, may_hold, move
from autoscaler.goals.score import Floats

ORDER = (Name.REPLICAS, Name.STORAGE, Name.BYTES_IN, Name.BYTES_OUT, Name.LEADERS)
LED = (Name.BYTES_OUT, Name.LEADERS)


def in_order(problem: Problem, model: Model) -> None:
    """Balance the model goal by goal."""
    names = [g.name for g in problem.goals]
    done: list[int] = []
    for name in ORDER:
        g = names.index(name)
        for a in np.argsort(-model.load[:, g]).tolist():
            if name in LED:
                _hand_over(problem, model, a, g, done)
            _give(problem, model, a, g, done)
        for b in np.argsort(model.load[:, g]).tolist():
            _fill(problem, model, b, g, done)
        done.append(g)


def _limits(problem: Problem, g: int) -> tuple[float, float]:
    return problem.bands[g].limits()


def _hand_over(problem: Problem, model: Model, a: int, g: int, done: list[int]) -> None:
    led = np.flatnonzero(model.broker[model.leader] == a)
    for p in led[np.argsort(-model.lead[led, g], kind="stable")].tolist():
        if model.load[a, g] <= _limits(problem, g)[1]:
            return
        others = [r for r in range(model.first[p], model.first[p + 1]) if r != model.leader[p]]
        for r in sorted(others, key=lambda r: float(model.load[model.broker[r], g])):
            if _accepted(problem, model, a, int(model.broker[r]), model.lead[p], g, done):
                hand_over(model, p, r)
                break


def _give(problem: Problem, model: Model, a: int, g: int, done: list[int]) -> None:
    for r, x in _largest(model, a, g):
        if model.load[a, g] <= _limits(problem, g)[1]:
            return
        for b in np.argsort(model.load[:, g]).tolist():
            if b != a and may_hold(model, r, b) and _accepted(problem, model, a, b, x, g, done):
                move(model, r, b)
                break


def _fill(problem: Problem, model: Model, b: int, g: int, done: list[int]) -> None:
    for a in np.argsort(-model.load[:, g]).tolist():
        for r, x in _largest(model, a, g):
            if model.load[b, g] >= _limits(problem, g)[0] or model.load[a, g] <= problem.bands[g].mean:
                break
            if a != b and may_hold(model, r, b) and _accepted(problem, model, a, b, x, g, done):
                move(model, r, b)


def _largest(model: Model, a: int, g: int) -> Iterator[tuple[int, Floats]]:
    mine = np.flatnonzero(model.broker == a)
    shares = loads_of_replicas(model, mine)
    for i in np.argsort(-shares[:, g], kind="stable").tolist():
        yield int(mine[i]), shares[i]


def _accepted(problem: Problem, model: Model, a: int, b: int, x: Floats, g: int, done: list[int]) -> bool:  # noqa: PLR0917
    low, high = _limits(problem, g)
    if x[g] <= 0 or model.load[b, g] + x[g] > high or model.load[a, g] - x[g] < low:
        return False
    for k in done:
        low, high = _limits(problem, k)
        for load, change in ((model.load[a, k], -x[k]), (model.load[b, k], x[k])):
            before = max(0.0, low - load, load - high)
            if max(0.0, low - load - change, load + change - high) > before + 1e-6:
                return False
    return True
