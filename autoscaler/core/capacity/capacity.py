"""What one consumer can do, as this cycle's decision takes it: configured, measured, or assumed until then.

What is configured is not argued with. What was measured counts within its bounds, and a value in use is left only for one that
differs by more than noise: a plan follows from it, and plans cost moves.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from autoscaler.config.policy import Policy
from autoscaler.model import CapacitySource

ENOUGH = 3  # windows before anything is believed: one of them may be anything
NOISE = 0.1  # of the value in use


class Shown(NamedTuple):
    """What consumers have shown: bytes/s of one, in how many windows, and when the last of them ended."""

    bytes_per_s: float
    samples: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """A capacity with where it comes from.

    Attributes:
        bytes_per_s: What one consumer processes when it never waits.
        samples: Windows that it was measured in; 0 where it was not.
        at: When the last of them ended; ``None`` where it was not measured.
        measured_bytes_per_s: What these windows say by themselves; ``None`` where it was not measured.
    """

    bytes_per_s: float
    source: CapacitySource
    samples: int = 0
    at: float | None = None
    measured_bytes_per_s: float | None = None

    @property
    def bounded(self) -> bool:
        """Say whether it is a bound, and what was measured lies beyond it."""
        measured = self.measured_bytes_per_s
        return measured is not None and abs(measured - self.bytes_per_s) > NOISE * max(measured, self.bytes_per_s)


def in_use(policy: Policy, kept: Capacity | None, shown: Shown | None) -> Capacity:
    """Return the capacity that this cycle goes by.

    Args:
        policy: What is configured.
        kept: The measured one that was in use until now; ``None``: none was.
        shown: What consumers have shown lately; ``None``: nothing yet, or not enough.
    """
    if policy.capacity_bytes_per_s is not None:
        return Capacity(bytes_per_s=policy.capacity_bytes_per_s, source=CapacitySource.CONFIGURED)
    prior, ratio = policy.capacity_prior_bytes_per_s, policy.capacity_bounds_ratio
    if kept is not None:  # the bounds may be others by now
        kept = replace(kept, bytes_per_s=min(max(kept.bytes_per_s, prior / ratio), prior * ratio))
    if shown is None:
        return kept or Capacity(bytes_per_s=prior, source=CapacitySource.PRIOR)
    value = min(max(shown.bytes_per_s, prior / ratio), prior * ratio)
    if kept is not None and abs(value - kept.bytes_per_s) <= NOISE * kept.bytes_per_s:
        value = kept.bytes_per_s
    return Capacity(
        bytes_per_s=value,
        source=CapacitySource.MEASURED,
        samples=shown.samples,
        at=shown.at,
        measured_bytes_per_s=shown.bytes_per_s,
    )
