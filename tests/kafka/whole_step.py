"""A whole step of a managed group on a guarded broker, with the permissions that docs/reference/permissions.md names."""

import json
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.control_log.publisher import KafkaControl
from autoscaler.adapters.workers.process_pool import ProcessPool
from autoscaler.config.settings import ProcessWorkers
from autoscaler.devtools.broker import Broker
from autoscaler.handover.records import CONTROL_TOPIC, HEARTBEAT_TOPIC
from autoscaler.model import GroupState, TopicPartition
from autoscaler.ports import PlanIntent
from autoscaler.streaming.lag import GroupRules
from tests.contracts.pool_contract import NOBODY, slots
from tests.kafka.measuring import Measured
from tests.kafka.permissions import CLUSTER, DESCRIBE, GROUP, READ, TOPIC, TRANSACTION, WRITE, Grant
from tests.until import until

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS, RECORDS = 4, 50
OWN = (CONTROL_TOPIC, HEARTBEAT_TOPIC)


def of_job(topic: str, group: str) -> list[Grant]:
    """Return the table's rows for the job."""
    operations = (AclOperation.CREATE, READ, WRITE, DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    return [
        (TOPIC, topic, DESCRIBE), (GROUP, group, DESCRIBE), (CLUSTER, "kafka-cluster", DESCRIBE),
        *((TOPIC, name, operation) for name in OWN for operation in operations),
        (TRANSACTION, f"{CONTROL_TOPIC}/", WRITE), (TRANSACTION, f"{CONTROL_TOPIC}/", DESCRIBE),
    ]  # fmt: skip


def of_worker(topic: str, group: str) -> list[Grant]:
    """Return the table's rows for a worker."""
    return [
        (TOPIC, topic, READ), (GROUP, group, READ), (TOPIC, CONTROL_TOPIC, READ),
        *((TOPIC, name, WRITE) for name in OWN),
    ]  # fmt: skip


def controller(broker: Broker, topic: str, group: str) -> KafkaControl:
    return KafkaControl(
        connection=broker.connection("job"), group=group, topics=(topic,), reset_policy="earliest", lease_s=3.0,
        replication_factor=None, slot_of=lambda name: int(name.rsplit("-", 1)[1]), clock=SystemClock(),
    )  # fmt: skip


def plan(topic: str, *owners: int) -> PlanIntent:
    target = {TopicPartition(topic=topic, partition=n): s for n, s in enumerate(owners)}
    return PlanIntent(target=target, requested=frozenset(owners), summary=str(owners))


def observed(pool: ProcessPool, control: KafkaControl, wanted: Callable[[GroupState], bool]) -> GroupState:
    def look() -> GroupState:
        control.ended(pool.observe().ended)
        return control.observe()

    return until("the group as wanted", look, wanted)


def take_a_whole_step(broker: Broker, topic: str, group: str, directory: Path) -> None:
    """Measure, publish plans, start and end workers, and let them hand over: as ``job`` and ``worker``."""
    producer = Producer(broker.connection())
    for number in range(RECORDS * PARTITIONS):
        producer.produce(topic, b"x" * 100, partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    environment = {
        "AUTOSCALER_CONNECTION": json.dumps(broker.connection("worker")), "AUTOSCALER_GROUP": group,
        "AUTOSCALER_TOPICS": topic, "AUTOSCALER_LEASE_S": "3", "CONSUMER_LOG_DIR": str(directory), "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    settings = ProcessWorkers(command=("{python}", str(ROOT / "docs" / "examples" / "consumer.py")))
    pool = ProcessPool(
        group=group, settings=settings, directory=directory / "workers", environment=environment, clock=SystemClock()
    )
    control = controller(broker, topic, group)
    try:
        control.publish(plan(topic, 0, 0, 0, 0))
        pool.apply(slots(0), expected=NOBODY, releasable=NOBODY)
        observed(pool, control, lambda s: [w.phase for w in s.workers] == ["active"])
        control.publish(plan(topic, 0, 0, 0, 0))
        observed(pool, control, lambda s: not s.pending and len(s.owner) == PARTITIONS)
        pool.apply(slots(0, 1), expected=slots(0), releasable=NOBODY)
        observed(pool, control, lambda s: [w.phase for w in s.workers] == ["active", "active"])
        control.publish(plan(topic, 0, 0, 1, 1))
        state = observed(pool, control, lambda s: not s.pending and sum(w.records for w in s.workers) >= RECORDS * PARTITIONS)
        assert {w.slot: len(w.owned) for w in state.workers} == {0: 2, 1: 2}
        pool.apply(NOBODY, expected=slots(0, 1), releasable=slots(0, 1))
        observed(pool, control, lambda s: not s.workers)
    finally:
        pool.stop_all(10.0)
        pool.close()
        control.close()
    with Measured(broker.connection("job"), (GroupRules(group=group, topics=(topic,)),)) as measured:
        found = measured.until(lambda s: s.known)
        assert [p.lag_records for p in found.loads] == [0] * PARTITIONS, "everything is committed"
        assert all(f["size_bytes"] > 0 for f in measured.facts)
