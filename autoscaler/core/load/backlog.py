"""*load*: how fast a backlog must be read to be worked off in the time that the operator gives it.

Pure. Sources: Flink's autoscaler sizes for the same sum (``job.autoscaler.catch-up.duration``).
"""

from collections.abc import Container, Iterable, Mapping

from autoscaler.model import PartitionLoad, TopicPartition
from autoscaler.model.findings import What


def rates_to_catch_up(
    loads: Iterable[PartitionLoad], *, within_s: float | None, behind_s: float, still: Container[TopicPartition]
) -> Mapping[TopicPartition, float]:
    """Return bytes/s at which the partitions that are behind must be read: what arrives, and their backlog over the time.

    Args:
        loads: The measurement, its values sound.
        within_s: Seconds in which a backlog is to be worked off; ``None``: nothing is read faster for it.
        behind_s: A partition is behind whose first unread record is older: less lies between any two commits.
        still: Partitions that stand still: no number of consumers reads these.
    """
    if within_s is None:
        return {}
    return {
        x.partition: x.bytes_per_s + x.lag_bytes / within_s
        for x in loads
        if x.known and x.lag_s is not None and x.lag_s > behind_s and x.partition not in still
        if x.bytes_per_s is not None and x.lag_bytes
    }


def backlog_told(findings: Iterable[tuple[str, Mapping[str, float]]]) -> Mapping[str, float] | None:
    """Return the figures of the backlog that a decision worked off in the operator's time; ``None`` if it did not."""
    return next((numbers for what, numbers in findings if what == What.CATCHING_UP), None)


def needed_of(told: Mapping[str, float] | None, loads: Iterable[PartitionLoad]) -> Mapping[TopicPartition, float] | None:
    """Return the bytes/s at which partitions had to be read for that; ``None`` where the record does not say which they were.

    They are those that were far enough behind, unless some of these stood still: no number of consumers reads those.
    """
    if told is None:
        return {}
    if "behind_s" not in told:
        return None  # of an earlier release
    found = rates_to_catch_up(loads, within_s=told["within_s"], behind_s=told["behind_s"], still=())
    return found if len(found) == told["partitions"] else None
