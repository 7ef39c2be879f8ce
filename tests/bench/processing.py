"""What threads gain over one, with a handler that waits, and what they cost, with one that does nothing.

``python -m tests.bench.processing`` starts the embedded broker; ``--bootstrap`` uses one that runs. Records have keys out of
``--keys``. Medians of ``--rounds`` runs; a rate counts from the first record to the last.
"""

import argparse
import itertools
import statistics
import sys
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from autoscaler.devtools.broker import Broker
from autoscaler.worker import Batch, Handler, ManagedConsumer, process
from tests.bench.consumer import PARTITIONS, grant_all, topics

Use = Callable[[ManagedConsumer, Handler], None]
LONG_EVERY, LONG_TIMES = 100, 100  # one record in so many takes so many times as long


def fill(bootstrap: str, admin: AdminClient, records: int, size: int, keys: int) -> str:
    """Make a topic with that many records, whose keys go round."""
    topic = f"bench-{uuid.uuid4().hex[:6]}"
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for i in range(records):
        producer.produce(topic, bytes(size), b"%d" % (i // PARTITIONS % keys), partition=i % PARTITIONS)
        producer.poll(0)
    producer.flush()
    return topic


def iterate(consumer: ManagedConsumer, handler: Handler) -> None:
    """Be the plain loop."""
    for batch in consumer:
        for message in batch:
            handler(message, batch)
            if consumer.stopping:
                break


def threaded(threads: int) -> Use:
    """Return ``process`` with so many threads."""
    return lambda consumer, handler: process(consumer, handler, threads=threads)


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a handler does with so many records: sleep that long, longer now and then."""

    records: int
    sleep_s: float = 0.0
    uneven: bool = False
    batch_bytes: int = 256_000

    def do(self, number: int) -> None:
        if self.sleep_s:
            time.sleep(self.sleep_s * (LONG_TIMES if self.uneven and number % LONG_EVERY == 0 else 1))


def rate(bootstrap: str, topic: str, work: Work, use: Use) -> float:
    """Return records per second until all have been handled."""
    group, count = f"bench-{uuid.uuid4().hex[:6]}", itertools.count()
    began, ended = 0.0, 0.0
    admin = AdminClient({"bootstrap.servers": bootstrap})
    connection = {"bootstrap.servers": bootstrap}
    with ManagedConsumer(connection, group=group, topics=[topic], name="w", batch_size_bytes=work.batch_bytes) as consumer:

        def handle(_message: Message, _batch: Batch) -> None:
            nonlocal began, ended
            number = next(count)
            if number == 0:
                began = time.perf_counter()
            work.do(number)
            if number == work.records - 1:
                ended = time.perf_counter()
                consumer.stop()

        threading.Thread(target=grant_all, args=(bootstrap, admin, group, topic), daemon=True).start()
        use(consumer, handle)
    return work.records / (ended - began)


def main() -> int:
    """Run both measurements and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=1000, help="payload bytes of a record")
    parser.add_argument("--keys", type=int, default=1000, help="in each partition")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 8, 32])
    parser.add_argument("--sleep-ms", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with ExitStack() as stack:
        bootstrap = given.bootstrap or stack.enter_context(Broker(heap_mb=256)).bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap})
        topics(admin)
        topic = fill(bootstrap, admin, given.records, given.size, given.keys)

        def median(work: Work, use: Use) -> float:
            return statistics.median(rate(bootstrap, topic, work, use) for _ in range(given.rounds))

        sleep_s, nothing_to_do = given.sleep_ms / 1000, Work(records=given.records)
        slept, nothing = f"a handler that sleeps {given.sleep_ms:g} ms", "a handler that does nothing"
        first = 0.0
        for threads in given.threads:
            found = median(Work(records=min(given.records, 3000 * threads), sleep_s=sleep_s), threaded(threads))
            first = first or found
            print(f"{slept}, {threads} threads: {found:,.0f} records/s, {found / first:.1f} times as many", flush=True)
        uneven = f"... and for one record in {LONG_EVERY} {LONG_TIMES} times as long, {given.threads[-1]} threads"
        for batch_bytes in (256_000, 1_000_000, 4_000_000):
            work = Work(records=min(given.records, 50_000), sleep_s=sleep_s, uneven=True, batch_bytes=batch_bytes)
            found = median(work, threaded(given.threads[-1]))
            busy = found * sleep_s * (1 + (LONG_TIMES - 1) / LONG_EVERY) / given.threads[-1]
            print(f"{uneven}, batches of {batch_bytes:,} bytes: {found:,.0f} records/s, threads busy {busy:.0%}", flush=True)
        plain = median(nothing_to_do, iterate)
        print(f"{nothing}, called in a loop over the batch: {plain:,.0f} records/s", flush=True)
        for threads in given.threads:
            found = median(nothing_to_do, threaded(threads))
            print(f"... by {threads} threads: {found:,.0f} records/s, {1e6 / found - 1e6 / plain:.1f} us more each", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
