"""How well a load stands to the mean, and what an action does to it: the published score. Part of *goals*.

Source: AutoMQ, "How to Implement Self Balancing for Kafka on S3" (2025-01-17). Everything here is arithmetic on arrays; which
load is meant, of which brokers or consumers, is not known here.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

NEUTRAL = 0.5  # of an action: it changes nothing
_FAR = 0.1  # the score where the linear part ends
_ROUNDING = 1e-9  # of the mean: sums in another order stay in the band


class Tail(StrEnum):
    """How a score falls beyond its linear part."""

    LOG = "log"  # as published; the load must be in a unit in which it is far above 1, such as bytes/s
    RATIO = "ratio"  # the same in every unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Where the loads of eligible nodes shall be, and how fast the score falls outside.

    Attributes:
        mean: Mean load of the eligible nodes.
        ratio: Half the band's width, as a part of the mean.
        width: Of the part outside the band in which the score falls linearly from 1 to 0.1, in the unit of the load.
        idle: Where the mean and a load are both below it, the load counts as in the band.
        tail: How the score falls further outside.

    Raises:
        ValueError: A number is negative or not finite, or the width is 0.
    """

    mean: float
    ratio: float = 0.1
    width: float
    idle: float = 0.0
    tail: Tail = Tail.LOG

    def __post_init__(self) -> None:
        """Refuse what is no band."""
        values = (self.mean, self.ratio, self.width, self.idle)
        if not all(0.0 <= v < np.inf for v in values) or self.width == 0.0:
            raise ValueError(f"mean, ratio and idle must be finite and not negative, and width above 0, not {values}")

    @property
    def half(self) -> float:
        """Return how far from the mean the band reaches."""
        return self.mean * self.ratio

    def limits(self, inner: float = 1.0) -> tuple[float, float]:
        """Return the band's ends, or with ``inner`` below 1 those of so many parts of it."""
        if self.mean < self.idle:
            return 0.0, max(self.idle, self.mean + self.half)
        half = self.half * inner
        return max(0.0, self.mean - half), self.mean + half

    def holds(self, load: Floats) -> Bools:
        """Return which loads are in the band, its ends included."""
        low, high = self.limits()
        slack = self.mean * _ROUNDING
        return np.asarray((load >= low - slack) & (load <= high + slack))

    def score(self, load: Floats) -> Floats:
        """Return the score of each load, from 1 in the band to 0 infinitely far."""
        away = np.abs(load - self.mean)
        far = self.half + self.width
        linear = 1.0 - (1.0 - _FAR) * (away - self.half) / self.width
        with np.errstate(divide="ignore", invalid="ignore"):
            tail = _FAR * (np.log(far) / np.log(away) if self.tail is Tail.LOG else far / away)
        return np.where(self.holds(load), 1.0, np.where(away <= far, linear, tail))

    def action(self, before: tuple[Floats, Floats], after: tuple[Floats, Floats]) -> Floats:
        """Return the score of changing two nodes' loads: above ``NEUTRAL`` it helps the worse one of both."""
        worse_before = np.minimum(self.score(before[0]), self.score(before[1]))
        worse_after = np.minimum(self.score(after[0]), self.score(after[1]))
        return np.asarray((worse_after - worse_before + 1.0) / 2.0)


def weighted(scores: Floats, weights: Floats) -> Floats:
    """Return the mean of scores ``[..., goals]``, so weighted that 0.5 stays neutral whatever the weights add up to."""
    return np.asarray(scores @ weights / weights.sum())
