"""The whole streaming query on a real broker: rates, several buckets, and state that outlives the query."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from autoscaler.config.settings import Settings
from autoscaler.devtools.broker import Broker
from autoscaler.model import LoadSnapshot
from autoscaler.streaming import query
from tests.kafka.measuring import Load, Read, Reads
from tests.until import until

pytestmark = pytest.mark.timeout(600)

Batch = tuple[int, Mapping[str, LoadSnapshot], Mapping[str, float]]


def settings(broker: Broker, place: Path, groups: Mapping[str, tuple[str, ...]], buckets: int = 1) -> Settings:
    return Settings.model_validate({
        "clusters": [{"connection": broker.connection()}],
        "state_dir": str(place),
        "groups": [{"group": g, "topics": list(t), "capacity_bytes_per_s": 1e6} for g, t in groups.items()],
        "measure": {"trigger_s": 0.5, "window_s": 5, "metadata_every_s": 0.5, "buckets": buckets},
    })  # fmt: skip


class Watched:
    """Collects what the query tells, until what is wanted has been told; ``reads`` may be shared with an earlier query's."""

    def __init__(self, reads: Reads | None = None) -> None:
        self.batches: list[Batch] = []
        self.reads = reads or Reads()

    def __call__(self, number: int, snapshots: Mapping[str, LoadSnapshot], measured: Mapping[str, float]) -> None:
        for snapshot in snapshots.values():
            for p in (p for p in snapshot.loads if p.log_end is not None):  # with an error too: of the commits, it costs no rate
                ts, took = snapshot.sample_ts - p.age_s, measured["read_s"]
                if not self.reads.has(p.partition, ts):
                    self.reads.add(p.partition, Read(ts, ts - took, ts + took, p.log_end or 0))
        self.batches.append((number, snapshots, measured))

    def until(self, holds: Callable[[Mapping[str, LoadSnapshot]], bool], within_s: float = 300.0) -> Mapping[str, LoadSnapshot]:
        seen = 0

        def look() -> Mapping[str, LoadSnapshot] | None:
            nonlocal seen
            for _, snapshots, _ in self.batches[seen:]:
                seen += 1
                if holds(snapshots):
                    return snapshots
            return None

        return until("a batch as wanted", look, explain=lambda: self.batches[-1:], within_s=within_s)


@contextmanager
def running(spark: SparkSession, given: Settings, reads: Reads | None = None) -> Iterator[Watched]:
    watched = Watched(reads)
    stream = query.start(spark, given, watched)
    try:
        yield watched
        assert stream.exception() is None
    finally:
        query.stop(stream)


def test_rates_and_state_that_outlives_the_query(
    spark: SparkSession, broker: Broker, make_topic: Callable[..., str], group: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=4, message_timestamp_type="LogAppendTime")
    given = settings(broker, tmp_path, {group: (topic,)})
    with Load(broker.connection(), topic, per_s=200, size=10_000, partitions=4) as load:
        with running(spark, given) as watched:
            before = watched.until(lambda s: s[group].known and all(p.window_s >= 5 for p in s[group].loads))[group]
            load.agrees(before, watched.reads)
            assert [p.partition.partition for p in before.loads] == [0, 1, 2, 3]
            numbers = [number for number, _, _ in watched.batches]
            assert numbers == sorted(set(numbers))
            assert {"collect_s", "read_s", "window_s", "snapshot_s"} <= set(watched.batches[-1][2])
        with running(spark, given, watched.reads) as again:
            first = again.until(lambda _: True)[group]
            assert all((p.bytes_per_s or 0.0) > 0 for p in first.loads), "the window is still there in the first batch"
            load.agrees(again.until(lambda s: s[group].known)[group], again.reads, estimated=0.01)

            def sharp(found: Mapping[str, LoadSnapshot]) -> bool:
                known = found[group].known and all(5 <= p.window_s < 6 for p in found[group].loads)
                return known and load.agrees(found[group], again.reads, estimated=0.01).sharp

            again.until(sharp)
        with running(spark, settings(broker, tmp_path, {group: (topic,)}, buckets=3), again.reads) as anew:
            first = anew.until(lambda s: group in s)[group]
            assert [(p.known, p.bytes_per_s) for p in first.loads] == [(False, None)] * 4, "another number: begun anew, not zero"
            anew.until(sharp)


def test_a_failure_of_any_length_ends_the_query_with_its_reason(
    spark: SparkSession, broker: Broker, topic: str, group: str, tmp_path: Path
) -> None:
    def fail(number: int, snapshots: Mapping[str, LoadSnapshot], measured: Mapping[str, float]) -> None:
        raise ValueError("no such luck " * 5_000)

    stream = query.start(spark, settings(broker, tmp_path, {group: (topic,)}), fail)
    until("the query has ended", lambda: not stream.isActive)
    assert "ValueError: no such luck" in str(stream.exception())


def test_topics_in_several_buckets_reach_their_groups(
    spark: SparkSession, broker: Broker, make_topic: Callable[..., str], group: str, tmp_path: Path
) -> None:
    topics = tuple(make_topic(partitions=2) for _ in range(4))
    given = settings(broker, tmp_path, {group: topics, f"{group}-b": topics[:1], f"{group}-c": ("no-such-topic",)}, buckets=3)
    with running(spark, given) as watched:
        found = watched.until(lambda s: s[group].known and s[f"{group}-b"].known)
        assert [str(p.partition) for p in found[group].loads] == sorted(f"{t}-{p}" for t in topics for p in (0, 1))
        assert len(found[f"{group}-b"].loads) == 2
        assert "unknown topic no-such-topic" in (found[f"{group}-c"].error or "")
        assert not found[f"{group}-c"].known
