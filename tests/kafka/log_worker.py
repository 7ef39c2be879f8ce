"""A worker that speaks the protocol and consumes nothing: heartbeats, releases and leaving, on a real broker.

For tests of the controller's side; whatever the real worker does besides is its own tests' business.
"""

import threading
import time
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from autoscaler.adapters.clock import boot_id
from autoscaler.adapters.kafka.control_topics import describe
from autoscaler.handover.codec import decode, encode, partition_for
from autoscaler.handover.records import (
    CONTROL_TOPIC,
    HEARTBEAT_TOPIC,
    Expired,
    Heartbeat,
    Incarnation,
    Left,
    Phase,
    Plan,
    Record,
    Released,
    Tp,
)


class LogWorker:
    """One incarnation in a thread; ``stop`` leaves in order, ``silence`` goes without a word, as a killed process does."""

    def __init__(self, bootstrap: str, group: str, name: str, *, lease_s: float = 3.0, instance: str | None = None) -> None:
        facts = describe(AdminClient({"bootstrap.servers": bootstrap}), (CONTROL_TOPIC,))[CONTROL_TOPIC]
        self.me = Incarnation(name, str(uuid4()))
        self.owned: dict[Tp, int] = {}
        self._group, self._lease_s, self._instance, self._control = group, lease_s, instance, facts.topic_id
        self._partition = partition_for(group, facts.partitions)
        self._plan: Plan | None = None
        self._released: dict[tuple[Tp, Incarnation], int] = {}
        self._over: set[Incarnation] = set()
        self._answered: set[tuple[Tp, int]] = set()
        self._taken: list[tuple[Tp, int, int]] = []
        self._acked: int | None = None
        self._stop, self._leave = threading.Event(), False
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
        self._consumer = Consumer({
            "bootstrap.servers": bootstrap, "group.id": "__log_worker", "isolation.level": "read_committed",
            "enable.auto.commit": False, "fetch.wait.max.ms": 20, "auto.offset.reset": "earliest",
        })  # fmt: skip
        self._consumer.assign([TopicPartition(CONTROL_TOPIC, self._partition, OFFSET_BEGINNING)])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._leave = True
        self.silence()

    def silence(self) -> None:
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        beat_at = 0.0
        while not self._stop.is_set():
            changed = self._read()
            if changed or time.monotonic() >= beat_at:
                beat_at = time.monotonic() + self._lease_s / 10
                self._beat()
            self._producer.poll(0)
        if self._leave:
            for tp in list(self.owned):
                self._release(tp, self._plan.epoch.number if self._plan else 0)
            self._send(CONTROL_TOPIC, Left(group=self._group, worker=self.me, control_id=self._control))
        self._producer.flush(5)
        self._producer.purge()  # what waits for a callback keeps a client, and its threads, for the rest of the run
        self._producer.flush(1)
        self._consumer.close()

    def _read(self) -> bool:
        message = self._consumer.poll(0.02)
        if message is None or message.error():
            return False
        record = decode(message.key(), message.value(), control_id=self._control).record
        match record:
            case Plan(group=self._group) if self._plan is None or record.epoch.number >= self._plan.epoch.number:
                self._plan = record
            case Released(group=self._group):
                self._released[record.tp, record.worker] = record.epoch
            case Expired(group=self._group) | Left(group=self._group):
                self._over.add(record.worker)
        return self._follow()

    def _follow(self) -> bool:
        plan = self._plan
        if plan is None:
            return False
        before = dict(self.owned)
        for tp in [t for t in self.owned if plan.grants[t].owner != self.me]:
            del self.owned[tp]
            self._release(tp, plan.epoch.number)
        for tp, waits in plan.waits.items():
            for wait in waits:
                if wait.worker == self.me and tp not in self.owned and (tp, wait.epoch) not in self._answered:
                    self._release(tp, plan.epoch.number)
        for tp, grant in plan.grants.items():
            free = all(w.worker in self._over or self._released.get((tp, w.worker), 0) >= w.epoch for w in plan.waits.get(tp, ()))
            if grant.owner == self.me and tp not in self.owned and free:
                self.owned[tp] = grant.epoch
                self._taken.append((tp, grant.epoch, 7))
        return before != self.owned

    def _release(self, tp: Tp, epoch: int) -> None:
        self._answered.add((tp, epoch))
        self._send(CONTROL_TOPIC, Released(
            group=self._group, tp=tp, worker=self.me, control_id=self._control, epoch=epoch, offset=7,
        ))  # fmt: skip

    def _beat(self) -> None:
        self._send(HEARTBEAT_TOPIC, Heartbeat(
            group=self._group, worker=self.me, stamp=time.monotonic(), boot_id=boot_id(), acked=self._acked,
            lease_s=self._lease_s, epoch=self._plan.epoch.number if self._plan else 0, phase=Phase.ACTIVE,
            owned=dict(self.owned), taken=tuple(self._taken[-20:]), instance=self._instance, records=10, payload_bytes=1000,
            ages=(1, 2, 3),
        ))  # fmt: skip

    def _send(self, topic: str, record: Record) -> None:
        key, value = encode(record)
        self._producer.produce(topic, value, key, partition=self._partition, on_delivery=self._delivered)

    def _delivered(self, error: object, message: Message) -> None:
        if error is None and message.topic() == HEARTBEAT_TOPIC:
            self._acked = message.offset()
