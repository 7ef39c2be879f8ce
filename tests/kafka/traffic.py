"""Real producers and consumers of one topic while something happens to its brokers: what is lost, and how fast it goes."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka import TopicPartition as LogPosition

from tests.until import until

_PIECE_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What clients saw in one span of time."""

    seconds: float
    produced_per_s: float  # acknowledged by all replicas in sync
    consumed_per_s: float
    middle_s: float  # from where a record is made to where it is read
    worst_s: float

    def __str__(self) -> str:
        """Return one line."""
        return (
            f"{self.produced_per_s:,.0f} records/s produced, {self.consumed_per_s:,.0f} consumed, from end to end "
            f"{1000 * self.middle_s:,.0f} ms in the middle, {1000 * self.worst_s:,.0f} ms at most ({self.seconds:.0f} s)"
        )


class Traffic:
    """A producer that makes so many records a second, evenly over all partitions, and a consumer that reads them all."""

    def __init__(self, connection: Mapping[str, str | int | float | bool], topic: str, partitions: int, *, per_s: int) -> None:
        self._connection, self._topic, self._partitions, self._per_s = {**connection, "log_level": 0}, topic, partitions, per_s
        self._stop, self._spans = threading.Event(), dict[str, tuple[float, float]]()
        self._acked, self._read = list[float](), list[tuple[float, float]]()  # when; and how long it took
        self.sent, self.failed = [0] * partitions, 0
        self.next, self.wrong = [0] * partitions, list[str]()

    def produce(self) -> None:
        """Make records until it is over; each says its number in its partition, and when it was made."""
        producer = Producer({**self._connection, "acks": "all", "enable.idempotence": True, "linger.ms": 5})
        began, made, padding = time.monotonic(), 0, "x" * 1000
        while not self._stop.wait(_PIECE_S):
            while made < (time.monotonic() - began) * self._per_s:
                p = made % self._partitions
                value = f"{self.sent[p]} {time.time()} {padding}"
                producer.produce(self._topic, value, partition=p, on_delivery=self._delivered)
                self.sent[p] += 1
                made += 1
            producer.poll(0)
        assert producer.flush(60) == 0

    def _delivered(self, error: object, _message: Message) -> None:
        self.failed += error is not None
        self._acked.append(time.time())

    def _reader(self) -> Consumer:
        """Return a consumer that reads what is made from now on."""
        consumer = Consumer({**self._connection, "group.id": f"reader-{self._topic}", "enable.auto.commit": False})
        parts = [LogPosition(self._topic, p) for p in range(self._partitions)]
        ends = [consumer.get_watermark_offsets(p, 30)[1] for p in parts]
        consumer.assign([LogPosition(self._topic, p.partition, end) for p, end in zip(parts, ends, strict=True)])
        return consumer

    def consume(self, consumer: Consumer) -> None:
        """Read until all is there that was made; each record must be the next one of its partition."""
        try:
            until("all records", lambda: self._take(consumer), lambda over: over, within_s=600, every_s=0)
        finally:
            consumer.close()

    def _take(self, consumer: Consumer) -> bool:
        for m in consumer.consume(1000, 0.1):
            p, value = m.partition(), m.value()
            if m.error() is None and p is not None and value is not None:
                number, made, _ = value.split(b" ", 2)
                now = time.time()
                self._read.append((now, now - float(made)))
                if int(number) != self.next[p]:
                    self.wrong.append(f"partition {p}: record {int(number)} in place of {self.next[p]}")
                self.next[p] = int(number) + 1
        return self._stop.is_set() and not self._producing.is_alive() and self.next == self.sent

    @contextmanager
    def running(self) -> Iterator[None]:
        """Produce and consume meanwhile; at the end all is read."""
        self._producing = threading.Thread(target=self.produce)
        consuming = threading.Thread(target=self.consume, args=[self._reader()])
        self._producing.start()
        consuming.start()
        try:
            yield
        finally:
            self._stop.set()
            self._producing.join()
            consuming.join()

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Give a name to what happens meanwhile."""
        began = time.time()
        yield
        self._spans[name] = began, time.time()

    def figures(self) -> dict[str, Figures]:
        """Return what clients saw, by span."""
        acked, at = np.array(self._acked), np.array([t for t, _ in self._read])
        took = np.array([x for _, x in self._read])
        found = {}
        for name, (a, b) in self._spans.items():
            read = took[(at >= a) & (at < b)]
            found[name] = Figures(
                seconds=b - a,
                produced_per_s=float(((acked >= a) & (acked < b)).sum() / (b - a)),
                consumed_per_s=len(read) / (b - a),
                middle_s=float(np.median(read)) if len(read) else np.nan,
                worst_s=float(read.max(initial=0.0)),
            )
        return found
