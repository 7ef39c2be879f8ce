"""The open consumers under the four fitting rules, on arrays: what ``fits.py`` keeps in lists, for large groups. Part of *pack*.

First and worst fit read a tree of least loads over the consumers in index order; best fit reads the consumers in order of load,
in blocks short enough to insert into. Every step costs the logarithm of their number, and every sum and comparison is the one
that ``fits.py`` makes, so that both choose alike to the last bit.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autoscaler.packing.kernels.jit import borrowing
from autoscaler.packing.problem.options import Floats, Labels

NEXT, FIRST, WORST, BEST = range(4)
UNASSIGNED = -1

_WIDTH = 256  # consumers of a block: few enough to shift at once, many enough that blocks are few
_LAST, _LOWEST, _BLOCKS, _MADE = range(4)  # what ``Open.counts`` holds


class Open(NamedTuple):
    """The open consumers; the arrays are changed in place."""

    fit: int  # the rule, one of ``NEXT``, ``FIRST``, ``WORST``, ``BEST``
    limit: float  # load up to which something fits
    load: Floats  # float64[slots] of every open consumer
    is_open: NDArray[np.bool_]  # bool[slots]
    tree: Floats  # float64[2 x a power of two]: the least load of an open consumer under each node, the root at 1
    blocks: NDArray[np.int64]  # int64[m, width]: consumers by load, those of equal load by decreasing index, in pieces
    sizes: Labels  # int64[m], how many each block holds
    order: Labels  # int64[m], the blocks by load
    counts: Labels  # the consumer opened last, an index below which all are open, blocks in use, blocks made


def none_open(fit: int, limit: float, slots: int, placements: int) -> Open:
    """Return no open consumer, with room for indices below ``slots`` and as many placements."""
    leaves = 1 << max(slots - 1, 1).bit_length()
    blocks = 2 + 2 * placements // _WIDTH  # a block is split after that many insertions at the earliest
    return Open(
        fit=fit,
        limit=limit,
        load=np.zeros(slots),
        is_open=np.zeros(slots, np.bool_),
        tree=np.full(2 * leaves if fit in {FIRST, WORST} else 1, np.inf),
        blocks=np.empty((blocks if fit == BEST else 1, _WIDTH), np.int64),
        sizes=np.zeros(blocks, np.int64),
        order=np.zeros(blocks, np.int64),
        counts=np.array([UNASSIGNED, 0, 0, 0]),
    )


@borrowing
def open_consumer(consumers: Open, consumer: int, load: float) -> None:
    """Open a consumer with what it already holds."""
    consumers.is_open[consumer] = True
    consumers.load[consumer] = load
    consumers.counts[_LAST] = consumer
    if consumers.fit in (FIRST, WORST):
        _raise_leaf(consumers.tree, consumer, load)
    elif consumers.fit == BEST:
        _insert(consumers, consumer)


@borrowing
def put_on_open(consumers: Open, rate: float) -> int:
    """Put a rate on the open consumer that the rule chooses and return it, ``UNASSIGNED`` if it fits nowhere."""
    if consumers.fit == BEST:
        return _put_on_fullest(consumers, rate)
    if consumers.fit == NEXT:
        consumer = int(consumers.counts[_LAST])
    else:
        consumer = _leaf(consumers.tree, consumers.limit, rate, consumers.fit)
    if consumer == UNASSIGNED or consumers.load[consumer] + rate > consumers.limit:
        return UNASSIGNED
    consumers.load[consumer] += rate
    if consumers.fit != NEXT:
        _raise_leaf(consumers.tree, consumer, consumers.load[consumer])
    return consumer


@borrowing
def to_open(consumers: Open, home: int) -> int:
    """Return the consumer that is opened for a partition: its home if that is closed, else the lowest that is (equation 14)."""
    if home != UNASSIGNED and not consumers.is_open[home]:
        return home
    lowest = int(consumers.counts[_LOWEST])
    while consumers.is_open[lowest]:
        lowest += 1
    consumers.counts[_LOWEST] = lowest
    return lowest


@borrowing
def _raise_leaf(tree: Floats, leaf: int, load: float) -> None:
    node = leaf + tree.shape[0] // 2
    tree[node] = load
    while node > 1:
        node //= 2
        least = min(tree[2 * node], tree[2 * node + 1])
        if tree[node] == least:
            return
        tree[node] = least


@borrowing
def _leaf(tree: Floats, limit: float, rate: float, fit: int) -> int:
    """Return the first leaf on which a rate fits, or the first of the least loaded; ``UNASSIGNED`` if it fits on none."""
    if tree[1] + rate > limit:
        return UNASSIGNED
    node, leaves = 1, int(tree.shape[0] // 2)
    while node < leaves:
        node *= 2
        if (tree[node] > tree[node + 1]) if fit == WORST else (tree[node] + rate > limit):
            node += 1
    return node - leaves


@borrowing
def _put_on_fullest(consumers: Open, rate: float) -> int:
    """Put a rate on the last consumer, in order of load, that it fits on."""
    at = _last_block(consumers, rate)
    if at < 0:
        return UNASSIGNED
    block = consumers.order[at]
    members, low, high = consumers.blocks[block], 0, consumers.sizes[block] - 1
    while low < high:
        middle = (low + high + 1) // 2
        if consumers.load[members[middle]] + rate <= consumers.limit:
            low = middle
        else:
            high = middle - 1
    consumer = int(members[low])
    _remove(consumers, at, low)
    consumers.load[consumer] += rate
    _insert(consumers, consumer)
    return consumer


@borrowing
def _last_block(consumers: Open, rate: float) -> int:
    """Return the position of the last block on whose first consumer a rate fits, -1 if there is none."""
    low, high = -1, consumers.counts[_BLOCKS] - 1
    while low < high:
        middle = (low + high + 1) // 2
        if consumers.load[consumers.blocks[consumers.order[middle], 0]] + rate <= consumers.limit:
            low = middle
        else:
            high = middle - 1
    return low


@borrowing
def _remove(consumers: Open, at: int, position: int) -> None:
    block = consumers.order[at]
    size = consumers.sizes[block] - 1
    members = consumers.blocks[block]
    for i in range(position, size):
        members[i] = members[i + 1]
    consumers.sizes[block] = size
    if size == 0 and consumers.counts[_BLOCKS] > 1:  # the only one stays: its consumer comes back at once
        consumers.counts[_BLOCKS] -= 1
        for i in range(at, consumers.counts[_BLOCKS]):
            consumers.order[i] = consumers.order[i + 1]


@borrowing
def _insert(consumers: Open, consumer: int) -> None:
    """Put a consumer at its place in order of load."""
    at = max(_block_of(consumers, consumer), 0)
    if consumers.counts[_BLOCKS] == 0 or consumers.sizes[consumers.order[at]] == _WIDTH:
        at = _make_room(consumers, at, consumer)
    block = consumers.order[at]
    members, size = consumers.blocks[block], consumers.sizes[block]
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if _precedes(consumers.load, consumer, members[middle]):
            high = middle
        else:
            low = middle + 1
    for i in range(size, low, -1):
        members[i] = members[i - 1]
    members[low] = consumer
    consumers.sizes[block] = size + 1


@borrowing
def _block_of(consumers: Open, consumer: int) -> int:
    """Return the position of the last block whose first consumer does not come after this one, -1 if there is none."""
    low, high = -1, consumers.counts[_BLOCKS] - 1
    while low < high:
        middle = (low + high + 1) // 2
        if _precedes(consumers.load, consumer, consumers.blocks[consumers.order[middle], 0]):
            high = middle - 1
        else:
            low = middle
    return low


@borrowing
def _precedes(load: Floats, one: int, other: int) -> bool:
    """Say whether a consumer stands before another: less load, or the same and a higher index."""
    return bool(load[one] < load[other] or (load[one] == load[other] and one > other))


@borrowing
def _make_room(consumers: Open, at: int, consumer: int) -> int:
    """Split the full block at a position, or make the first one; return the position of the half that a consumer belongs to."""
    made, used = consumers.counts[_MADE], consumers.counts[_BLOCKS]
    consumers.counts[_MADE] += 1
    consumers.counts[_BLOCKS] += 1
    if used == 0:
        consumers.order[0] = made
        consumers.sizes[made] = 0
        return 0
    block, half = consumers.order[at], _WIDTH // 2
    for i in range(used, at + 1, -1):
        consumers.order[i] = consumers.order[i - 1]
    consumers.order[at + 1] = made
    for i in range(half):
        consumers.blocks[made, i] = consumers.blocks[block, half + i]
    consumers.sizes[made] = consumers.sizes[block] = half
    return at if _precedes(consumers.load, consumer, consumers.blocks[made, 0]) else at + 1
