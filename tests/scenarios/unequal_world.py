"""A group whose workers each do what they can, partition by partition: some slower than others, some with a cost per batch."""

from collections.abc import Callable
from dataclasses import dataclass, field

from autoscaler.model import PartitionLoad, TopicPartition
from tests.builders import load
from tests.scenarios.world import World

BATCH_S = 1.0  # a worker asks for what has gathered so often


@dataclass(slots=True, kw_only=True)
class UnequalWorld(World):
    """Workers that process what they hold.

    Attributes:
        able: Bytes/s that the worker of a slot processes while it is busy, by seconds since the start and slot.
        batch_s: Busy seconds that each batch costs by itself, by slot.
        record_bytes: Of each record of a partition.
        always_busy: Slots whose workers count all time as busy.
    """

    able: Callable[[float, int], float]
    batch_s: Callable[[int], float] = lambda _: 0.0
    record_bytes: Callable[[TopicPartition], float] = lambda _: 10.0
    always_busy: frozenset[int] = frozenset()
    unread: dict[TopicPartition, float] = field(default_factory=dict)
    read: dict[TopicPartition, float] = field(default_factory=dict)

    def _consume(self) -> None:
        for p, rate in self.traffic(self.t).items():
            self.unread[p] = self.unread.get(p, 0.0) + rate
        for slot in sorted(self.live):
            worker = self.workers[slot]
            held = sorted(p for p in worker.owned if self.unread.get(p, 0.0) > 0)
            if not held:
                continue
            todo = sum(self.unread[p] for p in held)
            can = self.able(self.t, slot) * max(0.0, BATCH_S - self.batch_s(slot))
            share = min(1.0, can / todo)
            for p in held:
                done = self.unread[p] * share
                self.unread[p] -= done
                self.read[p] = self.read.get(p, 0.0) + done
                worker.records += done / self.record_bytes(p)
            worked = min(BATCH_S, self.batch_s(slot) + todo * share / self.able(self.t, slot))
            worker.busy_s += BATCH_S if slot in self.always_busy else worked

    def _fresh(self, partition: TopicPartition, rate: float) -> PartitionLoad:
        each, unread = self.record_bytes(partition), self.unread.get(partition, 0.0)
        return load(
            partition,
            rate,
            records_per_s=rate / each,
            committed=int(self.read.get(partition, 0.0) / each),
            lag_s=unread / rate if rate else 0.0,
            lag_records=int(unread / each),
            lag_bytes=unread,
        )

    def used(self) -> dict[int, float]:
        """Return what each live worker is given over what it can do."""
        return {c: load / self.able(self.t, c) for c, load in self.loads().items()}
