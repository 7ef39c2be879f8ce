"""*load*: which partitions get on, and which stand still while a consumer holds them.

A partition is judged by its committed offset alone: a consumer that lives, fetches and heartbeats may be stuck all the same. What
cannot be read is not judged, and what was not read does not count as standing still.
"""

from collections.abc import Container
from dataclasses import dataclass
from enum import StrEnum

from autoscaler.core.load.consumption import Consumption, Track
from autoscaler.model import LoadSnapshot, PartitionLoad, TopicPartition


class Progress(StrEnum):
    """How a partition gets on for one group."""

    OK = "OK"  # its offset advances, or there is nothing to do
    NO_TRAFFIC = "NO_TRAFFIC"  # nothing to do, and nothing has arrived for as long as patience lasts
    OPEN_TRANSACTION = "OPEN_TRANSACTION"  # all is read that may be: a transaction that stays open hides the rest
    REWIND = "REWIND"  # its offset was set back a short while ago
    STALL = "STALL"  # a consumer holds it, there is work, and its offset does not advance
    STOP = "STOP"  # there is work, its offset does not advance, and no consumer holds it
    POISON = "POISON"  # parked: consumers in a row were lost at this offset


_UNSEEN = 10.0  # times as much patience with what was never seen to advance: some commit with every checkpoint only
_SLOW = 2.0  # times the longest pace is not late yet


def _patience(track: Track, least_s: float, *, commits_often: bool) -> float:
    """Return for how long it may stand still: a group that commits every ten minutes is not stuck for nine of them."""
    if commits_often:
        return least_s
    return max(least_s, _SLOW * track.pace_s) if track.pace_s is not None else _UNSEEN * least_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Who works on what.

    Attributes:
        held: Partitions that a live consumer owns.
        parked: Partitions that the plan gives to no consumer.
        commits_often: Consumers are known to commit every few seconds: those of a managed group.
        patience_s: For how long an offset may stand still while there is work.
    """

    held: Container[TopicPartition]
    parked: Container[TopicPartition]
    commits_often: bool
    patience_s: float


def judge(load: PartitionLoad, track: Track | None, now: float, holding: Holding) -> Progress | None:
    """Return how one partition gets on, ``None`` where that is not known.

    Args:
        load: Its latest measurement.
        track: How far it is, and since when.
        now: When it was measured.
        holding: Who works on what.
    """
    patience_s = holding.patience_s
    if load.partition in holding.parked:
        return Progress.POISON
    if track is None or load.lag_records is None or not load.known:
        return None
    late_s = _patience(track, patience_s, commits_often=holding.commits_often)
    if track.still_since is not None and now - track.still_since >= late_s:
        return Progress.STALL if load.partition in holding.held else Progress.STOP
    if track.rewound_at is not None and now - track.rewound_at < patience_s:
        return Progress.REWIND
    if load.lag_records == 0 and now - track.end_since >= patience_s:
        hidden = load.last_stable is not None and load.last_stable < (load.log_end or 0)
        return Progress.OPEN_TRANSACTION if hidden else Progress.NO_TRAFFIC
    return Progress.OK


def judged(snapshot: LoadSnapshot, consumption: Consumption, holding: Holding) -> dict[TopicPartition, Progress]:
    """Return how every partition gets on of which that is known; ``consumption`` knows the measurement already."""
    if consumption.at is None:
        return {}
    tracks, now = consumption.tracks, consumption.at
    found = {x.partition: judge(x, tracks.get(x.partition), now, holding) for x in snapshot.loads}
    return {p: progress for p, progress in found.items() if progress is not None}
