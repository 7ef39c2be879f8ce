"""Cutting a picture of the cluster into tasks: every partition and every group's commits in exactly one."""

import pickle
import socket
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.streaming.broker_clients import Clients
from autoscaler.streaming.broker_poll import Part, failed_commits, failed_facts
from autoscaler.streaming.discovery import Discovery, Picture, Topic
from autoscaler.streaming.source import Plan, Reader, Shard, begin, bucket_of, parts, shards, tasks


def plan(buckets: int = 1, place: int = 0, **topics_of: tuple[str, ...]) -> Plan:
    return Plan(
        connection={"bootstrap.servers": "127.0.0.1:1"}, topics_of=topics_of, read_committed=False, read_timeout_s=0.2,
        metadata_every_s=5, buckets=buckets, place=place,
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


def test_a_pattern_of_which_nobody_could_say_what_it_means_is_not_one_that_means_nothing() -> None:
    wanted = plan(g=("^a", "!^ab", "t"), h=("^a", "^b"))
    (away,) = shards(wanted, Picture(error="no broker has answered yet"))
    assert away.missing == dict.fromkeys(("^a", "^b", "t"), "no broker has answered yet")
    (answered,) = shards(wanted, Picture(error=None))
    assert set(answered.missing) == {"t"}
    (known,) = shards(wanted, replace(ONE, error="away for now"))
    assert known.missing == {}, "what they meant last is asked for"


ONE = Picture({1: "a:1", 2: "b:1"}, {"t": Topic("id", np.arange(4, dtype="i4"), np.array([1, 2, 1, 2], "i4"))}, {}, {}, None)


@pytest.mark.parametrize(("buckets", "cut"), [(1, [["0a", "0b", "1a", "1b"]]), (2, [["0a"], ["0b"], ["1a"], ["1b"]])])
def test_clusters_are_read_in_one_task_with_one_bucket_each_and_else_broker_by_broker(buckets: int, cut: list[list[str]]) -> None:
    made = tasks([plan(buckets, g=("t",)), plan(buckets, 1, h=("t",))], [ONE, ONE])
    assert [[f"{i}{s.address[0]}" for i, shard in task.work for s in shard.shares] for task in made] == cut


@given(st.lists(st.text("abc", min_size=1), unique=True, max_size=8), st.integers(1, 5), st.integers(0, 4))
def test_a_clusters_rows_lie_in_its_own_buckets(topics: list[str], buckets: int, place: int) -> None:
    there = {t: Part("id", np.arange(2, dtype="i4")) for t in topics}
    facts, commits = (
        failed_facts(there, -1, "away", 1.0),
        failed_commits({"g": {t: p.partitions for t, p in there.items()}}, "away", 1.0),
    )
    wanted = plan(buckets, place, g=tuple(topics))
    cut = list(parts(wanted, facts, commits))
    assert all(place * buckets <= number < (place + 1) * buckets for number, _, _ in cut)
    for number, of_facts, of_commits in cut:
        for row in (*of_facts.to_pylist(), *of_commits.to_pylist()):
            assert number == place * buckets + bucket_of(row["topic"], buckets)
    assert sum(f.num_rows for _, f, _ in cut) == sum(c.num_rows for _, _, c in cut) == 2 * len(topics)


def test_a_silent_cluster_costs_a_read_its_deadline_once_and_the_other_nothing() -> None:
    with socket.socket() as silent:  # takes connections and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        away = replace(plan(g=("t",)), connection={"bootstrap.servers": address}, read_timeout_s=1.0)
        there = replace(away, connection={"bootstrap.servers": "127.0.0.1:1"})
        began, clients = time.monotonic(), Clients()
        pictures = [replace(ONE, brokers={1: address, 2: address}), replace(ONE, brokers={1: "127.0.0.1:1", 2: "127.0.0.1:1"})]
        (task,) = tasks([away, there], pictures)
        answers = [begin((away, there)[i], shard, clients) for i, shard in task.work]
        found = [answer()[0].to_pylist() for answer in answers]
        took = time.monotonic() - began
    assert 0.9 < took < 1.9, "two silent brokers, and one deadline"
    assert [len(rows) for rows in found] == [4, 4]
    assert all("no broker answers at 127.0.0.1:1" in row["error"] for row in found[1])


def test_of_a_cluster_that_never_answers_nobody_waits_for_the_first_picture_twice() -> None:
    wanted = plan(g=("t",))
    made = [Discovery(wanted.connection, wanted.topics_of, every_s=1.0, timeout_s=0.5) for _ in range(3)]
    began = time.monotonic()
    for discovery in made:
        discovery.start()
    pictures = [d.picture() for d in made]
    first = time.monotonic() - began
    again = [d.picture() for d in made]
    second = time.monotonic() - began - first
    for discovery in made:
        discovery.stop()
    assert all(p.topics == {} and p.error for p in (*pictures, *again))
    assert first < 0.9, "side by side"
    assert second < 0.1


def test_an_unread_share_gives_as_many_rows_as_a_read_one_each_with_its_error() -> None:
    picture = Picture(
        {1: "127.0.0.1:1"}, {"t": Topic("id", np.arange(3, dtype="i4"), np.array([1, 1, -1], "i4"))}, {"u": "unknown topic u"},
        {"g": 1}, None,
    )  # fmt: skip
    wanted = plan(g=("t", "u"))
    facts, commits = begin(wanted, shards(wanted, picture)[0], Clients())()
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
    facts, _ = begin(wanted, shards(wanted, Picture())[0], Clients())()
    assert [(r["topic"], r["partition"], r["error"]) for r in facts.to_pylist()] == [
        ("t", -1, "no broker has answered yet"),
        ("u", -1, "no broker has answered yet"),
    ]


def test_offsets_are_tiny_and_always_move_on() -> None:
    reader: Any = pickle.loads(pickle.dumps(Reader([plan(g=("t",))])))  # noqa: S301  Spark pickles it
    first = reader.initialOffset()
    offset = reader.latestOffset(first)
    assert set(offset) == {"seq", "t_ms"}
    assert offset["seq"] == first["seq"] + 1


@given(st.text(min_size=1, max_size=20), st.integers(1, 64))
def test_buckets_depend_on_the_name_only(topic: str, buckets: int) -> None:
    assert 0 <= bucket_of(topic, buckets) < buckets
    assert bucket_of("orders", 7) == 5, "a checkpoint depends on it"
