"""*load*: what a group has consumed over time: the one record of it, from which everything is told that offsets can tell.

Of every partition how far it is and since when; and the offsets of every measurement of the last half minute. Whether a partition
gets on, how fast a backlog is worked off, what a consumer drains or processes and whether more of them drain more are functions
of this. Offsets are what every group shows, managed or native. What cannot be read, or followed, is never "nothing".
"""

from array import array
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from autoscaler.model import LoadSnapshot, Moment, PartitionLoad, TopicPartition

WINDOW_S = 30.0  # what rates are measured over: several commits and several batches
_COMMITS = 5  # of a window: with fewer, one more or less is more than any tolerance
_UNREAD = -2  # where no committed offset could be read; -1 is Kafka's for nothing committed


class Work(NamedTuple):
    """Offsets that were committed, and the bytes of the log that they stand for."""

    offsets: int = 0
    bytes: float = 0.0

    def since(self, before: "Work") -> "Work":
        """Return what has been added."""
        return Work(self.offsets - before.offsets, self.bytes - before.bytes)


class Track(NamedTuple):
    """How far one partition is; a tuple, because each cycle makes some for every partition.

    Attributes:
        committed: Its committed offset; -1: nothing committed.
        still_since: Since when that offset has not changed while there was work; ``None`` where there is none.
        end: Where it could be read to.
        end_since: Since when that has not changed.
        rewound_at: When its offset was last seen to have gone back.
        pace_s: The longest that it stood still with work before it advanced; ``None``: it was never seen to.
        read_bytes: What its commits stand for, added up; only a difference says anything.
        lost_at: When ``read_bytes`` last missed something: it was new, was read again after a failure, went back, or its commit
            was the first or of an unknown number of bytes.
    """

    committed: int
    still_since: float | None
    end: int
    end_since: float
    rewound_at: float | None = None
    pace_s: float | None = None
    read_bytes: float = 0.0
    lost_at: float = float("-inf")


class Sample(NamedTuple):
    """One measurement.

    Attributes:
        at: When it was made.
        total: Sum of what is committed; ``None`` where not all of it could be read.
        committed: Of each partition, in the order of ``Consumption.place``.
    """

    at: float
    total: int | None
    committed: "array[int]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption:
    """What one group has consumed, as a value. Times are on the clock that is never set.

    Attributes:
        at: When the latest measurement was made; ``None`` before the first.
        sample_ts: The same by the wall clock: by it a measurement that comes twice is known.
        every_s: Time between the latest two; ``None`` before the second.
        tracks: How far each listed partition is of which that was ever read.
        unread: Listed partitions whose offsets the latest measurement could not read.
        place: Where in a sample a partition's offset is; ordered by partition.
        samples: Measurements, oldest first: those of the last ``WINDOW_S`` and the latest at or before its start; the same of
            those that could be read as a whole.
        whole_since: When sums began that can be compared: of the same partitions, and none below the one before.
    """

    at: float | None = None
    sample_ts: float | None = None
    every_s: float | None = None
    tracks: Mapping[TopicPartition, Track] = field(default_factory=dict)
    unread: frozenset[TopicPartition] = frozenset()
    place: Mapping[TopicPartition, int] = field(default_factory=dict)
    samples: tuple[Sample, ...] = ()
    whole_since: float | None = None

    def measured(self, snapshot: LoadSnapshot, moment: Moment) -> "Consumption":
        """Return the record after one more measurement; itself after one that it has already.

        An offset that is the same before and after a gap has not moved in it: a consumer that lives commits forward. A wall clock
        that was set between measuring and ``moment`` makes that measurement at worst look as old as the one before.
        """
        at = moment.of(snapshot.sample_ts)
        if self.at is not None and (snapshot.sample_ts == self.sample_ts or at <= self.at):
            return self
        loads, place = self._placed(snapshot)
        tracks, unread, blind = dict[TopicPartition, Track](), set[TopicPartition](), self.unread
        for x in loads:
            track, end = self.tracks.get(x.partition), x.log_end if x.last_stable is None else x.last_stable
            if x.known and x.committed is not None and x.lag_records is not None and end is not None:
                tracks[x.partition] = _next(track, x, x.committed, end, now=at, lost=bool(blind) and x.partition in blind)
                continue
            unread.add(x.partition)
            if track is not None:
                tracks[x.partition] = track
        if unread:
            found = array("q", [_UNREAD if x.partition in unread else tracks[x.partition].committed for x in loads])
        else:
            found = array("q", [t.committed for t in tracks.values()])
        total = None if unread or snapshot.lost or not loads else sum(c for c in found if c > 0)
        before = self.samples if place is self.place else tuple(_moved(s, self.place, place) for s in self.samples)
        sums = self.totals if place is self.place else ()
        whole_since = self.whole_since if total is None or (sums and total >= sums[-1][1]) else at
        return Consumption(
            at=at,
            sample_ts=snapshot.sample_ts,
            every_s=None if self.at is None else at - self.at,
            tracks=tracks,
            unread=frozenset(unread),
            place=place,
            samples=_lately((*before, Sample(at, total, found))),
            whole_since=whole_since,
        )

    def _placed(self, snapshot: LoadSnapshot) -> tuple[tuple[PartitionLoad, ...], Mapping[TopicPartition, int]]:
        """Return the loads in order, and the place of each; the present one as long as partitions are the same."""
        loads, known = snapshot.loads, tuple(self.place)
        if tuple(x.partition for x in loads) == known:
            return loads, self.place
        loads = tuple(sorted(loads, key=lambda x: x.partition))
        listed = tuple(x.partition for x in loads)
        return loads, self.place if listed == known else {p: i for i, p in enumerate(listed)}

    # --- since some time ----------------------------------------------------------------------------------------------

    def read(self, partitions: AbstractSet[TopicPartition]) -> bool:
        """Say whether all of these could be read by the latest measurement: what is committed from now on can be counted."""
        return partitions <= self.tracks.keys() and self.unread.isdisjoint(partitions)

    def followed(self, partitions: AbstractSet[TopicPartition], since: float) -> bool:
        """Say whether all that was committed in these after a measurement is known."""
        return self.read(partitions) and all(self.tracks[p].lost_at <= since for p in partitions)

    def work(self, partitions: Collection[TopicPartition]) -> Work:
        """Return what has been committed in these, to be compared with the same of another measurement."""
        tracks = [self.tracks[p] for p in partitions]
        return Work(sum(t.committed for t in tracks), sum(t.read_bytes for t in tracks))

    # --- over the window ----------------------------------------------------------------------------------------------

    def rate(self, partition: TopicPartition, since: float) -> float | None:
        """Return records per second of a partition over the window; ``None`` before it is full, or where nothing is committed.

        Args:
            partition: Which one.
            since: Measurements before that do not count, nor those before its offset went back.
        """
        track, i = self.tracks.get(partition), self.place.get(partition)
        if track is None or i is None or self.at is None or track.committed < 0:
            return None
        begin = since if track.rewound_at is None else max(since, track.rewound_at)
        first = next((s for s in self.samples if s.committed[i] >= 0 and s.at >= begin), None)
        if first is None or self.at - first.at < WINDOW_S:
            return None
        return (track.committed - first.committed[i]) / (self.at - first.at)

    @property
    def totals(self) -> tuple[tuple[float, int], ...]:
        """Return the sums that can be compared, with their times, oldest first: back to the start of the window."""
        if self.whole_since is None:
            return ()
        return tuple((s.at, s.total) for s in self.samples if s.total is not None and s.at >= self.whole_since)

    @property
    def records_per_s(self) -> float | None:
        """Return records per second of the whole group over the window; ``None`` before it is full."""
        totals = self.totals
        if not totals or totals[-1][0] - totals[0][0] < WINDOW_S:
            return None
        (first, low), (last, high) = totals[0], totals[-1]
        return (high - low) / (last - first)

    @property
    def commits_often(self) -> bool:
        """Say whether commits come often enough for the window to tell a rate; who commits with every checkpoint shows none."""
        totals = self.totals
        rises = sum(b > a for (_, a), (_, b) in pairwise(totals))
        return rises >= min(_COMMITS, max(1, len(totals) - 1))


def _next(track: Track | None, load: PartitionLoad, committed: int, end: int, *, now: float, lost: bool) -> Track:
    """Return how far a partition is that has been read."""
    lag = load.lag_records
    if track is None:
        return Track(committed, now if lag else None, end, now, lost_at=now)
    same = committed == track.committed
    if same and end == track.end and bool(lag) == (track.still_since is not None) and not lost:
        return track
    since = None if not lag else track.still_since if same and track.still_since is not None else now
    took = now - track.still_since if track.still_since is not None and committed > track.committed else None
    each = 0.0 if same else _record_bytes(load) if committed > track.committed >= 0 else None
    return Track(
        committed,
        since,
        end,
        track.end_since if end == track.end else now,
        now if 0 <= committed < track.committed else track.rewound_at,
        track.pace_s if took is None else max(took, track.pace_s or 0.0),
        track.read_bytes + (each or 0.0) * (committed - track.committed),
        now if lost or each is None else track.lost_at,
    )


def _record_bytes(load: PartitionLoad) -> float | None:
    """Return bytes per record of what arrives; of what is unread where nothing does."""
    if load.bytes_per_s and load.records_per_s:
        return load.bytes_per_s / load.records_per_s
    return load.lag_bytes / load.lag_records if load.lag_bytes and load.lag_records else None


def _lately(samples: tuple[Sample, ...]) -> tuple[Sample, ...]:
    """Return what rates of partitions need, and what the group's needs: that is over those which could be read as a whole."""
    kept = {s.at for some in (samples, tuple(s for s in samples if s.total is not None)) for s in _window(some)}
    return tuple(s for s in samples if s.at in kept)


def _window(samples: tuple[Sample, ...]) -> tuple[Sample, ...]:
    """Return those of the window that ends with the last one, and the latest at or before its start."""
    old = sum(s.at <= samples[-1].at - WINDOW_S for s in samples)
    return samples[max(0, old - 1) :]


def _moved(sample: Sample, before: Mapping[TopicPartition, int], after: Mapping[TopicPartition, int]) -> Sample:
    """Return a sample in the order of other partitions."""
    found = [sample.committed[before[p]] if p in before else _UNREAD for p in after]
    return Sample(sample.at, None, array("q", found))
