"""Which number of consumers to ask for in a native group, and what to do where no number helps."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from autoscaler.core.native.forecast import Forecast, Rates, afresh, fits, forecast
from autoscaler.core.native.values import Assignor, NativeGroup
from autoscaler.packing import fewest_by_size

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What would keep every consumer within its capacity where the group's assignor cannot.

    Attributes:
        assignor: Another assignor, with which so many ``consumers`` would do; ``None``: placed by this controller.
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

    Where none does, it is the smallest of those whose hottest consumer has least: more than that gain nothing, as 33 consumers of
    64 partitions gain nothing over 32.

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
    found = [f for n in range(at_least, most + 1) if (f := forecast(group, rates, n)) is not None]
    if not found:
        return Count(best=None, enough=False)
    best = min(found, key=lambda f: (f.high, f.consumers))
    oversized = sum(1 for r in rates.values() if r > limit * (1 + _ROUNDING))
    return Count(best=best, enough=False, remedies=() if oversized else tuple(_remedies(group, rates, limit)), oversized=oversized)


def fewest(group: NativeGroup, rates: Rates, limit: float, *, at_least: int, at_most: int) -> int | None:
    """Return the smallest number within bounds that keeps each consumer within ``limit``; ``None`` if none does."""
    roof = limit * (1 + _ROUNDING)
    if max(rates.values(), default=0.0) > roof:
        return None
    first = max(at_least, math.ceil(math.fsum(rates.values()) / limit * (1 - _ROUNDING)))
    return next((n for n in range(first, at_most + 1) if fits(group, rates, n, roof)), None)


def _remedies(group: NativeGroup, rates: Rates, limit: float) -> Iterator[Remedy]:
    most = sum(group.partitions.values())
    for assignor in Assignor:
        if assignor is not group.assignor:
            number = fewest(afresh(group, assignor), rates, limit, at_least=1, at_most=most)
            if number is not None:
                yield Remedy(assignor=assignor, consumers=number)
    yield Remedy(assignor=None, consumers=fewest_by_size(rates.values(), limit))
