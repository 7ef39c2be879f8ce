"""Whether there are too few brokers, or more than any goal needs. Part of *goals*.

Source: Cruise Control's provisioning: missing = ceil((load − capacity · threshold) / (unit · threshold)).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autoscaler.goals.goal import Name
from autoscaler.goals.problem import Problem
from autoscaler.goals.statistics import loads_of

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Provision:
    """How many brokers are missing, or could go.

    Attributes:
        missing: Brokers that are to be added.
        spare: Brokers that could go: as many as every load with known capacities can do without.
        by_load: Brokers missing by load, negative for those to spare.
    """

    missing: int
    spare: int
    by_load: Mapping[Name, int]


def provision(problem: Problem, threshold: float = 1.0) -> Provision:
    """Return how many brokers of mean capacity are missing so that loads are below a part of what brokers may be given.

    A load without the capacities of all brokers says nothing.

    Raises:
        ValueError: The threshold is not above 0 and at most 1.
    """
    if not 0.0 < threshold <= 1.0:
        raise ValueError(f"threshold must be above 0 and at most 1, not {threshold}")
    loads, there, by_load = loads_of(problem, problem.snapshot.state), ~problem.snapshot.offline, dict[Name, int]()
    for g, name in enumerate(problem.loads):
        capacity = problem.limit[there & ~problem.snapshot.leaving, g]
        if not len(capacity) or not np.all(np.isfinite(capacity)) or not capacity.any():  # more of what has no room is none
            continue
        load, unit = float(loads[there, g].sum()), float(capacity.mean()) * threshold
        by_load[name] = math.ceil((load - float(capacity.sum()) * threshold) / unit - _ROUNDING)
    worst = max(by_load.values(), default=0)
    return Provision(missing=max(0, worst), spare=max(0, -worst), by_load=by_load)
