"""Streams of partition rates to compare planners on: what the published experiments draw, made from a seed.

Part of the evaluation, which stands beside the controller's path: it may draw random numbers, but reads and writes nothing.
"""

import numpy as np
from numpy.typing import NDArray

PUBLISHED_CAPACITY = 100
PUBLISHED_PARTITIONS = 200
PUBLISHED_MEASUREMENTS = 501
PUBLISHED_DELTAS = (0, 5, 10, 15, 20, 25)
FAMILIES = ("independent", "correlated", "anti-correlated", "bimodal", "skewed lag", "full")


def bounded_walk(
    *,
    delta: int,
    seed: int,
    partitions: int = PUBLISHED_PARTITIONS,
    measurements: int = PUBLISHED_MEASUREMENTS,
    capacity: int = PUBLISHED_CAPACITY,
) -> NDArray[np.float64]:
    """Return rates ``float64[measurements, partitions]``: whole numbers that walk at random from 0 to a consumer's capacity.

    The first rates are uniform integers from 0 to ``capacity``; each step adds a uniform integer in [-delta, delta] and stays
    inside [0, capacity]. The upper end is not in the printed equation 15, but without it the published figures cannot come
    about (Landau et al. 2024, section VI-A). The same seed gives the same stream.

    Raises:
        ValueError: A count is not positive, or ``delta`` is negative.
    """
    if partitions < 1 or measurements < 1 or capacity < 1 or delta < 0:
        counts = f"{partitions}, {measurements}, {capacity} and {delta}"
        raise ValueError(f"a stream needs partitions, measurements and a capacity from 1 and a delta from 0, not {counts}")
    rng = np.random.default_rng(seed)
    rates = np.empty((measurements, partitions))
    now = rng.integers(0, capacity, partitions, endpoint=True)
    for row in rates:
        row[:] = now
        now = np.clip(now + rng.integers(-delta, delta, partitions, endpoint=True), 0, capacity)
    return rates


def listings(measurements: int, partitions: int, seed: int) -> NDArray[np.int64]:
    """Return the order ``[measurements, partitions]`` in which partitions are listed: random, as in the published streams.

    It matters for NF, FF, WF and BF, which place partitions as they are given, and is why they move so much.
    """
    rng = np.random.default_rng((seed, 1))  # apart from the draws of the rates
    return rng.permuted(np.tile(np.arange(partitions), (measurements, 1)), axis=1)


def two_demands(family: str, partitions: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what every partition needs of a consumer in rate and in backlog, from 0 to 1 of what a consumer has of each.

    How the two go together says the family, one of ``FAMILIES``. All but ``full``, which is uniform up to a whole consumer, have
    several partitions to a consumer. The same seed gives the same demands.

    Raises:
        ValueError: The family is unknown.
    """
    rng = np.random.default_rng(seed)
    rate = rng.uniform(0.02, 0.5, partitions)
    match family:
        case "independent":
            lag = rng.uniform(0.02, 0.5, partitions)
        case "correlated":
            lag = rate * rng.uniform(0.6, 1.4, partitions)
        case "anti-correlated":
            lag = 0.52 - rate + rng.uniform(-0.1, 0.1, partitions)
        case "bimodal":
            fast = rng.random(partitions) < 0.5  # noqa: PLR2004  half of them
            much, little = rng.uniform(0.3, 0.7, (2, partitions)), rng.uniform(0.02, 0.2, (2, partitions))
            rate, lag = np.where(fast, much[0], little[0]), np.where(fast, little[1], much[1])
        case "skewed lag":
            rate, lag = rng.lognormal(-2, 0.8, partitions), rng.exponential(0.15, partitions)
        case "full":
            rate, lag = rng.random(partitions), rng.random(partitions)
        case _:
            raise ValueError(f"family {family!r} is unknown; choose one of {', '.join(FAMILIES)}")
    return np.clip(rate, 0.005, 1.0), np.clip(lag, 0.005, 1.0)
