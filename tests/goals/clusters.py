"""Clusters to balance: a few brokers by hand, and drawn ones."""

from collections.abc import Mapping, Sequence

import numpy as np

from autoscaler.goals import Goal, Name, Settings, Snapshot, State, of_owners
from autoscaler.goals.snapshot import Bools, Floats, Ints

MIB = 2.0**20
BYTES_IN = Settings(goals=(Goal(name=Name.BYTES_IN),))


def of_rates(*brokers: Sequence[float] | Floats) -> Snapshot:
    """Return brokers with partitions of one replica, by their MiB/s."""
    owner = np.repeat(np.arange(len(brokers)), [len(b) for b in brokers])
    return of_owners(owner, len(brokers), bytes_in=np.concatenate([np.array(b, np.float64) for b in brokers]) * MIB)


def of_replicas(
    replicas: Sequence[Sequence[int]],
    *,
    bytes_in: Sequence[float] = (),
    bytes_out: Sequence[float] = (),
    size: Sequence[float] = (),
    racks: Sequence[int] = (),
    leaving: Sequence[int] = (),
    brokers: int = 0,
    capacity: Mapping[str, Floats] | None = None,
) -> Snapshot:
    """Return a cluster by the brokers of each partition, the leader first; rates in MiB/s."""
    count = max(brokers, 1 + max(b for row in replicas for b in row))
    lengths = [len(row) for row in replicas]
    return Snapshot(
        brokers=np.arange(count),
        racks=np.array(racks or [-1] * count),
        slow=np.zeros(count, np.bool_),
        leaving=flags(count, leaving),
        offline=np.zeros(count, np.bool_),
        capacity=capacity or {},
        partitions=np.arange(len(replicas)),
        topics=np.zeros(len(replicas), np.int64),
        partition=np.repeat(np.arange(len(replicas)), lengths),
        state=State(broker=np.array([b for row in replicas for b in row]), leader=np.cumsum([0, *lengths[:-1]])),
        bytes_in=np.array(bytes_in or [1.0] * len(replicas)) * MIB,
        bytes_out=np.array(bytes_out or [1.0] * len(replicas)) * MIB,
        size_bytes=np.array(size or [1.0] * len(replicas)) * MIB,
    )


def flags(count: int, true: Sequence[int]) -> Bools:
    """Return a flag for each of so many, true for those."""
    return np.isin(np.arange(count), true)


def drawn(
    seed: int, *, brokers: int, partitions: int, replication: int = 3, racks: int = 5, skew: float = 0.5, spread: float = 1.5
) -> Snapshot:
    """Return a cluster at random: brokers drawn with lognormal weights, replicas in different racks, lognormal rates and sizes.

    Args:
        seed: Of the draw.
        brokers: How many, dealt over the racks.
        partitions: How many, fifty to a topic.
        replication: Replicas of each.
        racks: How many, at least ``replication``.
        skew: Standard deviation of the logarithm of a broker's weight.
        spread: Standard deviation of the logarithm of a partition's rate.
    """
    g = np.random.default_rng(seed)
    weight = g.lognormal(0.0, skew, brokers)
    rack = np.arange(brokers) % racks
    of_rack = np.bincount(rack, weight)
    chosen = np.argsort(-(np.log(of_rack) + g.gumbel(size=(partitions, racks))), axis=1)[:, :replication]
    broker = np.empty(chosen.shape, np.int64)
    for r in range(racks):
        members = np.flatnonzero(rack == r)
        there = chosen == r
        broker[there] = g.choice(members, int(there.sum()), p=weight[members] / weight[members].sum())
    rate = g.lognormal(0.0, spread, partitions) * MIB / 4
    return _cluster(rack, broker, rate, bytes_out=rate * g.uniform(0, 3, partitions), size=rate * g.lognormal(0, 1, partitions))


def _cluster(rack: Ints, broker: Ints, rate: Floats, *, bytes_out: Floats, size: Floats) -> Snapshot:
    brokers, (partitions, replication) = len(rack), broker.shape
    return Snapshot(
        brokers=np.arange(brokers),
        racks=rack,
        slow=np.zeros(brokers, np.bool_),
        leaving=np.zeros(brokers, np.bool_),
        offline=np.zeros(brokers, np.bool_),
        partitions=np.arange(partitions),
        topics=np.arange(partitions) // 50,
        partition=np.repeat(np.arange(partitions), replication),
        state=State(broker=broker.ravel(), leader=np.arange(partitions) * replication),
        bytes_in=rate,
        bytes_out=bytes_out,
        size_bytes=3600 * size,
    )
