"""Which number of consumers to ask for in a native group, and what to do where no number helps."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from autoscaler.core.assignors.forecast import Forecast, Rates, Roof, afresh, fits, forecast, strained
from autoscaler.core.assignors.group_model import Assignor, NativeGroup
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
        strain: What the worst off consumer gets then over what it may have, see ``Roof``.
        enough: No consumer is above the limit then.
        remedies: What would be enough otherwise; empty if this is, or if nothing known is.
        oversized: Partitions that are above the limit by themselves: only more partitions help, with spread keys.
    """

    best: Forecast | None
    strain: float
    enough: bool
    remedies: tuple[Remedy, ...] = ()
    oversized: int = 0


def choose(group: NativeGroup, rates: Rates, roof: Roof, *, at_least: int, at_most: int) -> Count:
    """Return the smallest number of consumers that keeps each within its ``roof`` under the group's own assignor.

    Where none does, it is the smallest of those that strain the worst off consumer least: more gain nothing, as 33 consumers of
    64 partitions gain nothing over 32.

    Args:
        group: As it is now.
        rates: Bytes per second of every partition.
        roof: What one consumer may get.
        at_least: No fewer.
        at_most: No more; more than there are partitions are never asked for.
    """
    most = max(at_least, min(at_most, sum(group.partitions.values())))
    oversized = sum(1 for r in rates.values() if r > roof.usable * (1 + _ROUNDING))
    number = fewest(group, rates, roof, at_least=at_least, at_most=most)
    if number is None:
        number = _least_strained(group, rates, roof, at_least, most)
    best = None if number is None else forecast(group, rates, number)
    if number is None or best is None:
        return Count(best=None, strain=math.inf, enough=False)
    strain = strained(group, rates, number, roof)
    enough = strain <= 1 and not oversized
    remedies = () if enough or oversized else tuple(_remedies(group, rates, roof))
    return Count(best=best, strain=strain, enough=enough, remedies=remedies, oversized=oversized)


def _least_strained(group: NativeGroup, rates: Rates, roof: Roof, at_least: int, at_most: int) -> int | None:
    """Return the number, of those from which on everybody gets a partition less, that strains the worst off consumer least."""
    count = sum(group.partitions.values())
    steps = [n for n in range(at_least, at_most + 1) if n == at_least or -(-count // n) < -(-count // (n - 1))]
    found = [(strained(group, rates, n, roof), n) for n in steps[-_STEPS:]]
    return min((x for x in found if x[0] < math.inf), default=(0.0, None))[1]


def fewest(group: NativeGroup, rates: Rates, roof: Roof, *, at_least: int, at_most: int) -> int | None:
    """Return the smallest number within bounds that keeps each consumer within its ``roof``; ``None`` if none does."""
    alone = [r for r in rates.values() if r > roof.limit]  # each of them has a consumer of its own, with a little besides
    rest = math.fsum(r for r in rates.values() if r <= roof.limit) - math.fsum(roof.over(r) - r for r in alone)
    first = max(at_least, len(alone) + math.ceil(rest / roof.limit * (1 - _ROUNDING)))
    return next((n for n in range(first, at_most + 1) if fits(group, rates, n, roof)), None)


def _remedies(group: NativeGroup, rates: Rates, roof: Roof) -> Iterator[Remedy]:
    most = min(sum(group.partitions.values()), _FAR)
    for assignor in Assignor:
        number = fewest(afresh(group, assignor), rates, roof, at_least=1, at_most=most)
        if number is not None:
            yield Remedy(assignor=assignor, consumers=number)
    yield Remedy(assignor=None, consumers=fewest_by_size(rates.values(), roof.limit))
