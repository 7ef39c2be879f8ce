"""Controller, pool and the real worker together: the example application as processes, moved, killed and drained."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.control_log.publisher import KafkaControl
from autoscaler.adapters.workers.process_pool import ProcessPool
from autoscaler.config.settings import ProcessWorkers
from autoscaler.devtools.broker import Broker
from autoscaler.handover.records import AGE_BOUNDS_S
from autoscaler.model import GroupState, HandoverDone, OutOfRange, TopicPartition
from autoscaler.ports import PlanIntent
from tests.contracts.pool_contract import NOBODY, slots
from tests.contracts.test_pool import carrying
from tests.until import until

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 6
RECORDS = 50


@dataclass
class Group:
    """A group under control, looked at as a cycle does: the pool first, then the log."""

    pool: ProcessPool
    control: KafkaControl
    topic: str
    logs: Path

    def until(self, wanted: Callable[[GroupState], bool], seen: list[HandoverDone] | None = None) -> GroupState:
        def look() -> GroupState:
            self.control.ended(self.pool.observe().ended)
            state = self.control.observe()
            if seen is not None:
                seen.extend(state.completed)
            return state

        return until("the group as wanted", look, wanted)

    def give(self, *owners: int) -> None:
        partitions = [TopicPartition(topic=self.topic, partition=n) for n in range(PARTITIONS)]
        target = dict(zip(partitions, owners, strict=True))
        self.control.publish(PlanIntent(target=target, requested=frozenset(owners), summary=str(owners)))

    def processed(self) -> list[tuple[int, int]]:
        """Return (partition, offset) of every record that any worker has processed."""
        lines = [x.split() for f in self.logs.glob("processed-*.log") for x in f.read_text(encoding="utf-8").splitlines()]
        return [(int(x[1]), int(x[2])) for x in lines]


@pytest.fixture
def running(broker: Broker, make_topic: Callable[..., str], group: str, tmp_path: Path) -> Iterator[Group]:
    """Return a group of two workers that share six partitions with records in them."""
    topic = make_topic(partitions=PARTITIONS)
    produce(broker, topic)
    settings = ProcessWorkers(
        command=("{python}", str(ROOT / "docs" / "examples" / "consumer.py")), environment={"CONSUMER_LOG_DIR": str(tmp_path)}
    )
    environment = {
        "AUTOSCALER_BOOTSTRAP": broker.bootstrap, "AUTOSCALER_GROUP": group, "AUTOSCALER_TOPICS": topic,
        "AUTOSCALER_LEASE_S": "3", "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    clock = SystemClock()
    pool = ProcessPool(group=group, settings=settings, directory=tmp_path / "workers", environment=environment, clock=clock)
    control = KafkaControl(
        connection=broker.connection(), group=group, topics=(topic,), reset_policy="earliest", lease_s=3.0,
        replication_factor=None, slot_of=pool.slot_of, clock=clock,
    )  # fmt: skip
    made = Group(pool, control, topic, tmp_path)
    try:
        made.give(0, 0, 0, 1, 1, 1)
        pool.apply(slots(0, 1), expected=NOBODY, releasable=NOBODY)
        made.until(lambda s: [w.phase for w in s.workers] == ["active", "active"])
        made.give(0, 0, 0, 1, 1, 1)
        made.until(lambda s: not s.pending and len(s.owner) == PARTITIONS)
        yield made
    finally:
        pool.stop_all(10.0)
        pool.close()
        control.close()


def produce(broker: Broker, topic: str) -> None:
    producer = Producer(broker.connection())
    for partition in range(PARTITIONS):
        for _ in range(RECORDS):
            producer.produce(topic, b"x" * 100, partition=partition)
    assert producer.flush(30) == 0


def committed(broker: Broker, group: Group, name: str) -> list[int]:
    reader = Consumer({**broker.connection(), "group.id": name})
    try:
        asked = [KafkaPartition(group.topic, n) for n in range(PARTITIONS)]
        return [tp.offset for tp in reader.committed(asked, timeout=30)]
    finally:
        reader.close()


def test_moves_lose_nothing_and_repeat_nothing(running: Group, broker: Broker, group: str) -> None:
    seen: list[HandoverDone] = []
    for owners in ((0, 0, 1, 1, 1, 1), (1, 1, 1, 0, 0, 0), (0, 1, 0, 1, 0, 1)):
        produce(broker, running.topic)
        running.give(*owners)
        running.until(lambda s: not s.pending, seen)
    running.until(lambda s: sum(w.records for w in s.workers) >= 4 * RECORDS * PARTITIONS)
    running.pool.apply(NOBODY, expected=slots(0, 1), releasable=slots(0, 1))
    running.until(lambda s: not s.workers)
    done = running.processed()
    assert sorted(done) == [(p, o) for p in range(PARTITIONS) for o in range(4 * RECORDS)]
    assert committed(broker, running, group) == [4 * RECORDS] * PARTITIONS
    moved = [d for d in seen if d.epoch > 2]
    assert [d.epoch for d in moved] == [3] + [4] * 5 + [5] * 4, "only what changes hands"
    assert all(d.pause_s is not None for d in moved)


def test_workers_tell_once_of_each_record_how_old_it_was(running: Group, broker: Broker) -> None:
    running.until(lambda s: sum(w.records for w in s.workers) >= RECORDS * PARTITIONS)
    produce(broker, running.topic)
    told: list[tuple[int, int]] = []

    def all_processed(state: GroupState) -> bool:
        told.extend(x for w in state.workers for x in w.ages)
        return sum(w.records for w in state.workers) >= 2 * RECORDS * PARTITIONS

    running.until(all_processed)
    assert sum(count for _, count in told) == RECORDS * PARTITIONS
    assert all(0 <= place <= len(AGE_BOUNDS_S) for place, _ in told)


def test_a_killed_worker_is_over_at_the_next_look_and_its_partitions_go_on_elsewhere(running: Group, broker: Broker) -> None:
    running.until(lambda s: sum(w.records for w in s.workers) >= RECORDS * PARTITIONS)
    instance = running.pool.observe().running[1]
    (process,) = carrying(instance)
    process.kill()
    state = running.until(lambda s: len(s.workers) == 1)
    assert state.orphans == {TopicPartition(topic=running.topic, partition=n) for n in (3, 4, 5)}
    assert running.control._state.over[next(w for w in running.control._state.over)] == "platform"
    running.give(0, 0, 0, 0, 0, 0)
    running.until(lambda s: not s.pending and not s.orphans)
    produce(broker, running.topic)
    everything = {(p, o) for p in range(PARTITIONS) for o in range(2 * RECORDS)}
    until("all is processed", lambda: set(running.processed()) == everything)


def test_a_restarted_worker_gets_its_slot_back(running: Group) -> None:
    instance = running.pool.observe().running[1]
    (process,) = carrying(instance)
    process.kill()
    running.until(lambda s: len(s.orphans) == 3)

    def back(instances: set[str | None]) -> bool:
        running.pool.apply(slots(0, 1), expected=frozenset(running.pool.observe().running), releasable=NOBODY)
        return len(instances) == 2 and instance not in instances

    running.until(lambda s: back({w.instance for w in s.workers if w.phase == "active"}))
    running.give(0, 0, 0, 1, 1, 1)
    state = running.until(lambda s: not s.pending and not s.orphans)
    assert {w.slot: len(w.owned) for w in state.workers} == {0: 3, 1: 3}


def test_records_deleted_before_they_were_read_are_skipped_by_the_plan_and_only_then(
    running: Group, broker: Broker, group: str
) -> None:
    running.until(lambda s: sum(w.records for w in s.workers) >= RECORDS * PARTITIONS)
    running.pool.apply(NOBODY, expected=slots(0, 1), releasable=slots(0, 1))
    running.until(lambda s: not s.workers)
    produce(broker, running.topic)
    gone, start = TopicPartition(topic=running.topic, partition=0), RECORDS + 20
    admin = AdminClient(broker.connection())
    admin.delete_records([KafkaPartition(*gone, start)])[KafkaPartition(*gone)].result(30)
    until("they end, which is later than they leave the group", lambda: not running.pool.observe().running)
    running.pool.apply(slots(0, 1), expected=NOBODY, releasable=NOBODY)
    running.until(lambda s: [w.phase for w in s.workers] == ["active", "active"])
    running.give(0, 0, 0, 1, 1, 1)
    state = running.until(lambda s: bool(s.out_of_range) and sum(w.records for w in s.workers) >= RECORDS * (PARTITIONS - 1))
    assert (state.out_of_range, state.pending) == ({gone: OutOfRange(offset=RECORDS, start=None)}, frozenset())
    assert committed(broker, running, group)[0] == RECORDS, "nobody has jumped"
    running.control.publish(PlanIntent(target=state.owner, requested=slots(0, 1), summary="", resets={gone: (RECORDS, start)}))
    running.until(lambda s: not s.out_of_range and sum(w.records for w in s.workers) >= RECORDS * PARTITIONS - 20)
    expected = {(p, o) for p in range(PARTITIONS) for o in range(2 * RECORDS)} - {(0, o) for o in range(RECORDS, start)}
    assert sorted(running.processed()) == sorted(expected), "the others went on, nothing came twice"
    until("all is committed", lambda: committed(broker, running, group)[0], lambda offset: offset == 2 * RECORDS)
