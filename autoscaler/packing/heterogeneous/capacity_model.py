"""How full a consumer is where its bytes per second do not say it alone. Part of *pack*.

Two things make that so: a consumer that is slower or faster than the others, and a limit of records/s beside that of bytes/s.
Both become one number, the *level*: what a consumer carries, in bytes/s of one that is like the group's. It is compared with the
same limits as the plain load of a consumer, so that code that asks "above the limit?" need not know what the limit is of.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from autoscaler.model import TopicPartition
from autoscaler.packing.problem.assignment import consumer_loads


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """What levels are made by; an empty one is false, and its levels are bytes per second."""

    # Of the consumers that differ: what each does per second over what the group's do. All others have 1.
    speeds: Mapping[int, float] = field(default_factory=dict)
    # What the records of each partition count for, in bytes/s: records/s × (bytes/s over records/s of one consumer). Empty where
    # there is no limit of records.
    counts: Mapping[TopicPartition, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Say whether levels are anything else than bytes per second."""
        return bool(self.speeds) or bool(self.counts)

    def speed(self, consumer: int) -> float:
        """Return how fast a consumer is, over the group's."""
        return self.speeds.get(consumer, 1.0)

    def levels(
        self, rates: Mapping[TopicPartition, float], owner: Mapping[TopicPartition, int], consumers: Collection[int] = ()
    ) -> dict[int, float]:
        """Return how full every consumer is that holds a partition or is named; partitions without a rate count nothing."""
        loads = consumer_loads(rates, owner, consumers)
        if not self:
            return loads
        counted = self.counted(rates, owner, consumers)
        return {c: max(load / self.speed(c), counted[c]) for c, load in loads.items()}

    def counted(
        self, rates: Mapping[TopicPartition, float], owner: Mapping[TopicPartition, int], consumers: Collection[int] = ()
    ) -> dict[int, float]:
        """Return what the records of every consumer count for."""
        return consumer_loads({p: self.counts[p] for p in rates if p in self.counts}, owner, consumers)

    def sizes(self, rates: Mapping[TopicPartition, float]) -> dict[TopicPartition, float]:
        """Return the level that each partition alone gives to the fastest consumer there may be."""
        fastest = max((1.0, *self.speeds.values()))
        return {p: max(rate / fastest, self.counts.get(p, 0.0)) for p, rate in rates.items()}

    def scaled(self, by: Mapping[TopicPartition, float]) -> "Gauge":
        """Return the same where the records of some partitions come so many times as fast."""
        return replace(self, counts={p: count * by.get(p, 1.0) for p, count in self.counts.items()}) if self.counts else self
