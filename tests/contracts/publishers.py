"""What the contract of ``PlanPublisher`` needs of the world around it: workers that come, go and follow plans."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.control_log.publisher import KafkaControl
from autoscaler.devtools.broker import Cluster
from autoscaler.model import GroupState, HandoverDone, TopicPartition
from autoscaler.ports import PlanPublisher
from tests.fakes import FakeClock, FakePublisher
from tests.kafka.log_worker import LogWorker
from tests.until import until


class World(Protocol):
    @property
    def publisher(self) -> PlanPublisher: ...

    topic: str
    group: str
    seen: list[HandoverDone]

    def start(self, slot: int) -> str: ...
    def die(self, slot: int) -> None: ...
    def leave(self, slot: int) -> None: ...
    def lag(self, partition: TopicPartition) -> None: ...
    def until(self, wanted: Callable[[GroupState], bool]) -> GroupState: ...
    def close(self) -> None: ...


def partitions(world: World) -> list[TopicPartition]:
    return [TopicPartition(topic=world.topic, partition=n) for n in range(4)]


@dataclass
class FakeWorld:
    topic: str = "orders"
    group: str = "g"
    seen: list[HandoverDone] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.publisher = FakePublisher(group=self.group, clock=FakeClock(), takes_after=2)
        self._starts = 0

    def start(self, slot: int) -> str:
        self._starts += 1
        self.publisher.join(slot, f"instance-of-{slot}-{self._starts}")
        return f"instance-of-{slot}-{self._starts}"

    def die(self, slot: int) -> None:
        self.publisher.die(slot)

    def leave(self, slot: int) -> None:
        self.publisher.leave(slot)

    def lag(self, partition: TopicPartition) -> None:
        self.publisher.behind.add(partition)

    def until(self, wanted: Callable[[GroupState], bool]) -> GroupState:
        for _ in range(10):
            state = self.publisher.observe()
            self.seen += state.completed
            if wanted(state):
                return state
        raise AssertionError(state)

    def close(self) -> None:
        self.publisher.close()


@dataclass
class KafkaWorld:
    broker: Cluster
    topic: str
    group: str
    lease_s: float = 3.0
    seen: list[HandoverDone] = field(default_factory=list)
    workers: dict[int, LogWorker] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.publisher = self.control()

    def control(self) -> KafkaControl:
        return KafkaControl(
            connection=self.broker.connection(),
            group=self.group,
            topics=(self.topic,),
            reset_policy="earliest",
            lease_s=self.lease_s,
            replication_factor=None,
            slot_of=self.slot_of,
            clock=SystemClock(),
        )

    def slot_of(self, name: str) -> int | None:
        return int(name.removeprefix(f"{self.group}-")) if name.startswith(f"{self.group}-") else None

    def start(self, slot: int) -> str:
        instance = f"instance-of-{slot}-{time.monotonic_ns()}"
        name = f"{self.group}-{slot}"
        self.workers[slot] = LogWorker(self.broker.bootstrap, self.group, name, lease_s=self.lease_s, instance=instance)
        self.until(lambda s: any(w.instance == instance for w in s.workers))
        return instance

    def die(self, slot: int) -> None:
        self.workers.pop(slot).silence()

    def leave(self, slot: int) -> None:
        self.workers.pop(slot).stop()

    def lag(self, partition: TopicPartition) -> None:
        producer = Producer(self.broker.connection())
        producer.produce(partition.topic, b"nobody processes it", partition=partition.partition)
        assert producer.flush(30) == 0

    def until(self, wanted: Callable[[GroupState], bool]) -> GroupState:
        return observed(self.publisher, wanted, self.seen)

    def close(self) -> None:
        for worker in self.workers.values():
            worker.silence()
        self.publisher.close()


def commit(broker: Cluster, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Commit as a worker does; the admin client's call fails in silence while a new broker loads its coordinator."""
    consumer = Consumer({**broker.connection(), "group.id": group})
    try:
        done = consumer.commit(offsets=[KafkaPartition(topic, p, o) for p, o in offsets.items()], asynchronous=False)
        assert done is not None
        assert all(tp.error is None for tp in done)
    finally:
        consumer.close()


def observed(
    publisher: PlanPublisher, wanted: Callable[[GroupState], bool], seen: list[HandoverDone] | None = None
) -> GroupState:
    def look() -> GroupState:
        state = publisher.observe()
        if seen is not None:
            seen.extend(state.completed)
        return state

    return until("the group as wanted", look, wanted)
