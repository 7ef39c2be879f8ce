"""Which number of consumers to ask for in a native group, and what to do where no number helps."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from autoscaler.core.native.forecast import Forecast, Rates, afresh, fits, forecast
from autoscaler.core.native.values import Assignor, NativeGroup
from autoscaler.packing import fewest_by_size

_ROUNDING = 1e-9
_STEPS = 6  # numbers that are looked at where none is enough: a cycle has a second for all of it
_FAR = 256  # consumers that another assignor may need at most to be named as a remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What would keep every consumer within its capacity where the group's assignor cannot.

    Attributes:
        assignor: One with which so many ``consumers`` would do, be it the same with more than allowed; ``None``: placed by load.
    """

    assignor: Assignor | None
    consumers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The number to ask for.

    Attributes:
        best: What is to be expected of the number chosen; ``None`` if the assignor is not followed for this group.
        enough: Nobody is above the limit then.
        remedies: What would be enough otherwise; empty if this is, or if nothing known is.
        oversized: Partitions that are above the limit by themselves: only more partitions help, with spread keys.
    """

    best: Forecast | None
    enough: bool
    remedies: tuple[Remedy, ...] = ()
    oversized: int = 0


def choose(group: NativeGroup, rates: Rates, limit: float, *, at_least: int, at_most: int) -> Count:
    """Return the smallest number of consumers that keeps each within ``limit`` bytes/s under the group's own assignor.

    Where none does, it is the smallest of those that leave the hottest consumer least: more gain nothing, as 33 consumers of 64
    partitions gain nothing over 32.

    Args:
        group: As it is now.
        rates: Bytes per second of every partition.
        limit: What one consumer may get.
        at_least: No fewer.
        at_most: No more; more than there are partitions are never asked for.
    """
    most = max(at_least, min(at_most, sum(group.partitions.values())))
    number = fewest(group, rates, limit, at_least=at_least, at_most=most)
    if number is not None:
        return Count(best=forecast(group, rates, number), enough=True)
    best = _least_hot(group, rates, at_least, most)
    if best is None:
        return Count(best=None, enough=False)
    oversized = sum(1 for r in rates.values() if r > limit * (1 + _ROUNDING))
    return Count(
        best=best, enough=False, remedies=() if oversized else tuple(_remedies(group, rates, limit)), oversized=oversized
    )


def _least_hot(group: NativeGroup, rates: Rates, at_least: int, at_most: int) -> Forecast | None:
    """Return the smallest number whose hottest consumer has no more than the hottest partition, or of some the one with least.

    Those looked at are the numbers from which on everybody gets a partition less, the largest of them.
    """
    number = fewest(group, rates, max(rates.values(), default=0.0) or 1.0, at_least=at_least, at_most=at_most)
    if number is not None:
        return forecast(group, rates, number)
    count = sum(group.partitions.values())
    steps = [n for n in range(at_least, at_most + 1) if n == at_least or -(-count // n) < -(-count // (n - 1))]
    found = [f for n in steps[-_STEPS:] if (f := forecast(group, rates, n)) is not None]
    return min(found, key=lambda f: (f.high, f.consumers), default=None)


def fewest(group: NativeGroup, rates: Rates, limit: float, *, at_least: int, at_most: int) -> int | None:
    """Return the smallest number within bounds that keeps each consumer within ``limit``; ``None`` if none does."""
    roof = limit * (1 + _ROUNDING)
    if max(rates.values(), default=0.0) > roof:
        return None
    first = max(at_least, math.ceil(math.fsum(rates.values()) / limit * (1 - _ROUNDING)))
    return next((n for n in range(first, at_most + 1) if fits(group, rates, n, roof)), None)


def _remedies(group: NativeGroup, rates: Rates, limit: float) -> Iterator[Remedy]:
    most = min(sum(group.partitions.values()), _FAR)
    for assignor in Assignor:
        number = fewest(afresh(group, assignor), rates, limit, at_least=1, at_most=most)
        if number is not None:
            yield Remedy(assignor=assignor, consumers=number)
    yield Remedy(assignor=None, consumers=fewest_by_size(rates.values(), limit))
