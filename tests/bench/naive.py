"""The policy that operators write first, as a baseline: the hottest consumer gives to the coldest, and the coldest is closed."""

import numpy as np
from numpy.typing import NDArray

_FITS = 1.0 + 1e-9  # of the capacity: as the planners count


def drain_hottest(rates: NDArray[np.float64], capacity: float, previous: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return who holds what after one step of "drain the hottest, close the coldest if it empties".

    While a consumer with several partitions is above the capacity, the hottest gives the coldest the largest partition that
    fits there; if none fits, its smallest goes to a new consumer. Then the coldest consumer is closed if all it holds, in
    decreasing order, fits on others, each time on the coldest of them: at most one consumer in a step.

    Args:
        rates: Rate of every partition, ``float64[n]``.
        capacity: Rate that one consumer is given at most.
        previous: Consumer index of every partition, all of them held, ``int64[n]``.
    """
    owner, slots = previous.copy(), int(previous.max()) + len(rates) + 1
    load = np.bincount(owner, weights=rates, minlength=slots).astype(np.float64)
    held = np.bincount(owner, minlength=slots)
    limit = capacity * _FITS

    def move(partition: int, target: int) -> None:
        source = owner[partition]
        load[source] -= rates[partition]
        held[source] -= 1
        load[target] += rates[partition]
        held[target] += 1
        owner[partition] = target

    busy = rates > 0  # what is silent need not move, and a partition above the capacity is helped by nothing
    while (hot := np.flatnonzero((load > limit) & (np.bincount(owner[busy], minlength=slots) > 1))).size:
        source = int(hot[np.argmax(load[hot])])
        given = np.flatnonzero((owner == source) & busy)
        coldest = _coldest(load, held, source)
        fitting = given[rates[given] + load[coldest] <= limit] if coldest is not None else given[:0]
        if fitting.size and coldest is not None:
            move(int(fitting[np.argmax(rates[fitting])]), coldest)
        else:
            move(int(given[np.argmin(rates[given])]), int(np.argmin(held)))
    _close(rates, limit, owner, load, held)
    return owner


def _coldest(load: NDArray[np.float64], held: NDArray[np.int64], but: int) -> int | None:
    others = np.flatnonzero(held > 0)
    others = others[others != but]
    return int(others[np.argmin(load[others])]) if others.size else None


def _close(
    rates: NDArray[np.float64], limit: float, owner: NDArray[np.int64], load: NDArray[np.float64], held: NDArray[np.int64]
) -> None:
    closed = _coldest(load, held, -1)
    after, target = load.copy(), owner.copy()
    mine = np.flatnonzero(owner == closed)
    for p in mine[np.argsort(-rates[mine], kind="stable")]:
        coldest = _coldest(after, held, -1 if closed is None else closed)
        if coldest is None or after[coldest] + rates[p] > limit:
            return
        target[p] = coldest
        after[coldest] += rates[p]
    owner[:] = target
