"""How long a partition pauses when it changes hands, and whether the others notice.

A real broker, real consumer processes at 80 % utilisation, real plans through the control log. A pause is counted from the
old owner's last record of that partition (or the append of the next one, if later) to the new owner's first: the time in
which a record lay there and nobody had it. ``python -m tests.bench.handover``.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.control_log.publisher import KafkaControl
from autoscaler.adapters.kafka.control_topics import retried
from autoscaler.adapters.workers.process_pool import ProcessPool
from autoscaler.config.settings import ProcessWorkers
from autoscaler.devtools.broker import Broker
from autoscaler.model import GroupState, TopicPartition, WorkerPhase
from autoscaler.ports import PlanIntent
from tests.bench.processed import Processed, newest_waits, percentile, read, waits
from tests.bench.stages import CONSUMER, Log, Move
from tests.bench.stages import rows as stage_rows
from tests.until import until

UTILISATION = 0.8
FAST = ("-XX:TieredStopAtLevel=4",)  # a broker that optimises, as in production; the embedded one is made to start soon
ROOT = Path(__file__).parents[2]

_SLOWLY_S = 20.0  # until the load is whole
PRODUCER = """
import sys, time
from confluent_kafka import Producer
bootstrap, topic, partitions, rate, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 2, "enable.idempotence": True})
payload, sent, began, slowly = b"x" * size, 0, time.monotonic(), SLOWLY
while True:  # at full rate after some seconds: what gathers while everything is cold takes four times as long to work off
    ran = time.monotonic() - began
    due = int(rate * (ran * ran / (2 * slowly) if ran < slowly else ran - slowly / 2))
    for n in range(sent, due):
        while True:
            try:
                producer.produce(topic, payload, partition=n % partitions)
                break
            except BufferError:  # a broker that is behind: wait for it
                producer.poll(0.05)
    sent = due
    producer.poll(0.002)
""".replace("SLOWLY", str(_SLOWLY_S))


@dataclass(frozen=True, slots=True)
class Round:
    """One published plan."""

    moved: int
    epoch: int
    published: float
    publishing_s: float


def measure(
    *,
    partitions: int,
    busy: int,
    workers: int,
    moved: tuple[int, ...],
    rounds: int,
    total_bytes_per_s: float,
    record_bytes: int,
    calm_s: float,
) -> list[tuple[str, str]]:
    """Run plans that move each of ``moved`` partitions ``rounds`` times; return (what, figure) rows."""
    done: list[Round] = []
    with tempfile.TemporaryDirectory() as temporary, Broker(Path(temporary) / "broker", heap_mb=512, java_options=FAST) as broker:
        directory = Path(temporary)
        topic = "bench-handover"
        make_topic(broker.bootstrap, topic, partitions)
        capacity = total_bytes_per_s / workers / UTILISATION
        pool, control = managed_group(broker.bootstrap, topic, directory, capacity, lease_s=10)
        rate = total_bytes_per_s / record_bytes
        command = [sys.executable, "-c", PRODUCER, broker.bootstrap, topic, str(busy), str(rate), str(record_bytes)]
        producer: subprocess.Popen[bytes] | None = None
        try:
            owner = _spread(control, pool, topic, partitions, workers)
            producer = subprocess.Popen(command)  # not earlier: a backlog from the start would be measured with the moves
            time.sleep(_SLOWLY_S)
            chance = random.Random(7)
            for count in moved:
                for _ in range(rounds):
                    await_calm(directory / "processed", workers, calm_s)
                    time.sleep(chance.uniform(0.8, 1.2))  # at no fixed distance from heartbeats and commits
                    _move(owner, busy, count, workers, chance)
                    at = time.time()
                    epoch = control.publish(intent(owner, range(workers)))
                    done.append(Round(count, epoch, at, time.time() - at))
                    settle(control)
            time.sleep(2)  # the last round's first records
        finally:
            if producer is not None:
                producer.terminate()
                producer.wait()
            pool.stop_all(20)
            control.close()
        return _rows(done, directory, capacity / record_bytes)


def make_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Create it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1)])[topic].result(30)


def _move(owner: dict[TopicPartition, int], busy: int, count: int, workers: int, chance: random.Random) -> None:
    """Move that many partitions along circles of workers, so that everybody's share stays what it is, give or take one.

    Those that have a load, the first ``busy``, in the same proportion as the others.
    """
    free = {w: _mixed([p for p, o in owner.items() if o == w], busy, chance) for w in range(workers)}
    while count > 0:
        circle = chance.sample([w for w in free if free[w]], min(count, sum(map(bool, free.values()))))
        if len(circle) == 1:
            held = Counter(owner.values())
            start = max((w for w in free if free[w]), key=lambda w: held[w])
            circle = [start, min((w for w in free if w != start), key=lambda w: held[w])]
            owner[free[start].pop()] = circle[1]
            count -= 1
            continue
        for giver, taker in zip(circle, [*circle[1:], circle[0]], strict=True):
            owner[free[giver].pop()] = taker
        count -= len(circle)


def _mixed(partitions: list[TopicPartition], busy: int, chance: random.Random) -> list[TopicPartition]:
    """Return them in random order, those that have a load evenly among the others and one of them last."""
    ranked = []
    for loaded in (True, False):
        kind = sorted(p for p in partitions if (p.partition < busy) is loaded)
        ranked += [((n + 1) / len(kind), loaded, p) for n, p in enumerate(chance.sample(kind, len(kind)))]
    return [p for *_, p in sorted(ranked)]


def await_calm(directory: Path, workers: int, calm_s: float) -> None:
    """Wait until nobody works off a backlog: every consumer's last records were done soon after they came."""
    what = f"records wait {calm_s} s at most: the consumers are fast enough for the load"
    look = partial(newest_waits, directory)
    until(what, look, lambda latest: len(latest) >= workers and max(latest) <= calm_s, within_s=120, every_s=0.2)


def managed_group(
    bootstrap: str, topic: str, directory: Path, capacity: float, *, lease_s: float
) -> tuple[ProcessPool, KafkaControl]:
    """Return what starts the example consumers, and what assigns them partitions."""
    (directory / "processed").mkdir(parents=True)
    clock = SystemClock()
    pool = ProcessPool(
        group=topic,
        settings=ProcessWorkers(command=("{python}", "-c", CONSUMER, str(ROOT / "docs" / "examples" / "consumer.py"))),
        directory=directory / "workers",
        environment={
            "AUTOSCALER_CONNECTION": f'{{"bootstrap.servers": "{bootstrap}"}}',
            "AUTOSCALER_GROUP": topic,
            "AUTOSCALER_TOPICS": topic,
            "AUTOSCALER_LEASE_S": str(lease_s),
            "CONSUMER_LOG_DIR": str(directory / "processed"),
            "CONSUMER_BYTES_PER_S": str(capacity),
        },
        clock=clock,
    )

    def open_log() -> KafkaControl:
        return KafkaControl(
            connection={"bootstrap.servers": bootstrap},
            group=topic,
            topics=(topic,),
            reset_policy="earliest",
            lease_s=lease_s,
            replication_factor=1,
            slot_of=pool.slot_of,
            clock=clock,
        )

    return pool, retried(open_log, for_s=60)  # a broker that has just been given thousands of partitions takes its time


def intent(owner: dict[TopicPartition, int], slots: Iterable[int]) -> PlanIntent:
    """Return the plan that gives each partition to that slot."""
    return PlanIntent(target=dict(owner), requested=frozenset(slots), summary="{}")


def _spread(control: KafkaControl, pool: ProcessPool, topic: str, partitions: int, workers: int) -> dict[TopicPartition, int]:
    owner = {TopicPartition(topic=topic, partition=p): p % workers for p in range(partitions)}
    pool.observe()
    pool.apply(frozenset(range(workers)), expected=frozenset(), releasable=frozenset())
    joined(control, frozenset(range(workers)))
    control.publish(intent(owner, range(workers)))
    settle(control)
    return owner


def joined(control: KafkaControl, slots: frozenset[int]) -> None:
    """Wait until the consumers of these slots have joined."""
    until(
        f"consumers {sorted(slots)} have joined",
        lambda: {w.slot for w in control.observe().workers if w.phase is WorkerPhase.ACTIVE},
        slots.issubset,
        within_s=60,
        every_s=0.05,
    )


def settle(control: KafkaControl) -> GroupState:
    """Wait until every partition has been taken."""
    return until("every partition is taken", control.observe, lambda state: not state.pending, within_s=30, every_s=0.1)


def _rows(done: list[Round], directory: Path, records_per_s: float) -> list[tuple[str, str]]:
    by = read(directory / "processed")
    log = Log(directory / "workers")
    of_epoch = {r.epoch: r for r in done}
    pauses: dict[int, list[float]] = {r.moved: [] for r in done}
    moves: dict[int, list[Move]] = {r.moved: [] for r in done}
    calm: list[float] = []
    disturbed: list[float] = []
    for partition, records in by.items():
        for previous, record, wait in waits(records):
            if previous.worker != record.worker and record.epoch in of_epoch:
                this = of_epoch[record.epoch]
                pauses[this.moved].append(max(0.0, wait))
                moves[this.moved].append(Move(partition, record.epoch, record.appended, record.done))
            elif previous.worker == record.worker and record.done >= done[0].published - 1:
                near = any(r.published <= record.done <= r.published + 0.5 for r in done)
                (disturbed if near else calm).append(max(0.0, wait))
    rows = [("publishing a plan, p50 / p95 / max", milliseconds([r.publishing_s for r in done]))]
    for count, values in pauses.items():
        rows.append(
            (f"pause of a moved partition, {count} moved at once, p50 / p95 / max (n {len(values)})", milliseconds(values))
        )
        between = [s for r in done if r.moved == count for s in log.pauses(r.epoch)]
        rows.append((f"... nobody had it, beyond the rest of the batch (n {len(between)})", milliseconds(between)))
        rows += stage_rows(log, {r.epoch: r.published for r in done if r.moved == count}, moves[count], f"{count} moved")
    for where, values in ((" within .5 s of a plan", disturbed), (" away from any plan", calm)):
        p99 = f", p99 {percentile(values, 0.99) * 1e3:.0f} ms"
        rows.append((f"wait of an unmoved partition's record{where} (n {len(values)})", milliseconds(values) + p99))
    rows.append(("utilisation of the consumers, least and most", _utilisation(by, done, records_per_s)))
    return rows


def _utilisation(by: dict[int, list[Processed]], done: list[Round], records_per_s: float) -> str:
    start, end = done[0].published, done[-1].published
    work = Counter(r.worker for records in by.values() for r in records if start <= r.done < end)
    shares = [n / records_per_s / (end - start) for n in work.values()]
    return f"{min(shares):.0%} and {max(shares):.0%}"


def milliseconds(values: list[float]) -> str:
    """Return p50 / p95 / max of seconds as text."""
    p50, p95, top = (percentile(values, s) * 1e3 for s in (0.5, 0.95, 1.0))
    return f"{p50:.0f} / {p95:.0f} / {top:.0f} ms"


def main() -> None:
    """Measure and print."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # end the consumers too
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=32)
    parser.add_argument("--busy", type=int, help="so many of them have a load; default all")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--moved", type=int, nargs="*", help="partitions moved at once; default 1, 10 and all")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--bytes-per-s", type=float, default=1_600_000)
    parser.add_argument("--record-bytes", type=int, default=1000, help="larger: fewer, for a broker that shares the processors")
    parser.add_argument("--calm-s", type=float, default=0.25, help="a record that waits longer says that a backlog is worked off")
    args = parser.parse_args()
    moved = tuple(args.moved or (n for n in (1, 10, args.partitions) if n <= args.partitions))
    found = measure(
        partitions=args.partitions,
        busy=args.busy or args.partitions,
        workers=args.workers,
        moved=moved,
        rounds=args.rounds,
        total_bytes_per_s=args.bytes_per_s,
        record_bytes=args.record_bytes,
        calm_s=args.calm_s,
    )
    for what, figure in found:
        sys.stdout.write(f"{what}: {figure}\n")


if __name__ == "__main__":
    main()
