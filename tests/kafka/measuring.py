"""The measuring path on a real broker without Spark: what one batch does, called directly."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from confluent_kafka import OFFSET_BEGINNING, TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from autoscaler.model import LoadSnapshot, PartitionLoad, TopicPartition
from autoscaler.streaming import query, schema, windows
from autoscaler.streaming.broker_clients import Clients
from autoscaler.streaming.discovery import Discovery
from autoscaler.streaming.lag import GroupRules
from autoscaler.streaming.source import Plan, begin, shards
from autoscaler.streaming.state import State, dump, load
from autoscaler.streaming.window_inputs import Rules
from tests.until import until

Setting = str | int | float | bool

OVERHEAD = 80  # log bytes of a batch of one record beyond its payload, at most: 61 of the batch, and lengths and deltas
_ROUNDING = 1e-3  # of a count that was divided by a span and multiplied by it again


@dataclass(frozen=True, slots=True)
class Read:
    """One good sample of a partition: its stamp, the instants it surely lies between, and the end offset it gave."""

    ts: float
    before: float
    after: float
    end: int


class Reads:
    """Every good sample of every partition."""

    def __init__(self) -> None:
        self._of: dict[TopicPartition, list[Read]] = defaultdict(list)

    def add(self, partition: TopicPartition, read: Read) -> None:
        assert read.before <= read.ts <= read.after
        self._of[partition].append(read)

    def has(self, partition: TopicPartition, ts: float) -> bool:
        return any(abs(r.ts - ts) < _ROUNDING for r in self._of[partition])

    def at(self, partition: TopicPartition, ts: float) -> Read:
        """Return the sample with this stamp: a span that does not begin and end with a sample is wrong."""
        found = [r for r in self._of[partition] if abs(r.ts - ts) < _ROUNDING]
        assert len(found) == 1, (partition, ts, self._of[partition][-3:])
        return found[0]


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
        self.discovery = Discovery(connection, self.plan.topics_of, every_s=0.3, timeout_s=timeout_s)
        self.clients, self.state, self.slots = Clients(), State(), dict[int, bytes]()
        self.facts: list[dict[str, Any]] = []
        self.rows: list[dict[str, Any]] = []
        self.reads = Reads()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.discovery.stop()
        self.clients.close()

    def batch(self) -> dict[str, LoadSnapshot]:
        """Run one batch and return a snapshot per group; ``facts`` and ``rows`` are what the source and the window said."""
        before = time.time()
        tables = [begin(self.plan, shard, self.clients)() for shard in shards(self.plan, self.discovery.picture())]
        after = time.time()
        facts = schema.unpack([schema.pack(f) for f, _ in tables], schema.FACTS)
        commits = schema.unpack([schema.pack(c) for _, c in tables], schema.COMMITS)
        step, loads = windows.step(
            self.state, facts, commits, self.groups, self.rules, slot=self.slots.__getitem__, now=time.time()
        )
        self.state = load(dump(step.state))
        if step.write is not None:
            self.slots[step.write_id] = step.write.tobytes()
        for slot in step.drop:
            del self.slots[slot]
        self.facts, self.rows = facts.to_pylist(), loads.to_pylist()
        for fact in (f for f in self.facts if f["error"] is None):
            partition = TopicPartition(topic=fact["topic"], partition=fact["partition"])
            self.reads.add(partition, Read(fact["sample_ts"], before, after, fact["log_end"]))
        return query.snapshots(schema.unpack([schema.pack(loads)], schema.LOADS), [g.group for g in self.groups])

    def one(self) -> LoadSnapshot:
        """Run one batch and return the only group's snapshot."""
        (found,) = self.batch().values()
        return found

    def until(self, holds: Callable[[LoadSnapshot], bool], *, within_s: float = 60.0, every_s: float = 0.25) -> LoadSnapshot:
        """Run batches until the only group's snapshot is as wanted."""
        return until("a snapshot as wanted", self.one, holds, within_s=within_s, every_s=every_s)


@dataclass(frozen=True, slots=True)
class Arrived:
    """A record of the producer: when the broker appended it, and when the producer knew. It became readable in between."""

    offset: int
    appended: float
    acked: float


@dataclass(frozen=True, slots=True)
class Compared:
    """What was measured over the snapshot's spans, and how many records of the producer surely and possibly arrived in them."""

    fewest: int
    most: int
    records: float
    bytes: float

    @property
    def sharp(self) -> bool:
        """Return whether what the samples' instants leave open is little: a rate that is off by three percent cannot pass."""
        return 0 < self.most <= 1.02 * self.fewest


class Load:
    """Produces in the background, now more and now less, and remembers what became of each record.

    Every ``wave_s`` the rate changes between half and one and a half of ``per_s``: a span that is out of place is off by more
    than a percent. The topic stamps its records itself (``message.timestamp.type=LogAppendTime``).
    """

    def __init__(
        self, connection: Mapping[str, Setting], topic: str, *, per_s: float, size: int, partitions: int, wave_s: float = 5.0
    ) -> None:
        self.arrived: dict[int, list[Arrived]] = {p: [] for p in range(partitions)}
        settings = {"linger.ms": 5, "log_level": 0, "message.timeout.ms": 120_000, "enable.idempotence": True}
        self._producer = Producer({**connection, **settings})
        self._connection, self._topic, self._per_s, self._size, self._wave_s = connection, topic, per_s, size, wave_s
        self._sent = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        if error is None:
            self._stand_in_the_log()

    def compared(self, snapshot: LoadSnapshot, reads: Reads) -> Compared:
        """Hold the snapshot's records against the producer's; none may be missing and none too many in any partition."""
        self._settle()
        every = [self._one(p, snapshot.sample_ts - p.age_s, reads) for p in snapshot.loads]
        return Compared(*map(sum, zip(*((c.fewest, c.most, c.records, c.bytes) for c in every), strict=True)))

    def agrees(self, snapshot: LoadSnapshot, reads: Reads, *, estimated: float = 0.0) -> Compared:
        """Hold records and bytes against the producer's; ``estimated`` allows for bytes that were not measured, as a ratio."""
        found = self.compared(snapshot, reads)
        assert found.bytes >= found.fewest * self._size * (1 - estimated), found
        assert found.bytes <= found.most * (self._size + OVERHEAD) * (1 + estimated), found
        return found

    def _one(self, load: PartitionLoad, ts: float, reads: Reads) -> Compared:
        now, then = (reads.at(load.partition, t) for t in (ts, ts - load.window_s))
        assert load.bytes_per_s is not None
        assert load.records_per_s is not None
        arrived = self.arrived[load.partition.partition]
        fewest = sum(then.after <= a.appended and a.acked <= now.before for a in arrived)
        most = sum(then.before <= a.acked and a.appended <= now.after for a in arrived)
        records = load.records_per_s * load.window_s
        assert abs(records - (now.end - then.end)) < _ROUNDING, (load, now, then)
        assert fewest - _ROUNDING < records < most + _ROUNDING, (load, now, then, fewest, most)
        return Compared(fewest, most, records, load.bytes_per_s * load.window_s)

    def _settle(self) -> None:
        """Wait until everything sent so far is acknowledged."""
        sent = self._sent
        until(f"{sent} are acknowledged", lambda: sum(map(len, self.arrived.values())), lambda n: n >= sent, every_s=0.005)

    def _run(self) -> None:
        began, payload = time.monotonic(), bytes(i % 251 for i in range(self._size))
        while not self._stop.wait(0.005):
            ran = time.monotonic() - began
            wave = abs(ran % (2 * self._wave_s) - self._wave_s) - self._wave_s  # rises and falls by a second per second
            while self._sent < (ran + wave / 2) * self._per_s:
                partition = self._sent % len(self.arrived)
                self._producer.produce(self._topic, payload, partition=partition, on_delivery=self._delivered)
                self._sent += 1
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        acked = time.time()
        assert error is None
        kind, ms = message.timestamp()
        assert kind == TIMESTAMP_LOG_APPEND_TIME
        self.arrived[message.partition() or 0].append(Arrived(message.offset() or 0, ms / 1000, acked))

    def _stand_in_the_log(self) -> None:
        """Read the topic: it holds what was acknowledged and nothing else, stamped as the producer was told."""
        consumer = Consumer({**self._connection, "group.id": "nobody", "enable.partition.eof": True, "log_level": 0})
        consumer.assign([KafkaPartition(self._topic, p, OFFSET_BEGINNING) for p in self.arrived])
        found: dict[int, dict[int, float]] = {p: {} for p in self.arrived}
        ended: set[int] = set()
        while len(ended) < len(self.arrived):
            message = consumer.poll(30)
            assert message is not None
            number, offset = message.partition() or 0, message.offset() or 0
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(number)
                continue
            found[number][offset] = message.timestamp()[1] / 1000
        for number, log in found.items():
            low, high = consumer.get_watermark_offsets(KafkaPartition(self._topic, number), timeout=30)
            told = {a.offset: a.appended for a in self.arrived[number]}
            assert sorted(told) == list(range(high)), "every offset was acknowledged"
            assert len(told) == len(self.arrived[number]), "and once"
            assert log == {o: t for o, t in told.items() if o >= low}  # the beginning may be deleted
        consumer.close()
