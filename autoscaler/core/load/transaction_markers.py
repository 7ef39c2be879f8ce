"""*load*: ends of partitions behind which no consumer will ever read: markers of transactions, and what was aborted, are no lag.

Pure. It decides which lags are worth a look; ``ports.MarkerReader`` looks, and what it found is taken out of the measurement.
"""

from collections.abc import Mapping
from dataclasses import replace

from autoscaler.model import LoadSnapshot, PartitionLoad, Span, TopicPartition

_RESTS_S = 5.0  # an offset commits at least as often, so what is younger will most likely go by itself

Standing = Mapping[TopicPartition, tuple[Span, float]]  # what is unread, and since when it has been just that


def standing(before: Standing, snapshot: LoadSnapshot, now: float) -> Standing:
    """Return what of each partition is unread, and since when neither its offset nor its end has changed.

    Kept beside what ``core.consumption`` knows of the same offsets: that is told of the measurement without these lags.
    """
    spans = {x.partition: s for x in snapshot.loads if (s := _unread(x)) is not None}
    return {p: (s, before[p][1] if p in before and before[p][0] == s else now) for p, s in spans.items()}


def worth_a_look(unread: Standing, now: float) -> dict[TopicPartition, Span]:
    """Return what has been unread for long enough that it may be nothing."""
    return {p: span for p, (span, since) in unread.items() if now - since >= _RESTS_S}


def without(snapshot: LoadSnapshot, empty: Mapping[TopicPartition, Span]) -> LoadSnapshot:
    """Return the measurement with no lag where it is known that what is unread holds no record."""
    if not empty:
        return snapshot
    loads = tuple(_read(x) if x.partition in empty and _unread(x) == empty[x.partition] else x for x in snapshot.loads)
    return replace(snapshot, loads=loads)


def _unread(load: PartitionLoad) -> Span | None:
    if not load.known or not load.lag_records or load.committed is None or load.committed < 0:
        return None
    position = max(load.committed, load.log_start or 0)
    return Span(position, position + load.lag_records)


def _read(load: PartitionLoad) -> PartitionLoad:
    return replace(load, lag_records=0, lag_bytes=0.0, lag_s=0.0)
