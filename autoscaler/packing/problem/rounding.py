"""When a rate fits: up to the capacity, give or take the rounding of a sum of floats. Part of *pack*."""

ROUNDING = 1e-9  # of the capacity: sums of the same rates in another order must not disagree about fitting


def limit_of(capacity: float) -> float:
    """Return the load up to which something fits."""
    return capacity * (1.0 + ROUNDING)
