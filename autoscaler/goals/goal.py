"""What a cluster can be balanced by: the goals, which data each needs, and what is done without. Part of *goals*."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from autoscaler.goals.score import Band, Tail
from autoscaler.goals.snapshot import Bools, Floats, Snapshot

MIB = 2.0**20


class Name(StrEnum):
    """A goal's name, in settings and findings alike."""

    RACKS = "racks"  # hard: no two replicas of a partition in one rack, as far as there are racks
    CAPACITY = "capacity"  # hard: no broker above what it may be given
    BYTES_IN = "bytes_in"
    BYTES_OUT = "bytes_out"
    STORAGE = "storage"
    REPLICAS = "replicas"
    LEADERS = "leaders"
    LAG = "lag"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A load that shall be alike on all brokers.

    Attributes:
        name: Of which load.
        weight: What it counts beside other goals.
        ratio: Half the band's width as a part of the mean.
        idle: Below it, mean and load count as balanced.
        width: Of the linear part of the score; ``None``: the mean of the brokers' capacities if known, else ``DEFAULT_WIDTH``,
            and for counts the mean.

    Raises:
        ValueError: The name is that of a hard goal, which is no load, or a number makes no sense.
    """

    name: Name
    weight: float = 1.0
    ratio: float = 0.1
    idle: float = 0.0
    width: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no goal."""
        if self.name not in CATALOGUE:
            raise ValueError(f"{self.name} is no load to balance; choose of {', '.join(CATALOGUE)}")
        numbers = (self.weight, self.ratio, 1.0 if self.width is None else self.width)
        if not all(0.0 < n < np.inf for n in numbers) or not 0.0 <= self.idle < np.inf:
            raise ValueError(f"{self.name}: weight, ratio and width must be above 0, and idle not negative, all finite")


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What each partition puts on brokers, by one goal."""

    follow: Floats  # float64[partitions], by each replica
    lead: Floats  # float64[partitions], by the leader besides


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a goal is made of.

    Attributes:
        needs: Fields of ``Snapshot`` without which it cannot be told.
        without: What is done when they are not there, for the documentation and findings.
        demand: Returns what partitions put on brokers; the fields are there.
        by_mean: It is no rate: where no capacity is known the score falls to 0.1 within a mean, and further by the tail that is
            the same in every unit.
    """

    needs: tuple[str, ...]
    without: str
    demand: Callable[[Snapshot], Demand]
    by_mean: bool = False


def _known(values: Floats | None) -> Floats:
    """Return measurements with 0 for what is unknown: its brokers take no part, see ``eligible``."""
    if values is None:
        msg = "this has not been measured"
        raise ValueError(msg)
    return np.nan_to_num(values, nan=0.0)


def _nothing(snapshot: Snapshot) -> Floats:
    return np.zeros(len(snapshot.partitions))


def _ones(snapshot: Snapshot) -> Floats:
    return np.ones(len(snapshot.partitions))


def _bytes_out(snapshot: Snapshot) -> Demand:
    """Return what consumers read, and what followers fetch where that is known: both from the leader."""
    read = _known(snapshot.bytes_out)
    fetched = 0.0 if snapshot.bytes_in is None else _known(snapshot.bytes_in) * (snapshot.replication - 1)
    return Demand(follow=_nothing(snapshot), lead=read + fetched)


CATALOGUE: Mapping[Name, Kind] = {
    Name.BYTES_IN: Kind(
        needs=("bytes_in",),
        without="left out",
        demand=lambda s: Demand(follow=_known(s.bytes_in), lead=_nothing(s)),  # followers write what the leader writes
    ),
    Name.BYTES_OUT: Kind(
        needs=("bytes_out",), without="left out; without bytes_in, what followers fetch is not counted", demand=_bytes_out
    ),
    Name.STORAGE: Kind(
        needs=("size_bytes",),
        without="left out, and every replica costs the same to move",
        # an empty replica is as good as one byte: a full broker gets none
        demand=lambda s: Demand(follow=np.maximum(_known(s.size_bytes), 1.0), lead=_nothing(s)),
        by_mean=True,
    ),
    Name.REPLICAS: Kind(
        needs=(), without="always known", demand=lambda s: Demand(follow=_ones(s), lead=_nothing(s)), by_mean=True
    ),
    Name.LEADERS: Kind(
        needs=(), without="always known", demand=lambda s: Demand(follow=_nothing(s), lead=_ones(s)), by_mean=True
    ),
    Name.LAG: Kind(
        needs=("lag",),
        without="left out",
        demand=lambda s: Demand(follow=_nothing(s), lead=_known(s.lag)),  # consumers read from the leader
        by_mean=True,
    ),
}
HARD: Mapping[Name, str] = {
    Name.RACKS: "without racks, two replicas of a partition are kept on different brokers only",
    Name.CAPACITY: "without a broker's capacity for a load, that broker may be given any amount of it",
}
DEFAULT_WIDTH = 100.0 * MIB
DEFAULT_IDLE = 1.0 * MIB
GOALS: tuple[Goal, ...] = (
    Goal(name=Name.BYTES_IN, idle=DEFAULT_IDLE),
    Goal(name=Name.BYTES_OUT, idle=DEFAULT_IDLE),
    Goal(name=Name.STORAGE, idle=1024 * MIB),
    Goal(name=Name.REPLICAS, weight=0.5),
    Goal(name=Name.LEADERS, weight=0.5),
)

_OTHERS = (Goal(name=Name.LAG, idle=64 * MIB),)  # by default it counts for nothing: few clusters have a lag all the time

_LESS = 0.25  # what a goal counts beside the one before it


def ranked(names: Sequence[Name]) -> tuple[Goal, ...]:
    """Return these goals in order of priority: where not all of them can be had, an earlier one comes nearer to its band."""
    by_name = {g.name: g for g in (*GOALS, *_OTHERS)}
    return tuple(replace(by_name[n], weight=_LESS**rank) for rank, n in enumerate(names))


def missing(load: Name, snapshot: Snapshot) -> tuple[str, ...]:
    """Return which fields a load needs that the snapshot does not have."""
    return tuple(n for n in CATALOGUE[load].needs if getattr(snapshot, n) is None)


def band(goal: Goal, snapshot: Snapshot, mean: float, counted: Bools) -> Band:
    """Return a goal's band around a mean; ``counted`` are the brokers whose capacities say how wide the linear part is."""
    kind = CATALOGUE[goal.name]
    known = snapshot.capacity.get(goal.name, np.empty(0))
    known = known[counted & np.isfinite(known)] if len(known) else known
    width = goal.width or (float(known.mean()) if len(known) else (mean if kind.by_mean else DEFAULT_WIDTH))
    tail = Tail.RATIO if kind.by_mean else Tail.LOG
    return Band(mean=mean, ratio=goal.ratio, width=width or 1.0, idle=goal.idle, tail=tail)
