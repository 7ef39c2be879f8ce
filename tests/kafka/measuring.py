"""The measuring path on a real broker without Spark: what one batch does, called directly."""

import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, Message, Producer

from autoscaler.model import LoadSnapshot
from autoscaler.streaming import query, schema, windows
from autoscaler.streaming.client import Clients
from autoscaler.streaming.counters import Rules
from autoscaler.streaming.discovery import Discovery
from autoscaler.streaming.lag import GroupRules
from autoscaler.streaming.source import Plan, read_shard, shards
from autoscaler.streaming.state import State, dump, load

Setting = str | int | float | bool


class Measured:
    """Samples brokers and advances a window, as the query does once per trigger."""

    def __init__(
        self, connection: Mapping[str, Setting], groups: tuple[GroupRules, ...], *, window_s: float = 5.0, timeout_s: float = 2.0
    ) -> None:
        self.groups, self.rules = groups, Rules(window_s=window_s)
        self.plan = Plan(
            connection=connection, topics_of={g.group: g.topics for g in groups},
            read_committed=any(g.read_committed for g in groups), read_timeout_s=timeout_s, metadata_every_s=0.3, buckets=1,
        )  # fmt: skip
        self.discovery = Discovery(connection, self.plan.topics, tuple(self.plan.topics_of), every_s=0.3, timeout_s=timeout_s)
        self.clients, self.state, self.slots = Clients(), State(), dict[int, bytes]()
        self.facts: list[dict[str, Any]] = []
        self.rows: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.discovery.stop()
        self.clients.close()

    def batch(self) -> dict[str, LoadSnapshot]:
        """Run one batch and return a snapshot per group; ``facts`` and ``rows`` are what the source and the window said."""
        tables = [read_shard(self.plan, shard, self.clients) for shard in shards(self.plan, self.discovery.picture())]
        facts = schema.unpack([schema.pack(f) for f, _ in tables], schema.FACTS)
        commits = schema.unpack([schema.pack(c) for _, c in tables], schema.COMMITS)
        step, loads = windows.step(self.state, facts, commits, self.groups, self.rules, slot=self.slots.__getitem__)
        self.state = load(dump(step.state))
        if step.write is not None:
            self.slots[step.write_id] = step.write.tobytes()
        for slot in step.drop:
            del self.slots[slot]
        self.facts, self.rows = facts.to_pylist(), loads.to_pylist()
        return query.snapshots(schema.unpack([schema.pack(loads)], schema.LOADS), [g.group for g in self.groups])

    def one(self) -> LoadSnapshot:
        """Run one batch and return the only group's snapshot."""
        (found,) = self.batch().values()
        return found

    def until(self, holds: Callable[[LoadSnapshot], bool], *, within_s: float = 60.0, every_s: float = 0.25) -> LoadSnapshot:
        """Run batches until the only group's snapshot is as wanted."""
        limit = time.monotonic() + within_s
        while not holds(found := self.one()):
            assert time.monotonic() < limit, found
            time.sleep(every_s)
        return found


class Load:
    """Produces evenly in the background and remembers when each record was acknowledged."""

    def __init__(self, connection: Mapping[str, Setting], topic: str, *, per_s: float, size: int, partitions: int) -> None:
        self.acked: list[tuple[float, int]] = []
        self._producer = Producer({**connection, "linger.ms": 5, "log_level": 0, "message.timeout.ms": 120_000})
        self._topic, self._per_s, self._size, self._partitions = topic, per_s, size, partitions
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def behind(self, snapshot: LoadSnapshot) -> int:
        """Return how many records were acknowledged in the spans that the snapshot's rates cover."""
        spans = {p.partition.partition: (snapshot.sample_ts - p.age_s, p.window_s) for p in snapshot.loads}
        return sum(1 for ts, p in list(self.acked) if spans[p][0] - spans[p][1] < ts <= spans[p][0])

    def _run(self) -> None:
        began, sent, payload = time.monotonic(), 0, bytes(i % 251 for i in range(self._size))
        while not self._stop.wait(0.005):
            while sent < (time.monotonic() - began) * self._per_s:
                partition = sent % self._partitions
                self._producer.produce(self._topic, payload, partition=partition, on_delivery=self._delivered)
                sent += 1
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        assert error is None
        self.acked.append((time.time(), message.partition() or 0))
