"""Does a larger group drain more? What is committed per second before and after each step up, and how many steps were in vain."""

from dataclasses import dataclass, replace
from itertools import pairwise

from autoscaler.core.load.group_load import GroupLoad
from autoscaler.model import LoadSnapshot

WINDOW_S = 30.0  # what is drained is measured over so long: several commits and several batches
_COMMITS = 5  # of a window: with fewer, one more or less is more than any tolerance


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A step up whose effect is awaited.

    Attributes:
        before: Records per second that were drained before it.
        consumers: How many consumers were asked for before it.
        steps: Steps that it consists of: one that follows before the first can be judged is judged with it.
        settled_at: Since when its consumers are there and hold what they are to hold; ``None``: not yet.
    """

    before: float
    consumers: int
    steps: int = 1
    settled_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What one group has drained lately, as a value.

    Attributes:
        samples: (time, sum of the committed offsets), oldest first, over the last ``WINDOW_S``.
        partitions: How many partitions the sums are of: with other partitions they start anew.
        trial: The step up that is being judged.
        in_vain: Steps up in a row that drained no more than before.
        level: What was drained then, records per second.
        consumers: How many consumers were asked for before the first of them; 0: none was in vain.
    """

    samples: tuple[tuple[float, int], ...] = ()
    partitions: int = 0
    trial: Trial | None = None
    in_vain: int = 0
    level: float = 0.0
    consumers: int = 0

    def measured(self, snapshot: LoadSnapshot, load: GroupLoad) -> "Drained":
        """Return the value after a measurement. One with a partition that is not known teaches nothing.

        Sums that go back, or are of other partitions, start the window anew, and what is being judged is forgotten.
        """
        at = snapshot.sample_ts
        if load.unknown or load.absent or not load.partitions or (self.samples and at <= self.samples[-1][0]):
            return self
        committed = [x.committed for x in snapshot.loads]
        total = sum(c for c in committed if c is not None and c > 0)
        if len(committed) != self.partitions or None in committed or (self.samples and total < self.samples[-1][1]):
            return replace(self, samples=((at, total),), partitions=len(committed), trial=None)
        start = at - WINDOW_S
        old = [s for s in self.samples if s[0] <= start][-1:]
        inside = [s for s in self.samples if s[0] > start]
        return replace(self, samples=(*old, *inside, (at, total)))

    def shifted(self, by_s: float) -> "Drained":
        """Return the same after the wall clock was set by so much."""
        trial = self.trial
        if trial is not None and trial.settled_at is not None:
            trial = replace(trial, settled_at=trial.settled_at + by_s)
        return replace(self, samples=tuple((at + by_s, total) for at, total in self.samples), trial=trial)

    @property
    def rate(self) -> float | None:
        """Return records per second over the window; ``None`` before it is full."""
        if not self.samples or self.samples[-1][0] - self.samples[0][0] < WINDOW_S:
            return None
        (first, low), (last, high) = self.samples[0], self.samples[-1]
        return (high - low) / (last - first)

    @property
    def often(self) -> bool:
        """Say whether commits come often enough for the window to tell a rate; who commits with every checkpoint shows none."""
        rises = sum(b > a for (_, a), (_, b) in pairwise(self.samples))
        return rises >= min(_COMMITS, max(1, len(self.samples) - 1))

    def stepped_up(self, consumers: int) -> "Drained":
        """Return the value after more than ``consumers`` were asked for. Without a rate to compare with nothing is judged."""
        if self.trial is not None:
            return replace(self, trial=replace(self.trial, steps=self.trial.steps + 1, settled_at=None))
        return self if self.rate is None else replace(self, trial=Trial(before=self.rate, consumers=consumers))

    def judged(self, now: float, *, settled: bool, behind: bool, tolerance: float) -> "Drained":
        """Return the value after looking at the step that is being judged.

        It was in vain if a whole window after its consumers settled the group is still behind and drains no more than before,
        by more than the tolerance. Steps count no longer once the group is not behind, or drains more after all.

        Args:
            now: Seconds since the epoch.
            settled: Every requested consumer is there and nothing is changing hands.
            behind: Some partition is further behind than is ordinary.
            tolerance: Share of the rate that is noise.
        """
        rate, trial = self.rate, self.trial
        recovered = not behind or (rate is not None and rate > self.level * (1 + tolerance))
        forgotten = replace(self, in_vain=0, level=0.0, consumers=0)
        known = forgotten if self.in_vain and recovered else self
        if trial is None:
            return known
        if not settled or trial.settled_at is None:
            return replace(known, trial=replace(trial, settled_at=now if settled else None))
        if rate is None or now - trial.settled_at < WINDOW_S:
            return known
        if not behind or rate > trial.before * (1 + tolerance):
            return replace(forgotten, trial=None)
        level, steps = max(trial.before, rate), known.in_vain + trial.steps
        return replace(known, trial=None, in_vain=steps, level=level, consumers=known.consumers or trial.consumers)
