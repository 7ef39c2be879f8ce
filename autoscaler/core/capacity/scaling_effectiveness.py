"""Does a larger group drain more? What is committed per second before and after each step up, and how many steps were in vain."""

from dataclasses import dataclass, replace

from autoscaler.core.load.consumption import WINDOW_S, Consumption


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A step up whose effect is awaited.

    Attributes:
        before: Records per second that were drained before it.
        consumers: How many consumers were asked for before it.
        whole_since: Of the sums that ``before`` was told from: with others there is nothing to compare.
        steps: Steps that it consists of: one that follows before the first can be judged is judged with it.
        settled_at: Since when its consumers are there and hold what they are to hold; ``None``: not yet.
    """

    before: float
    consumers: int
    whole_since: float | None
    steps: int = 1
    settled_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What steps up of one group were good for, as a value.

    Attributes:
        trial: The step up that is being judged.
        in_vain: Steps up in a row that drained no more than before.
        level: What was drained then, records per second.
        consumers: How many consumers were asked for before the first of them; 0: none was in vain.
    """

    trial: Trial | None = None
    in_vain: int = 0
    level: float = 0.0
    consumers: int = 0

    def stepped_up(self, consumers: int, consumption: Consumption) -> "Drained":
        """Return the value after more than ``consumers`` were asked for. Without a rate to compare with nothing is judged."""
        if self.trial is not None:
            return replace(self, trial=replace(self.trial, steps=self.trial.steps + 1, settled_at=None))
        rate = consumption.records_per_s
        trial = None if rate is None else Trial(before=rate, consumers=consumers, whole_since=consumption.whole_since)
        return replace(self, trial=trial)

    def judged(self, consumption: Consumption, now: float, *, settled: bool, behind: bool, tolerance: float) -> "Drained":
        """Return the value after looking at the step that is being judged; it is forgotten once nothing can be compared with it.

        It was in vain if a whole window after its consumers settled the group is still behind and drains no more than before,
        by more than the tolerance. Steps count no longer once the group is not behind, or drains more after all.

        Args:
            consumption: What the group has consumed until now.
            now: On the clock that is never set.
            settled: Every requested consumer is there and nothing is changing hands.
            behind: Some partition is further behind than is ordinary.
            tolerance: Share of the rate that is noise.
        """
        rate = consumption.records_per_s
        trial = self.trial if self.trial is not None and self.trial.whole_since == consumption.whole_since else None
        recovered = not behind or (rate is not None and rate > self.level * (1 + tolerance))
        known = Drained(trial=trial) if self.in_vain and recovered else self
        if trial is None:
            return known if known.trial is None else replace(known, trial=None)
        if not settled or trial.settled_at is None:
            return replace(known, trial=replace(trial, settled_at=now if settled else None))
        if rate is None or now - trial.settled_at < WINDOW_S:
            return known
        if not behind or rate > trial.before * (1 + tolerance):
            return Drained()
        level, steps = max(trial.before, rate), known.in_vain + trial.steps
        return replace(known, trial=None, in_vain=steps, level=level, consumers=known.consumers or trial.consumers)
