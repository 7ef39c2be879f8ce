"""How fast one worker is beside the others of its group: believed only when it plainly differs, and kept until that is over.

A worker is compared with what its peers did about the same time, so that what makes all of them slower (a database, larger
records) makes no worker differ. One that has less to do than its peers has smaller batches, and looks slower where a batch costs
something by itself: such a window may speak for a worker and never against it, or being given less would make it be given less.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import median

from autoscaler.core.capacity.capacity import ENOUGH, NOISE
from autoscaler.model import LoadSnapshot, WorkerView

_APART = 0.8  # of the group's: windows that are off by 10 % do not make two that are equal look so different
_ALIKE = 0.9  # of the group's: near enough to be one of them again
_AS_MUCH = 0.9  # of what the middle one of the group has to do
_BEHIND_S = 5.0  # who is so far behind has full batches, whatever it has to do


def ratio(rate: float, peers: Collection[float]) -> float | None:
    """Return a worker's rate over the median of its own and its peers'; ``None`` without any."""
    return rate / median((rate, *peers)) if peers else None


def believed(kept: float, shown: Sequence[float]) -> float:
    """Return how fast a worker is taken to be, over the group's; 1 for one that is like the others.

    Args:
        kept: What it was taken to be until now.
        shown: Ratios of its latest windows; fewer than three change nothing.
    """
    if len(shown) < ENOUGH:
        return kept
    value = median(shown)
    if kept == 1.0:
        return value if not _APART <= value <= 1 / _APART else 1.0
    if _ALIKE <= value <= 1 / _ALIKE:
        return 1.0
    return kept if abs(value - kept) <= NOISE * kept else value


def with_less(snapshot: LoadSnapshot, workers: Iterable[WorkerView]) -> frozenset[str]:
    """Return the workers, by uuid, that have less to do than their peers and are not behind."""
    rates = {x.partition: x.bytes_per_s or 0.0 for x in snapshot.loads}
    behind = {x.partition for x in snapshot.loads if x.lag_s is not None and x.lag_s > _BEHIND_S}
    arriving = {w.uuid: (sum(rates.get(p, 0.0) for p in sorted(w.owned)), bool(w.owned & behind)) for w in workers}
    if not arriving:
        return frozenset()
    middle = median(rate for rate, _ in arriving.values())
    return frozenset(uuid for uuid, (rate, late) in arriving.items() if rate < _AS_MUCH * middle and not late)


def within_bounds(speeds: Mapping[int, float], capacity: float, least: float, most: float) -> dict[int, float]:
    """Return speeds by slot so that each one's own capacity lies within the bounds that the group's has."""
    bounded = {slot: min(max(speed * capacity, least), most) / capacity for slot, speed in sorted(speeds.items())}
    return {slot: speed for slot, speed in bounded.items() if speed != 1.0}
