"""The streaming source ``kafka_load``: what the brokers say about partitions and groups, sampled once per micro-batch.

A Python DataSource. The driver-side runner keeps a picture of each cluster and cuts it into shares, one per broker; the
executors read the shares, those of all clusters side by side, and return Arrow tables, packed into one row per topic bucket. A
bucket belongs to one cluster: topics of one name on two of them never meet. Offsets of the stream are tiny and hold nothing of
the brokers: a replayed batch samples them anew, and says so by its ``sample_ts``.
"""

import json
import os
import socket
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from autoscaler.clients.kafka_python import Setting
from autoscaler.clients.secrets import variables
from autoscaler.errors import AutoscalerError
from autoscaler.streaming import broker_poll, schema
from autoscaler.streaming.broker_clients import Clients
from autoscaler.streaming.broker_poll import Part, Share
from autoscaler.streaming.discovery import NO_LEADER, Discovery, Picture
from autoscaler.topic_selection import means, names, patterns

_CLIENTS = Clients()  # lives as long as the executor's Python worker, which Spark reuses from batch to batch
_ROWS = pa.schema([
    ("bucket", pa.int32()), ("read_ts", pa.float64()), ("read_s", pa.float64()), ("facts", pa.binary()), ("commits", pa.binary()),
])  # fmt: skip
_UNTIMED = "not asked by a process that has just been started on another machine and does not know the driver's time yet"


def bucket_of(topic: str, buckets: int) -> int:
    """Return the state bucket of a topic; the same in every process and release."""
    return zlib.crc32(topic.encode()) % buckets


@dataclass(frozen=True, slots=True)
class Plan:
    """What the source is to read of one cluster."""

    connection: Mapping[str, Setting]
    topics_of: Mapping[str, tuple[str, ...]]
    read_committed: bool
    read_timeout_s: float
    metadata_every_s: float
    buckets: int  # state buckets of a cluster
    place: int = 0  # its buckets begin at so many times ``buckets`` (``checkpoint_guard.claim``)

    @staticmethod
    def parse(text: str) -> "tuple[Plan, ...]":
        """Read the source's ``settings`` option: a plan for each cluster."""
        data = json.loads(text)
        return tuple(
            Plan(
                connection=cluster["connection"],
                topics_of={g["group"]: tuple(g["topics"]) for g in cluster["groups"]},
                read_committed=any(g["read_committed"] for g in cluster["groups"]),
                read_timeout_s=data["read_timeout_s"],
                metadata_every_s=data["metadata_every_s"],
                buckets=data["buckets"],
                place=cluster["place"],
            )
            for cluster in data["clusters"]
        )

    @property
    def names(self) -> frozenset[str]:
        """Return every topic that a group names."""
        return frozenset(t for topics in self.topics_of.values() for t in names(topics))

    @property
    def patterns(self) -> tuple[str, ...]:
        """Return every pattern of a group."""
        return tuple(sorted({p for topics in self.topics_of.values() for p in patterns(topics)}))


@dataclass(frozen=True, slots=True)
class Shard:
    """What one task reads of one cluster: shares of brokers, read at the same time, and what is known to be unreadable."""

    shares: tuple[Share, ...]
    leaderless: Mapping[str, Part] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    uncoordinated: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    why: str = ""


class Task(InputPartition):
    """One task's work: shards, each with the number of the plan that it is of; and what it takes to do it on another machine."""

    def __init__(self, work: Sequence[tuple[int, Shard]], environment: Mapping[str, str]) -> None:
        """Take a part of the pictures, now; ``environment`` are variables that connections refer to."""
        super().__init__(None)
        self.work, self.environment = tuple(work), dict(environment)
        self.planned_ts, self.machine = time.time(), machine()

    __repr__ = object.__repr__  # shows no variable: it may be a password


def machine() -> str:
    """Return what machines, and so their clocks, are told apart by: containers on one have one clock."""
    boot_id = Path("/proc/sys/kernel/random/boot_id")
    return boot_id.read_text(encoding="ascii") if boot_id.exists() else socket.gethostname()


def tasks(plans: Sequence[Plan], pictures: Sequence[Picture]) -> list[Task]:
    """Cut pictures into tasks: one for all clusters where each has one bucket, else one per broker of a cluster."""
    work = [(i, s) for i, (plan, seen) in enumerate(zip(plans, pictures, strict=True)) for s in shards(plan, seen)]
    environment = {k: v for plan in plans for k, v in variables(plan.connection).items()}
    return [Task(w, environment) for w in ([work] if all(plan.buckets == 1 for plan in plans) else ([w] for w in work))]


def shards(plan: Plan, picture: Picture) -> list[Shard]:
    """Cut a cluster's picture: all brokers in one shard where there is one bucket, else each in one of its own.

    Every wanted partition is in exactly one shard, every group's commits too, whatever is unknown about them.
    """
    shares, leaderless = _shares(plan, picture)
    missing = {t: _absent(t, picture) for t in sorted(plan.names | picture.missing.keys()) if t not in picture.topics}
    if picture.error and not picture.topics:  # else this would look like a cluster on which a pattern means nothing
        missing |= dict.fromkeys(plan.patterns, picture.error)
    wanted = {g: _wanted(topics, picture) for g, topics in plan.topics_of.items()}
    coordinated = {g for s in shares for g in s.groups}
    uncoordinated = {g: w for g, w in wanted.items() if g not in coordinated and w}
    why = picture.error or "no coordinator is known yet"
    per_task = [shares] if plan.buckets == 1 else [[s] for s in shares] or [[]]
    first, *rest = (tuple(s) for s in per_task)
    return [Shard(first, leaderless, missing, uncoordinated, why), *(Shard(s) for s in rest)]


def _wanted(topics: tuple[str, ...], picture: Picture) -> dict[str, Any]:
    return {t: found.partitions for t, found in picture.topics.items() if means(topics, t)}


def _absent(topic: str, picture: Picture) -> str:
    return picture.missing.get(topic) or picture.error or f"topic {topic}: not in the broker's answer"


def _shares(plan: Plan, picture: Picture) -> tuple[list[Share], dict[str, Part]]:
    leads: dict[int, dict[str, Part]] = {}
    for name, topic in picture.topics.items():
        for node in np.unique(topic.leaders):
            here = topic.leaders == node
            known = int(node) if int(node) in picture.brokers else NO_LEADER
            part = leads.setdefault(known, {})
            mine = topic.partitions[here] if name not in part else np.union1d(part[name].partitions, topic.partitions[here])
            part[name] = Part(topic.topic_id, mine)
    groups: dict[int, dict[str, Any]] = {}
    for group, node in picture.coordinators.items():
        wanted = _wanted(plan.topics_of.get(group, ()), picture)
        if node in picture.brokers and wanted:
            groups.setdefault(node, {})[group] = wanted
    nodes = sorted((set(leads) | set(groups)) - {NO_LEADER})
    shares = [
        Share(n, picture.brokers[n], leads.get(n, {}), groups.get(n, {}), plan.read_committed) for n in nodes
    ]  # fmt: skip
    return shares, leads.get(NO_LEADER, {})


def begin(
    plan: Plan, shard: Shard, clients: Clients, clock: Callable[[], float] = time.time, *, ask: bool = True
) -> Callable[[], tuple[pa.Table, pa.Table]]:
    """Ask a shard's brokers, all at once, and return a function that gives its facts and commits; as many rows whatever fails.

    Samples are stamped by ``clock``. Without ``ask`` nothing is asked, and every row says so.
    """
    deadline = time.monotonic() + plan.read_timeout_s

    def start(share: Share) -> Callable[[], tuple[pa.Table, pa.Table]]:
        if not ask:
            return lambda: broker_poll.unread(share, _UNTIMED, clock())
        return clients.use(plan.connection, share.address, deadline, lambda c: broker_poll.read(c, share, deadline, clock))

    started = [(share, start(share)) for share in shard.shares]
    return lambda: _answers(shard, started, clock)


def _answers(
    shard: Shard, started: Sequence[tuple[Share, Callable[[], tuple[pa.Table, pa.Table]]]], clock: Callable[[], float]
) -> tuple[pa.Table, pa.Table]:
    now = clock()
    leaderless = broker_poll.failed_facts(shard.leaderless, -1, "no broker leads this partition", now)
    facts = [leaderless, broker_poll.topic_errors(shard.missing, now)]
    commits = [broker_poll.failed_commits(shard.uncoordinated, shard.why, now)]
    for share, answer in started:
        try:
            f, c = answer()
        except AutoscalerError as e:
            f, c = broker_poll.unread(share, f"broker {share.node} at {share.address}: {e}", clock())
        facts.append(f)
        commits.append(c)
    return _joined(facts), _joined(commits)


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    filled = [t for t in tables if t.num_rows] or [tables[0]]
    return filled[0] if len(filled) == 1 else pa.concat_tables(filled).unify_dictionaries()


def parts(plan: Plan, facts: pa.Table, commits: pa.Table) -> Iterator[tuple[int, pa.Table, pa.Table]]:
    """Yield the facts and commits of each bucket that has any; a cluster's only bucket always, so that its clock goes on."""
    facts_of, commits_of = _by_bucket(facts, plan.buckets), _by_bucket(commits, plan.buckets)
    for bucket in sorted(facts_of | commits_of):
        number = plan.place * plan.buckets + bucket
        yield number, facts_of.get(bucket, schema.FACTS.empty_table()), commits_of.get(bucket, schema.COMMITS.empty_table())


def _by_bucket(table: pa.Table, buckets: int) -> dict[int, pa.Table]:
    if buckets == 1:
        return {0: table}
    topics = schema.names(table.combine_chunks(), "topic")
    of = np.array([bucket_of(t, buckets) for t in topics.names], np.int32)[topics.index] if table.num_rows else np.zeros(0)
    return {int(b): table.filter(pa.array(of == b)) for b in np.unique(of)}


class Reader(DataSourceStreamReader):
    """The runner's half (offsets, tasks) and the executors' half (``read``) of the source."""

    def __init__(self, plans: Sequence[Plan]) -> None:
        """Keep the plans only: the reader is pickled."""
        self._plans = tuple(plans)
        self._discoveries: tuple[Discovery, ...] = ()

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the offset before the first batch."""
        return {"seq": 0, "t_ms": 0}

    def latestOffset(self, start: dict[str, int], limit: object = None) -> dict[str, int]:  # noqa: N802
        """Return the next offset: every trigger has something to read."""
        del limit
        return {"seq": start["seq"] + 1, "t_ms": int(time.time() * 1000)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return the tasks of one batch."""
        del start, end
        if not self._discoveries:
            self._discoveries = tuple(
                Discovery(p.connection, p.topics_of, every_s=p.metadata_every_s, timeout_s=p.read_timeout_s) for p in self._plans
            )
            for discovery in self._discoveries:
                discovery.start()  # all of them before the first is waited for
        return tasks(self._plans, [d.picture() for d in self._discoveries])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's rows: one per bucket of a cluster."""
        if not isinstance(partition, Task):
            return
        began = time.monotonic()
        os.environ.update(partition.environment)
        clock, known = time.time, True
        if partition.machine != machine():
            from autoscaler.streaming.driver_clock import heard  # noqa: PLC0415  of no use on the driver's machine

            clock, known = heard(partition.planned_ts)
        asked = [(plan := self._plans[i], begin(plan, shard, _CLIENTS, clock, ask=known)) for i, shard in partition.work]
        read = [(plan, *answer()) for plan, answer in asked]
        took = time.monotonic() - began
        for plan, facts, commits in read:
            for bucket, of_facts, of_commits in parts(plan, facts, commits):
                row = {
                    "bucket": [bucket],
                    "read_ts": [clock()],
                    "read_s": [took],
                    "facts": [schema.pack(of_facts)],
                    "commits": [schema.pack(of_commits)],
                }
                yield pa.RecordBatch.from_pydict(row, schema=_ROWS)

    def commit(self, end: dict[str, int]) -> None:
        """Do nothing: there is nothing to acknowledge."""

    def stop(self) -> None:
        """Stop looking for brokers."""
        for discovery in self._discoveries:
            discovery.stop()

    def __getstate__(self) -> dict[str, Any]:
        """Leave the running discovery behind when pickled."""
        return {"_plans": self._plans, "_discoveries": ()}


class KafkaLoad(DataSource):
    """``spark.readStream.format("kafka_load").option("settings", …)``."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "kafka_load"

    def schema(self) -> str:
        """Return the packed row's schema."""
        return schema.SOURCE_DDL

    def streamReader(self, schema: Any) -> Reader:  # noqa: N802, ARG002
        """Return the reader."""
        options = {k.lower(): v for k, v in self.options.items()}
        return Reader(Plan.parse(options["settings"]))
