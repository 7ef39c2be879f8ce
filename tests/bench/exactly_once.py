"""What a transaction per batch costs: records copied per second, exactly once against at least once.

``python -m tests.bench.exactly_once`` starts the embedded broker. Both copy every record to another topic with the library. The
one at least once has an idempotent producer of its own and flushes it before the next batch: what it must do so that no offset is
committed before its output is there. Pairs of runs in alternating order; the median of the ratios is reported.
"""

import argparse
import statistics
import sys
import threading
import time
import uuid
from functools import partial

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from autoscaler.devtools.broker import Broker
from autoscaler.worker import Batch, ManagedConsumer
from tests.bench.consumer import PARTITIONS, fill, grant_all, topics


def plainly(producer: Producer, to: str, batch: Batch) -> int:
    """Copy a batch, and be sure of it."""
    done = 0
    for message in batch:
        producer.produce(to, message.value(), message.key(), message.partition() or 0)
        done += 1
    producer.flush()
    return done


def with_offsets(to: str, batch: Batch) -> int:
    """Copy a batch in its transaction."""
    done = 0
    for message in batch:
        batch.produce(to, message.value(), key=message.key(), partition=message.partition())
        done += 1
    return done


def copied(bootstrap: str, admin: AdminClient, topic: str, records: int, batch_bytes: int, *, once: bool) -> float:
    """Return records per second, from the first record to the last."""
    group, to, done, began = f"bench-{uuid.uuid4().hex[:6]}", f"bench-{uuid.uuid4().hex[:6]}", 0, 0.0
    admin.create_topics([NewTopic(to, PARTITIONS, 1)])[to].result()
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    copy = partial(with_offsets, to) if once else partial(plainly, producer, to)
    with ManagedConsumer(
        {"bootstrap.servers": bootstrap}, group=group, topics=[topic], name="w", exactly_once=once, batch_size_bytes=batch_bytes
    ) as consumer:
        threading.Thread(target=grant_all, args=(bootstrap, admin, group, topic), daemon=True).start()
        for batch in consumer:
            if done >= records:  # the last batch counts too, transaction included
                rate = done / (time.perf_counter() - began)
                break
            began = began or time.perf_counter()
            done += copy(batch)
            if done >= records:
                producer.produce(topic, b"the end", partition=0)
                producer.flush()
    admin.delete_topics([to])[to].result()
    return rate


def main() -> int:
    """Run the pairs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=60_000)
    parser.add_argument("--size", type=int, default=1000, help="payload bytes of a record")
    parser.add_argument("--batch-kb", type=int, nargs="*", default=[32, 256, 1000])
    parser.add_argument("--pairs", type=int, default=3)
    given = parser.parse_args()
    with Broker(heap_mb=256) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        topics(admin)
        print("batch      at least once/s  exactly once/s  ratio (median of pairs)")
        for kb in given.batch_kb:
            pairs = []
            for i in range(given.pairs):
                rates = {}
                for once in (i % 2 == 0, i % 2 == 1):
                    topic = fill(broker.bootstrap, admin, given.records, given.size)
                    rates[once] = copied(broker.bootstrap, admin, topic, given.records, kb * 1000, once=once)
                    admin.delete_topics([topic])[topic].result()
                pairs.append((rates[False], rates[True]))
            ratio = statistics.median(o / p for p, o in pairs)
            p, o = (statistics.median(x) for x in zip(*pairs, strict=True))
            print(f"{kb:5d} KB  {p:16.0f}  {o:14.0f}  {ratio:.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
