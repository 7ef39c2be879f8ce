"""Streams of partition rates to compare planners on: what the published experiments draw, made from a seed.

Part of the evaluation, which stands beside the controller's path: it may draw random numbers, but reads and writes nothing.
"""

import numpy as np
from numpy.typing import NDArray

PUBLISHED_CAPACITY = 100
PUBLISHED_PARTITIONS = 200
PUBLISHED_MEASUREMENTS = 501
PUBLISHED_DELTAS = (0, 5, 10, 15, 20, 25)


def bounded_walk(
    *,
    delta: int,
    seed: int,
    partitions: int = PUBLISHED_PARTITIONS,
    measurements: int = PUBLISHED_MEASUREMENTS,
    capacity: int = PUBLISHED_CAPACITY,
) -> NDArray[np.float64]:
    """Return a stream in which every partition's rate walks at random between 0 and one consumer's capacity.

    The first rates are uniform integers from 0 to ``capacity``; each step adds a uniform integer in [-delta, delta] and stays
    inside [0, capacity]. The upper end is not in the printed equation 15, but without it the published figures cannot come
    about (Landau et al. 2024, section VI-A).

    Args:
        delta: Greatest step between two measurements, in the unit of the rates.
        seed: The same seed gives the same stream.
        partitions: How many partitions.
        measurements: How many measurements.
        capacity: Rate that one consumer can take.

    Returns:
        Rates, ``float64[measurements, partitions]``, whole numbers.

    Raises:
        ValueError: A count is not positive, or ``delta`` is negative.
    """
    if partitions < 1 or measurements < 1 or capacity < 1 or delta < 0:
        counts = f"{partitions}, {measurements}, {capacity} and {delta}"
        msg = f"a stream needs partitions, measurements and a capacity from 1 and a delta from 0, not {counts}"
        raise ValueError(msg)
    rng = np.random.default_rng(seed)
    rates = np.empty((measurements, partitions))
    now = rng.integers(0, capacity, partitions, endpoint=True)
    for row in rates:
        row[:] = now
        now = np.clip(now + rng.integers(-delta, delta, partitions, endpoint=True), 0, capacity)
    return rates
