"""Whether what is left of a plan is still right when its next batch is about to begin. Part of *goals*."""

from collections.abc import Iterator, Sequence

import numpy as np

from autoscaler.goals.actions import Action, fitting
from autoscaler.goals.explain import unit_of
from autoscaler.goals.problem import Problem
from autoscaler.goals.snapshot import State
from autoscaler.goals.statistics import loads_of, statistics
from autoscaler.model import Finding
from autoscaler.model.findings import What

_ROUNDING = 1e-9
_NOTHING = 1e-6  # of a mean


def obstacles(problem: Problem, batch: Sequence[Action], rest: Sequence[Action], *, forced: bool) -> tuple[Finding, ...]:
    """Return why nothing more of a plan is begun, by what is measured now; empty: it goes on. What does not fit is left out.

    Args:
        problem: As it is now.
        batch: What is about to begin: it must go beyond no limit, and to no broker that takes no part.
        rest: All that is left of the plan, the batch included: brokers must not be further outside by any goal after it. How
            many are outside may differ: a plan is ordered by what it does in all, not by that.
        forced: The plan empties brokers or spreads racks, which goals may become worse for.
    """
    after, fits = fitting(problem.snapshot, problem.snapshot.state, batch)
    found = [*_targets_away(problem, batch), *_beyond_limits(problem, after)]
    if not forced and fits:
        end, _ = fitting(problem.snapshot, problem.snapshot.state, rest)
        was, becomes = (statistics(problem, s).spreads for s in (problem.snapshot.state, end))
        if goals := [str(n) for n in was if becomes[n].excess > was[n].excess + _NOTHING]:
            found.append(Finding.of(What.PLAN_WORSENS, worse=goals))
    return tuple(found)


def _targets_away(problem: Problem, batch: Sequence[Action]) -> Iterator[Finding]:
    receive = set(problem.snapshot.brokers[problem.counted & ~problem.snapshot.slow].tolist())
    if away := sorted({a.target for a in batch} - receive):
        yield Finding.of(What.TARGETS_AWAY, brokers=[str(b) for b in away])


def _beyond_limits(problem: Problem, after: State) -> Iterator[Finding]:
    was, now = loads_of(problem, problem.snapshot.state), loads_of(problem, after)
    beyond = (now > problem.limit * (1.0 + _ROUNDING)) & (now > was * (1.0 + _ROUNDING))
    for b, g in zip(*np.nonzero(beyond), strict=True):
        name = problem.loads[g]
        ends = {"load": float(now[b, g]), "most": float(problem.limit[b, g])}
        numbers = {f"{n}{unit_of(name)}": v for n, v in ends.items()}
        yield Finding.of(What.LIMIT_IN_THE_WAY, numbers={"broker": int(problem.snapshot.brokers[b]), **numbers}, goal=str(name))
