"""Every algorithm of *pack* under its name, on mappings and on arrays.

Here names and options are checked, and partitions and consumer indices become positions and labels and come back; what an
algorithm does stands in its own module.
"""

from collections.abc import Mapping, Sequence
from typing import Unpack, cast

import numpy as np

from autoscaler.packing import published
from autoscaler.packing.hfd import hfd
from autoscaler.packing.mmr import mmr
from autoscaler.packing.options import Floats, Given, Labels, Options, Planned, Planner, read_options
from autoscaler.packing.pace import pace
from autoscaler.packing.placement import Assignment, P, assignment, check_capacity, check_loads, check_previous
from autoscaler.packing.published_arrays import place_arrays

_MOST = 1e9  # consumers' capacities that one partition counts for at most: sums stay finite

PLANNERS: Mapping[str, Planner] = {"MMR": mmr, "HFD": hfd, "PACE": pace}
ALGORITHMS: tuple[str, ...] = (*published.PUBLISHED, *PLANNERS)


def assign(
    loads: Mapping[P, float],
    capacity: float,
    previous: Mapping[P, int],
    algorithm: str = "MWF",
    **options: Unpack[Given],
) -> Assignment[P]:
    """Place every partition on a consumer.

    Nobody is above the capacity unless it holds one partition with traffic alone. The order of ``loads`` matters for NF, FF, WF
    and BF only, which take partitions as given.

    Args:
        loads: Bytes per second of every partition, measured now.
        capacity: Bytes per second that one consumer may be given.
        previous: Consumer index that holds a partition now; may be empty or partial, and partitions that are gone are ignored.
        algorithm: One of ``ALGORITHMS``.
        options: Those that the algorithm takes.

    Raises:
        ValueError: A rate, the capacity, a previous owner, the algorithm's name or an option makes no sense; the message says
            which.
    """
    _check_algorithm(algorithm)
    check_loads(loads, capacity)
    check_previous(previous)
    chosen = read_options(algorithm, options, capacity)
    if algorithm in published.RULES:
        owner = published.place(loads, capacity, previous, algorithm, open_first=chosen.open_first)
        return assignment(owner, loads, capacity, previous, algorithm)
    partitions = sorted(loads)
    known = sorted({previous[p] for p in partitions if p in previous})
    label = {consumer: i for i, consumer in enumerate(known)}
    home = np.array([label[previous[p]] if p in previous else -1 for p in partitions], np.int64)
    rates = np.array([loads[p] for p in partitions], np.float64)
    planned = _plan(rates, capacity, home, algorithm, chosen)
    owner = dict(zip(partitions, _indices(planned.labels, known), strict=True))
    return assignment(owner, loads, capacity, previous, algorithm, proven=planned.proven)


def assign_arrays(rates: Floats, capacity: float, previous: Labels, algorithm: str = "MWF", **options: Unpack[Given]) -> Labels:
    """Place every partition on a consumer, for groups too large for mappings.

    The same placement as ``assign`` gives for keys in the order of the arrays.

    Args:
        rates: float64[n], bytes per second of every partition.
        capacity: Bytes per second that one consumer may be given.
        previous: int64[n], consumer index that holds a partition now, -1 for none.
        algorithm: One of ``ALGORITHMS``.
        options: Those that the algorithm takes.

    Returns:
        int64[n], the consumer index of every partition.

    Raises:
        ValueError: As ``assign``, with the position in place of the partition; or the arrays do not belong together.
    """
    _check_algorithm(algorithm)
    rates, previous = _check_arrays(rates, capacity, previous)
    chosen = read_options(algorithm, options, capacity)
    if algorithm in published.RULES:
        return place_arrays(rates, capacity, previous, algorithm, open_first=chosen.open_first)
    known, home = np.unique(previous, return_inverse=True)
    missing = int(known.size > 0 and known[0] < 0)
    planned = _plan(rates, capacity, home.astype(np.int64) - missing, algorithm, chosen)
    return np.array(_indices(planned.labels, known[missing:].tolist()), np.int64)


def _plan(rates: Floats, capacity: float, home: Labels, algorithm: str, options: Options) -> Planned:
    if not rates.size:
        return Planned(home)
    cost = np.minimum(rates / capacity, _MOST)
    return PLANNERS[algorithm](np.minimum(cost, 1.0), cost, home, options)


def _indices(labels: Labels, known: Sequence[int]) -> list[int]:
    """Return consumer indices for labels: the old ones theirs, each new one the lowest that nobody uses."""
    used = np.unique(labels).tolist()
    index = {label: known[label] for label in used if label < len(known)}
    taken = set(index.values())
    lowest = 0
    for label in used[len(index) :]:
        while lowest in taken:
            lowest += 1
        index[label] = lowest
        lowest += 1
    return [index[label] for label in labels.tolist()]


def _check_algorithm(algorithm: str) -> None:
    if algorithm not in ALGORITHMS:
        msg = f"algorithm {algorithm!r} is unknown; choose one of {', '.join(ALGORITHMS)}"
        raise ValueError(msg)


def _check_arrays(rates: Floats, capacity: float, previous: Labels) -> tuple[Floats, Labels]:
    """Return the arrays as the kernels read them, refusing what cannot be packed."""
    check_capacity(capacity)
    rates, previous = np.ascontiguousarray(rates, np.float64), np.asarray(previous)
    if rates.ndim != 1 or previous.shape != rates.shape:
        msg = f"rates and previous must be of one length, not of shapes {rates.shape} and {previous.shape}"
        raise ValueError(msg)
    if previous.size and not np.issubdtype(previous.dtype, np.integer):
        msg = f"previous must hold whole numbers, not {previous.dtype}"
        raise ValueError(msg)
    if (bad := np.flatnonzero(~((rates >= 0) & (rates < np.inf)))).size:
        msg = f"rate at {bad[0]} must be a finite number of bytes per second that is not negative, not {float(rates[bad[0]])!r}"
        raise ValueError(msg)
    with np.errstate(over="ignore"):
        total = float(rates.sum())
    if not np.isfinite(total):
        msg = f"the rates of {rates.size} partitions add up to more than can be counted"
        raise ValueError(msg)
    if (bad := np.flatnonzero(previous < -1)).size:
        msg = f"previous owner at {bad[0]} must be an index from 0, or -1 for none, not {int(previous[bad[0]])}"
        raise ValueError(msg)
    return rates, cast("Labels", np.ascontiguousarray(previous, np.int64))
