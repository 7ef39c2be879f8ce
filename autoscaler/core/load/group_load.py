"""*load*: from a snapshot to rates that can be packed, with what is not known kept apart. Unknown is not zero."""

import math
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, replace

from autoscaler.model import LoadSnapshot, PartitionLoad, TopicPartition
from autoscaler.topic_selection import names, unmatched


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLoad:
    """One group's load, ready for deciding.

    Attributes:
        rates: Bytes per second of every listed partition: measured, or carried from the last good sample, or the mean of the
            others where nothing was ever measured. Empty if nothing was measured at all.
        measured: The same without the assumed ones: a lower bound of what flows.
        fresh: The measured ones that this measurement found itself, carried ones left out.
        partitions: Every listed partition, ordered.
        unmeasured: Partitions without any rate.
        unknown: Partitions whose rate or lag is not fresh.
        stale: Partitions whose last good sample is older than the policy allows.
        oldest_s: Age of the oldest sample; 0 if all are fresh.
        total_bytes_per_s: Sum of the measured and carried rates, without the assumed ones.
        lag_records: Sum, that of parked partitions included; ``None`` if any is unknown.
        lag_s: Of the partition that is furthest behind; ``None`` if no lag is known.
        furthest_behind: That partition.
        absent: Topics of the group of which not one partition is listed: their load is unknown, not zero.
        unmatched: Patterns of the group that mean no listed topic: nothing is missing, and nothing is consumed by them yet.
        error: What the measurement says went wrong, if anything.
        behind_since_unknown: Partitions with records to go, whose age is not known.
        stalled: Partitions that a consumer holds and that do not advance: no rate counts, and their lag in ``lag_records`` only.
        halted: So many stand still that it is the application, or what it writes to, and not they: then nothing is left out.
    """

    rates: Mapping[TopicPartition, float]
    measured: Mapping[TopicPartition, float]
    fresh: Mapping[TopicPartition, float]
    partitions: tuple[TopicPartition, ...]
    unmeasured: frozenset[TopicPartition]
    unknown: tuple[TopicPartition, ...]
    stale: tuple[TopicPartition, ...]
    oldest_s: float
    total_bytes_per_s: float
    lag_records: int | None
    lag_s: float | None
    furthest_behind: TopicPartition | None
    behind_since_unknown: tuple[TopicPartition, ...]
    absent: tuple[str, ...]
    unmatched: tuple[str, ...]
    error: str | None
    stalled: tuple[TopicPartition, ...] = ()
    halted: bool = False


def read_load(
    snapshot: LoadSnapshot,
    topics: Sequence[str],
    stale_after_s: float,
    parked: Container[TopicPartition] = (),
    stalled: Collection[TopicPartition] = (),
) -> GroupLoad:
    """Return the load of a snapshot. A rate that is no number, infinite or negative counts as not measured.

    Args:
        snapshot: What was measured.
        topics: What the group consumes, as it is configured.
        stale_after_s: Age from which a sample is too old to move partitions by.
        parked: Partitions that no consumer gets: they are left out of everything but ``lag_records``.
        stalled: Partitions that a consumer holds and that do not advance.
    """
    by_partition = {x.partition: x for x in snapshot.loads if x.partition not in parked}
    partitions = tuple(sorted(by_partition))
    measured = {p: rate for p in partitions if (rate := sound_value(by_partition[p].bytes_per_s)) is not None}
    total = math.fsum(measured.values())
    mean = total / len(measured) if measured else 0.0
    still = tuple(p for p in partitions if p in stalled)
    halted = bool(still) and 2 * len(still) > sum(measured.get(p, 0.0) > 0 or p in stalled for p in partitions)
    stuck = frozenset() if halted else frozenset(still)
    measured |= dict.fromkeys(stuck, 0.0)
    lags = [(x.lag_s, p) for p, x in by_partition.items() if x.lag_s is not None and p not in stuck]
    worst = max(lags, key=lambda x: (x[0], x[1])) if lags else (None, None)
    unknown = tuple(p for p in partitions if not by_partition[p].known or p not in measured)
    listed = {x.partition.topic for x in snapshot.loads}
    return GroupLoad(
        absent=tuple(sorted((snapshot.lost | frozenset(names(topics))) - listed)),
        unmatched=unmatched(topics, listed | snapshot.lost),
        error=snapshot.error,
        rates={p: measured.get(p, mean) for p in partitions} if measured else {},
        measured=measured,
        fresh={p: rate for p, rate in measured.items() if by_partition[p].known and p not in stuck},
        partitions=partitions,
        unmeasured=frozenset(p for p in partitions if p not in measured),
        unknown=unknown,
        stale=tuple(p for p in unknown if p in measured and by_partition[p].age_s > stale_after_s),
        oldest_s=max((by_partition[p].age_s for p in unknown), default=0.0),
        total_bytes_per_s=total,
        lag_records=_sum_known([x.lag_records for x in snapshot.loads]),
        lag_s=worst[0],
        furthest_behind=worst[1],
        behind_since_unknown=tuple(
            p for p in partitions if by_partition[p].lag_records and by_partition[p].lag_s is None and p not in stuck
        ),
        stalled=still,
        halted=halted,
    )


def sound(snapshot: LoadSnapshot) -> LoadSnapshot:
    """Return a snapshot without values that can be none (no number, infinite, below nothing): they are unknown, never zero.

    A partition with one of them is not known, nor is one that is said to be known without a rate or a lag.
    """
    loads = tuple(x if _is_sound(x) else _without_unsound(x) for x in snapshot.loads)
    if all(a is b for a, b in zip(loads, snapshot.loads, strict=True)):
        return snapshot
    return replace(snapshot, loads=loads, known=snapshot.known and all(x.known for x in loads))


def _is_sound(x: PartitionLoad) -> bool:
    rate, records, lag, size, late, most = x.bytes_per_s, x.records_per_s, x.lag_records, x.lag_bytes, x.lag_s, math.inf
    if x.known and (rate is None or records is None or lag is None or size is None):
        return False
    return (  # written out: asked of every partition in every cycle
        (rate is None or 0 <= rate < most)
        and (records is None or 0 <= records < most)
        and (lag is None or 0 <= lag < most)
        and (size is None or 0 <= size < most)
        and (late is None or 0 <= late < most)
        and 0 <= x.age_s < most
    )


def _without_unsound(x: PartitionLoad) -> PartitionLoad:
    return replace(
        x,
        bytes_per_s=sound_value(x.bytes_per_s),
        records_per_s=sound_value(x.records_per_s),
        lag_records=None if x.lag_records is None or x.lag_records < 0 else x.lag_records,
        lag_bytes=sound_value(x.lag_bytes),
        lag_s=sound_value(x.lag_s),
        age_s=math.inf if (age := sound_value(x.age_s)) is None else age,
        known=False,
    )


def sound_value(value: float | None) -> float | None:
    """Return a measured value; ``None`` for one that can be none."""
    return value if value is not None and 0 <= value < math.inf else None  # the latter is not true of what is no number


def assumed_rates(partitions: Collection[TopicPartition], usable: float, consumers: int) -> dict[TopicPartition, float]:
    """Return equal rates that just fill the consumers: what partitions are placed by where nothing was ever measured."""
    return {p: usable * consumers / len(partitions) for p in sorted(partitions)}


def _sum_known(values: list[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return sum(known) if values and len(known) == len(values) else None
