"""How long a worker takes to join after a week of a large group, and what the protocol sends for each worker.

A week is written as fast as the broker takes it: by default 200 workers with 2,000 partitions, a plan every minute that moves
ten of them, the releases that follow, a deployment of all workers every day, and the deletions that the controller makes (rule
11). The broker compacts it by the settings that the controller gives the topic, but that deletions leave it sooner. Then a real
worker joins, several times.
``python -m tests.bench.joining``.
"""

import argparse
import logging
import random
import statistics
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from autoscaler.adapters.kafka.control_topics import ensure_control_topics
from autoscaler.devtools.broker import Broker
from autoscaler.handover.codec import decode, encode, encode_key, key_of, partition_for
from autoscaler.handover.records import (
    CONTROL_TOPIC,
    HEARTBEAT_TOPIC,
    LEASE_S,
    Epoch,
    Grant,
    Heartbeat,
    Incarnation,
    Left,
    Plan,
    Released,
    Tp,
    Wait,
    kafka_id,
)
from autoscaler.worker import ManagedConsumer
from tests.bench.handover import make_topic
from tests.until import until

GROUP, TOPIC = "bench-week", "bench-week-input"
MOVED = 10
PLANS_A_DAY = 24 * 60
CLEANED_S = 45.0  # three times the cleaner's pause
_Pair = tuple[bytes, bytes | None]


@dataclass
class Week:
    """The group as it goes through its plans; ``records`` gives what is written for one of them."""

    control_id: str
    topic_id: str
    workers: int
    partitions: int
    dice: random.Random = field(default_factory=lambda: random.Random(11))
    number: int = 0
    names: list[Incarnation] = field(default_factory=list)
    grants: dict[Tp, Grant] = field(default_factory=dict)
    needed: list[tuple[str | int, ...]] = field(default_factory=list)  # keys of releases
    spent: list[tuple[str | int, ...]] = field(default_factory=list)

    def records(self) -> Iterator[_Pair]:
        """Give the records of one minute: now and then a deployment, then a plan, then its releases."""
        if self.number % PLANS_A_DAY == 0:
            yield from self._deploy()
        self.number += 1
        yield from ((encode_key(key), None) for key in self.spent)
        moved = self.dice.sample(sorted(self.grants), MOVED)
        waits: dict[Tp, tuple[Wait, ...]] = {tp: (Wait(worker=self.grants[tp].owner, epoch=self.number),) for tp in moved}
        for tp in moved:
            self.grants[tp] = Grant(owner=self.dice.choice(self.names), epoch=self.number)
        yield encode(self.plan(waits))
        said = [self._release(tp, w.worker) for tp, (w, *_) in waits.items() if w.worker != self.grants[tp].owner]
        yield from map(encode, said)
        self.spent, self.needed = self.needed, [key_of(r) for r in said]  # the next plan does not wait for them any more

    def _deploy(self) -> Iterator[_Pair]:
        gone, self.names = self.names, [Incarnation(f"orders-{n}", uuid.uuid4().hex) for n in range(self.workers)]
        for old in gone:
            yield encode(Left(group=GROUP, worker=old, control_id=self.control_id))
        tps = [Tp(self.topic_id, p) for p in range(self.partitions)]
        self.grants = {tp: Grant(owner=self.names[n % self.workers], epoch=self.number) for n, tp in enumerate(tps)}
        for old in gone:
            yield encode_key(key_of(Left(group=GROUP, worker=old, control_id=self.control_id))), None

    def _release(self, tp: Tp, worker: Incarnation) -> Released:
        return Released(
            group=GROUP, tp=tp, worker=worker, control_id=self.control_id, epoch=self.number, offset=self.number * 1000
        )

    def plan(self, waits: dict[Tp, tuple[Wait, ...]]) -> Plan:
        """Return the plan of this minute."""
        return Plan(
            group=GROUP,
            epoch=Epoch(self.control_id, self.number),
            topics={self.topic_id: TOPIC},
            grants=self.grants,
            waits=waits,
            starts={},
            leases_s=dict.fromkeys(self.names, LEASE_S),
            requested=tuple(range(self.workers)),
            summary="x" * 500,
            at=0.0,
        )


def hasten(admin: AdminClient) -> None:
    """Let the broker keep deletions for two seconds: more of this week than an hour is of a real one."""
    kept = ConfigEntry("delete.retention.ms", "2000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, CONTROL_TOPIC, incremental_configs=[kept])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def write(bootstrap: str, week: Week, plans: int, partition: int) -> None:
    """Write so many minutes, each plan in a transaction of its own."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "bench-week", "linger.ms": 0})
    producer.init_transactions(30)
    for number in range(plans):
        producer.begin_transaction()
        for key, value in week.records():
            producer.produce(CONTROL_TOPIC, value, key, partition)
        producer.commit_transaction(30)
        if number % PLANS_A_DAY == PLANS_A_DAY - 1:
            sys.stderr.write(f"day {number // PLANS_A_DAY + 1} is written\n")


def size(directory: Path, topic: str, partition: int) -> int:
    """Return the bytes of a partition's log on disk."""
    return sum(f.stat().st_size for f in directory.glob(f"{topic}-{partition}/*.log"))


def compacted(directory: Path, partition: int, limit_s: float = 300.0) -> int:
    """Wait until compaction leaves the log's size as it is, and return that."""
    seen: list[tuple[int, float]] = []  # sizes, and since when

    def for_s() -> float:
        now = size(directory, CONTROL_TOPIC, partition)
        if not seen or seen[-1][0] != now:
            seen.append((now, time.monotonic()))
        return time.monotonic() - seen[-1][1]

    until("the size stays as it is", for_s, lambda s: s > CLEANED_S, explain=lambda: seen, within_s=limit_s, every_s=1.0)
    return seen[-1][0]


class Stages(logging.Handler):
    """Notes when the worker says that a stage of joining is reached."""

    def __init__(self) -> None:
        """Listen to the worker's log."""
        super().__init__(logging.DEBUG)
        self.at: dict[str, float] = {}
        logger = logging.getLogger("autoscaler.worker")
        logger.setLevel(logging.DEBUG)
        logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Remember the first time of each stage."""
        said = record.getMessage()
        if said.startswith("joining: "):
            self.at.setdefault(said.removeprefix("joining: "), time.perf_counter())


def join(bootstrap: str, stages: Stages, stay_s: float) -> tuple[float, float]:
    """Let a worker join; return seconds until it has read the control log, and until all of it is ready."""
    stages.at.clear()
    began = time.perf_counter()
    with ManagedConsumer(
        {"bootstrap.servers": bootstrap}, group=GROUP, topics=[TOPIC], name="new", lease_s=LEASE_S, handle_sigterm=False
    ) as consumer:
        thread = threading.Thread(target=lambda: [None for _ in consumer])
        thread.start()
        until("it has joined", lambda: len(stages.at) >= 2, within_s=120, every_s=0.001)
        time.sleep(stay_s)
        consumer.stop()
        thread.join()
    return stages.at["the control log is read"] - began, max(stages.at.values()) - began


def heartbeats(bootstrap: str, partition: int) -> tuple[int, int]:
    """Return how many heartbeats lie in the log, and their bytes."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.partition.eof": True})
    reader.assign([TopicPartition(HEARTBEAT_TOPIC, partition, OFFSET_BEGINNING)])
    count = total = 0
    while True:
        message = reader.poll(10)
        if message is None or message.error() is not None:  # the end
            reader.close()
            return count, total
        if isinstance(decode(message.key(), message.value()).record, Heartbeat):
            count += 1
            total += len(message.key() or b"") + len(message.value() or b"")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--joins", type=int, default=7)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, Broker(Path(temporary), heap_mb=512) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        made = ensure_control_topics(admin, lease_s=LEASE_S, replication_factor=1)
        hasten(admin)
        make_topic(broker.bootstrap, TOPIC, args.partitions)
        partition = partition_for(GROUP, made[CONTROL_TOPIC].partitions)
        week = Week(kafka_id(made[CONTROL_TOPIC].topic_id), uuid.uuid4().hex[:22], args.workers, args.partitions)
        plans = int(args.days * PLANS_A_DAY)
        write(broker.bootstrap, week, plans, partition)
        left = compacted(broker.nodes[0].data, partition)
        stages = Stages()
        joins = [join(broker.bootstrap, stages, 0.0) for _ in range(args.joins)]
        before = heartbeats(broker.bootstrap, partition)
        stay = 30.0
        join(broker.bootstrap, stages, stay)
        count, total = (b - a for a, b in zip(before, heartbeats(broker.bootstrap, partition), strict=True))
        plan = len(encode(week.plan({}))[1])
    hour = 60 * plan / 1e6
    for what, figure in (
        (f"control log after {plans} plans of {plan / 1e3:.0f} kB, compacted", f"{left / 1e6:.1f} MB"),
        (f"join until the control log is read, median / most of {args.joins}", _seconds([x[0] for x in joins])),
        ("... until the worker is ready", _seconds([x[1] for x in joins])),
        (f"heartbeats of a worker in {stay:.0f} s", f"{count}, {total} bytes: {total / stay * 3.6:.0f} kB/h"),
        ("what a worker reads of the control log at a plan a minute", f"{hour:.1f} MB/h"),
    ):
        sys.stdout.write(f"{what}: {figure}\n")


def _seconds(times: list[float]) -> str:
    return f"{statistics.median(times):.2f} / {max(times):.2f} s"


if __name__ == "__main__":
    main()
