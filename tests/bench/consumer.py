"""What the worker library costs: throughput against a bare consume loop, and how long a moved partition pauses.

``python tests/bench/consumer.py`` starts the embedded broker; ``--bootstrap`` uses one that runs. Pairs of runs over the same
records, in alternating order; the median of the ratios is reported, with the work done per record (``--work-us``) in both loops.
"""

import argparse
import statistics
import sys
import threading
import time
import uuid
import zlib
from contextlib import ExitStack

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from autoscaler.devtools.broker import Broker
from autoscaler.handover.codec import decode, encode, partition_for
from autoscaler.handover.records import CONTROL_TOPIC, HEARTBEAT_TOPIC, Epoch, Grant, Heartbeat, Plan, Tp, kafka_id
from autoscaler.worker import ManagedConsumer

PARTITIONS = 8
LOG_PARTITIONS = 4


def work(message: Message, rounds: int) -> int:
    """Stand in for an application: checksums over the payload."""
    found, value = 0, message.value() or b""
    for _ in range(rounds):
        found = zlib.crc32(value, found)
    return found


def rounds_for(micros: float, size: int) -> int:
    """Return how many checksums of a record of this size cost this many microseconds."""
    value, began = b"x" * size, time.perf_counter()
    for _ in range(20_000):
        zlib.crc32(value)
    return max(0, round(micros / ((time.perf_counter() - began) / 20_000 * 1e6)))


def fill(bootstrap: str, admin: AdminClient, records: int, size: int) -> str:
    """Make a topic with that many records."""
    topic = f"bench-{uuid.uuid4().hex[:6]}"
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for i in range(records):
        producer.produce(topic, bytes(size), partition=i % PARTITIONS)
        producer.poll(0)
    producer.flush()
    return topic


def bare(bootstrap: str, topic: str, records: int, rounds: int) -> float:
    """Return records per second of a plain loop, from its first record to its last."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "enable.auto.commit": False, "fetch.wait.max.ms": 100}
    )
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(PARTITIONS)])
    done, began = 0, 0.0
    while done < records:
        messages = consumer.consume(256, 0.05)
        began = began or (time.perf_counter() if messages else 0.0)
        for message in messages:
            if message.error() is None:
                work(message, rounds)
                done += 1
    rate = done / (time.perf_counter() - began)
    consumer.close()
    return rate


def topics(admin: AdminClient) -> None:
    """Create the protocol's topics if the broker has none."""
    there = admin.list_topics().topics
    wanted = [NewTopic(t, LOG_PARTITIONS, 1) for t in (CONTROL_TOPIC, HEARTBEAT_TOPIC) if t not in there]
    for future in (admin.create_topics(wanted) if wanted else {}).values():
        future.result()


def grant_all(bootstrap: str, admin: AdminClient, group: str, topic: str) -> None:
    """Publish a plan that gives everything to the first worker heard of."""
    where = partition_for(group, LOG_PARTITIONS)
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench"})
    reader.assign([TopicPartition(HEARTBEAT_TOPIC, where, OFFSET_BEGINNING)])
    worker = None
    while worker is None:
        message = reader.poll(1)
        said = decode(message.key(), message.value()).record if message is not None else None
        worker = said.worker if isinstance(said, Heartbeat) and said.group == group else None
    reader.close()
    found = admin.describe_topics(TopicCollection([CONTROL_TOPIC, topic]))
    topic_id = kafka_id(str(found[topic].result().topic_id))
    tps = [Tp(topic_id, p) for p in range(PARTITIONS)]
    plan = Plan(
        group=group,
        epoch=Epoch(kafka_id(str(found[CONTROL_TOPIC].result().topic_id)), 1),
        topics={topic_id: topic},
        grants={tp: Grant(owner=worker, epoch=1) for tp in tps},
        waits={},
        starts=dict.fromkeys(tps, 0),
        leases_s={},
        requested=(),
        summary="",
        at=0.0,
    )
    key, value = encode(plan)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(CONTROL_TOPIC, value, key, where)
    producer.flush()


def managed(bootstrap: str, admin: AdminClient, topic: str, records: int, rounds: int) -> float:
    """Return records per second of the library's loop, from its first record to its last."""
    group, done, began = f"bench-{uuid.uuid4().hex[:6]}", 0, 0.0
    with ManagedConsumer({"bootstrap.servers": bootstrap}, group=group, topics=[topic], name="w") as consumer:
        threading.Thread(target=grant_all, args=(bootstrap, admin, group, topic), daemon=True).start()
        for batch in consumer:
            began = began or time.perf_counter()
            for message in batch:
                work(message, rounds)
                done += 1
            if done >= records:
                rate = done / (time.perf_counter() - began)
                consumer.stop()
    return rate


def main() -> int:
    """Run the pairs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=1000, help="payload bytes of a record")
    parser.add_argument("--work-us", type=float, nargs="*", default=[0.0, 10.0, 50.0])
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args()
    with ExitStack() as stack:
        bootstrap = given.bootstrap or stack.enter_context(Broker(heap_mb=256)).bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap})
        topics(admin)
        topic = fill(bootstrap, admin, given.records, given.size)
        print("work/record  bare rec/s  managed rec/s  ratio (median of pairs)")
        for micros in given.work_us:
            rounds = rounds_for(micros, given.size)
            pairs = []
            for i in range(given.pairs):
                runs = [("bare", 0.0), ("managed", 0.0)] if i % 2 else [("managed", 0.0), ("bare", 0.0)]
                rates = {
                    name: bare(bootstrap, topic, given.records, rounds)
                    if name == "bare"
                    else managed(bootstrap, admin, topic, given.records, rounds)
                    for name, _ in runs
                }
                pairs.append((rates["bare"], rates["managed"]))
            ratio = statistics.median(m / b for b, m in pairs)
            b, m = (statistics.median(x) for x in zip(*pairs, strict=True))
            print(f"{micros:8.0f} us  {b:10.0f}  {m:13.0f}  {ratio:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
