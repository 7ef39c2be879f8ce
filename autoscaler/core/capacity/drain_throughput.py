"""What consumers of a native group drain while they are behind: is one really as fast as its configured capacity says?

Such a consumer reports no capacity. One that has work waiting all the time shows it by what it commits. Where a capacity is
configured, this is only said: a slow database looks the same. Where none is, it is the capacity.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from autoscaler.core.capacity.capacity import ENOUGH, Shown
from autoscaler.core.load.consumption import WINDOW_S, Consumption
from autoscaler.model import TopicPartition

_MOST_S = 300.0  # what is drained is measured over so long where no consumer has committed often enough by the end of the window
_COMMITS = 5  # of one consumer in a window: with fewer, one more or less is a large part of it
STILL_S = 12.0  # without a commit, after which a partition's lag is no sign of work that its consumer is busy with
_LASTS_S = 3600.0  # for which a window counts: consumers are replaced by faster ones
_RECENT = 6  # windows in which consumers were behind, of which two may be anything: three minutes of that, as for managed ones
_HALF = 0.5  # of the configured capacity, that it may be off

Seen = tuple[tuple[float, float], ...]  # (time, bytes/s of the fastest consumer in the window that ended then), oldest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Drains:
    """What consumers have drained lately, as a value.

    Attributes:
        since: Since when the present window is open; ``None``: none is.
        at: When the latest measurement in it was made.
        cycles: Measurements in it after the first.
        owner: Who has held what in all of it.
        began: Bytes that were committed in what each consumer holds when it began; what it has drained is the difference.
        read: The same at the latest measurement.
        commits: Measurements in it that found more committed by each consumer than the one before.
        behind: Consumers that were behind in each of them.
        waiting: Windows with consumers that were behind in all of it: the fastest of these.
        fastest: All windows: the fastest consumer.
    """

    since: float | None = None
    at: float = 0.0
    cycles: int = 0
    owner: Mapping[TopicPartition, int] = field(default_factory=dict)
    began: Mapping[int, float] = field(default_factory=dict)
    read: Mapping[int, float] = field(default_factory=dict)
    commits: Mapping[int, int] = field(default_factory=dict)
    behind: frozenset[int] = frozenset()
    waiting: Seen = ()
    fastest: Seen = ()

    def interrupted(self) -> "Drains":
        """Return the value after a cycle that tells nothing: the present window is given up."""
        return replace(self, since=None)

    def measured(self, consumption: Consumption, owner: Mapping[TopicPartition, int], behind: frozenset[int]) -> "Drains":
        """Return the value after a measurement. With another placement, or a commit that cannot be followed, a new window begins.

        Args:
            consumption: What the group has consumed, the latest measurement included.
            owner: Which consumer holds which partition.
            behind: Consumers with work waiting in partitions that advance.
        """
        at = consumption.at
        if at is None or (self.since is not None and at <= self.at):
            return self
        if not consumption.read(owner.keys()):
            return self.interrupted()  # what is committed until it can be followed again counts for no window
        read = _by_consumer(consumption, owner)
        if self.since is None or owner != self.owner or not consumption.followed(owner.keys(), self.since):
            return self._begun(at, owner, read, behind)
        now = replace(
            self,
            at=at,
            cycles=self.cycles + 1,
            read=read,
            commits={c: self.commits.get(c, 0) + (b > self.read[c]) for c, b in read.items()},
            behind=self.behind & behind,
        )
        lasted = at - self.since
        if lasted < WINDOW_S or (lasted < _MOST_S and not now._often()):  # noqa: SLF001  its own
            return now
        return now._ended(lasted)._begun(at, owner, read, behind)  # noqa: SLF001  its own

    def _begun(
        self, at: float, owner: Mapping[TopicPartition, int], read: Mapping[int, float], behind: frozenset[int]
    ) -> "Drains":
        return replace(self, since=at, at=at, cycles=0, owner=owner, began=read, read=read, commits={}, behind=behind)

    def _often(self) -> frozenset[int]:
        """Return the consumers that have committed often enough for what they drained to be told."""
        return frozenset(c for c, commits in self.commits.items() if commits >= min(_COMMITS, self.cycles))

    def _ended(self, lasted: float) -> "Drains":
        rates = {c: (self.read[c] - self.began[c]) / lasted for c in self._often()}
        return replace(
            self,
            waiting=_with(self.waiting, self.at, [r for c, r in rates.items() if c in self.behind]),
            fastest=_with(self.fastest, self.at, rates.values()),
        )

    def too_slow(self, capacity: float) -> tuple[float, int] | None:
        """Return the most that a consumer drains which is behind, and in how many windows, if that is far below a capacity."""
        most = max((r for _, r in self.waiting), default=0.0)
        return (most, len(self.waiting)) if len(self.waiting) >= ENOUGH and most < _HALF * capacity else None

    def too_fast(self, capacity: float) -> tuple[float, int] | None:
        """Return the most that a consumer drains, and in how many windows it was far above a capacity, if it was."""
        above = [r for _, r in self.fastest if r > (1 + _HALF) * capacity]
        return (max(above), len(above)) if len(above) >= ENOUGH else None

    def shown(self, assumed: float) -> Shown | None:
        """Return the most that a consumer has drained in each of three windows; ``None`` where that tells no capacity.

        What it has drained it can drain. That it can do no more is only seen while it is behind; if none was, what was drained
        tells something only where it is above what is assumed. What was before the latest windows in which consumers were behind
        counts no more: they may have become slower since, and do not become faster by having caught up.

        Args:
            assumed: Bytes/s that one has been taken for so far.
        """
        if len(self.fastest) < ENOUGH:
            return None
        since = self.waiting[-_RECENT:][0][0] if len(self.waiting) >= ENOUGH else -math.inf
        most = sorted((r for at, r in self.fastest if at >= since), reverse=True)[ENOUGH - 1]
        if len(self.waiting) >= ENOUGH:
            return Shown(most, len(self.waiting), self.waiting[-1][0])
        return Shown(most, len(self.fastest), self.fastest[-1][0]) if most > assumed else None


def _with(seen: Seen, at: float, rates: Iterable[float]) -> Seen:
    fastest = max(rates, default=None)
    recent = tuple(x for x in seen if x[0] > at - _LASTS_S)
    return recent if fastest is None else (*recent, (at, fastest))


def _by_consumer(consumption: Consumption, owner: Mapping[TopicPartition, int]) -> dict[int, float]:
    found = dict.fromkeys(owner.values(), 0.0)
    for p, consumer in owner.items():
        found[consumer] += consumption.tracks[p].read_bytes
    return found
