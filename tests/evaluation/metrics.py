"""What a run is judged by: the published measures of cost and of movement, as pure functions of a run's figures."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray


def fewest(consumers: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the fewest consumers that any of the compared runs, all over the same stream, used per measurement.

    Raises:
        ValueError: There is nothing to compare, or the runs differ in length.
    """
    lengths = {len(counts) for counts in consumers.values()}
    if len(lengths) != 1:
        msg = f"runs over one stream are compared, so they have one length, not {sorted(lengths)}"
        raise ValueError(msg)
    least: NDArray[np.int64] = np.min(np.stack(list(consumers.values())), axis=0)
    return least


def cardinal_bin_scores(consumers: Mapping[str, NDArray[np.int64]]) -> dict[str, float]:
    """Return the cardinal bin score of every run: mean of (consumers - m) / m, m the fewest that any run used at that time.

    Landau et al. 2024, equation 28; 0.1 means ten percent more consumers than the best of the compared, all over the same
    stream. It depends on who is compared.

    Raises:
        ValueError: There is nothing to compare, the runs differ in length, or one used no consumer.
    """
    m = fewest(consumers)
    if m.min(initial=1) < 1:
        msg = "a run used no consumer at all: it had no partitions"
        raise ValueError(msg)
    return {name: float(np.mean((counts - m) / m)) for name, counts in consumers.items()}


def mean_r_score(r_scores: NDArray[np.float64]) -> float:
    """Return the mean of a run's Rscores, in capacities moved per measurement (Landau et al. 2024, equation 11).

    The first measurement, which moves nothing, counts as 0 and is counted.
    """
    return float(np.sum(r_scores[1:]) / max(len(r_scores), 1))
