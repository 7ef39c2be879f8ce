"""What one group's decisions remember of earlier cycles: a value that ``decide`` takes and returns."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import median

from autoscaler.core.capacity.busy_throughput import Busy
from autoscaler.core.capacity.capacity import Capacity
from autoscaler.core.capacity.drain_throughput import Drains
from autoscaler.core.capacity.scaling_effectiveness import Drained
from autoscaler.core.group.advice import Advice
from autoscaler.core.load.consumption import Consumption
from autoscaler.core.load.record_ages import Ages
from autoscaler.model import HandoverDone, Started, TopicPartition
from autoscaler.packing import DriftEstimator

HOUR_S = 3600.0
_PAUSES = 32  # handovers whose pauses are remembered: the latest say what the next ones will cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What a decision asked for; it counts as done once a later epoch, or in a group without plans the number, is observed.

    Attributes:
        epoch: Of the plan that it follows; 0 in a group without plans.
        consumers: How many were asked for before.
        by: Consumers more than before; negative: fewer.
        at: When it was asked for: what was published for it was not published before that.
        requested: Consumers that should run then, in a group without plans; ``None`` in one that has them.
        placement: Where partitions should be then, in a group without plans; ``None`` if that was not asked for.
    """

    epoch: int
    scales: bool
    moves: bool
    consumers: int = 0
    by: int = 0
    at: float = -math.inf
    requested: frozenset[int] | None = None
    placement: Mapping[TopicPartition, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Memory between cycles. A lost one costs time (windows fill anew), never a wrong step.

    All times are on the clock that is never set.

    Attributes:
        recommendations: (time, fewest consumers that would do), oldest first, back to the start of the stabilisation window.
        last_scale_at: When the number of requested consumers last changed; ``None`` if never.
        last_move_at: When partitions were last moved from one live consumer to another; ``None`` if never.
        waiting_since: Since when requested workers are awaited; ``None`` if none are.
        intent: What was asked for last, until it is seen or replaced.
        drift: How far rates go from one measurement to the next.
        consumption: What was consumed of each partition, and when.
        direction: Sign of the latest change of the number of consumers; 0 before the first.
        turns: When the number last began to go the other way, oldest first, for an hour.
        overloaded_since: Since when some consumer has been overloaded in every cycle; ``None`` if none is.
        unusable_since: Since when the load could not be measured in any cycle; ``None`` if it can be.
        pauses: Seconds that partitions stood still as they changed hands, of the latest handovers.
        drained: Whether more consumers drained more.
        behind_since: Since when partitions are far behind, of which records may be deleted unread.
        consumer_drains: What consumers of a native group drain while they are behind.
        busy: What workers of a managed group process while they are busy.
        capacity: The measured capacity that is in use; ``None``: none was measured.
        advice: How many consumers the load was last known to take; ``None``: that was never known.
        ages: How old records are as workers process them, for a promise.
        start_s: How long the consumers took to be there that were asked for last; ``None``: that was never seen.
    """

    recommendations: tuple[tuple[float, int], ...] = ()
    last_scale_at: float | None = None
    last_move_at: float | None = None
    waiting_since: float | None = None
    intent: Intent | None = None
    drift: DriftEstimator = field(default_factory=DriftEstimator)
    consumption: Consumption = field(default_factory=Consumption)
    direction: int = 0
    turns: tuple[float, ...] = ()
    overloaded_since: float | None = None
    unusable_since: float | None = None
    pauses: tuple[float, ...] = ()
    drained: Drained = field(default_factory=Drained)
    behind_since: Mapping[TopicPartition, float] = field(default_factory=dict)
    consumer_drains: Drains = field(default_factory=Drains)
    busy: Busy = field(default_factory=Busy)
    capacity: Capacity | None = None
    advice: Advice | None = None
    ages: Ages = field(default_factory=Ages)
    start_s: float | None = None

    @classmethod
    def from_plan(cls, plan_at: float | None, capacity: Capacity | None = None) -> "History":
        """Return what is safe to assume after a restart: the latest plan scaled and moved at once.

        Args:
            plan_at: When it was published, on the clock that is never set; ``None`` without one.
            capacity: The measured one that it was made with; ``None`` if it was made with another.
        """
        return cls(last_scale_at=plan_at, last_move_at=plan_at, capacity=capacity)

    def confirmed(self, epoch: int, at: float) -> "History":
        """Return the history with an intent that has been published turned into times; ``at`` is when."""
        if self.intent is None:
            return self
        if epoch <= self.intent.epoch:
            return replace(self, intent=None)
        return self._done(self.intent, max(at, self.intent.at))

    def counted(self, started: Started, at: float) -> "History":
        """Return the same for a group without plans: done is what asked for the consumers and the placement that stand now."""
        intent, told = self.intent, started.placement or {}
        if intent is None:
            return self
        if started.requested != intent.requested:
            return replace(self, intent=None)
        if intent.placement is not None and any(told.get(p) != slot for p, slot in intent.placement.items()):
            return replace(self, intent=None)
        return self._done(intent, at)

    def _done(self, intent: Intent, at: float) -> "History":
        by = intent.by
        direction = (by > 0) - (by < 0) or self.direction
        turned = self.direction not in {0, direction}
        return replace(
            self,
            last_scale_at=at if intent.scales else self.last_scale_at,
            last_move_at=at if intent.moves else self.last_move_at,
            intent=None,
            direction=direction,
            turns=(*(t for t in self.turns if t > at - HOUR_S), at) if turned else self.turns,
            drained=self.drained.stepped_up(intent.consumers, self.consumption) if by > 0 else self.drained,
        )

    def turns_in_the_hour(self, now: float) -> int:
        """Return how often the number of consumers began to go the other way in the last hour."""
        return sum(1 for t in self.turns if t > now - HOUR_S)

    def overload(self, now: float, *, exists: bool) -> "History":
        """Return the history after a cycle that found a consumer overloaded, or none."""
        if exists == (self.overloaded_since is not None):
            return self
        return replace(self, overloaded_since=now if exists else None)

    def usable(self, now: float, *, load: bool) -> "History":
        """Return the history after a cycle whose load could be used, or could not."""
        if load == (self.unusable_since is None):
            return self
        return replace(self, unusable_since=None if load else now)

    def handed_over(self, done: Iterable[HandoverDone]) -> "History":
        """Return the history with the pauses of handovers that have finished; one without a former owner paused no consumer."""
        new = tuple(d.pause_s for d in done if d.pause_s is not None and math.isfinite(d.pause_s) and d.pause_s >= 0)
        return replace(self, pauses=(*self.pauses, *new)[-_PAUSES:]) if new else self

    def pause_s(self, assumed: float) -> float:
        """Return how long a partition stands still as it changes hands: the median of the latest, or what is assumed."""
        return median(self.pauses) if self.pauses else assumed

    def resting_s(self, now: float, cooldown_s: float) -> float | None:
        """Return for how long moves have rested if it is too soon for another one, ``None`` if it is not."""
        last = self.last_move_at
        return now - last if last is not None and now - last < cooldown_s else None

    def measured(self, consumption: Consumption, fresh: Mapping[TopicPartition, float]) -> "History":
        """Return the history after one more measurement; one that is known already changes nothing.

        Args:
            consumption: What it has become with that.
            fresh: Rates that it found itself. Carried ones teach nothing, and the first after a gap is compared with nothing.
        """
        if consumption is self.consumption:
            return self
        return replace(self, consumption=consumption, drift=self.drift.update(fresh))

    def measurements_in(self, seconds: float) -> float:
        """Return how many measurements are made in a time: at least one, at most a million."""
        every_s = self.consumption.every_s
        return min(max(1.0, seconds / every_s), 1e6) if every_s else 1.0

    def recommended(self, now: float, consumers: int, window_s: float) -> "History":
        """Return the history with one more recommendation; the newest one at or before the window's start is kept."""
        start = now - window_s
        old = [x for x in self.recommendations if x[0] <= start][-1:]
        inside = [x for x in self.recommendations if start < x[0] < now]
        return replace(self, recommendations=(*old, *inside, (now, consumers)))

    def window_full(self, now: float, window_s: float) -> bool:
        """Say whether recommendations reach back over the whole window."""
        return bool(self.recommendations) and self.recommendations[0][0] <= now - window_s

    def peak(self) -> int:
        """Return the highest recommendation remembered; 0 without any."""
        return max((n for _, n in self.recommendations), default=0)


def moved(before: Mapping[TopicPartition, int], after: Mapping[TopicPartition, int]) -> tuple[TopicPartition, ...]:
    """Return the partitions that go from one consumer to another, ordered."""
    return tuple(p for p in sorted(after) if p in before and before[p] != after[p])
