"""*size*: the number of consumers that the load takes, which stays known with its age while it cannot be told anew."""

import math
from dataclasses import dataclass

from autoscaler.core.load.group_load import GroupLoad
from autoscaler.model import LoadSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What was last found out.

    Attributes:
        consumers: How many the load takes.
        at: When the oldest of the measurements was made that it goes by.
    """

    consumers: int
    at: float


def latest_advice(
    known: Advice | None, snapshot: LoadSnapshot, load: GroupLoad, consumers: int, *, at: float, settled: bool
) -> Advice | None:
    """Return what a cycle advises: its own number, or the last known one where this cycle measured nothing.

    Args:
        known: What the cycle before it advised.
        snapshot: What ``load`` was read from.
        load: The cycle's load, carried rates included.
        consumers: How many that takes.
        at: When the snapshot was taken, on the clock that is never set.
        settled: A native group's assignor can be followed; without that ``consumers`` is a number of another kind.
    """
    if not load.rates or (known is not None and not (load.fresh and settled)):
        return known
    age_s = max((x.age_s for x in snapshot.loads if x.partition in load.measured and not x.known), default=0.0)
    return Advice(consumers=consumers, at=at - age_s) if math.isfinite(age_s) else known
