"""Fewest consumers that a set of partition rates needs, found without the autoscaler's planners.

Bin packing: an upper bound by best fit decreasing, a lower bound by the sum and by the large items (Martello and Toth 1990,
"Knapsack Problems", section 8.3, bound L2), and between them a depth-first search with a bound on its steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

_STEPS = 20_000
_SLACK = 1e-9


def fewest(rates: Sequence[float], capacity: float) -> tuple[int, bool]:
    """Return the fewest consumers of ``capacity`` that carry ``rates``, and whether that is exact.

    A rate above the capacity needs a consumer of its own. An inexact answer is a lower bound.
    """
    oversized = sum(r > capacity for r in rates)
    items = sorted((r for r in rates if 0 < r <= capacity), reverse=True)
    low, high = _lower(items, capacity), _best_fit(items, capacity)
    search = _Search(items, capacity)
    while low < high:
        fits = search.fits([], low)
        if fits is None:
            return oversized + low, False
        if fits:
            high = low
        else:
            low += 1
    return oversized + low, True


def _lower(items: Sequence[float], capacity: float) -> int:
    best = ceil(sum(items) / capacity - _SLACK)
    for small in {i for i in items if i <= capacity / 2} | {0.0}:
        large = [i for i in items if i > capacity - small]
        middle = [i for i in items if capacity / 2 < i <= capacity - small]
        rest = sum(i for i in items if small <= i <= capacity / 2)
        over = rest - (len(middle) * capacity - sum(middle))
        best = max(best, len(large) + len(middle) + max(0, ceil(over / capacity - _SLACK)))
    return best


def _best_fit(items: Sequence[float], capacity: float) -> int:
    bins: list[float] = []
    for item in items:
        fitting = [i for i, load in enumerate(bins) if load + item <= capacity]
        if fitting:
            bins[max(fitting, key=bins.__getitem__)] += item
        else:
            bins.append(item)
    return len(bins)


@dataclass(slots=True)
class _Search:
    """Depth-first over where each item goes, largest first; gives up when its steps are spent."""

    items: Sequence[float]
    capacity: float
    steps: int = _STEPS

    def fits(self, bins: list[float], most: int, at: int = 0) -> bool | None:
        """Return whether ``items[at:]`` fit into ``most`` bins with these loads; ``None`` when the steps are spent."""
        if at == len(self.items):
            return True
        self.steps -= 1
        if self.steps < 0:
            return None
        item = self.items[at]
        for load in dict.fromkeys(x for x in bins if x + item <= self.capacity):  # equal bins need one try
            rest = bins.copy()
            rest.remove(load)
            found = self.fits([*rest, load + item], most, at + 1)
            if found is not False:
                return found
        return self.fits([*bins, item], most, at + 1) if len(bins) < most else False
