"""Measure what producers and consumers see while a broker is emptied: ``python -m tests.bench.moving``, two minutes.

Three brokers on this machine; 4 partitions of two replicas, each with some megabytes, three of them on the broker that is
emptied. One producer waits for all replicas in sync, one consumer reads what it writes; both are in this process, beside the
job's loop. Before and afterwards are spans in which nothing moves.
"""

import argparse
import time
from uuid import uuid4

from confluent_kafka import Producer

from autoscaler.brokers.journal import NOTHING
from autoscaler.devtools.broker import Cluster
from tests.bench.__main__ import machine
from tests.conftest import create_topic
from tests.kafka.balance_victim import balancer
from tests.kafka.traffic import Traffic
from tests.until import until

_MB = 1_000_000
_PER_S = 2000


def emptied(cluster: Cluster, throttle: float | None, *, megabytes: int, quiet_s: float) -> None:
    """Empty one broker under traffic and print what clients saw."""
    a, b, c = sorted(n.number for n in cluster.nodes)
    topic = f"moved-{uuid4().hex[:8]}"
    create_topic(cluster, topic, 4, replicas=[[c, a], [b, c], [a, b], [c, b]])
    producer = Producer({**cluster.connection(), "log_level": 0, "linger.ms": 50})
    for p in range(4):
        for _ in range(10 * megabytes):
            producer.produce(topic, b"x" * (_MB // 10), partition=p)
            producer.poll(0)
        assert producer.flush(120) == 0
    job = balancer(cluster.connection(), topic, {"leaving": [c], "throttle_bytes_per_s": throttle})
    job.take_over()
    traffic = Traffic(cluster.connection(), topic, 4, per_s=_PER_S)

    def over() -> bool:
        job.look()
        held = [h.replicas for p, h in job.world.admin.observe(()).partitions.items() if p.topic == topic]
        return job.journal == NOTHING and job.waiting is None and not any(c in r for r in held)

    with traffic.running():
        time.sleep(5.0)  # clients connect
        with traffic.span("before"):
            time.sleep(quiet_s)
        with traffic.span("while it moves"):
            until("nothing on the broker", over, within_s=600, every_s=0.2)
        with traffic.span("afterwards"):
            time.sleep(quiet_s)
    job.world.admin.close()
    job.world.journal.close()
    assert (traffic.failed, traffic.wrong, traffic.next) == (0, [], traffic.sent)
    limit = "no throttle" if throttle is None else f"{throttle / _MB:.0f} MB/s for each broker"
    for name, seen in traffic.figures().items():
        print(f"{limit}, {name}: {seen}", flush=True)
    print(f"{limit}: {sum(traffic.sent):,} records, none lost, none twice, none out of order", flush=True)


def main() -> None:
    """Measure with and without a throttle."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=60, help="that each partition has")
    parser.add_argument("--seconds", type=float, default=15.0, help="before and afterwards")
    args = parser.parse_args()
    print(f"on {machine()}")
    with Cluster(nodes=3, heap_mb=256) as cluster:
        for throttle in (5e6, None):
            emptied(cluster, throttle, megabytes=args.megabytes, quiet_s=args.seconds)


if __name__ == "__main__":
    main()
