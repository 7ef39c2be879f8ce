"""How long a partition pauses when it changes hands, and whether the others notice.

A real broker, real consumer processes at 80 % utilisation, real plans through the control log. A pause is counted from the
old owner's last record of that partition (or the append of the next one, if later) to the new owner's first: the time in
which a record lay there and nobody had it. ``python -m tests.bench.handover``.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.kafka_control import KafkaControl
from autoscaler.adapters.processes import ProcessPool
from autoscaler.embedded.broker import Broker
from autoscaler.model import GroupState, TopicPartition
from autoscaler.ports import PlanIntent
from autoscaler.settings import ProcessWorkers
from tests.bench.processed import percentile, read, waits

WORKERS = 4
RECORD_BYTES = 1000
UTILISATION = 0.8
ROOT = Path(__file__).parents[2]

PRODUCER = """
import sys, time
from confluent_kafka import Producer
bootstrap, topic, partitions, rate, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 2, "enable.idempotence": True})
payload, sent, began = b"x" * size, 0, time.monotonic()
while True:
    due = int((time.monotonic() - began) * rate)
    for n in range(sent, due):
        producer.produce(topic, payload, partition=n % partitions)
    sent = due
    producer.poll(0.002)
"""


def measure(*, partitions: int, moved: tuple[int, ...], rounds: int, total_bytes_per_s: float) -> list[tuple[str, str]]:
    """Run plans that move each of ``moved`` partitions ``rounds`` times; return (what, figure) rows."""
    plans: list[tuple[int, int, float]] = []  # (partitions moved, epoch, published at)
    with tempfile.TemporaryDirectory() as temporary, Broker(Path(temporary) / "broker") as broker:
        directory = Path(temporary)
        topic = "bench-handover"
        _make_topic(broker.bootstrap, topic, partitions)
        pool, control = _group(broker.bootstrap, topic, directory, total_bytes_per_s / WORKERS / UTILISATION)
        rate = total_bytes_per_s / RECORD_BYTES
        command = [sys.executable, "-c", PRODUCER, broker.bootstrap, topic, str(partitions), str(rate), str(RECORD_BYTES)]
        producer: subprocess.Popen[bytes] | None = None
        try:
            owner = _spread(control, pool, topic, partitions)
            producer = subprocess.Popen(command)  # not earlier: a backlog from the start would be measured with the moves
            time.sleep(5)  # caches and connections as in a long run
            chance = random.Random(7)
            for count in moved:
                for _ in range(rounds):
                    for p in chance.sample(sorted(owner), count):
                        owner[p] = chance.choice([s for s in range(WORKERS) if s != owner[p]])
                    at = time.time()
                    plans.append((count, control.publish(_intent(owner)), at))
                    _settle(control)
                    time.sleep(chance.uniform(0.8, 1.2))
        finally:
            if producer is not None:
                producer.terminate()
                producer.wait()
            pool.stop_all(20)
            control.close()
        return _rows(plans, directory / "processed")


def _make_topic(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1)])[topic].result(30)


def _group(bootstrap: str, topic: str, directory: Path, capacity: float) -> tuple[ProcessPool, KafkaControl]:
    (directory / "processed").mkdir()
    clock = SystemClock()
    pool = ProcessPool(
        group="bench",
        settings=ProcessWorkers(command=("{python}", str(ROOT / "docs" / "examples" / "consumer.py"))),
        directory=directory / "workers",
        environment={
            "AUTOSCALER_CONNECTION": f'{{"bootstrap.servers": "{bootstrap}"}}',
            "AUTOSCALER_GROUP": "bench",
            "AUTOSCALER_TOPICS": topic,
            "AUTOSCALER_LEASE_S": "10",
            "CONSUMER_LOG_DIR": str(directory / "processed"),
            "CONSUMER_BYTES_PER_S": str(capacity),
        },
        clock=clock,
    )
    control = KafkaControl(
        connection={"bootstrap.servers": bootstrap},
        group="bench",
        topics=(topic,),
        reset_policy="earliest",
        lease_s=10,
        replication_factor=1,
        slot_of=pool.slot_of,
        clock=clock,
    )
    return pool, control


def _intent(owner: dict[TopicPartition, int]) -> PlanIntent:
    return PlanIntent(target=dict(owner), requested=frozenset(range(WORKERS)), summary="{}")


def _spread(control: KafkaControl, pool: ProcessPool, topic: str, partitions: int) -> dict[TopicPartition, int]:
    owner = {TopicPartition(topic=topic, partition=p): p % WORKERS for p in range(partitions)}
    pool.observe()
    pool.apply(frozenset(range(WORKERS)), expected=frozenset(), releasable=frozenset())
    limit = time.monotonic() + 60
    while len({w.slot for w in control.observe().workers}) < WORKERS:
        if time.monotonic() > limit:
            msg = "the consumers did not join within 60 s"
            raise TimeoutError(msg)
        time.sleep(0.05)
    control.publish(_intent(owner))
    _settle(control)
    return owner


def _settle(control: KafkaControl) -> GroupState:
    limit = time.monotonic() + 30
    while (state := control.observe()).pending:
        if time.monotonic() > limit:
            msg = f"{len(state.pending)} partitions were not taken within 30 s"
            raise TimeoutError(msg)
        time.sleep(0.1)
    return state


def _rows(plans: list[tuple[int, int, float]], directory: Path) -> list[tuple[str, str]]:
    by = read(directory)
    pauses: dict[int, list[float]] = {count: [] for count, _, _ in plans}
    reactions: dict[int, list[float]] = {count: [] for count, _, _ in plans}
    of_epoch = {epoch: (count, at) for count, epoch, at in plans}
    calm: list[float] = []
    disturbed: list[float] = []
    for records in by.values():
        for previous, record, wait in waits(records):
            if previous.worker != record.worker and record.epoch in of_epoch:
                count, at = of_epoch[record.epoch]
                pauses[count].append(max(0.0, wait))
                reactions[count].append(record.done - max(at, record.appended))
            elif previous.worker == record.worker:
                near = any(at <= record.done <= at + 0.5 for _, _, at in plans)
                (disturbed if near else calm).append(max(0.0, wait))
    rows = []
    for count, values in pauses.items():
        rows.append((f"pause of a moved partition, {count} moved, p50 / p95 / max", _ms(values)))
        rows.append((f"plan to first record at the new owner, {count} moved", _ms(reactions[count])))
    rows.append(("wait of an unmoved partition's record within .5 s of a plan", _ms(disturbed)))
    rows.append(("... and away from any plan", _ms(calm)))
    rows.append(("moves measured", str(sum(len(v) for v in pauses.values()))))
    return rows


def _ms(values: list[float]) -> str:
    p50, p95, top = (percentile(values, s) * 1e3 for s in (0.5, 0.95, 1.0))
    return f"{p50:.0f} / {p95:.0f} / {top:.0f} ms"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--bytes-per-s", type=float, default=1_600_000)
    args = parser.parse_args()
    moved = tuple(n for n in (1, 10, args.partitions) if n <= args.partitions)
    for what, figure in measure(partitions=args.partitions, moved=moved, rounds=args.rounds, total_bytes_per_s=args.bytes_per_s):
        sys.stdout.write(f"{what}: {figure}\n")


if __name__ == "__main__":
    main()
