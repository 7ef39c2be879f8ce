"""Runs a planner over a stream, each plan from the one before: what the published experiments and ours have in common.

No clock, no Kafka, no random numbers: the same planner over the same stream gives the same trace.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autoscaler.packing import TAKES, Given, assign_arrays
from autoscaler.packing.kernels.drift import DriftEstimator


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """An algorithm with its options under the name that tables show."""

    name: str  # how it is called in tables, unlike any other that it is compared with
    algorithm: str  # one of ``packing.ALGORITHMS``
    options: Given  # what the algorithm is asked
    # Whether it is given the partitions in the order in which each measurement lists them, not by their keys
    as_listed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What a planner did over a stream, per measurement."""

    consumers: NDArray[np.int64]  # ``int64[measurements]``: how many hold something
    # ``float64[measurements]``: rate of what moved over one consumer's capacity, 0 at the first measurement
    r_scores: NDArray[np.float64]
    moved: NDArray[np.int64]  # ``int64[measurements]``: how many partitions moved


def owners(
    contender: Contender, stream: NDArray[np.float64], capacity: float, listed: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Return who holds what after every measurement, ``[measurements, partitions]``, beginning with no consumer holding anything.

    An algorithm that asks how far rates drift is told what the measurements so far show. ``listed`` is the order in which each
    measurement lists the partitions, for contenders that are given them so; without it the same order every time.
    """
    held = np.empty(stream.shape, np.int64)
    before = np.full(stream.shape[1], -1, np.int64)
    learns = "drift" in TAKES.get(contender.algorithm, ()) and "drift" not in contender.options
    drift, options = DriftEstimator(), contender.options
    orders = listed if listed is not None and contender.as_listed else [np.arange(stream.shape[1])] * len(stream)
    for rates, order, now in zip(stream, orders, held, strict=True):
        if learns:
            drift = drift.update(dict(enumerate(rates.tolist())))
            options = {**contender.options, "drift": drift}
        now[order] = assign_arrays(rates[order], capacity, before[order], contender.algorithm, **options)
        before = now
    return held


def trace(held: NDArray[np.int64], stream: NDArray[np.float64], capacity: float) -> Trace:
    """Return the figures of a run from who holds what and the rates, both ``[measurements, partitions]``."""
    changed = np.zeros(held.shape, np.bool_)
    changed[1:] = held[1:] != held[:-1]
    return Trace(
        consumers=np.array([len(np.unique(now)) for now in held], np.int64),
        r_scores=np.where(changed, stream, 0.0).sum(axis=1) / capacity,
        moved=changed.sum(axis=1),
    )


def run_planner(
    contender: Contender, stream: NDArray[np.float64], capacity: float, listed: NDArray[np.int64] | None = None
) -> Trace:
    """Run a planner over a stream and return its figures; see ``owners`` and ``trace``."""
    return trace(owners(contender, stream, capacity, listed), stream, capacity)
