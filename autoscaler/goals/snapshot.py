"""What is known of a cluster's brokers, partitions and replicas at one moment, as arrays. Part of *goals*.

Consumers are brokers of which every partition has one replica: their snapshot is made by ``of_owners``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

UNKNOWN = -1  # a broker's rack


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Who holds and leads what: two of them differ by actions.

    Attributes:
        broker: int64[replicas], the broker of each replica, by its position in ``Snapshot.brokers``.
        leader: int64[partitions], the replica that leads each partition, by its position.
    """

    broker: Ints
    leader: Ints

    def __eq__(self, other: object) -> bool:
        """Say whether nothing has to be done between two states."""
        if not isinstance(other, State):
            return NotImplemented
        return np.array_equal(self.broker, other.broker) and np.array_equal(self.leader, other.leader)

    __hash__ = None  # type: ignore[assignment]  # arrays can be changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A cluster at one moment. What is not known of any partition is ``None``, what is not known of one is NaN.

    Attributes:
        brokers: int64[brokers], their ids, ascending.
        racks: int64[brokers], one number for each rack, ``UNKNOWN`` for none.
        slow: bool[brokers], whose answers take longer than a limit: they may give and never receive.
        leaving: bool[brokers], which shall hold nothing any more.
        offline: bool[brokers], which do not answer: they neither give nor receive.
        capacity: By the name of a goal, float64[brokers]: the most of it that a broker may be given; infinite for no limit.
        partitions: int64[partitions], what a partition is called in the next snapshot too; ascending.
        topics: int64[partitions], one number for each topic.
        partition: int64[replicas], each replica's partition by its position; ascending.
        state: Where the replicas are and which of them lead.
        bytes_in: float64[partitions], bytes/s that producers write.
        bytes_out: float64[partitions], bytes/s that consumers read from the leader.
        size_bytes: float64[partitions], what one replica stores.
        lag: float64[partitions], bytes that consumers have not read.
        age_s: float64[partitions], how long ago the loads were measured; ``None``: just now.

    Raises:
        ValueError: The arrays do not belong together; the message says which.
    """

    brokers: Ints
    racks: Ints
    slow: Bools
    leaving: Bools
    offline: Bools
    capacity: Mapping[str, Floats] = field(default_factory=lambda: MappingProxyType({}))
    partitions: Ints
    topics: Ints
    partition: Ints
    state: State
    bytes_in: Floats | None = None
    bytes_out: Floats | None = None
    size_bytes: Floats | None = None
    lag: Floats | None = None
    age_s: Floats | None = None

    def __post_init__(self) -> None:
        """Refuse arrays that do not belong together."""
        brokers, partitions, replicas = len(self.brokers), len(self.partitions), len(self.partition)
        of_brokers = {n: getattr(self, n) for n in ("racks", "slow", "leaving", "offline")} | dict(self.capacity)
        of_partitions = {n: v for n in (*LOADS, "age_s", "topics") if (v := getattr(self, n)) is not None}
        _check_lengths(of_brokers, brokers, "broker")
        _check_lengths(of_partitions | {"leader": self.state.leader}, partitions, "partition")
        _check_lengths({"broker": self.state.broker}, replicas, "replica")
        if np.any(np.diff(self.brokers) <= 0) or np.any(np.diff(self.partitions) <= 0):
            msg = "brokers and partitions must be ascending, each once"
            raise ValueError(msg)
        if np.any(np.bincount(self.partition, minlength=partitions) == 0) or np.any(np.diff(self.partition) < 0):
            msg = "every partition needs a replica, and replicas must stand in the order of their partitions"
            raise ValueError(msg)
        if replicas and not (self.state.broker.min() >= 0 and self.state.broker.max() < brokers):
            msg = "a replica is on a broker that is not there"
            raise ValueError(msg)
        if np.any(self.partition[self.state.leader] != np.arange(partitions)):
            msg = "a leader is a replica of its own partition"
            raise ValueError(msg)
        for name in (n for n in LOADS if getattr(self, n) is not None):
            if np.any(getattr(self, name) < 0) or np.any(np.isinf(getattr(self, name))):
                raise ValueError(f"{name} must not be negative or infinite; NaN is unknown")

    @property
    def first(self) -> Ints:
        """Return where each partition's replicas begin, and how many replicas there are: int64[partitions + 1]."""
        return np.searchsorted(self.partition, np.arange(len(self.partitions) + 1)).astype(np.int64)

    @property
    def replication(self) -> Ints:
        """Return how many replicas each partition has."""
        return np.diff(self.first)


LOADS = ("bytes_in", "bytes_out", "size_bytes", "lag")


def _check_lengths(arrays: Mapping[str, npt.NDArray[np.generic]], length: int, what: str) -> None:
    for name, values in arrays.items():
        if values.shape != (length,):
            raise ValueError(f"{name} must have one value for each {what}, {length}, not the shape {values.shape}")


def of_owners(owner: Ints, consumers: int, *, bytes_in: Floats, lag: Floats | None = None) -> Snapshot:
    """Return consumers as a snapshot: ``owner`` is the consumer of each partition, from 0."""
    count, none = len(owner), np.zeros(consumers, np.bool_)
    return Snapshot(
        brokers=np.arange(consumers),
        racks=np.full(consumers, UNKNOWN),
        slow=none,
        leaving=none,
        offline=none,
        partitions=np.arange(count),
        topics=np.zeros(count, np.int64),
        partition=np.arange(count),
        state=State(broker=np.asarray(owner, np.int64), leader=np.arange(count)),
        bytes_in=bytes_in,
        lag=lag,
    )
