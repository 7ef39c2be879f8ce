"""All groups of a bucket are worked on at once: each gets what it would get alone, whatever the others are."""

from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.streaming import broker_poll, schema
from autoscaler.streaming.lag import GroupRules
from autoscaler.streaming.state import SLOT, State, dump, load
from autoscaler.streaming.window_inputs import Rules
from autoscaler.streaming.windows import step

TOPICS = ("a", "ab", "b", "c-0", "c-1")
MEANT = (*TOPICS, "^a", "^c-.*", "!c-1", "gone")
RULES = Rules(window_s=5.0, known_for_s=2.5)

groups = st.lists(
    st.builds(
        GroupRules,
        group=st.sampled_from("pqrs"),
        topics=st.lists(st.sampled_from([*TOPICS, "^a", "^c-.*", "!c-1", "gone"]), min_size=1, max_size=3, unique=True).map(
            tuple
        ),
        earliest=st.booleans(),
        read_committed=st.booleans(),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda g: g.group,
)
partitions = st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(-1, 2)), max_size=8, unique=True)
reads = st.lists(
    st.tuples(
        partitions,
        st.lists(st.tuples(st.sampled_from("pqrsz"), st.sampled_from(TOPICS), st.integers(0, 2)), max_size=10, unique=True),
        st.randoms(use_true_random=False),
    ),
    min_size=1,
    max_size=4,
)

Read = tuple[list[tuple[str, int]], list[tuple[str, str, int]], Random]


class Bucket:
    """A bucket that is told of some groups."""

    def __init__(self, told: list[GroupRules]) -> None:
        self.groups, self.state, self.slots, self.now = told, State(), dict[int, bytes](), 100.0

    def read(self, facts: pa.Table, commits: pa.Table) -> list[dict[str, object]]:
        self.now += 1
        done, loads = step(self.state, facts, commits, self.groups, RULES, slot=lambda n: self.slots.get(n, b""), now=self.now)
        if done.write is not None:
            assert done.write.dtype == SLOT
            self.slots[done.write_id] = done.write.tobytes()
        self.state = load(dump(done.state))
        rows: list[dict[str, object]] = loads.to_pylist()
        return rows


@given(groups, reads)
def test_each_group_gets_what_it_would_get_alone(told: list[GroupRules], steps: list[Read]) -> None:
    together, alone = Bucket(told), {g.group: Bucket([g]) for g in told}
    for number, (listed, committed, random) in enumerate(steps):
        facts, commits = _facts(number, listed, random), _commits(number, committed, random)
        rows = together.read(facts, commits)
        for group, bucket in alone.items():
            assert [r for r in rows if r["group"] == group] == bucket.read(facts, commits), group
        assert {r["group"] for r in rows} <= set(alone)


def test_a_group_that_is_not_told_of_any_more_is_forgotten() -> None:
    g = GroupRules(group="p", topics=("a",))
    both = Bucket([g, replace(g, group="q")])
    facts, commits = _facts(0, [("a", 0)], None), _commits(0, [("p", "a", 0), ("q", "a", 0)], None)
    both.read(facts, commits)
    assert sorted(both.state.commits) == ["p", "q"]
    both.groups = [g]
    both.read(facts, commits)
    assert {k: len(v) for k, v in both.state.commits.items()} == {"p": 1}


def _facts(number: int, listed: list[tuple[str, int]], random: Random | None) -> pa.Table:
    rows = []
    for topic, partition in listed:
        failed = partition < 0 or (random is not None and random.random() < 0.3)
        rows.append({
            "topic": topic, "topic_id": f"id of {topic}", "partition": partition, "sample_ts": 100.0 + number, "leader": 1,
            "leader_epoch": 0, "log_start": None if failed else number, "log_end": None if failed else 50 * number + 10,
            "last_stable": None if failed else 50 * number, "size_bytes": None if failed else 1000 * number,
            "size_error": None, "error": f"no leader of {topic}" if failed else None,
        })  # fmt: skip
    return schema.table(rows, schema.FACTS)


def _commits(number: int, committed: list[tuple[str, str, int]], random: Random | None) -> pa.Table:
    rows = []
    for group, topic, partition in committed:
        failed = random is not None and random.random() < 0.3
        offset = None if failed else number * 40 if random is None else random.choice([-1, 0, 40 * number, 10**6])
        rows.append({
            "group": group, "topic": topic, "partition": partition, "sample_ts": 100.0 + number, "committed": offset,
            "error": f"coordinator of {group} is away" if failed else None,
        })  # fmt: skip
    return schema.table(rows, schema.COMMITS)


PATTERN, NAMED = GroupRules(group="p", topics=("^a$",)), GroupRules(group="p", topics=("a",))


def _one(
    at: float, end: int, *, topic_id: str = "A", partitions: tuple[int, ...] = (0,), failed: tuple[int, ...] = ()
) -> pa.Table:
    rows = [
        {
            "topic": "a", "topic_id": topic_id, "partition": p, "sample_ts": at, "leader": 1, "leader_epoch": 0,
            "log_start": None if p in failed else 0, "log_end": None if p in failed else end,
            "last_stable": None if p in failed else end, "size_bytes": None if p in failed else 100 * end, "size_error": None,
            "error": "NotLeaderOrFollowerError" if p in failed else None,
        }
        for p in partitions
    ]  # fmt: skip
    return schema.table(rows, schema.FACTS)


def _committed(at: float, offset: int) -> pa.Table:
    row = {"group": "p", "topic": "a", "partition": 0, "sample_ts": at, "committed": offset, "error": None}
    return schema.table([row], schema.COMMITS)


def test_a_read_that_lists_nothing_leaves_nothing_known() -> None:
    """The only topic that a pattern means was deleted: it is forgotten like any other."""
    bucket = Bucket([PATTERN])
    for s in range(20):
        (row,) = bucket.read(_one(101.0 + s, 100 * s), _committed(101.0 + s, 100 * s))
    assert row["known"]
    ages = []
    for _ in range(10):
        (row,) = bucket.read(schema.FACTS.empty_table(), schema.COMMITS.empty_table())
        ages.append(row["age_s"])
    assert not row["known"]
    assert ages == [float(s) for s in range(1, 11)]
    assert bucket.read(schema.FACTS.empty_table(), schema.COMMITS.empty_table()) == []


def test_what_a_pattern_means_stays_while_no_broker_has_answered() -> None:
    """The job starts anew, and nobody tells which topics there are: the window goes on with those that it knows."""
    bucket = Bucket([PATTERN])
    for s in range(20):
        bucket.read(_one(101.0 + s, 100 * s), _committed(101.0 + s, 100 * s))
    for s in range(30):
        lost = broker_poll.topic_errors({"^a$": "no broker has answered yet"}, 121.0 + s)
        row, absent = bucket.read(lost, schema.COMMITS.empty_table())
        assert (row["topic"], row["age_s"]) == ("a", s + 1.0)
        assert (absent["topic"], absent["partition"], absent["error"]) == ("^a$", -1, "no broker has answered yet")
    assert not row["known"]


@pytest.mark.parametrize(("partitions", "failed"), [((0,), (0,)), ((0, 1), (0,))])
def test_a_topic_made_anew_starts_anew_though_its_first_read_fails(partitions: tuple[int, ...], failed: tuple[int, ...]) -> None:
    """Just after that a partition answers NOT_LEADER_OR_FOLLOWER, beside others that can be read or alone."""
    bucket = Bucket([NAMED])
    for s in range(20):
        bucket.read(_one(101.0 + s, 100 * s, partitions=partitions), _committed(101.0 + s, 100 * s))
    bucket.read(_one(121, 5, topic_id="B", partitions=partitions, failed=failed), _committed(121, -1))
    rows = bucket.read(_one(122, 500_000, topic_id="B", partitions=partitions), _committed(122, -1))
    assert rows[0]["bytes_per_s"] is None, "what is in a log that nobody has looked at before has not arrived in this second"
    rows = bucket.read(_one(123, 500_100, topic_id="B", partitions=partitions), _committed(123, -1))
    assert rows[0]["bytes_per_s"] == pytest.approx(10_000)


def test_what_was_committed_at_the_read_before_tells_whether_a_commit_lies_beyond_the_end() -> None:
    bucket = Bucket([NAMED])

    def read(end: int, committed: int) -> tuple[object, object]:
        at = bucket.now + 1
        commits = schema.table(
            [{"group": "p", "topic": "a", "partition": 0, "sample_ts": at, "committed": committed, "error": None}], schema.COMMITS
        )
        (row,) = bucket.read(_one(at, end), commits)
        return row["lag_records"], row["known"]

    assert read(100, 101) == (None, False), "nothing was committed before"
    assert read(200, 150) == (50, True)
    assert read(300, 310) == (0, True), "newer than the end"
    assert read(305, 310) == (None, False), "read before that end, and beyond it"
