"""Real members of a native group, of two client libraries and both protocols, to compare predictions with."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer as Librdkafka
from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.kafka.membership import KafkaGroupReader
from autoscaler.devtools.broker import Broker
from autoscaler.model import GroupMembers, TopicPartition
from tests.until import until

_PATIENCE_S = 60.0
_CALM_S = 0.7  # a cooperative group is stable between its rebalances, too
_IN_PYTHON = {
    a.name: a for a in (RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor, CooperativeStickyAssignor)
}
_QUICK = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 300}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What the members are.

    Attributes:
        library: ``librdkafka`` or ``kafka-python``.
        protocol: ``classic`` or ``consumer`` (KIP-848).
    """

    library: str
    protocol: str
    assignor: str

    def __str__(self) -> str:
        return f"{self.assignor} ({self.library}, {self.protocol})"


# Not kafka-python's cooperative-sticky: now and then its members do not ask for the second round, and hold too little for good.
KINDS = (
    Kind(library="librdkafka", protocol="classic", assignor="range"),
    Kind(library="librdkafka", protocol="classic", assignor="roundrobin"),
    Kind(library="kafka-python", protocol="classic", assignor="sticky"),
    Kind(library="librdkafka", protocol="classic", assignor="cooperative-sticky"),
    Kind(library="librdkafka", protocol="consumer", assignor="uniform"),
    Kind(library="librdkafka", protocol="consumer", assignor="range"),
)


@dataclass(slots=True, kw_only=True)
class Members:
    """A group whose members come and go as told; ``stable`` says what each holds then."""

    broker: Broker
    kind: Kind
    topics: tuple[str, ...]
    group: str = field(default_factory=lambda: f"native-{uuid.uuid4().hex[:8]}")
    _running: list[tuple[threading.Thread, threading.Event]] = field(default_factory=list)

    def become(self, count: int) -> None:
        """Let as many run; the newest ones end first, all at once."""
        while len(self._running) < count:
            stop = threading.Event()
            run = self._python if self.kind.library == "kafka-python" else self._librdkafka
            thread = threading.Thread(target=run, args=(stop, f"m{len(self._running)}"), daemon=True)
            thread.start()
            self._running.append((thread, stop))
        gone, self._running = self._running[count:], self._running[:count]
        for _, stop in gone:
            stop.set()
        for thread, _ in gone:
            thread.join(_PATIENCE_S)

    def _librdkafka(self, stop: threading.Event, client: str) -> None:
        settings: dict[str, Any] = {**self.broker.connection(), "group.id": self.group, "client.id": client, "log_level": 0}
        if self.kind.protocol == "consumer":
            settings |= {"group.protocol": "consumer", "group.remote.assignor": self.kind.assignor}
        else:
            settings |= {"partition.assignment.strategy": self.kind.assignor, **_QUICK}
        consumer = Librdkafka(settings)
        consumer.subscribe(list(self.topics))
        while not stop.is_set():
            consumer.poll(0.1)
        consumer.close()

    def _python(self, stop: threading.Event, client: str) -> None:
        consumer = KafkaConsumer(
            *self.topics, bootstrap_servers=self.broker.bootstrap, group_id=self.group, client_id=client,
            partition_assignment_strategy=[_IN_PYTHON[self.kind.assignor]], session_timeout_ms=6000, heartbeat_interval_ms=300,
        )  # fmt: skip
        # kafka-python 3.0.12: a leader that learns of partitions after it has joined may be left out for good (a poll that ends
        # between the answers to JoinGroup and SyncGroup); one that knows them from the beginning does not join again.
        assert all(consumer.partitions_for_topic(topic) for topic in self.topics)
        while not stop.is_set():
            consumer.poll(100)
        consumer.close()

    def stable(self, reader: KafkaGroupReader, count: int, partitions: int) -> GroupMembers:
        """Wait until so many members share so many partitions and nothing changes any more, and return what they hold."""
        before: GroupMembers | None = None
        calm_at = 0.0

        def calm(found: GroupMembers | None) -> bool:
            nonlocal before, calm_at
            same = found is not None and before is not None and found.members == before.members
            if not same or found is None or not _complete(found, count, partitions):
                calm_at = time.monotonic() + _CALM_S
            before = found
            return time.monotonic() > calm_at

        found = until(f"{count} members keep {partitions} partitions", lambda: reader.members(self.group), calm)
        assert found is not None
        return found


def _complete(found: GroupMembers, count: int, partitions: int) -> bool:
    held: list[TopicPartition] = [p for m in found.members for p in m.assigned]
    return found.state == "STABLE" and len(found.members) == count and len(held) == len(set(held)) == partitions


@contextmanager
def members(broker: Broker, kind: Kind, topics: tuple[str, ...]) -> Iterator[tuple[Members, Callable[[int, int], GroupMembers]]]:
    """Run a group; yields it and ``settled(count, partitions)``, which changes its size and waits until it is stable."""
    made = Members(broker=broker, kind=kind, topics=topics)
    reader = KafkaGroupReader(broker.connection(), (made.group,), SystemClock(), 0.1)

    def settled(count: int, partitions: int) -> GroupMembers:
        made.become(count)
        return made.stable(reader, count, partitions)

    try:
        yield made, settled
    finally:
        made.become(0)
        reader.close()
