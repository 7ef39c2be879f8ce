"""How late bytes are under a sequence of placements: the published model of a group that is rebalanced now and then.

Landau et al. 2024, section VI-C. A consumer truly takes ``true_capacity``, more than a planner gives it. Partitions that are
new on it wait for the rebalance; those that it kept go on with what their arrival needs. One sample per byte; they come in
straight lines, so that lines are kept and never the samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PUBLISHED_TRUE_CAPACITY = 133.0
_BISECTIONS = 100  # halves any range of floats down to neighbours


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Latencies in seconds: per line ``max(start + slope * i, 0)`` for i from 0 to ``count - 1``, one per byte."""

    starts: NDArray[np.float64]  # seconds, ``float64[lines]``
    slopes: NDArray[np.float64]  # seconds per byte, ``float64[lines]``
    counts: NDArray[np.int64]  # bytes, ``int64[lines]``

    @classmethod
    def pooled(cls, several: Sequence["Latencies"]) -> "Latencies":
        """Return the bytes of several runs as one."""
        return cls(
            starts=np.concatenate([np.empty(0), *(one.starts for one in several)]),
            slopes=np.concatenate([np.empty(0), *(one.slopes for one in several)]),
            counts=np.concatenate([np.empty(0, np.int64), *(one.counts for one in several)]),
        )

    @property
    def total(self) -> int:
        """Return the number of bytes."""
        return int(self.counts.sum())

    @property
    def late(self) -> int:
        """Return the number of bytes whose latency is above 0."""
        return self.total - self.at_most(0.0)

    def at_most(self, seconds: float) -> int:
        """Return the number of bytes that are at most this late."""
        away = seconds - self.starts
        with np.errstate(divide="ignore", invalid="ignore"):
            crossing = away / self.slopes  # where a line passes; without a slope it does not
        falling = self.counts - np.ceil(np.maximum(crossing, 0.0))
        rising = np.where(away >= 0, np.floor(crossing) + 1, 0.0)
        level = np.where(away >= 0, self.counts, 0)
        found = np.select([self.slopes < 0, self.slopes > 0], [falling, rising], level)
        return int(np.clip(found, 0, self.counts).sum())

    def percentile(self, percent: float) -> float:
        """Return the percentile over all bytes; 0 without any."""
        return self._between(0, self.total, percent) if self.total else 0.0

    def percentile_of_late(self, percent: float) -> float | None:
        """Return the percentile over the late bytes, as published; ``None`` if none is late."""
        late = self.late
        return self._between(self.total - late, late, percent) if late else None

    def _between(self, first: int, count: int, percent: float) -> float:
        """Return the percentile of ``count`` samples in order from the ``first``, linear between two neighbours."""
        at = percent / 100 * (count - 1)
        below = int(at)
        low = self._ordered(first + below)
        return low + (at - below) * (self._ordered(min(first + below + 1, first + count - 1)) - low)

    def _ordered(self, index: int) -> float:
        """Return the sample at this place in ascending order."""
        ends = np.maximum(self.starts, self.starts + self.slopes * (self.counts - 1))
        low, high = 0.0, float(ends.max(initial=0.0))
        if self.at_most(low) > index:
            return low
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            if not low < middle < high:
                break
            if self.at_most(middle) > index:
                high = middle
            else:
                low = middle
        return high


def latencies(
    held: NDArray[np.int64],
    stream: NDArray[np.float64],
    *,
    true_capacity: float = PUBLISHED_TRUE_CAPACITY,
    iteration_s: float = 30.0,
    rebalance_s: float = 5.0,
) -> Latencies:
    """Return how late every byte is, for consumer indices and rates ``[iterations, partitions]``.

    Per iteration and consumer, with W_R the rates that are new on it, W_F those it kept, and b its last latency one iteration
    before: kept bytes have ``max((1/R_F - 1/W_F) i + b, 0)``, new ones ``max((1/R_R - 1/W_R) i + rebalance_s, 0)``, where R_F =
    true capacity if nothing is new, else min(true capacity, W_F), and R_R = true capacity - R_F. The first iteration, in which
    everything is new, gives no sample. A consumer without arrivals catches up within the iteration.

    Raises:
        ValueError: Something was put on a consumer that was at its true capacity already: it would never be served.
    """
    consumers = int(held.max(initial=0)) + 1
    behind = np.zeros(consumers)
    lines: list[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]] = []
    for k in range(1, len(held)):
        new = held[k] != held[k - 1]
        rebalanced = _sums(held[k][new], stream[k][new], consumers)
        kept = _sums(held[k][~new], stream[k][~new], consumers)
        for_kept = np.where(rebalanced == 0, true_capacity, np.minimum(true_capacity, kept))
        for_rebalanced = true_capacity - for_kept
        if (starved := np.flatnonzero((rebalanced > 0) & (for_rebalanced <= 0))).size:
            msg = f"iteration {k} adds to consumer {starved[0]}, which keeps {kept[starved[0]]:g} of {true_capacity:g} bytes/s"
            raise ValueError(msg)
        two = (
            _lines(behind, kept, for_kept, iteration_s),
            _lines(np.full(consumers, rebalance_s), rebalanced, for_rebalanced, iteration_s),
        )
        behind = np.maximum(_last(*two[0]), _last(*two[1]))
        lines.extend(two)
    if not lines:
        return Latencies(starts=np.empty(0), slopes=np.empty(0), counts=np.empty(0, np.int64))
    starts, slopes, counts = (np.concatenate(parts) for parts in zip(*lines, strict=True))
    some = counts > 0
    return Latencies(starts=starts[some], slopes=slopes[some], counts=counts[some])


def round_robin(partitions: int, consumers: int, iterations: int) -> NDArray[np.int64]:
    """Return the placement ``[iterations, partitions]`` that deals partitions out and never changes (kd_n, section VI-C)."""
    return np.tile(np.arange(partitions) % consumers, (iterations, 1))


def _sums(held: NDArray[np.int64], rates: NDArray[np.float64], consumers: int) -> NDArray[np.float64]:
    return np.bincount(held, rates, consumers).astype(np.float64)


def _lines(
    start: NDArray[np.float64], arriving: NDArray[np.float64], served: NDArray[np.float64], iteration_s: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return starts, slopes and counts of one iteration, a line per consumer; without arrivals it is empty."""
    slopes = np.zeros_like(arriving)
    some = arriving > 0
    slopes[some] = 1 / served[some] - 1 / arriving[some]
    return start, slopes, (iteration_s * arriving).astype(np.int64)


def _last(starts: NDArray[np.float64], slopes: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(counts > 0, np.maximum(starts + slopes * (counts - 1), 0.0), 0.0)
