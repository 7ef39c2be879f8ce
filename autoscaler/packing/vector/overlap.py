"""Give contents to the consumers that hold most of them already: kernels on arrays, part of *pack*.

A packing says which partitions go together, not who gets them. The matching of greatest overlap moves least.
"""

from typing import NamedTuple

import numpy as np

from autoscaler.packing.kernels.jit import compiled
from autoscaler.packing.vector.fill import Floats, Ints

_EXACT_UP_TO = 300  # contents: the optimal matching takes some 20 ms there and grows with the cube


class _Matching(NamedTuple):
    """Rows matched so far, and the potentials that show the matching to be optimal; rows and columns count from 1, 0 is none."""

    row_price: Floats  # float64[rows + 1]
    column_price: Floats  # float64[columns + 1]
    row_of: Ints  # int64[columns + 1]


@compiled
def _add_row(cost: Floats, so_far: _Matching, row: int) -> None:
    """Match one row more, by the shortest augmenting path."""
    columns = cost.shape[1]
    came = np.zeros(columns + 1, np.int64)
    slack = np.full(columns + 1, np.inf)
    seen = np.zeros(columns + 1, np.bool_)
    column = 0
    so_far.row_of[0] = row
    while so_far.row_of[column]:
        seen[column] = True
        here, step, nearest = so_far.row_of[column], np.inf, 0
        for k in range(1, columns + 1):
            if not seen[k]:
                reduced = cost[here - 1, k - 1] - so_far.row_price[here] - so_far.column_price[k]
                if reduced < slack[k]:
                    slack[k], came[k] = reduced, column
                if slack[k] < step:
                    step, nearest = slack[k], k
        for k in range(columns + 1):
            if seen[k]:
                so_far.row_price[so_far.row_of[k]] += step
                so_far.column_price[k] -= step
            else:
                slack[k] -= step
        column = nearest
    while column:
        so_far.row_of[column] = so_far.row_of[came[column]]
        column = came[column]


@compiled
def least_cost(cost: Floats) -> Ints:
    """Return a column for each row, all different, with the least total cost (Kuhn 1955, with potentials).

    There are at least as many columns as rows; it takes time with rows² times columns.
    """
    rows, columns = cost.shape
    matching = _Matching(np.zeros(rows + 1), np.zeros(columns + 1), np.zeros(columns + 1, np.int64))
    for row in range(1, rows + 1):
        _add_row(cost, matching, row)
    chosen = np.empty(rows, np.int64)
    for k in range(1, columns + 1):
        if matching.row_of[k]:
            chosen[matching.row_of[k] - 1] = k - 1
    return chosen


def _pairs(content: Ints, home: Ints, weight: Floats) -> tuple[Ints, Ints, Floats]:
    """Return (content, previous consumer, what they share) of all pairs that share something."""
    stays = home >= 0
    width = int(home.max(initial=0)) + 1
    pair, at = np.unique(content[stays] * width + home[stays], return_inverse=True)
    shared = np.zeros(pair.shape[0])
    np.add.at(shared, at, weight[stays])
    return pair // width, pair % width, shared


def _greedily(contents: int, pairs: tuple[Ints, Ints, Floats]) -> Ints:
    """Match the pairs in order of what they share; -1 for a content whose consumers are all taken."""
    chosen = np.full(contents, -1)
    taken: set[int] = set()
    for k in np.argsort(-pairs[2], kind="stable"):
        content, consumer = int(pairs[0][k]), int(pairs[1][k])
        if chosen[content] < 0 and consumer not in taken:
            chosen[content] = consumer
            taken.add(consumer)
    return chosen


def match(content: Ints, home: Ints, weight: Floats) -> Ints:
    """Return each content's previous consumer, all different, for the greatest overlap in weight; -1 where nothing is shared.

    Optimal up to a few hundred contents, above that pair by pair in order of what is shared.
    """
    contents = int(content.max(initial=-1)) + 1
    pairs = _pairs(content, home, weight)
    if contents > _EXACT_UP_TO:
        return _greedily(contents, pairs)
    known, column = np.unique(pairs[1], return_inverse=True)
    cost = np.zeros((contents, known.shape[0] + contents))
    cost[pairs[0], column] = -pairs[2]
    chosen = least_cost(cost)
    shares = cost[np.arange(contents), chosen] < 0
    return np.where(shares, np.append(known, np.full(contents, -1))[chosen], -1)
