"""Real consumers in pods: a plan's slots, the pods that fill them, what they consume, and how they go, on a real broker."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.control_log.publisher import KafkaControl
from autoscaler.devtools.broker import Broker
from autoscaler.model import GroupState, TopicPartition
from autoscaler.ports import PlanIntent
from tests.contracts.pool_contract import NOBODY, call, look, slots
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.namespace import Namespace
from tests.kubernetes.pool_world import PodWorld
from tests.until import until

PARTITIONS, RECORDS = 6, 50
LEASE_S = 30.0  # a worker that is over sooner is so by the platform's evidence


@dataclass
class Group:
    """A group of pods, looked at as a cycle does: the pool first, then the log."""

    world: PodWorld
    control: KafkaControl
    producer: Producer
    topic: str
    logs: Path
    produced: int = 0

    def until(self, wanted: Callable[[GroupState], bool], *requested: int, releasable: frozenset[int] = NOBODY) -> GroupState:
        def cycle() -> GroupState:
            self.control.ended(call(self.world, *requested, releasable=releasable).ended)
            return self.control.observe()

        return until("the group as wanted", cycle, wanted)

    def give(self, *owners: int) -> None:
        target = {TopicPartition(topic=self.topic, partition=n): slot for n, slot in enumerate(owners)}
        self.control.publish(PlanIntent(target=target, requested=frozenset(owners), summary=str(owners)))

    def produce(self) -> None:
        for partition in range(PARTITIONS):
            for _ in range(RECORDS):
                self.producer.produce(self.topic, b"x" * 100, partition=partition)
        assert self.producer.flush(30) == 0
        self.produced += PARTITIONS * RECORDS

    def processed(self) -> Counter[tuple[int, int]]:
        """Return how often each record was processed, by partition and offset."""
        lines = [x.split() for f in self.logs.glob("processed-*.log") for x in f.read_text(encoding="utf-8").splitlines()]
        return Counter((int(x[1]), int(x[2])) for x in lines)


@pytest.fixture
def group_of_pods(  # noqa: PLR0917
    broker: Broker,
    make_topic: Callable[..., str],
    group: str,
    control_plane: ControlPlane,
    nodes: tuple[Kubelet, ...],
    namespace: Namespace,
    tmp_path: Path,
) -> Iterator[Group]:
    topic = make_topic(partitions=PARTITIONS)
    world = PodWorld(control_plane, nodes, namespace, tmp_path)
    environment = {
        "AUTOSCALER_BOOTSTRAP": broker.bootstrap, "AUTOSCALER_GROUP": "g", "AUTOSCALER_TOPICS": topic,
        "AUTOSCALER_LEASE_S": str(LEASE_S), "CONSUMER_LOG_DIR": str(tmp_path),
    }  # fmt: skip
    world.deployment(image="consumer", environment=[{"name": k, "value": v} for k, v in environment.items()])
    control = KafkaControl(
        connection=broker.connection(), group="g", topics=(topic,), reset_policy="earliest", lease_s=LEASE_S,
        replication_factor=None, slot_of=world.pool.slot_of, clock=SystemClock(),
    )  # fmt: skip
    look(world)
    yield Group(world, control, Producer(broker.connection()), topic, tmp_path)
    control.close()
    world.close()


def test_pods_take_partitions_are_replaced_and_go_without_loss_or_repetition(group_of_pods: Group) -> None:
    group, world = group_of_pods, group_of_pods.world
    group.produce()
    group.give(0, 0, 0, 1, 1, 1)
    state = group.until(lambda s: [w.phase for w in s.workers] == ["active"] * 2 and {w.slot for w in s.workers} == {0, 1}, 0, 1)
    assert {w.slot: w.instance for w in state.workers} == world.pool.observe().running, "a worker says its pod's uid"
    group.give(0, 0, 0, 1, 1, 1)
    group.until(lambda s: not s.pending and sum(w.records for w in s.workers) == group.produced, 0, 1)

    world.kill(1)
    began = time.monotonic()
    group.until(lambda s: len(s.orphans) == PARTITIONS // 2, 0, 1)
    group.give(0, 0, 0, 0, 0, 0)
    group.until(lambda s: not s.pending and not s.orphans, 0, 1)
    assert time.monotonic() - began < LEASE_S, "by the evidence of its pod, not by its lease"
    group.produce()

    group.until(lambda s: {w.slot for w in s.workers if w.phase == "active"} == {0, 1}, 0, 1)
    group.give(0, 0, 0, 1, 1, 1)
    group.until(lambda s: not s.pending and {len(w.owned) for w in s.workers} == {3}, 0, 1)
    group.produce()
    group.give(0, 0, 0, 0, 0, 0)
    state = group.until(lambda s: not s.pending and {w.slot: len(w.owned) for w in s.workers} == {0: 6, 1: 0}, 0)
    group.until(lambda s: [w.slot for w in s.workers] == [0], 0, releasable=slots(1))
    assert world.replicas() == 1
    until("all are processed", lambda: len(group.processed()), lambda count: count == group.produced)
    after = {times for (_, offset), times in group.processed().items() if offset >= RECORDS}
    assert after == {1}, "what was moved by a plan is never repeated; what was in hand when a pod died may be"
