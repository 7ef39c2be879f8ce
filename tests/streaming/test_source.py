"""Cutting a picture of the cluster into tasks: every partition and every group's commits in exactly one."""

import pickle
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.streaming.client import Clients
from autoscaler.streaming.discovery import Picture, Topic
from autoscaler.streaming.source import Plan, Reader, Shard, bucket_of, read_shard, shards


def plan(buckets: int = 1, **topics_of: tuple[str, ...]) -> Plan:
    return Plan(
        connection={"bootstrap.servers": "127.0.0.1:1"}, topics_of=topics_of, read_committed=False, read_timeout_s=0.2,
        metadata_every_s=5, buckets=buckets,
    )  # fmt: skip


def covered(cut: list[Shard]) -> tuple[list[tuple[str, int]], list[str]]:
    parts = [p for s in cut for share in s.shares for p in share.leads.items()] + [p for s in cut for p in s.leaderless.items()]
    partitions = [(t, int(i)) for t, p in parts for i in p.partitions]
    groups = [g for s in cut for share in s.shares for g in share.groups] + [g for s in cut for g in s.uncoordinated]
    return partitions, groups


pictures = st.builds(
    lambda brokers, leaders, coordinators: Picture(
        brokers={b: f"127.0.0.1:{b}" for b in brokers},
        topics={f"t{i}": Topic(f"id{i}", np.arange(len(x), dtype="i4"), np.array(x, "i4")) for i, x in enumerate(leaders)},
        missing={},
        coordinators={f"g{i}": b for i, b in enumerate(coordinators)},
        error=None,
    ),
    st.sets(st.integers(1, 5)),
    st.lists(st.lists(st.integers(-1, 6), min_size=1, max_size=8), max_size=4),
    st.lists(st.integers(-1, 6), max_size=3),
)


@given(pictures, st.sampled_from([1, 4]))
def test_every_partition_and_group_is_in_exactly_one_task(picture: Picture, buckets: int) -> None:
    wanted = plan(buckets, g0=("t0", "t1"), g1=("t1", "t2", "t3"))
    cut = shards(wanted, picture)
    partitions, groups = covered(cut)
    there = [(t, i) for t, x in picture.topics.items() for i in range(len(x.partitions))]
    assert sorted(partitions) == sorted(there)
    known = {g for g, topics in wanted.topics_of.items() if any(t in picture.topics for t in topics)}
    assert sorted(groups) == sorted(known)
    assert sorted(t for s in cut for t in s.missing) == sorted(set(wanted.names) - set(picture.topics))


def test_one_bucket_reads_all_brokers_in_one_task_and_several_in_one_each() -> None:
    picture = Picture(
        {1: "a:1", 2: "b:1"}, {"t": Topic("id", np.arange(4, dtype="i4"), np.array([1, 2, 1, 2], "i4"))}, {}, {}, None
    )
    assert [[s.node for s in shard.shares] for shard in shards(plan(1, g=("t",)), picture)] == [[1, 2]]
    assert [[s.node for s in shard.shares] for shard in shards(plan(2, g=("t",)), picture)] == [[1], [2]]


def test_an_unread_share_gives_as_many_rows_as_a_read_one_each_with_its_error() -> None:
    picture = Picture(
        {1: "127.0.0.1:1"}, {"t": Topic("id", np.arange(3, dtype="i4"), np.array([1, 1, -1], "i4"))}, {"u": "unknown topic u"},
        {"g": 1}, None,
    )  # fmt: skip
    wanted = plan(g=("t", "u"))
    facts, commits = read_shard(wanted, shards(wanted, picture)[0], Clients())
    rows = {(r["topic"], r["partition"]): r for r in facts.to_pylist()}
    assert set(rows) == {("t", 0), ("t", 1), ("t", 2), ("u", -1)}
    assert rows["u", -1]["error"] == "unknown topic u"
    assert rows["t", 2]["error"] == "no broker leads this partition"
    assert rows["t", 0]["error"].startswith("broker 1 at 127.0.0.1:1: no broker answers")
    assert {r["log_end"] for r in rows.values()} == {None}
    assert [(r["partition"], r["committed"]) for r in commits.to_pylist()] == [(0, None), (1, None), (2, None)]
    assert all(r["error"] for r in commits.to_pylist())


def test_without_any_broker_every_topic_is_an_error_row() -> None:
    wanted = plan(g=("t", "u"))
    facts, _ = read_shard(wanted, shards(wanted, Picture())[0], Clients())
    assert [(r["topic"], r["partition"], r["error"]) for r in facts.to_pylist()] == [
        ("t", -1, "no broker has answered yet"),
        ("u", -1, "no broker has answered yet"),
    ]


def test_offsets_are_tiny_and_always_move_on() -> None:
    reader: Any = pickle.loads(pickle.dumps(Reader(plan(g=("t",)))))  # noqa: S301  Spark pickles it
    first = reader.initialOffset()
    offset = reader.latestOffset(first)
    assert set(offset) == {"seq", "t_ms"}
    assert offset["seq"] == first["seq"] + 1


@given(st.text(min_size=1, max_size=20), st.integers(1, 64))
def test_buckets_depend_on_the_name_only(topic: str, buckets: int) -> None:
    assert 0 <= bucket_of(topic, buckets) < buckets
    assert bucket_of("orders", 7) == 5, "a checkpoint depends on it"
