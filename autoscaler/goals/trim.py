"""What a plan can do without, and what does the same with fewer bytes: a last look at its moves. Part of *goals*.

Each action was the best one when it was chosen; what came after may have made it superfluous, or a smaller replica would do. So
replicas that have moved are looked at again, the largest first: one goes home where that takes no broker further outside a band,
alone, or while a smaller one moves in its place.
"""

from typing import NamedTuple

import numpy as np

from autoscaler.goals.kernels import NONE, Ints, Model, excess, may_hold, move, share
from autoscaler.packing.kernels.jit import borrowing, compiled

PASSES = 5  # more were hardly ever needed
_LOOKS = 500_000  # replicas that are tried in place of others in one pass, of all sizes
_LESS = 1.0 - 1e-9  # of a size: a replacement copies less


class Homes(NamedTuple):
    """Which replicas each broker had, the smallest first."""

    broker: Ints  # int64[replicas]
    replica: Ints  # int64[replicas], by broker and then by size
    first: Ints  # int64[brokers + 1]: where each broker's begin


@compiled
def trim(model: Model, home: Ints) -> Ints:
    """Take moves back or replace them, and return for each replica which one has moved in its place; ``NONE``: none.

    Args:
        model: After all actions were chosen; it is changed.
        home: int64[replicas], the broker that each was on.
    """
    homes, instead = _homes(model, home), np.full(len(home), NONE)
    for _ in range(PASSES):
        moved = np.flatnonzero(model.broker != home)
        changed = False
        most = 1 + _LOOKS // (1 + len(moved))
        for r in moved[np.argsort(-model.copied[model.partition[moved]])]:
            changed = _reconsidered(model, homes, instead, r, most) or changed
        if not changed:
            break
    return instead


@compiled
def _homes(model: Model, home: Ints) -> Homes:
    by_size = np.argsort(model.copied[model.partition])
    replica = by_size[np.argsort(home[by_size], kind="mergesort")]
    return Homes(home, replica, np.searchsorted(home[replica], np.arange(len(model.load) + 1)))


@borrowing
def _reconsidered(model: Model, homes: Homes, instead: Ints, r: int, most: int) -> bool:
    """Send a replica home, alone or while a smaller one moves in its place; say whether it was."""
    a, b = homes.broker[r], model.broker[r]
    if not may_hold(model, r, a):
        return False
    takes, lacks = _bears(model, a, r, NONE), _bears(model, b, NONE, r)
    if takes and lacks:
        move(model, r, a)
        return True
    if _replaced(model, homes, instead, r, a, b, most):
        return True
    most //= len(model.load)
    for c in range(len(model.load)):
        if c in (a, b):
            continue
        if takes and _replaced(model, homes, instead, r, c, b, most):
            return True
        if lacks and _replaced(model, homes, instead, r, a, c, most):
            return True
    return False


@borrowing
def _replaced(model: Model, homes: Homes, instead: Ints, r: int, source: int, target: int, tried: int) -> bool:  # noqa: PLR0917
    """Send a replica home while a smaller one moves between two brokers, its own ones or another; say whether it was."""
    a, b = homes.broker[r], model.broker[r]
    most = model.copied[model.partition[r]] * _LESS
    begin, end = homes.first[source], homes.first[source + 1]
    if tried == 0:
        return False
    step = 1 + (end - begin) // tried
    for i in range(begin, end, step):
        q = homes.replica[i]
        if model.copied[model.partition[q]] >= most:
            return False
        if model.broker[q] != source or not model.movable[model.partition[q]] or not model.gives[source]:
            continue
        fits = _bears(model, a, r, q if source == a else NONE) and _bears(model, b, q if target == b else NONE, r)
        fits = fits and (source == a or _bears(model, source, NONE, q)) and (target == b or _bears(model, target, q, NONE))
        if fits and model.partition[q] != model.partition[r] and may_hold(model, q, target):
            move(model, r, a)
            move(model, q, target)
            instead[r] = q
            return True
    return False


@borrowing
def _bears(model: Model, b: int, got: int, given: int) -> bool:
    """Say whether a broker is no further outside any band with one replica more and another one less; ``NONE``: none."""
    for g in range(len(model.unit)):
        load = model.load[b, g]
        now = load + (share(model, got, model.partition[got], g) if got >= 0 else 0.0)
        now -= share(model, given, model.partition[given], g) if given >= 0 else 0.0
        if excess(model, b, g, now) > excess(model, b, g, load) + 1e-9 * abs(load):
            return False
    return True
