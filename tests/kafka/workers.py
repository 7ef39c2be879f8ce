"""Workers as real processes, and the least that can stand in for their controller."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from autoscaler.adapters.kafka.control_topics import describe
from autoscaler.handover.codec import PARTITIONS, decode, encode, partition_for
from autoscaler.handover.records import (
    CONTROL_TOPIC,
    HEARTBEAT_TOPIC,
    Epoch,
    Expired,
    Grant,
    Heartbeat,
    Incarnation,
    Left,
    Phase,
    Plan,
    Record,
    Released,
    Tp,
    Wait,
    kafka_id,
)
from tests.until import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[2]
LEASE_S = 3.0  # where one ends


@contextmanager
def others_write(bootstrap: str, group: str) -> Iterator[None]:
    """Write for another group into this one's part of the control log, so often that no fetch ever comes back empty."""
    facts = describe(AdminClient({"bootstrap.servers": bootstrap}), (CONTROL_TOPIC,))[CONTROL_TOPIC]
    left = Left(group="another", worker=Incarnation("w-9", "gone"), control_id=facts.topic_id)
    key, value = encode(left)
    over = threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        while not over.wait(0.01):
            producer.produce(CONTROL_TOPIC, value, key, partition_for(group, facts.partitions))
            producer.poll(0)
        assert producer.flush(30) == 0

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Publisher:
    """The least that can stand in for the controller: publishes plans in transactions and remembers what the logs say."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.bootstrap, self.group, self.topic = bootstrap, group, topic
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.number = 0
        self.grants: dict[Tp, Grant] = {}
        self.waits: dict[Tp, dict[Incarnation, int]] = {}
        self.heartbeats: list[Heartbeat] = []
        self.released: dict[tuple[Tp, Incarnation], Released] = {}
        self.left: set[Incarnation] = set()
        self.expired: set[Incarnation] = set()
        self._topics()
        self.control_id = until("the control topic is there", lambda: self.identify(CONTROL_TOPIC))
        self.topic_id = until("the topic is there", lambda: self.identify(topic))
        self.producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"test/{group}", "linger.ms": 0})
        self.producer.init_transactions(30)
        self.reader = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "reader", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        )
        self.where = where = partition_for(group, self._partitions())  # another test may have made them, with more
        self.reader.assign([TopicPartition(CONTROL_TOPIC, where, 0), TopicPartition(HEARTBEAT_TOPIC, where, 0)])

    def _topics(self) -> None:
        stamped = {"message.timestamp.type": "LogAppendTime"}
        kinds = {CONTROL_TOPIC: {"cleanup.policy": "compact", **stamped}, HEARTBEAT_TOPIC: {"retention.ms": "600000", **stamped}}
        for name, config in kinds.items():
            try:
                self.admin.create_topics([NewTopic(name, PARTITIONS, 1, config=config)])[name].result()
            except KafkaException as e:
                assert "already exists" in str(e)  # noqa: PT017  (any other failure is one)

    def _partitions(self) -> int:
        return len(self.admin.list_topics(CONTROL_TOPIC, timeout=10).topics[CONTROL_TOPIC].partitions)

    def identify(self, topic: str) -> str | None:
        try:
            return kafka_id(str(self.admin.describe_topics(TopicCollection([topic]))[topic].result().topic_id))
        except KafkaException:
            return None

    def publish(self, *records: Record) -> None:
        self.producer.begin_transaction()
        for record in records:
            key, value = encode(record)
            self.producer.produce(CONTROL_TOPIC, value, key, self.where)
        self.producer.commit_transaction(30)

    def observe(self) -> None:
        for message in self.reader.consume(1000, 0.02):
            match decode(message.key(), message.value()).record:
                case Heartbeat(group=self.group) as h:
                    self.heartbeats.append(h)
                case Released(group=self.group) as r:
                    self.released[r.tp, r.worker] = r
                case Left(group=self.group) as left:
                    self.left.add(left.worker)
                case _:
                    pass

    def plan(self, owners: dict[int, Incarnation]) -> None:
        """Publish who owns what, with waits for every previous owner that may still hold its partition."""
        self.observe()
        self.number += 1
        waits: dict[Tp, tuple[Wait, ...]] = {}
        grants = {}
        for p, owner in owners.items():
            tp = Tp(self.topic_id, p)
            before = self.grants.get(tp)
            kept = before is not None and before.owner == owner
            grants[tp] = before if before is not None and kept else Grant(owner=owner, epoch=self.number)
            pending = dict(self.waits.get(tp, {}))
            if before is not None and not kept:
                pending[before.owner] = self.number
            pending.pop(owner, None)
            waits[tp] = tuple(Wait(worker=w, epoch=e) for w, e in sorted(pending.items()) if not self._over(tp, w, e))
        self.grants = grants
        self.waits = {tp: {w.worker: w.epoch for w in ws} for tp, ws in waits.items()}
        plan = Plan(
            group=self.group,
            epoch=Epoch(self.control_id, self.number),
            topics={self.topic_id: self.topic},
            grants=grants,
            waits={tp: ws for tp, ws in waits.items() if ws},
            starts=dict.fromkeys(grants, 0),
            leases_s={},
            requested=(),
            summary="",
            at=time.time(),
        )
        self.publish(plan)

    def _over(self, tp: Tp, worker: Incarnation, epoch: int) -> bool:
        seen = self.released.get((tp, worker))
        return worker in self.left | self.expired or (seen is not None and seen.epoch >= epoch)

    def expire(self, worker: Incarnation) -> None:
        self.expired.add(worker)
        self.publish(Expired(group=self.group, worker=worker, control_id=self.control_id, evidence="platform"))

    def incarnation(self, name: str, *, other_than: frozenset[Incarnation] = frozenset()) -> Incarnation:
        """Wait until a worker of this name is ready."""

        def look() -> Incarnation | None:
            self.observe()
            ready = (h.worker for h in reversed(self.heartbeats) if h.worker.name == name and h.phase is Phase.ACTIVE)
            return next((w for w in ready if w not in other_than | self.left | self.expired), None)

        return until(f"{name} is ready", look)

    def holds(self, worker: Incarnation, partitions: set[int]) -> None:
        """Wait until the worker's own heartbeats say that it holds exactly these."""

        def look() -> bool:
            self.observe()
            last = next((h for h in reversed(self.heartbeats) if h.worker == worker), None)
            return last is not None and {tp.partition for tp in last.owned} == partitions

        until(f"{worker.name} holds {partitions}", look)

    def committed(self, partition: int) -> TopicPartition:
        """Return what is committed; the offset is negative where nothing is."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group})
        (found,) = consumer.committed([TopicPartition(self.topic, partition)], 10)
        consumer.close()
        return found

    def committed_at(self, partition: int, offset: int) -> TopicPartition | None:
        """Return what is committed, if it is this offset."""
        found = self.committed(partition)
        return found if found.offset == offset else None

    def has_left(self, worker: Incarnation) -> bool:
        self.observe()
        return worker in self.left

    def close(self) -> None:
        self.reader.close()


class Workers:
    """Processes that run the example, and what they have logged."""

    def __init__(self, bootstrap: str, group: str, topic: str, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "AUTOSCALER_BOOTSTRAP": bootstrap,
            "AUTOSCALER_GROUP": group,
            "AUTOSCALER_TOPICS": topic,
            "AUTOSCALER_LEASE_S": "15",  # a busy machine ends none
            "CONSUMER_LOG_DIR": str(folder),
            "CONSUMER_BYTES_PER_S": "400_000",
            "PYTHONPATH": str(ROOT),
        }
        self.python, self.script = sys.executable, ROOT / "docs/examples/consumer.py"
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def end_leases(self) -> None:
        """Give those that start from now on leases that end within a test."""
        self.environment["AUTOSCALER_LEASE_S"] = str(LEASE_S)

    def start(self, name: str) -> None:
        with (self.folder / f"{name}.err").open("ab") as err:
            self.running[name] = subprocess.Popen(
                [self.python, str(self.script)],
                env={**self.environment, "AUTOSCALER_WORKER_NAME": name, "AUTOSCALER_INSTANCE": f"i-{name}"},
                stderr=err,
            )

    def signal(self, name: str, number: int) -> None:
        self.running[name].send_signal(number)

    def ended(self, name: str) -> int:
        return self.running[name].wait(PATIENCE_S)

    def said(self) -> str:
        """Return the last lines of what each of them wrote, and how those that ended did."""
        ends = {name: process.poll() for name, process in self.running.items()}
        tails = {name: (self.folder / f"{name}.err").read_text(encoding="utf-8").splitlines()[-5:] for name in ends}
        return "\n".join(f"{name}: {line}" for name, end in ends.items() for line in [f"exit code {end}", *tails[name]])

    def processed(self) -> Counter[tuple[int, int]]:
        """Return how often each (partition, offset) was processed."""
        counts: Counter[tuple[int, int]] = Counter()
        for line in self.lines():
            counts[line[1], line[2]] += 1
        return counts

    def lines(self) -> list[tuple[str, int, int, int, int, str]]:
        """Return (topic, partition, offset, epoch, processed at ns, uuid)."""
        out = []
        for file in self.folder.glob("processed-*.log"):
            for line in file.read_text().rpartition("\n")[0].splitlines():  # the last one may be half written
                topic, partition, offset, epoch, at, _ = line.split()
                out.append((topic, int(partition), int(offset), int(epoch), int(at), file.stem.removeprefix("processed-")))
        return out

    def close(self) -> None:
        for process in self.running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()


def all_processed(workers: Workers, counts: dict[int, int]) -> None:
    wanted = {(p, o) for p, n in counts.items() for o in range(n)}
    until("every record is processed", lambda: wanted <= set(workers.processed()), explain=workers.said)
