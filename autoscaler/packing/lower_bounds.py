"""How few consumers any placement needs: pure arithmetic on rates, part of *pack*."""

import math
from collections.abc import Iterable

_ROUNDING = 1e-9  # a sum of floats that should be whole must not cost a consumer


def lower_bound(rates: Iterable[float], capacity: float) -> int:
    """Return the number of consumers that no placement can go below.

    The greater of the summed rates over the capacity, rounded up (a partition above the capacity fills exactly one consumer),
    and the number of partitions above half a capacity (no two of them share a consumer). Zero without partitions.

    Args:
        rates: Bytes per second of each partition.
        capacity: Bytes per second that one consumer may be given.
    """
    shares = [min(rate / capacity, 1.0) for rate in rates]
    if not shares:
        return 0
    return max(1, math.ceil(math.fsum(shares) - _ROUNDING), sum(1 for share in shares if share > 0.5 + _ROUNDING))
