"""*load*: which partitions get on, and which stand still while somebody holds them. Remembers since when, never what for.

A partition is judged by its committed offset alone: a consumer that lives, fetches and heartbeats may be stuck all the same. What
cannot be read is not judged, and what was not read does not count as standing still.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from autoscaler.model import LoadSnapshot, PartitionLoad, TopicPartition


class Progress(StrEnum):
    """How a partition gets on for one group."""

    OK = "OK"  # its offset advances, or there is nothing to do
    NO_TRAFFIC = "NO_TRAFFIC"  # nothing to do, and nothing has arrived for as long as patience lasts
    OPEN_TRANSACTION = "OPEN_TRANSACTION"  # all is read that may be: a transaction that stays open hides the rest
    REWIND = "REWIND"  # somebody set its offset back, a short while ago
    STALL = "STALL"  # somebody holds it, there is work, and its offset does not advance
    STOP = "STOP"  # there is work, its offset does not advance, and nobody holds it
    POISON = "POISON"  # parked: consumers in a row were lost at this offset


class Track(NamedTuple):
    """What is remembered of one partition; a tuple, because each cycle makes some for every partition.

    Attributes:
        committed: Its committed offset; -1: nothing committed.
        still_since: Since when that offset has not changed while there was work; ``None`` where there is none.
        end: Where it could be read to.
        end_since: Since when that has not changed.
        rewound_at: When its offset was last seen to have gone back.
        pace_s: The longest that it stood still with work before it advanced; ``None``: it was never seen to.
    """

    committed: int
    still_since: float | None
    end: int
    end_since: float
    rewound_at: float | None = None
    pace_s: float | None = None

    def shifted(self, by_s: float) -> "Track":
        """Return the same after the wall clock was set by so much."""
        since = None if self.still_since is None else self.still_since + by_s
        rewound = None if self.rewound_at is None else self.rewound_at + by_s
        return self._replace(still_since=since, end_since=self.end_since + by_s, rewound_at=rewound)


_UNSEEN = 10.0  # times as much patience with what was never seen to advance: some commit with every checkpoint only
_SLOW = 2.0  # times the longest pace is not late yet


def follow(tracks: Mapping[TopicPartition, Track], snapshot: LoadSnapshot) -> Mapping[TopicPartition, Track]:
    """Return what is known after one more measurement; of a partition that it does not know, what was known stays.

    An offset that is the same before and after a gap has not moved in it: a consumer that lives commits forward.

    Args:
        tracks: What the previous call returned.
        snapshot: The measurement.
    """
    at = snapshot.sample_ts
    return {x.partition: t for x in snapshot.loads if (t := _next(tracks.get(x.partition), x, at)) is not None}


def _next(track: Track | None, load: PartitionLoad, now: float) -> Track | None:
    committed, lag, end = load.committed, load.lag_records, load.log_end if load.last_stable is None else load.last_stable
    if committed is None or lag is None or end is None or not load.known:
        return track
    if track is None:
        return Track(committed, now if lag else None, end, now)
    same = committed == track.committed
    if same and end == track.end and bool(lag) == (track.still_since is not None):
        return track
    since = None if not lag else track.still_since if same and track.still_since is not None else now
    end_since = track.end_since if end == track.end else now
    back = 0 <= committed < track.committed
    took = now - track.still_since if track.still_since is not None and committed > track.committed else None
    pace = track.pace_s if took is None else max(took, track.pace_s or 0.0)
    return Track(committed, since, end, end_since, now if back else track.rewound_at, pace)


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
        parked: Partitions that the plan gives to nobody.
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
        track: What ``follow`` remembers of it.
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


def judged(snapshot: LoadSnapshot, tracks: Mapping[TopicPartition, Track], holding: Holding) -> dict[TopicPartition, Progress]:
    """Return how every partition gets on of which that is known."""
    found = {x.partition: judge(x, tracks.get(x.partition), snapshot.sample_ts, holding) for x in snapshot.loads}
    return {p: progress for p, progress in found.items() if progress is not None}
