"""The byte rate against what a producer puts on the wire, where codecs, transactions, compaction or leaders come in between.

The window holds all of the load, so that its rate times its span is every byte that was sent, whenever samples were taken.
"""

import json
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_END, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from autoscaler import jars
from autoscaler.devtools.broker import Broker, Cluster
from autoscaler.model import LoadSnapshot, RateSource
from autoscaler.streaming.lag import GroupRules
from tests.conftest import create_topic
from tests.kafka.measuring import Measured
from tests.until import let_pass, until

WINDOW_S, IDLE_S, BATCHES, BATCHES_PER_S, PARTITIONS = 90.0, 2.0, 32, 8, 2
BATCH, RECORD, LARGE = 60, 1000, 900_000  # records of a batch, bytes of a record and of one that is large
OFF = 0.02  # of the bytes sent
OFTEN = {"log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "500"}  # segments that may go, go at once
LOCAL_TIER = jars.Bundle(
    name="kafka-local-tier", version=jars.KAFKA.version, required=("kafka-storage-",),
    artifacts=(f"org.apache.kafka:kafka-storage:{jars.KAFKA.version}:test",),
)  # fmt: skip


class Counted:
    """A producer that sends whole batches, and what it has put on the wire for them."""

    def __init__(self, cluster: Cluster, topic: str, settings: Mapping[str, str] | None = None, *, large_every: int = 0) -> None:
        """Send to a topic, with every so many batches a record to each partition that is as large as brokers allow."""
        self.topic, self.sent, self.dice = topic, 0, random.Random(1)
        self._large_every, self._batches = large_every, 0
        self._wire: dict[str, int] = {}
        self._told = 0
        self.transactional = "transactional.id" in (settings or {})
        self.producer = Producer({
            **cluster.connection(), "linger.ms": 500, "batch.num.messages": BATCH, "log_level": 0, "enable.idempotence": True,
            "statistics.interval.ms": 100, "stats_cb": self._counted, **(settings or {}),
        })  # fmt: skip
        if self.transactional:
            self.producer.init_transactions(60)

    def _counted(self, said: str) -> None:
        self._wire |= {name: b["txbytes"] for name, b in json.loads(said)["brokers"].items()}  # one that is gone is not told of
        self._told += 1

    def wire(self) -> int:
        """Return the bytes that have left for brokers, once they are told of again."""
        told = self._told

        def again() -> bool:
            self.producer.poll(0.05)
            return self._told > told

        until("the bytes are told of again", again, every_s=0)
        return sum(self._wire.values())

    def batch(self, keys: int) -> None:
        """Send a batch to each partition, of records half of which compresses; ``keys`` is how many there are."""
        if self.transactional:
            self.producer.begin_transaction()
        for number in range(BATCH * PARTITIONS):
            value = self.dice.randbytes(RECORD // 2) + b"x" * (RECORD // 2)
            self.producer.produce(self.topic, value, str(self.dice.randrange(keys)), partition=number % PARTITIONS)
            self.sent += 1
        self._batches += 1
        if self._large_every and self._batches % self._large_every == 0:
            for partition in range(PARTITIONS):
                self.producer.produce(self.topic, self.dice.randbytes(LARGE), partition=partition)
                self.sent += 1
        if self.transactional:
            self.producer.commit_transaction(60)
        assert self.producer.flush(120) == 0


def compare(
    cluster: Cluster,
    group: str,
    producer: Counted,
    *,
    keys: int = 10**6,
    shrinks: bool = False,
    meanwhile: Callable[[], None] = lambda: None,
    sent_twice: bool = False,
) -> LoadSnapshot:
    """Measure a load from before its first record until after its last, and hold the bytes against the producer's.

    Args:
        keys: How many the records have.
        shrinks: Whether the log of a partition is to be seen to shrink during the load.
        meanwhile: What else happens, in the middle of the load.
        sent_twice: Whether the producer may have to send batches again after that. The wire sees those twice and the log once, so
            that all batches, which are alike, are told by those before.
    """
    for _ in range(BATCHES if shrinks else 1):  # connected, a size of records is known, and there is something to take away
        producer.batch(keys)
    sizes: dict[int, int] = {}
    shrunk = False
    with Measured(cluster.connection(), (GroupRules(group=group, topics=(producer.topic,)),), window_s=WINDOW_S) as measured:
        begin = time.monotonic() + IDLE_S
        measured.until(lambda s: s.known and time.monotonic() > begin)
        ends = {p.partition: p.log_end or 0 for p in measured.one().loads}
        before, began, sent_batches, sent_before, half = producer.wire(), time.monotonic(), 0, producer.sent, 0
        while sent_batches < BATCHES or (shrinks and not shrunk):
            if sent_batches < min(BATCHES, (time.monotonic() - began) * BATCHES_PER_S):
                producer.batch(keys)
                sent_batches += 1
                if sent_batches == BATCHES // 2:
                    half = producer.wire() - before
                    meanwhile()
            measured.one()
            now = {f["partition"]: f["size_bytes"] for f in measured.facts if f["error"] is None}
            shrunk |= any(size < sizes.get(partition, 0) for partition, size in now.items())
            sizes |= now
            assert time.monotonic() < began + WINDOW_S, "the load is longer than the window, or no log has shrunk in it"
            let_pass(0.05)
        sent, records = 2 * half if sent_twice else producer.wire() - before, producer.sent - sent_before
        found = measured.until(lambda s: s.known and sum((p.log_end or 0) - ends[p.partition] for p in s.loads) >= records)
    assert all(p.window_s < WINDOW_S for p in found.loads), "the load is longer than the window"
    counted = sum((p.bytes_per_s or 0.0) * p.window_s for p in found.loads)
    assert counted == pytest.approx(sent, rel=OFF), f"{counted / sent - 1:+.2%}"
    print(f"of {sent} bytes {counted / sent - 1:+.2%}")
    return found


@pytest.fixture
def topic(make_topic: Callable[..., str]) -> str:
    return make_topic(partitions=PARTITIONS)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_codec_counts_as_it_lies_in_the_log(broker: Broker, topic: str, group: str, codec: str) -> None:
    seen = compare(broker, group, Counted(broker, topic, {"compression.type": codec}))
    assert {p.rate_source for p in seen.loads} == {RateSource.LOG_DIRS}


def test_transactions(broker: Broker, topic: str, group: str) -> None:
    compare(broker, group, Counted(broker, topic, {"transactional.id": group}))


def test_a_few_large_records_among_many_small_ones(broker: Broker, topic: str, group: str) -> None:
    seen = compare(broker, group, Counted(broker, topic, large_every=4))
    assert {p.rate_source for p in seen.loads} == {RateSource.LOG_DIRS}


def test_records_that_are_deleted_meanwhile(tmp_path: Path, group: str) -> None:
    with Broker(tmp_path, heap_mb=160, settings=OFTEN) as broker:
        topic = create_topic(broker, "deleted", PARTITIONS, segment_bytes=2**20, file_delete_delay_ms=1)
        admin = AdminClient(broker.connection())

        def delete() -> None:
            up_to_now = [TopicPartition(topic, p, OFFSET_END) for p in range(PARTITIONS)]
            for future in admin.delete_records(up_to_now).values():
                future.result(30)

        compare(broker, group, Counted(broker, topic), shrinks=True, meanwhile=delete)


def test_a_log_that_is_compacted_meanwhile(tmp_path: Path, group: str) -> None:
    with Broker(tmp_path, heap_mb=160, settings={"log.cleaner.backoff.ms": "200"}) as broker:
        topic = create_topic(
            broker, "compacted", PARTITIONS, cleanup_policy="compact", segment_bytes=2**20, min_cleanable_dirty_ratio=0.01
        )
        compare(broker, group, Counted(broker, topic), keys=20, shrinks=True)


def test_segments_that_are_deleted_meanwhile(tmp_path: Path, group: str) -> None:
    with Broker(tmp_path, heap_mb=160, settings=OFTEN) as broker:
        topic = create_topic(broker, "short", PARTITIONS, segment_bytes=2**20, retention_bytes=2**20, file_delete_delay_ms=1)
        compare(broker, group, Counted(broker, topic), shrinks=True)


def test_a_leader_that_dies_meanwhile(three_brokers: Cluster, group: str) -> None:
    topic = create_topic(three_brokers, f"led-{group}", PARTITIONS)
    producer = Counted(three_brokers, topic)
    producer.batch(1)  # every broker knows of it
    leader = producer.producer.list_topics(topic, timeout=30).topics[topic].partitions[0].leader
    try:
        compare(three_brokers, group, producer, meanwhile=three_brokers.nodes[leader - 1].kill, sent_twice=True)
    finally:
        three_brokers.start()


def test_segments_that_go_to_another_tier_meanwhile(tmp_path: Path, group: str) -> None:
    """Their bytes leave the log's size as fast as they come: what is kept locally is no more than the newest."""
    storage = jars.fetch(LOCAL_TIER, progress=True)
    tiered = {
        "remote.log.storage.system.enable": "true", "remote.log.metadata.manager.listener.name": "CLIENT",
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "remote.log.storage.manager.class.path": f"{storage}/*", "remote.log.storage.manager.impl.prefix": "tier.",
        "tier.dir": str(tmp_path / "tier"), "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1", "remote.log.manager.task.interval.ms": "500", **OFTEN,
    }  # fmt: skip
    with Broker(tmp_path / "broker", heap_mb=256, settings=tiered) as broker:
        topic = create_topic(
            broker, "tiered", PARTITIONS, remote_storage_enable="true", segment_bytes=2**20, local_retention_bytes=1,
            file_delete_delay_ms=1,
        )  # fmt: skip
        compare(broker, group, Counted(broker, topic), shrinks=True)
        assert any((tmp_path / "tier").rglob("*.log")), "segments are there"
