"""Measuring on real brokers: rates against the producer's own count, and what each fault looks like."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    ResourcePatternType,
    ResourceType,
)

from autoscaler.devtools.broker import Broker, Cluster
from autoscaler.handover.records import kafka_id
from autoscaler.model import LoadSnapshot, RateSource
from autoscaler.streaming.broker_clients import Client
from autoscaler.streaming.lag import GroupRules
from tests.conftest import create_topic
from tests.kafka.measuring import Compared, Load, Measured
from tests.until import until

ENOUGH = 3  # snapshots compared
SIZE = 10_000  # what a record batch adds to its records is below one percent of this


def watching(cluster: Cluster, group: str, *topics: str, user: str = "admin", window_s: float = 5.0) -> Measured:
    return Measured(cluster.connection(user), (GroupRules(group=group, topics=topics),), window_s=window_s)


def commit(cluster: Cluster, group: str, topic: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({**cluster.connection(), "group.id": group, "enable.auto.commit": False, "log_level": 0})
    consumer.commit(offsets=[TopicPartition(topic, p, o) for p, o in offsets.items()], asynchronous=False)
    consumer.close()


@pytest.fixture
def topic(make_topic: Callable[..., str]) -> str:
    return make_topic(partitions=4, message_timestamp_type="LogAppendTime")


@contextmanager
def loaded(cluster: Cluster, topic: str, partitions: int, per_s: float = 200.0, wave_s: float = 5.0) -> Iterator[Load]:
    with Load(cluster.connection(), topic, per_s=per_s, size=SIZE, partitions=partitions, wave_s=wave_s) as load:
        yield load


def agreeing(measured: Measured, load: Load, holds: Callable[[LoadSnapshot], bool], *, estimated: float = 0.0) -> LoadSnapshot:
    """Compare batch after batch, until some that hold what is wanted were sharp enough to see a percent; return the last."""
    compared: list[Compared] = []

    def look() -> LoadSnapshot:
        found = measured.until(holds)
        compared.append(load.agrees(found, measured.reads, estimated=estimated))
        return found

    def enough(_: LoadSnapshot) -> bool:
        return sum(c.sharp for c in compared) >= ENOUGH

    what = "a machine that is not too busy to compare"
    return until(what, look, enough, explain=lambda: compared[-1], within_s=90, every_s=0.25)


def filled(snapshot: LoadSnapshot) -> bool:
    return snapshot.known and all(p.window_s >= 5.0 for p in snapshot.loads)


def test_rates_agree_with_the_producers_own_count(broker: Broker, topic: str, group: str) -> None:
    with watching(broker, group, topic) as measured, loaded(broker, topic, 4) as load:
        snapshot = agreeing(measured, load, filled)
        assert {p.rate_source for p in snapshot.loads} == {RateSource.LOG_DIRS}
        assert {p.topic_id for p in snapshot.loads} == {described_id(broker, topic)}
        later = measured.until(lambda s: filled(s) and s.sample_ts > snapshot.sample_ts + 0.25)
        for wrong in (bent(snapshot, snapshot, 1.03), bent(snapshot, snapshot, 0.97), bent(later, snapshot, 1.0)):
            with pytest.raises(AssertionError):
                load.agrees(wrong, measured.reads)


def bent(snapshot: LoadSnapshot, rates: LoadSnapshot, factor: float) -> LoadSnapshot:
    """Return the snapshot with other rates: another snapshot's, scaled."""
    loads = (
        replace(p, records_per_s=(q.records_per_s or 0.0) * factor, bytes_per_s=(q.bytes_per_s or 0.0) * factor)
        for p, q in zip(snapshot.loads, rates.loads, strict=True)
    )
    return replace(snapshot, loads=tuple(loads))


def described_id(cluster: Cluster, topic: str) -> str:
    """Return the topic's id as Kafka's tools print it; librdkafka spells the same bytes with + and /."""
    admin = AdminClient({**cluster.connection(), "log_level": 0})
    return kafka_id(str(admin.describe_topics(TopicCollection([topic]))[topic].result(30).topic_id))


def test_deleting_records_within_the_window_does_not_bend_the_rate(broker: Broker, topic: str, group: str) -> None:
    with watching(broker, group, topic) as measured, loaded(broker, topic, 4) as load:
        before = measured.until(filled)
        admin = AdminClient({**broker.connection(), "log_level": 0})
        ends = [TopicPartition(topic, p.partition.partition, p.log_end or 0) for p in before.loads]
        for future in admin.delete_records(ends).values():
            future.result(30)
        agreeing(measured, load, lambda s: filled(s) and all((p.log_start or 0) > 0 for p in s.loads), estimated=0.01)


def test_a_partition_added_is_picked_up_without_a_restart(broker: Broker, make_topic: Callable[..., str], group: str) -> None:
    topic = make_topic(partitions=2)
    admin = AdminClient(broker.connection())
    with watching(broker, group, topic) as measured:
        measured.until(lambda s: s.known and len(s.loads) == 2)
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
        measured.until(lambda s: s.known and len(s.loads) == 3)


def test_a_topic_deleted_and_made_anew_is_another_topic(broker: Broker, make_topic: Callable[..., str], group: str) -> None:
    topic = make_topic(partitions=2, message_timestamp_type="LogAppendTime")
    admin = AdminClient(broker.connection())
    with watching(broker, group, topic) as measured:
        with loaded(broker, topic, 2):
            first = measured.until(lambda s: s.known and all((p.log_end or 0) > 20 for p in s.loads)).loads[0]
        commit(broker, group, topic, {0: first.log_end or 0, 1: 0})
        admin.delete_topics([topic])[topic].result(30)
        measured.until(lambda s: "unknown topic" in (s.error or ""))
        create_topic(broker, topic, 2)
        again = measured.until(lambda s: len(s.loads) == 2 and s.loads[0].topic_id not in ("", first.topic_id))
        assert again.loads[0].log_end == 0
        assert again.loads[0].committed == -1 or again.loads[0].lag_records is None, "a commit beyond the end is unknown"


def test_an_unknown_topic_is_an_error_that_names_it_and_costs_the_others_nothing(broker: Broker, topic: str, group: str) -> None:
    with watching(broker, group, topic, "no-such-topic") as measured:
        found = measured.until(lambda s: len(s.loads) == 4 and all(p.known for p in s.loads))
        assert not found.known
        assert "unknown topic no-such-topic: create it" in (found.error or "")


def test_lag_is_what_is_not_committed(broker: Broker, topic: str, group: str, produce: Callable[..., None]) -> None:
    produce(topic, {0: 100, 1: 50, 2: 10}, size=1000)
    commit(broker, group, topic, {0: 40, 1: 50})
    with watching(broker, group, topic) as measured:
        found = measured.until(lambda s: s.known)
        assert [p.lag_records for p in found.loads] == [60, 0, 10, 0]
        assert [p.committed for p in found.loads] == [40, 50, -1, -1]
        commit(broker, group, topic, {0: 1000})
        measured.until(lambda s: s.loads[0].committed == 1000)
        beyond = measured.one()  # what is committed may be newer than the end that was read with it; not than the next one
        assert (beyond.loads[0].lag_records, beyond.loads[0].known, beyond.known) == (None, False, False)


def test_commits_that_carry_metadata_of_many_lengths_are_read(broker: Broker, make_topic: Callable[..., str], group: str) -> None:
    topic = make_topic(partitions=30)
    consumer = Consumer({**broker.connection(), "group.id": group, "enable.auto.commit": False, "log_level": 0})
    offsets = [TopicPartition(topic, p, 0, metadata="m" * (7 * p)) for p in range(0, 30, 2)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
    with watching(broker, group, topic) as measured:
        found = measured.until(lambda s: s.known)
        assert [p.committed for p in found.loads] == [0 if p % 2 == 0 else -1 for p in range(30)]


def test_without_the_fast_codec_the_plain_calls_give_the_same(
    broker: Broker, topic: str, group: str, produce: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(topic, {0: 30, 1: 20}, size=1000)
    commit(broker, group, topic, {0: 10})
    with watching(broker, group, topic) as measured:
        fast = measured.until(lambda s: s.known)
        quick = [{k: f[k] for k in ("partition", "leader", "log_start", "log_end", "size_bytes")} for f in measured.facts]
    monkeypatch.setattr(Client, "inner", False)
    with watching(broker, group, topic) as measured:
        plain = measured.until(lambda s: s.known)
        assert [{k: f[k] for k in q} for f, q in zip(measured.facts, quick, strict=True)] == quick
    assert [(p.partition, p.topic_id, p.committed, p.lag_records) for p in plain.loads] == [
        (p.partition, p.topic_id, p.committed, p.lag_records) for p in fast.loads
    ]


def test_several_groups_are_read_at_once(broker: Broker, make_topic: Callable[..., str], group: str) -> None:
    first, second = make_topic(partitions=2), make_topic(partitions=3)
    commit(broker, group, first, {0: 0, 1: 0})
    groups = (
        GroupRules(group=group, topics=(first,)),
        GroupRules(group=f"{group}-b", topics=(first, second), read_committed=True),
    )
    with Measured(broker.connection(), groups) as measured:
        found = until("all is known", measured.batch, lambda seen: all(s.known for s in seen.values()), every_s=0.2)
        assert [p.committed for p in found[group].loads] == [0, 0]
        assert sorted(str(p.partition) for p in found[f"{group}-b"].loads) == sorted(
            [f"{first}-0", f"{first}-1", f"{second}-0", f"{second}-1", f"{second}-2"]
        )


def test_a_stopped_broker_gives_rows_with_errors_never_fewer_never_zero(own_broker: Broker, group: str) -> None:
    topic = create_topic(own_broker, "stopped", 4, message_timestamp_type="LogAppendTime")
    with watching(own_broker, group, topic) as measured:
        with loaded(own_broker, topic, 4):
            before = measured.until(filled)
        own_broker.stop()
        away = measured.until(lambda s: not s.known)
        assert [p.partition for p in away.loads] == [p.partition for p in before.loads]
        for now, then in zip(away.loads, before.loads, strict=True):
            assert now.bytes_per_s is not None
            assert now.bytes_per_s > 0.5 * (then.bytes_per_s or 0.0), "the last rate is held"
            assert now.age_s > 3.0
            assert now.error, "it says why: nobody leads the partition, or its broker does not answer"
        assert all(f["log_end"] is None and f["error"] for f in measured.facts)
        own_broker.start()
        again = measured.until(lambda s: s.known)
        assert all((n.log_end or 0) >= (t.log_end or 0) > 0 for n, t in zip(again.loads, before.loads, strict=True))


@pytest.mark.parametrize(
    ("window_s", "away_s"), [(4.0, 6.0), pytest.param(30.0, 35.0, marks=(pytest.mark.slow, pytest.mark.timeout(300)))]
)
def test_rates_are_right_after_the_broker_was_away_longer_than_the_window(
    own_broker: Broker, group: str, window_s: float, away_s: float
) -> None:
    topic = create_topic(own_broker, "away", 4, message_timestamp_type="LogAppendTime")

    def whole(s: LoadSnapshot) -> bool:
        return s.known and all(window_s <= p.window_s < window_s + 1 for p in s.loads)

    with (
        watching(own_broker, group, topic, window_s=window_s) as measured,
        loaded(own_broker, topic, 4, per_s=100, wave_s=window_s) as load,
    ):
        agreeing(measured, load, whole)
        own_broker.stop()
        stopped = time.monotonic()
        measured.until(lambda _: time.monotonic() > stopped + away_s)
        own_broker.start()
        first = measured.until(lambda s: s.known and all(p.age_s < 0.5 for p in s.loads))
        assert any(p.window_s > away_s for p in first.loads), "nothing is known of what is in between"
        load.agrees(first, measured.reads, estimated=0.01)
        agreeing(measured, load, whole, estimated=0.01)


def test_each_partition_is_read_from_its_leader(three_brokers: Cluster, group: str) -> None:
    topic = create_topic(three_brokers, f"led-{group}", 6, message_timestamp_type="LogAppendTime")
    with watching(three_brokers, group, topic) as measured, loaded(three_brokers, topic, 6) as load:
        load.agrees(measured.until(filled), measured.reads)
        leaders = leaders_of(three_brokers, topic)
        assert {f["partition"]: f["leader"] for f in measured.facts} == leaders
        assert len(set(leaders.values())) == 3


def leaders_of(cluster: Cluster, topic: str) -> dict[int, int]:
    found = AdminClient({**cluster.connection(), "log_level": 0}).list_topics(topic, timeout=30)
    return {p.id: p.leader for p in found.topics[topic].partitions.values()}


def test_a_dead_broker_costs_its_own_partitions_until_others_lead_them(three_brokers: Cluster, group: str) -> None:
    topic = create_topic(three_brokers, f"dead-{group}", 6)
    with watching(three_brokers, group, topic) as measured:
        measured.until(lambda s: s.known)
        three_brokers.nodes[2].kill()
        try:
            hit = measured.until(lambda s: any(p.error for p in s.loads))
            assert len(hit.loads) == 6
            healed = measured.until(lambda s: s.known and not any(f["leader"] == 3 for f in measured.facts), within_s=90)
            assert len(healed.loads) == 6
        finally:
            three_brokers.start()


def allow(admin: AdminClient, kind: ResourceType, name: str, operation: AclOperation) -> None:
    acl = AclBinding(kind, name, ResourcePatternType.LITERAL, "User:limited", "*", operation, AclPermissionType.ALLOW)
    for future in admin.create_acls([acl]).values():
        future.result(30)


def test_without_permission_for_log_dirs_rates_come_from_records(secure_broker: Broker, group: str) -> None:
    topic = create_topic(secure_broker, f"limited-{group}", 2, message_timestamp_type="LogAppendTime")
    admin = AdminClient({**secure_broker.connection(), "log_level": 0})
    allow(admin, ResourceType.TOPIC, topic, AclOperation.DESCRIBE)
    allow(admin, ResourceType.GROUP, group, AclOperation.DESCRIBE)
    with watching(secure_broker, group, topic, user="limited") as measured, loaded(secure_broker, topic, 2) as load:
        found = agreeing(measured, load, filled, estimated=math.inf)
        assert {p.rate_source for p in found.loads} == {RateSource.OFFSET_X_DEFAULT}
        assert {f["size_bytes"] for f in measured.facts} == {None}
        assert {f["size_error"] for f in measured.facts} == {"ClusterAuthorizationFailedError"}
        by_default = sum(p.bytes_per_s or 0.0 for p in found.loads) / sum(p.records_per_s or 0.0 for p in found.loads)
        assert by_default == pytest.approx(measured.rules.default_record_bytes)


def test_a_topic_that_may_not_be_described_is_an_error_that_says_so(secure_broker: Broker, group: str) -> None:
    topic = create_topic(secure_broker, f"hidden-{group}", 2)
    with watching(secure_broker, group, topic, user="limited") as measured:
        found = measured.until(lambda s: s.error is not None and "Authorization" in s.error)
        assert (found.known, found.loads) == (False, ())
        assert topic in (found.error or "")
