"""A cluster as it was read, with the rates that were measured, as a snapshot of ``goals``. Part of *brokers*."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from autoscaler.brokers.view import Broker, View
from autoscaler.goals import Name, Snapshot, State
from autoscaler.goals.snapshot import UNKNOWN, Floats
from autoscaler.model import TopicPartition
from autoscaler.topic_selection import means

ALL_TOPICS = ("^.*",)  # no pattern means a topic whose name begins with two underscores


class Rate(NamedTuple):
    """Bytes/s that producers write to a partition, as they lie in its log, how old that is, and what consumers have not read."""

    bytes_per_s: float
    age_s: float
    lag_bytes: float | None = None  # NaN: unknown; ``None``: not asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What an operator has said of brokers.

    Attributes:
        leaving: Ids of brokers that shall hold nothing any more.
        capacity: The most that a broker may be given, by its id and the name of a goal.
        disk_ratio: Part of a broker's disks that may be filled.
        reads: How often consumers read what is written: an assumption, because brokers do not tell it by partition.
    """

    leaving: frozenset[int] = frozenset()
    capacity: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    disk_ratio: float = 1.0
    reads: float = 1.0


def is_measured(topic: str) -> bool:
    """Say whether a topic's rates are measured: of those whose names begin with two underscores storage and replicas count."""
    return means(ALL_TOPICS, topic)


def numbered(known: Mapping[TopicPartition, int], partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Return numbers of partitions by which snapshots know them: those that are known keep theirs."""
    new = sorted(set(partitions) - known.keys())
    first = max(known.values(), default=-1) + 1
    return {**known, **{p: first + i for i, p in enumerate(new)}}


def snapshot_of(
    view: View,
    rates: Mapping[TopicPartition, Rate],
    numbers: Mapping[TopicPartition, int],
    wanted: Wanted,
    slow: Collection[int] = (),
) -> Snapshot:
    """Return a snapshot; a broker that holds a replica and does not answer is offline.

    Args:
        view: What was read. Partitions without a leader among their replicas are led by the first one.
        rates: What was measured; a partition that is missing is unknown, and its brokers take no part.
        numbers: Of all partitions of the view, from ``numbered``.
        wanted: What the operator has said.
        slow: Ids of brokers that get nothing.
    """
    held = sorted((numbers[p], p, h) for p, h in view.partitions.items() if h.replicas)
    ids = sorted(set(view.brokers) | {b for _, _, h in held for b in h.replicas})
    brokers = [view.brokers.get(b) for b in ids]
    place = {b: i for i, b in enumerate(ids)}
    racks = {r: i for i, r in enumerate(sorted({b.rack for b in brokers if b is not None and b.rack is not None}))}
    topics = {t: i for i, t in enumerate(sorted({p.topic for _, p, _ in held}))}
    replicas = [place[b] for _, _, h in held for b in h.replicas]
    lengths = np.array([len(h.replicas) for _, _, h in held], np.int64)
    first = np.cumsum(lengths) - lengths
    leads = [h.replicas.index(h.leader) if h.leader in h.replicas else 0 for _, _, h in held]
    found = [_rate(p, rates) for _, p, _ in held]
    bytes_in = np.array([r.bytes_per_s for r in found], np.float64)
    return Snapshot(
        brokers=np.array(ids, np.int64),
        racks=np.array([UNKNOWN if b is None or b.rack is None else racks[b.rack] for b in brokers], np.int64),
        slow=np.array([b in slow for b in ids], np.bool_),
        leaving=np.array([b in wanted.leaving for b in ids], np.bool_),
        offline=np.array([b is None for b in brokers], np.bool_),
        capacity=_capacity(view, ids, brokers, wanted),
        partitions=np.array([n for n, _, _ in held], np.int64),
        topics=np.array([topics[p.topic] for _, p, _ in held], np.int64),
        partition=np.repeat(np.arange(len(held)), lengths),
        state=State(broker=np.array(replicas, np.int64), leader=first + np.array(leads, np.int64)),
        bytes_in=bytes_in,
        bytes_out=bytes_in * wanted.reads,
        size_bytes=np.array([view.sizes.get(p, math.nan) for _, p, _ in held], np.float64),
        lag=_lag(found),
        age_s=np.array([r.age_s for r in found], np.float64),
    )


def _rate(partition: TopicPartition, rates: Mapping[TopicPartition, Rate]) -> Rate:
    unknown = Rate(math.nan, math.inf) if is_measured(partition.topic) else Rate(0.0, 0.0)
    return rates.get(partition, unknown)


def _lag(found: list[Rate]) -> Floats | None:
    """Return what consumers have not read, if that was asked for; it is unknown where no rate is known."""
    if all(r.lag_bytes is None for r in found):
        return None
    return np.array([_unread(r) for r in found], np.float64)


def _unread(rate: Rate) -> float:
    if rate.lag_bytes is not None:
        return rate.lag_bytes
    return math.nan if math.isnan(rate.bytes_per_s) else 0.0  # Kafka's own topics are not measured


def _capacity(view: View, ids: list[int], brokers: list[Broker | None], wanted: Wanted) -> dict[str, Floats]:
    """Return the most of each load that brokers may be given: what was configured, and what their disks leave."""
    names = {n for limits in wanted.capacity.values() for n in limits} | {Name.STORAGE}
    out = {str(n): np.array([wanted.capacity.get(b, {}).get(n, np.inf) for b in ids], np.float64) for n in sorted(names)}
    stored = dict.fromkeys(ids, 0.0)
    for p, h in view.partitions.items():
        for b in h.replicas:
            stored[b] += view.sizes.get(p, 0.0)
    for i, (b, broker) in enumerate(zip(ids, brokers, strict=True)):
        if broker is not None and broker.disk_bytes is not None and broker.free_bytes is not None:
            other = max(0.0, broker.disk_bytes - broker.free_bytes - stored[b])  # what is no replica fills the disk too
            room = max(0.0, wanted.disk_ratio * broker.disk_bytes - other)
            out[Name.STORAGE][i] = min(out[Name.STORAGE][i], room)
    return out
