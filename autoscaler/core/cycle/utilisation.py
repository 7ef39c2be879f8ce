"""Where consumers of a group are not alike, or two limits hold for each: how full they are, in which unit.

Part of *load* and *size*. What is configured as a capacity holds for all consumers; only measured ones differ.
"""

import math
from collections.abc import Collection, Mapping

from autoscaler.config.policy import Policy
from autoscaler.core.capacity.busy_throughput import Busy
from autoscaler.core.capacity.capacity import Capacity
from autoscaler.core.capacity.worker_speed import within_bounds
from autoscaler.core.cycle.context import Cycle
from autoscaler.core.load.group_load import GroupLoad, sound_value
from autoscaler.model import CapacitySource, Finding, LoadSnapshot, TopicPartition, WorkerPhase, WorkerView, few
from autoscaler.model.findings import What
from autoscaler.packing import Gauge


def read_gauge(
    snapshot: LoadSnapshot, workers: Collection[WorkerView], load: GroupLoad, *, busy: Busy, capacity: Capacity, policy: Policy
) -> Gauge:
    """Return how full consumers are where bytes/s do not say it; an empty one where they do.

    Args:
        snapshot: Has records/s.
        workers: Those that live, of a group that has a plan.
        load: What can be packed.
        busy: What workers have shown.
        capacity: What one consumer is taken for.
        policy: With that capacity.
    """
    if policy.sizing != "rates":
        return Gauge()
    return Gauge(speeds=_speeds(workers, busy, capacity, policy), counts=_counts(snapshot, load, policy))


def own_capacities(cycle: Cycle) -> dict[int, float]:
    """Return what those consumers are taken for that differ from the group's, bytes/s by slot."""
    return {c: speed * cycle.capacity.bytes_per_s for c, speed in sorted(cycle.planner.gauge.speeds.items())}


def own_findings(cycle: Cycle) -> list[Finding]:
    """Return which consumers are taken for another capacity than the group's: the slowest few."""
    own = sorted(own_capacities(cycle).items(), key=lambda x: (x[1], x[0]))
    capacity = cycle.capacity.bytes_per_s
    return [
        Finding.of(What.OWN_CAPACITY, consumers=(c,), own_bytes_per_s=rate, capacity_bytes_per_s=capacity) for c, rate in few(own)
    ]


def carries(cycle: Cycle, consumer: int, name: str, level: float) -> dict[str, float]:
    """Return a level of a consumer as what it carries: bytes/s, or records/s where these are what fills it."""
    if by_records(cycle, consumer):
        return {f"{name}_records_per_s": _records(cycle, level)}
    return {f"{name}_bytes_per_s": level * cycle.planner.gauge.speed(consumer)}


def in_all(cycle: Cycle, consumer: int) -> dict[str, float]:
    """Return what the whole group carries, in what fills a consumer."""
    if by_records(cycle, consumer):
        return {"total_records_per_s": _records(cycle, math.fsum(cycle.planner.gauge.counts.values()))}
    return {"total_bytes_per_s": cycle.load.total_bytes_per_s}


def one_of_the_group(cycle: Cycle, consumer: int, name: str, level: float) -> dict[str, float]:
    """Return a level of a consumer that is like the group's, in what fills a certain one."""
    return {f"{name}_records_per_s": _records(cycle, level)} if by_records(cycle, consumer) else {f"{name}_bytes_per_s": level}


def of_each(cycle: Cycle, name: str, level: float) -> dict[str, float]:
    """Return a level of one consumer in everything that limits it."""
    records = {f"{name}_records_per_s": _records(cycle, level)} if cycle.planner.gauge.counts else {}
    return {f"{name}_bytes_per_s": level, **records}


def of_partition(cycle: Cycle, partition: TopicPartition, limit: float) -> dict[str, float]:
    """Return a limit of the fastest consumer, and what a partition has as load, in what fills that more."""
    gauge, rate = cycle.planner.gauge, cycle.load.rates[partition]
    fastest = max((1.0, *gauge.speeds.values()))
    if (count := gauge.counts.get(partition, 0.0)) > rate / fastest:
        return {"limit_records_per_s": _records(cycle, limit), "load_records_per_s": _records(cycle, count)}
    return {"limit_bytes_per_s": limit * fastest, "load_bytes_per_s": rate}


def by_records(cycle: Cycle, consumer: int) -> bool:
    """Say whether records fill a consumer more than bytes do."""
    gauge, rates, owner = cycle.planner.gauge, cycle.load.measured, cycle.present.owner
    if not gauge.counts:
        return False
    held = {p: c for p, c in owner.items() if c == consumer}
    plain = Gauge(speeds=gauge.speeds).levels(rates, held, [consumer])[consumer]
    return gauge.counted(rates, held, [consumer])[consumer] > plain


def _records(cycle: Cycle, level: float) -> float:
    return level * (cycle.policy.capacity_records_per_s or 0.0) / cycle.policy.able_bytes_per_s


def _speeds(workers: Collection[WorkerView], busy: Busy, capacity: Capacity, policy: Policy) -> dict[int, float]:
    if capacity.source is not CapacitySource.MEASURED:
        return {}
    prior, ratio = policy.capacity_prior_bytes_per_s, policy.capacity_bounds_ratio
    by_slot = {
        w.slot: busy.speeds[w.uuid]
        for w in sorted(workers, key=lambda w: w.uuid)
        if w.slot is not None and w.phase is WorkerPhase.ACTIVE and w.uuid in busy.speeds
    }
    return within_bounds(by_slot, capacity.bytes_per_s, prior / ratio, prior * ratio)


def _counts(snapshot: LoadSnapshot, load: GroupLoad, policy: Policy) -> Mapping[TopicPartition, float]:
    """Return what records count for; nothing where that is nowhere more than the bytes, whose limit then is enough."""
    if policy.capacity_records_per_s is None or not load.rates:
        return {}
    worth = policy.able_bytes_per_s / policy.capacity_records_per_s
    stuck = frozenset() if load.halted else frozenset(load.stalled)
    known = {
        x.partition: worth * records
        for x in snapshot.loads
        if x.partition in load.rates and (records := sound_value(x.records_per_s)) is not None
    }
    mean = math.fsum(known.values()) / len(known) if known else 0.0
    counts = {p: 0.0 if p in stuck else known.get(p, mean) for p in load.partitions}
    return counts if any(count > load.rates[p] for p, count in counts.items()) else {}
