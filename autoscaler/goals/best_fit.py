"""Best fit by x·(gap − x): the default way to choose actions. Part of *goals*.

The broker that is furthest outside a band is served first: leaderships, which cost nothing, then replicas, then two replicas that
change places. No action makes any goal worse, and each brings a goal nearer, so that it ends.
"""

from typing import NamedTuple

import numpy as np

from autoscaler.goals.kernels import (
    LEAD,
    MOVE,
    NONE,
    SWAP,
    Floats,
    Ints,
    Model,
    excess,
    gain,
    hand_over,
    in_rack,
    may_hold,
    move,
    off,
    share,
)
from autoscaler.packing.kernels.jit import borrowing, compiled

_KEPT = 65  # candidates of one look at a broker's replicas: the best one at least, and one more to compare with
_FEW = 6  # targets that are tried first
_SAMPLE = 512  # replicas that are looked at first
_PAIRED = 128  # replicas that a change of places is sought for
_PAIRABLE = 20_000  # replicas of all brokers that a change of places is sought with
_NEAR = 16  # replicas on either side of the best size
_STILL_GOOD = 0.7  # of what a candidate was worth when it was found: less is looked for anew
_SWEEPS = 50  # far more than were ever seen

# What is tried for a broker and a goal, one after the other, until none of it helps
_LEADERSHIPS, _QUICKLY, _ALL_REPLICAS, _ALL_TARGETS, _SWAPS, _STUCK = range(6)


class Log(NamedTuple):
    """What was done, in order; ``used`` is how much of the arrays."""

    kind: Ints
    replica: Ints
    target: Ints  # broker
    worth: Floats  # what it was chosen for
    next_replica: Ints  # what would have been chosen else; ``NONE``: nothing
    next_target: Ints
    next_worth: Floats
    used: Ints  # int64[1]


class Found(NamedTuple):
    """The best candidates of one look, the best first."""

    worth: Floats
    replica: Ints
    target: Ints  # broker, or for two that change places the other replica
    used: Ints  # int64[1]: how much of the arrays


@compiled
def improve(model: Model, most: int, leaders_only: bool) -> Log:  # noqa: FBT001  compiled: no keywords
    """Take actions until every broker is in its bands, nothing helps any more, or so many have been taken."""
    log = Log(
        np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most),
        np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most), np.zeros(1, np.int64),
    )  # fmt: skip
    found = Found(np.empty(_KEPT), np.empty(_KEPT, np.int64), np.empty(_KEPT, np.int64), np.zeros(1, np.int64))
    x = np.empty(len(model.unit))
    stage = np.full(model.load.shape, _LEADERSHIPS)
    for _ in range(_SWEEPS):
        begun = log.used[0]
        while log.used[0] < most:
            b, g = _furthest(model, stage)
            if b < 0:
                break
            if not _serve(model, log, found, x, b, g, stage[b, g]):
                stage[b, g] = _STUCK if leaders_only else stage[b, g] + 1
        if log.used[0] == begun or log.used[0] == most:
            break
        stage[:] = _LEADERSHIPS  # what was stuck may go now, after all that has been done since
    return log


@borrowing
def _furthest(model: Model, stage: Ints) -> tuple[int, int]:
    """Return the broker and the goal of the greatest weighted deviation."""
    best, broker, goal = 0.0, NONE, NONE
    for b in range(len(model.load)):
        for g in range(len(model.unit)):
            if stage[b, g] < _STUCK:
                out = excess(model, b, g, model.load[b, g])
                value = model.unit[g] * out * out
                if value > best + 1e-12:
                    best, broker, goal = value, b, g
    return broker, goal


@compiled
def _serve(model: Model, log: Log, found: Found, x: Floats, b: int, g: int, stage: int) -> bool:  # noqa: PLR0917
    """Bring a broker nearer to a goal's band; say whether anything was found that does."""
    over = model.load[b, g] > model.high[b, g]
    if (over and not model.gives[b]) or (not over and not model.receives[b]):
        return False
    found.used[0] = 0
    if stage == _LEADERSHIPS:
        _leaderships(model, found, x, b, g, over)
        return _take(model, log, found, x, b, g, LEAD)
    others = np.argsort(model.load[:, g] - model.centre[:, g])  # the emptiest first
    if not over:
        others = others[::-1].copy()
    if stage == _SWAPS:
        _pairs(model, found, x, b, g, over, others)
        return _take(model, log, found, x, b, g, SWAP)
    few = others if stage == _ALL_TARGETS else others[:_FEW]
    if over:
        stride = 1 if stage == _ALL_REPLICAS else 1 + model.held[b] // _SAMPLE
        _givings(model, found, x, b, g, few, stride)
    else:
        stride = 1 if stage == _ALL_REPLICAS else 1 + len(model.broker) // len(model.load) * len(few) // (_FEW * _SAMPLE)
        _takings(model, found, x, b, g, few, stride)
    return _take(model, log, found, x, b, g, MOVE)


@borrowing
def _offer(found: Found, worth: float, r: int, b: int) -> None:
    """Keep a candidate if it is one of the best; of equal ones the first."""
    i = found.used[0]
    if i == _KEPT:
        if worth <= found.worth[i - 1]:
            return
        i -= 1
    else:
        found.used[0] += 1
    while i > 0 and found.worth[i - 1] < worth:
        found.worth[i], found.replica[i], found.target[i] = found.worth[i - 1], found.replica[i - 1], found.target[i - 1]
        i -= 1
    found.worth[i], found.replica[i], found.target[i] = worth, r, b


@borrowing
def _leaderships(model: Model, found: Found, x: Floats, b: int, g: int, over: bool) -> None:  # noqa: FBT001, PLR0917
    """Find which leaderships to take from a broker, or to give it."""
    r = model.head[b]
    while r >= 0:
        p = model.partition[r]
        leads = model.leader[p] == r
        if model.movable[p] and leads == over and model.lead[p, g] > 0.0:
            for s in range(model.first[p], model.first[p + 1]):
                taker = s if over else r
                if (leads and s != r) or (not leads and s == model.leader[p]):
                    worth = _lead_worth(model, x, p, taker)
                    if worth > 0.0:
                        _offer(found, worth, taker, model.broker[taker])
        r = model.after[r]


@borrowing
def _lead_worth(model: Model, x: Floats, p: int, r: int) -> float:
    a, b = model.broker[model.leader[p]], model.broker[r]
    if a == b or not model.gives[a] or not model.receives[b]:
        return 0.0
    for g in range(len(model.unit)):
        x[g] = model.lead[p, g]
    return gain(model, a, b, x)


@borrowing
def _givings(model: Model, found: Found, x: Floats, b: int, g: int, others: Ints, stride: int) -> None:  # noqa: PLR0917
    """Find which replicas of a broker to move to others."""
    r, at = model.head[b], 0
    while r >= 0:
        if at % stride == 0 and model.movable[model.partition[r]]:
            _targets(model, found, x, r, g, others)
        r = model.after[r]
        at += 1


@borrowing
def _takings(model: Model, found: Found, x: Floats, b: int, g: int, others: Ints, stride: int) -> None:  # noqa: PLR0917
    """Find which replicas of others to move to a broker."""
    for i in range(len(others)):
        a = others[i]
        if a == b or not model.gives[a] or off(model, a, g) <= off(model, b, g):
            continue
        r, at = model.head[a], 0
        while r >= 0:
            if at % stride == 0 and model.movable[model.partition[r]]:
                worth = _move_worth(model, x, r, b, g)
                if worth > 0.0:
                    _offer(found, worth, r, b)
            r = model.after[r]
            at += 1


@borrowing
def _targets(model: Model, found: Found, x: Floats, r: int, g: int, others: Ints) -> None:  # noqa: PLR0917
    """Offer the best broker for a replica."""
    best, target = 0.0, NONE
    for i in range(len(others)):
        worth = _move_worth(model, x, r, others[i], g)
        if worth > best:
            best, target = worth, others[i]
    if target >= 0:
        _offer(found, best, r, target)


@borrowing
def _move_worth(model: Model, x: Floats, r: int, b: int, g: int) -> float:
    """Return what moving a replica is worth for what is copied; 0 if it may not be."""
    a, p = model.broker[r], model.partition[r]
    here = share(model, r, p, g)
    if a == b or here <= 0.0 or here >= off(model, a, g) - off(model, b, g):
        return 0.0
    for k in range(len(model.unit)):
        x[k] = share(model, r, p, k)
    worth = gain(model, a, b, x)
    return float(worth / (1.0 + model.copied[p])) if worth > 0.0 and may_hold(model, r, b) else 0.0


@borrowing
def _take(model: Model, log: Log, found: Found, x: Floats, b: int, g: int, kind: int) -> bool:  # noqa: PLR0917
    """Take the best candidate, and the next ones while they are still worth it; say whether any was taken."""
    taken = False
    most = 1 + model.held[b] // _PAIRED  # of many small ones more than one can be chosen at a time
    for i in range(min(found.used[0], most, _KEPT - 1)):
        if log.used[0] + 2 > len(log.kind) or excess(model, b, g, model.load[b, g]) == 0.0:
            break
        r, target, worth = found.replica[i], found.target[i], found.worth[i]
        if taken and _worth_now(model, x, r, target, g, kind) < _STILL_GOOD * worth:
            continue
        if kind == SWAP:
            a, d = model.broker[r], model.broker[target]
            _write(log, found, i, kind, r, d)
            _write(log, found, i, kind, target, a)
            move(model, r, d)
            move(model, target, a)
        else:
            _write(log, found, i, kind, r, target)
            if kind == LEAD:
                hand_over(model, model.partition[r], r)
            else:
                move(model, r, target)
        taken = True
    return taken


@borrowing
def _worth_now(model: Model, x: Floats, r: int, target: int, g: int, kind: int) -> float:  # noqa: PLR0917
    if kind == LEAD:
        return _lead_worth(model, x, model.partition[r], r)
    if kind == SWAP:
        return _swap_worth(model, x, r, target)
    return _move_worth(model, x, r, target, g)


@borrowing
def _write(log: Log, found: Found, i: int, kind: int, r: int, target: int) -> None:  # noqa: PLR0917
    n = log.used[0]
    log.kind[n], log.replica[n], log.target[n], log.worth[n] = kind, r, target, found.worth[i]
    log.next_replica[n], log.next_target[n], log.next_worth[n] = NONE, NONE, 0.0
    if i + 1 < found.used[0]:
        log.next_replica[n], log.next_target[n], log.next_worth[n] = found.replica[i + 1], found.target[i + 1], found.worth[i + 1]
    log.used[0] += 1


@compiled
def _pairs(model: Model, found: Found, x: Floats, b: int, g: int, over: bool, others: Ints) -> None:  # noqa: FBT001, PLR0917
    """Find two replicas that change places, where no single one can go."""
    if not model.gives[b] or not model.receives[b]:
        return
    tried, most = 0, max(_FEW, _PAIRABLE // max(1, model.held[b]))
    for i in range(len(others)):
        c = others[i]
        if c != b and model.gives[c] and model.receives[c] and tried < most:
            tried += 1
            if over:
                _pairs_of(model, found, x, b, c, g)
            else:
                _pairs_of(model, found, x, c, b, g)


@compiled
def _pairs_of(model: Model, found: Found, x: Floats, a: int, b: int, g: int) -> None:  # noqa: PLR0917
    """Offer for replicas on ``a``, which has more, the best one on ``b`` to change places with."""
    gap = off(model, a, g) - off(model, b, g)
    if gap <= 0.0 or model.held[b] == 0:
        return
    there, sizes = np.empty(model.held[b], np.int64), np.empty(model.held[b])
    s, n = model.head[b], 0
    while s >= 0:
        there[n], sizes[n] = s, share(model, s, model.partition[s], g)
        n += 1
        s = model.after[s]
    order = np.argsort(sizes)
    sizes = sizes[order]
    stride = 1 + model.held[a] // _PAIRED
    r, at = model.head[a], 0
    while r >= 0:
        if at % stride == 0 and model.movable[model.partition[r]]:
            best, theirs = 0.0, NONE
            middle = int(np.searchsorted(sizes, share(model, r, model.partition[r], g) - gap / 2.0))
            for k in range(max(0, middle - _NEAR), min(len(order), middle + _NEAR)):
                worth = _swap_worth(model, x, r, there[order[k]])
                if worth > best:
                    best, theirs = worth, there[order[k]]
            if theirs >= 0:
                _offer(found, best, r, theirs)
        at += 1
        r = model.after[r]


@borrowing
def _swap_worth(model: Model, x: Floats, r: int, s: int) -> float:
    p, q = model.partition[r], model.partition[s]
    if p == q or not model.movable[q]:
        return 0.0
    for k in range(len(model.unit)):
        x[k] = share(model, r, p, k) - share(model, s, q, k)
    worth = gain(model, model.broker[r], model.broker[s], x)
    if worth <= 0.0 or not may_hold(model, r, model.broker[s]) or not may_hold(model, s, model.broker[r]):
        return 0.0
    return float(worth / (2.0 + model.copied[p] + model.copied[q]))


@compiled
def settle_elsewhere(model: Model, replicas: Ints, must: bool) -> Ints:  # noqa: FBT001  compiled: no keywords
    """Move each of these replicas, in their order, to the broker that it disturbs least; return those for which there is none.

    A rack that has fewer replicas of the partition comes first. Without ``must`` it has to have fewer than the present one.
    """
    left = np.empty(len(replicas), np.int64)
    count = 0
    for r in replicas:
        b = _place_for(model, r, must)
        if b < 0:
            left[count] = r
            count += 1
        else:
            move(model, r, b)
    return left[:count]


@compiled
def lead_elsewhere(model: Model, replicas: Ints) -> None:
    """Let other replicas lead in place of these, where any may: those on brokers that it disturbs least."""
    for r in replicas:
        p, least, leader = model.partition[r], np.inf, NONE
        if model.leader[p] != r:
            continue
        for s in range(model.first[p], model.first[p + 1]):
            b = model.broker[s]
            if s == r or not model.receives[b]:
                continue
            cost = 0.0
            for g in range(len(model.unit)):
                x = model.lead[p, g]
                if x > 0.0 and model.load[b, g] + x > model.limit[b, g]:
                    cost = np.inf
                elif model.low[b, g] > -np.inf:
                    cost += model.unit[g] * x * (2.0 * off(model, b, g) + x)
            if cost < least:
                least, leader = cost, s
        if leader >= 0:
            hand_over(model, p, leader)


@borrowing
def _place_for(model: Model, r: int, must: bool) -> int:  # noqa: FBT001
    p, a = model.partition[r], model.broker[r]
    fewest, least, target = in_rack(model, r, model.rack[a]), np.inf, NONE
    if must:
        fewest = len(model.broker)
    for b in range(len(model.load)):
        there = in_rack(model, r, model.rack[b])
        if not model.receives[b] or there > fewest or (there == fewest and not must and target < 0) or _holds(model, p, b):
            continue
        cost = _disturbance(model, r, b)
        if cost < np.inf and (there < fewest or cost < least):
            fewest, least, target = there, cost, b
    return target


@borrowing
def _holds(model: Model, p: int, b: int) -> bool:
    held = 0
    for s in range(model.first[p], model.first[p + 1]):
        held += model.broker[s] == b
    return held > 0


@borrowing
def _disturbance(model: Model, r: int, b: int) -> float:
    """Return by how much the squared deviations grow with one more replica; infinite beyond a limit."""
    p, cost = model.partition[r], 0.0
    for g in range(len(model.unit)):
        x = share(model, r, p, g)
        if x > 0.0 and model.load[b, g] + x > model.limit[b, g]:
            return float(np.inf)
        if model.low[b, g] > -np.inf:  # else it is limited only
            cost += model.unit[g] * x * (2.0 * off(model, b, g) + x)
    return cost
