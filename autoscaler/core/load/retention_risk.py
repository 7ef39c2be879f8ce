"""*load*: when the backlog of a partition is worked off, and when the first record of it may be deleted unread.

Pure. Both are said early rather than late. Brokers delete whole segments, and only when the newest record in one is past its
time, or when what is left is still as large as may be: a record goes later than said here. (Those whose producer gives them an
older time of their own go sooner; that is not known before they are read.) What is unknown is never at risk.
"""

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from autoscaler.core.load.consumption import Consumption
from autoscaler.core.load.group_load import sound_value
from autoscaler.model import LoadSnapshot, PartitionLoad, Retention, TopicPartition

NEAR = 0.1  # of all the time that a record has: what is read that late is at risk however fast it is read


class Left(NamedTuple):
    """Seconds until a record may be deleted, of how many that it has in all; infinite: it is not deleted."""

    seconds: float
    span_s: float


_FOR_EVER = Left(math.inf, math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """A partition that may lose records before they are read.

    Attributes:
        close_s: Seconds until its backlog is worked off as fast as it has been lately; infinite: it is not gained on; ``None``:
            not known yet.
        loss_s: Seconds until its first unread record may be deleted.
        needed_bytes_per_s: What its consumer would have to read of it to be through by then; ``None`` where that is not known.
    """

    partition: TopicPartition
    close_s: float | None
    loss_s: float
    needed_bytes_per_s: float | None


def time_to_loss(load: PartitionLoad, kept: Retention) -> Left | None:
    """Return when the first unread record of a partition may be deleted; ``None`` where that is not known.

    By time that is when it is as old as may be, by size when so much has been added that it lies beyond what may be. The sooner
    of the two counts; where one is not known, what the other says, unless that is "never".
    """
    by_time, by_size = _by_time(load, kept.seconds), _by_size(load, kept.bytes)
    if by_time is not None and by_size is not None:
        return min(by_time, by_size)
    known = by_time or by_size
    return None if known == _FOR_EVER else known


def _by_time(load: PartitionLoad, seconds: float) -> Left | None:
    if seconds == math.inf:
        return _FOR_EVER
    lag_s = sound_value(load.lag_s)
    return None if lag_s is None else Left(max(0.0, seconds - lag_s), seconds)


def _by_size(load: PartitionLoad, most: float) -> Left | None:
    if most == math.inf:
        return _FOR_EVER
    rate, unread = sound_value(load.bytes_per_s), sound_value(load.lag_bytes)
    if rate is None or unread is None:
        return None
    room = max(0.0, most - unread)
    if rate == 0:
        return _FOR_EVER if room else Left(0.0, 0.0)  # nothing is added
    return Left(room / rate, most / rate)


def time_to_close(load: PartitionLoad, drained_per_s: float | None) -> float | None:
    """Return seconds until the backlog is worked off; infinite where it is not gained on, ``None`` where that is not known.

    Args:
        load: The partition.
        drained_per_s: Records per second that its group has committed lately.
    """
    if load.lag_records == 0:
        return 0.0
    arrives = sound_value(load.records_per_s)
    if load.lag_records is None or arrives is None or drained_per_s is None:
        return None
    gained = drained_per_s - arrives
    return load.lag_records / gained if gained > 0 else math.inf


def find_risks(
    snapshot: LoadSnapshot,
    retention: Mapping[str, Retention],
    consumption: Consumption,
    behind_since: Mapping[TopicPartition, float],
    *,
    still: Container[TopicPartition],
    near_s: float | None,
    tolerance: float,
) -> tuple[tuple[Risk, ...], Mapping[TopicPartition, float]]:
    """Return the partitions that may lose records, the soonest first, and since when each is that is far behind.

    A partition is at risk when the first unread record has no more than ``near_s`` left, or a tenth of the time that it has in
    all, where that is less; or when it may be deleted before the backlog is worked off. The latter does not count for who is
    hardly behind: where reading it all in time takes no more than what arrives and the noise of that.

    Args:
        snapshot: The measurement.
        retention: By topic, as far as it is known.
        consumption: How fast they are read; it knows the measurement already.
        behind_since: What the previous call returned: how fast a partition was read before it fell behind says nothing.
        still: Partitions that stand still: they are left out, because no number of consumers reads them.
        near_s: ``None``: nothing is at risk.
        tolerance: Share of a rate that is noise.
    """
    if near_s is None or not retention:
        return (), {}
    risks, since = [], dict[TopicPartition, float]()
    for x in snapshot.loads:
        p = x.partition
        if not x.known and p in behind_since:
            since[p] = behind_since[p]
        limits = retention.get(p.topic)
        if limits is None or not x.known or not x.lag_records or p in still:
            continue
        left = time_to_loss(x, limits)
        if left is None or left == _FOR_EVER:
            continue
        near = left.seconds <= min(near_s, NEAR * left.span_s)
        arrives = sound_value(x.records_per_s)
        behind = arrives is not None and x.lag_records > tolerance * arrives * left.seconds
        if not near and not behind:
            continue
        close_s = None
        if consumption.at is not None and x.committed is not None and x.committed >= 0:
            since[p] = behind_since.get(p, consumption.at)
            close_s = time_to_close(x, consumption.rate(p, since[p]))
        if near or (close_s is not None and close_s > left.seconds):
            risks.append(Risk(partition=p, close_s=close_s, loss_s=left.seconds, needed_bytes_per_s=_needed(x, left.seconds)))
    return tuple(sorted(risks, key=lambda r: (r.loss_s, r.partition))), since


def _needed(load: PartitionLoad, seconds: float) -> float | None:
    rate, unread = sound_value(load.bytes_per_s), sound_value(load.lag_bytes)
    if rate is None or unread is None:
        return None
    return rate + (unread / seconds if seconds > 0 else math.inf)
