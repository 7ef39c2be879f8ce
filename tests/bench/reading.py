"""What it costs to ask brokers about very many partitions and groups: processor time here and there, requests, by client.

``python -m tests.bench.reading --partitions 10000 --groups 100`` starts the embedded broker with so many partitions, each
of which one group has committed, and reads everything as the job does once per trigger: both ends of every log, sizes,
commits. Beside the job's codec stand the plain calls of kafka-python and of confluent-kafka for the same, in as many
requests as they take. Rounds alternate between the clients; medians. Figures for 100,000 partitions are those for fewer,
scaled: they grow in proportion.
"""

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psutil
import pyarrow as pa
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from autoscaler.devtools.broker import Broker
from autoscaler.streaming import broker_poll, schema, windows
from autoscaler.streaming.broker_clients import Client
from autoscaler.streaming.broker_poll import Share
from autoscaler.streaming.discovery import Discovery, Picture
from autoscaler.streaming.lag import GroupRules
from autoscaler.streaming.source import Plan, shards
from autoscaler.streaming.state import State
from autoscaler.streaming.window_inputs import Rules
from tests.until import until

TOPIC_SIZE = 50  # partitions of a topic
SCALED_TO = 100_000
_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What one read took: wall and processor seconds of this process, processor seconds of the broker, requests."""

    wall_s: float
    own_s: float
    broker_s: float
    requests: int


class Bench:
    """A broker full of partitions, and ways to ask it about them."""

    def __init__(self, broker: Broker, partitions: int, groups: int, named: str = "group") -> None:
        self.broker = broker
        self.topics = tuple(f"load-{n:04d}" for n in range(partitions // TOPIC_SIZE))
        self.topics_of = {f"{named}-{n:04d}": self.topics[n % len(self.topics) :: groups] for n in range(groups)}
        assert all(self.topics_of.values()), "more groups than topics"
        self.admin = AdminClient({**broker.connection(), "log_level": 0})
        self._process = psutil.Process(broker.pid)
        self.plan = Plan(
            connection=broker.connection(), topics_of=self.topics_of, read_committed=False, read_timeout_s=_TIMEOUT_S,
            metadata_every_s=3600.0, buckets=1,
        )  # fmt: skip

    def fill(self) -> None:
        """Make the topics, a record in each partition, and commit it."""
        for at in range(0, len(self.topics), 10):
            new = [NewTopic(t, TOPIC_SIZE, 1) for t in self.topics[at : at + 10]]
            for future in self.admin.create_topics(new, operation_timeout=120, request_timeout=120).values():
                future.result(150)
        producer = Producer({**self.broker.connection(), "linger.ms": 100, "log_level": 0})
        for topic in self.topics:
            for partition in range(TOPIC_SIZE):
                producer.produce(topic, b"x" * 100, partition=partition)
            producer.poll(0)
        assert producer.flush(_TIMEOUT_S) == 0
        for group, topics in self.topics_of.items():
            consumer = Consumer({**self.broker.connection(), "group.id": group, "enable.auto.commit": False, "log_level": 0})
            _commit(consumer, [TopicPartition(t, p, 1) for t in topics for p in range(TOPIC_SIZE)])
            consumer.close()

    def cost(self, read: Callable[[], int]) -> Cost:
        """Read once, and return what that took."""
        here, there, began = time.process_time(), self._broker_s(), time.monotonic()
        requests = read()
        return Cost(time.monotonic() - began, time.process_time() - here, self._broker_s() - there, requests)

    def _broker_s(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def _complete(self, picture: Picture) -> bool:
        return len(picture.topics) == len(self.topics) and len(picture.coordinators) == len(self.topics_of)

    def picture(self) -> Picture:
        """Wait until every topic and coordinator is known."""
        discovery = Discovery(self.plan.connection, self.topics_of, every_s=1.0, timeout_s=_TIMEOUT_S)
        try:
            return until(
                "every topic and coordinator is known", discovery.picture, self._complete, within_s=_TIMEOUT_S, every_s=0.1
            )
        finally:
            discovery.stop()

    def by_confluent(self) -> int:
        """Ask by confluent-kafka's calls: it takes one group at a time, and has none for sizes."""
        every = [TopicPartition(t, p) for t in self.topics for p in range(TOPIC_SIZE)]
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):  # type: ignore[no-untyped-call]
            found = self.admin.list_offsets(dict.fromkeys(every, spec), isolation_level=IsolationLevel.READ_UNCOMMITTED)
            assert len([f.result(_TIMEOUT_S) for f in found.values()]) == len(every)
        for group, topics in self.topics_of.items():
            wanted = [TopicPartition(t, p) for t in topics for p in range(TOPIC_SIZE)]
            (future,) = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)]).values()
            assert len(future.result(_TIMEOUT_S).topic_partitions) == len(wanted)
        return 2 + len(self.topics_of)


class Counting(Client):
    """Counts what it asks."""

    asked = 0

    def ask(self, requests: Sequence[tuple[Any, int | None]], deadline: float) -> list[Any]:
        """Ask."""
        self.asked += len(requests)
        return super().ask(requests, deadline)


class Ours:
    """Reads as the job does: by its codec, so many partitions in a request at most."""

    def __init__(self, bench: Bench, picture: Picture, size: int | None = None) -> None:
        """Cut what one broker is asked for; without a size it is asked for all at once, as the job does."""
        (shard,) = shards(bench.plan, picture)
        (whole,) = shard.shares
        self.shares, self.client = list(cut(whole, size)) if size else [whole], Counting(bench.plan.connection, _late())
        self.partitions = len(bench.topics) * TOPIC_SIZE
        self.tables: tuple[pa.Table, pa.Table] = schema.FACTS.empty_table(), schema.COMMITS.empty_table()

    def read(self) -> int:
        """Read everything, and return the number of requests."""
        before = self.client.asked
        parts = [broker_poll.read(self.client, share, _late(), time.time) for share in self.shares]
        facts, commits = (pa.concat_tables(p[i] for p in parts) for i in (0, 1))
        assert facts.num_rows == commits.num_rows == self.partitions
        assert facts["error"].null_count == commits["error"].null_count == self.partitions
        self.tables = facts, commits
        return self.client.asked - before

    def plainly(self) -> int:
        """The same by kafka-python's calls; it takes one group at a time."""
        (share,) = self.shares
        wanted = {t: p.partitions for t, p in share.leads.items()}
        plain = self.client.plainly(share.node, wanted, share.groups)
        answers = plain.answers(leads=True, stable=False, coordinates=True)
        assert not any(isinstance(a, BaseException) for a in answers), answers
        return 3 + len(share.groups)


def cut(share: Share, size: int) -> Iterator[Share]:
    """Return shares of so many partitions at most, in whole topics, and of the groups in equal parts."""
    topics, groups = list(share.leads), list(share.groups)
    step = size // TOPIC_SIZE
    parts = math.ceil(len(topics) / step)
    for n in range(parts):
        leads = {t: share.leads[t] for t in topics[n * step : (n + 1) * step]}
        yield replace(share, leads=leads, groups={g: share.groups[g] for g in groups[n::parts]})


def _commit(consumer: Consumer, offsets: list[TopicPartition]) -> None:
    """Commit, again while a broker that has just made so many partitions does not know who coordinates."""

    def commit() -> bool:
        consumer.commit(offsets=offsets, asynchronous=False)
        return True

    until("the offsets are committed", commit, passing=KafkaException, within_s=_TIMEOUT_S, every_s=1.0)


def _late() -> float:
    return time.monotonic() + _TIMEOUT_S


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    with Broker(heap_mb=2048, java_options=("-XX:TieredStopAtLevel=4",)) as broker:
        bench = Bench(broker, args.partitions, args.groups)
        bench.fill()
        picture = bench.picture()
        whole = Ours(bench, picture)
        ways: dict[str, Callable[[], int]] = {"the job's codec": whole.read}
        for size in (1000, 100):
            if size < args.partitions:
                ways[f"... {size:,} partitions in a request"] = Ours(bench, picture, size).read
        ways |= {"kafka-python's calls": whole.plainly, "confluent-kafka's calls, without sizes": bench.by_confluent}
        costs: dict[str, list[Cost]] = {name: [] for name in ways}
        for turn in range(args.rounds + 1):
            for name, read in ways.items():
                cost = bench.cost(read)
                if turn:  # the first connects, and the broker's code is not compiled yet
                    costs[name].append(cost)
        stepped = step(whole, bench)
    scale = SCALED_TO / args.partitions
    for name, seen in costs.items():
        own, there, wall = (
            scale * statistics.median(values) for values in zip(*((c.own_s, c.broker_s, c.wall_s) for c in seen), strict=True)
        )
        sys.stdout.write(
            f"{name}: {own:.2f} processor seconds per {SCALED_TO:,} partitions, {there:.2f} of the broker, {wall:.2f} s in all; "
            f"{seen[0].requests} requests for {args.partitions:,}\n"
        )
    sys.stdout.write(f"the window over what was read: {scale * stepped:.2f} processor seconds per {SCALED_TO:,} partitions\n")


def step(read: Ours, bench: Bench) -> float:
    """Return the processor seconds of a window's step over what was read."""
    facts, commits = (
        schema.unpack([schema.pack(t)], s) for t, s in zip(read.tables, (schema.FACTS, schema.COMMITS), strict=True)
    )
    groups = tuple(GroupRules(group=g, topics=t) for g, t in bench.topics_of.items())
    state, slots, spent = State(), dict[int, bytes](), list[float]()
    for _ in range(5):
        began = time.process_time()
        stepped, _loads = windows.step(state, facts, commits, groups, Rules(), slot=slots.__getitem__, now=time.time())
        spent.append(time.process_time() - began)
        state = stepped.state
        if stepped.write is not None:
            slots[stepped.write_id] = stepped.write.tobytes()
    return statistics.median(spent)


if __name__ == "__main__":
    main()
