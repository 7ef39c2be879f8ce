"""Which sizes of consumers to run, when they come in several at different prices. To compare with: nothing scales by it.

Fill consumers of one size, then give each content to the cheapest size that holds it; of the results for each size the cheapest.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autoscaler.packing.vector.dot import pack
from autoscaler.packing.vector.fill import ROUNDING, Demand, Floats, Ints, Room

_WEIGHTS = 101  # of the two dimensions against each other in the bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A size of consumer on offer, as many as wanted."""

    capacity: float  # rate that one may be given
    lag_capacity: float  # backlog that one may hold
    price: float  # of running one

    def __post_init__(self) -> None:
        """Refuse what is no size."""
        for name in ("capacity", "lag_capacity", "price"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} of a size must be a positive number, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What to run."""

    contents: tuple[tuple[int, ...], ...]  # the partitions of each consumer, by their place in the input
    sizes: tuple[int, ...]  # of each consumer, by its place among those on offer
    price: float  # of all
    lower_bound: float  # nothing that holds all partitions costs less


def choose_sizes(demand: Demand, sizes: Sequence[Size], tries: int = 0) -> Selection:
    """Return consumers that hold all partitions at little cost; demands are in the units of ``sizes``, at least one.

    A partition above every size sits alone on the one with the greatest capacity. ``tries`` says how long to look for ways to
    empty a consumer, for each size that is filled.

    Raises:
        ValueError: No size is on offer.
    """
    if not sizes:
        msg = "one size of consumer at least must be on offer"
        raise ValueError(msg)
    selections = [_downsized(demand, sizes, _filled(demand, sizes, base, tries)) for base in range(len(sizes))]
    return min(selections, key=lambda selection: selection.price)


def _filled(demand: Demand, sizes: Sequence[Size], base: int, tries: int) -> Ints:
    """Return contents for consumers of one size; what does not fit it gets the cheapest that holds it, and company there."""
    size, n = sizes[base], demand.rate.shape[0]
    in_size = Demand(demand.rate / size.capacity, demand.lag / size.lag_capacity)
    large = np.flatnonzero((in_size.rate > 1 + ROUNDING) | (in_size.lag > 1 + ROUNDING))
    own = [sizes[_cheapest(sizes, demand.rate[j], demand.lag[j])] for j in large]
    room = Room(
        np.array([s.capacity / size.capacity for s in own] + [1.0] * n),
        np.array([s.lag_capacity / size.lag_capacity for s in own] + [1.0] * n),
        len(own),
    )
    return pack(in_size, room, tries)


def _cheapest(sizes: Sequence[Size], rate: float, lag: float) -> int:
    """Return the cheapest size with room for both, the largest if there is none."""
    grace = 1 + ROUNDING
    holding = [k for k, s in enumerate(sizes) if rate <= s.capacity * grace and lag <= s.lag_capacity * grace]
    if not holding:
        return max(range(len(sizes)), key=lambda k: (sizes[k].capacity, sizes[k].lag_capacity, -k))
    return min(holding, key=lambda k: (sizes[k].price, k))


def _downsized(demand: Demand, sizes: Sequence[Size], place: Ints) -> Selection:
    used = np.unique(place)
    contents = [tuple(np.flatnonzero(place == c).tolist()) for c in used]
    chosen = [_cheapest(sizes, float(demand.rate[list(ps)].sum()), float(demand.lag[list(ps)].sum())) for ps in contents]
    return Selection(
        contents=tuple(contents),
        sizes=tuple(chosen),
        price=math.fsum(sizes[k].price for k in chosen),
        lower_bound=_least_price(demand, sizes),
    )


def _least_price(demand: Demand, sizes: Sequence[Size]) -> float:
    """Return a price that nothing goes below: whatever the dimensions are worth, needs cost what the best offer costs."""
    largest = Demand(np.array([s.capacity for s in sizes]), np.array([s.lag_capacity for s in sizes]))
    price = np.array([s.price for s in sizes])
    rate, lag = _within(demand.rate, largest.rate), _within(demand.lag, largest.lag)
    best = 0.0
    for weight in np.linspace(0.0, 1.0, _WEIGHTS):
        offered = weight * largest.rate / largest.rate.max() + (1 - weight) * largest.lag / largest.lag.max()
        best = max(best, float((weight * rate + (1 - weight) * lag) / (offered / price).max()))
    return best


def _within(need: Floats, offered: Floats) -> float:
    """Return the sum of the needs in units of the largest offer; one above it counts as filling it."""
    return float(np.minimum(need / offered.max(), 1.0).sum())
