"""What an operator chooses: goals and what they count, which limits are hard, how steady, in which batches. Part of *goals*."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from autoscaler.goals.goal import GOALS, HARD, Goal, Name


class Strategy(StrEnum):
    """How actions are chosen."""

    BEST_FIT = "best_fit"  # by x·(gap − x)
    GREEDY = "greedy"  # as published, its defects included: to compare with


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a cluster is balanced.

    Attributes:
        goals: By which loads; none is made worse for another one.
        hard: Which limits no action may break.
        strategy: How actions are chosen.
        excluded: Topics whose load counts and which do not move.
        internal: Topics of which the greedy strategy moves partitions last.
        inner: Part of a band that is aimed at; its ends are what is acted on.
        rounds: In how many cycles in a row a broker must be outside its band.
        smoothing_s: Time constant of the smoothed loads; 0 for none.
        confidence: By how many standard errors of its smoothed load a broker must be outside.
        cooldown_s: How long a moved partition stays where it is.
        stale_after_s: From which age on a measurement is out of date.
        offline_ratio: Above this part of all brokers offline nothing is done but an alert.
        most_actions: Of one plan.
        actions_per_broker: Of one batch.
        topic_ratio: Part of a topic's partitions that one batch may touch; one at least.
        sources_per_target: Brokers that one broker copies from in one batch.

    Raises:
        ValueError: A number is out of its range, or a goal occurs twice.
    """

    goals: tuple[Goal, ...] = GOALS
    hard: frozenset[Name] = frozenset(HARD)
    strategy: Strategy = Strategy.BEST_FIT
    excluded: frozenset[int] = frozenset()
    internal: frozenset[int] = frozenset()
    inner: float = 0.9
    rounds: int = 3
    smoothing_s: float = 600.0
    confidence: float = 3.0
    cooldown_s: float = 900.0
    stale_after_s: float = 60.0
    offline_ratio: float = 0.1
    most_actions: int = 100_000
    actions_per_broker: int = 50
    topic_ratio: float = 0.5
    sources_per_target: int = 10

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if len({g.name for g in self.goals}) != len(self.goals) or not self.goals:
            msg = "goals must be one at least, each once"
            raise ValueError(msg)
        if strange := self.hard - set(HARD):
            raise ValueError(f"{', '.join(sorted(strange))} is no hard goal; choose of {', '.join(HARD)}")
        ratios = {n: getattr(self, n) for n in ("inner", "topic_ratio")}
        counts = {n: getattr(self, n) for n in ("rounds", "most_actions", "actions_per_broker", "sources_per_target")}
        times = {n: getattr(self, n) for n in ("smoothing_s", "cooldown_s", "stale_after_s", "offline_ratio", "confidence")}
        wrong = [n for n, v in ratios.items() if not 0.0 < v <= 1.0]
        wrong += [n for n, v in counts.items() if v < 1]
        wrong += [n for n, v in times.items() if not 0.0 <= v < np.inf]
        if wrong:
            raise ValueError(f"{wrong[0]} must not be {getattr(self, wrong[0])}")
