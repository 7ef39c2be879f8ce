"""Placements that give the partitions without a home one, and move no other partition. Part of *pack*."""

from collections.abc import Iterator

from autoscaler.packing.kernels.bins import LIMIT, UNASSIGNED, Bins, Ints, bins_of, closed_slot, crowded, fits, put, tightest
from autoscaler.packing.kernels.jit import borrowing
from autoscaler.packing.pace.fixed_point import Demand


@borrowing
def someone_crowded(bins: Bins) -> bool:
    """Say whether any consumer is crowded."""
    found = 0
    for c in range(len(bins.load)):
        found += crowded(bins, c)
    return found > 0


@borrowing
def fit_waiting(bins: Bins, limit: float) -> None:
    """Place what waits by best fit decreasing, up to a load; what is larger gets a consumer of its own."""
    for j in range(len(bins.owner)):
        if bins.owner[j] < 0:
            c = tightest(bins, j, UNASSIGNED, limit)
            put(bins, j, c if c >= 0 else closed_slot(bins, UNASSIGNED))


@borrowing
def set_apart(bins: Bins) -> None:
    """Place what waits on consumers of its own, all together as far as they fit."""
    own = UNASSIGNED
    for j in range(len(bins.owner)):
        if bins.owner[j] < 0:
            if own < 0 or not fits(bins, j, own):
                own = closed_slot(bins, UNASSIGNED)
            put(bins, j, own)


def arrivals_placed(demand: Demand, present: Ints) -> Iterator[Bins]:
    """Give the placements in which only what waits is placed, by best fit and on fresh consumers; none if someone is crowded.

    A consumer that is taken away comes back under another name with the second one, so that nothing but its partitions moves.
    """
    for apart in (False, True):
        bins = bins_of(demand.share, demand.cost, present, present)
        if someone_crowded(bins):
            return
        if apart:
            set_apart(bins)
        else:
            fit_waiting(bins, LIMIT)
        yield bins
