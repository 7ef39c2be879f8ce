"""What consumers have committed between two measurements, in records and in bytes as they lie in the log.

Offsets are what every group shows, managed or native. A commit that cannot be followed is ``None``, never "nothing".
"""

from collections.abc import Hashable, Mapping
from typing import NamedTuple, TypeVar

from autoscaler.core.load.partition_progress import Track
from autoscaler.model import LoadSnapshot, PartitionLoad, TopicPartition

C = TypeVar("C", bound=Hashable)


class Work(NamedTuple):
    """Offsets that were committed, and the bytes of the log that they stand for."""

    offsets: int = 0
    bytes: float = 0.0

    def plus(self, more: "Work") -> "Work":
        """Return both together."""
        return Work(self.offsets + more.offsets, self.bytes + more.bytes)


def committed_since(
    snapshot: LoadSnapshot, before: Mapping[TopicPartition, Track], owner: Mapping[TopicPartition, C]
) -> dict[C, Work | None]:
    """Return what each consumer has committed in what it holds; ``None`` for one with a commit that cannot be followed.

    Args:
        snapshot: What was measured.
        before: What was remembered of each partition until then.
        owner: Which consumer holds which partition.
    """
    done: dict[C, Work | None] = dict.fromkeys(owner.values(), Work())
    listed = set()
    for x in snapshot.loads:
        listed.add(x.partition)
        if x.partition not in owner or (so_far := done[owner[x.partition]]) is None:
            continue
        more = _committed(x, before.get(x.partition))
        done[owner[x.partition]] = None if more is None else so_far.plus(more)
    for unseen in owner.keys() - listed:
        done[owner[unseen]] = None
    return done


def followed_from_now(snapshot: LoadSnapshot) -> frozenset[TopicPartition]:
    """Return the partitions whose next commits are told from what this measurement found, and not from an older one."""
    return frozenset(x.partition for x in snapshot.loads if x.known and x.committed is not None and x.lag_records is not None)


def _committed(load: PartitionLoad, track: Track | None) -> Work | None:
    if track is None or not load.known or load.committed is None or load.lag_records is None or load.committed < track.committed:
        return None  # where the lag is not known the track stays as it was, and would be counted from twice
    if load.committed == track.committed:
        return Work()
    if track.committed < 0 or (each := _record_bytes(load)) is None:
        return None
    offsets = load.committed - track.committed
    return Work(offsets, offsets * each)


def _record_bytes(load: PartitionLoad) -> float | None:
    """Return bytes per record of what arrives; of what is unread where nothing does."""
    if load.bytes_per_s and load.records_per_s:
        return load.bytes_per_s / load.records_per_s
    return load.lag_bytes / load.lag_records if load.lag_bytes and load.lag_records else None
