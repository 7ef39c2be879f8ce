"""The control log on a real broker: fencing, restart, expiry, what is ignored, where partitions begin."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.control_log.publisher import KafkaControl
from autoscaler.adapters.control_log.reader import LogReader
from autoscaler.adapters.kafka.control_topics import describe, ensure_control_topics, probe
from autoscaler.devtools.broker import Broker
from autoscaler.errors import FencedError, SettingsError, TransientError
from autoscaler.handover.codec import decode, encode, partition_for
from autoscaler.handover.commit_metadata import commit_metadata
from autoscaler.handover.placement_record import key_of as placement_key
from autoscaler.handover.records import CONTROL_TOPIC, HEARTBEAT_TOPIC, Epoch, Expired, Incarnation, Plan, Tp
from autoscaler.model import TopicPartition as Partition
from autoscaler.ports import PlanIntent
from tests.contracts.publishers import KafkaWorld, commit, partitions
from tests.until import until

MakeTopic = Callable[..., str]


@pytest.fixture
def world(broker: Broker, make_topic: MakeTopic, group: str) -> Iterator[KafkaWorld]:
    made = KafkaWorld(broker, make_topic(partitions=4), group)
    yield made
    made.close()


def to(world: KafkaWorld, slot: int, summary: str = "why") -> PlanIntent:
    return PlanIntent(target=dict.fromkeys(partitions(world), slot), requested=frozenset({slot}), summary=summary)


def committed_records(world: KafkaWorld) -> list[tuple[bytes | None, bytes | None]]:
    """Return everything that a reader of committed records sees in the group's control partition."""
    admin = AdminClient(world.broker.connection())
    partition = partition_for(world.group, describe(admin, (CONTROL_TOPIC,))[CONTROL_TOPIC].partitions)
    reader = Consumer({
        **world.broker.connection(), "group.id": "test", "isolation.level": "read_committed", "enable.partition.eof": True,
    })  # fmt: skip
    reader.assign([TopicPartition(CONTROL_TOPIC, partition, 0)])
    out: list[tuple[bytes | None, bytes | None]] = []
    while True:
        message = reader.poll(30)
        assert message is not None
        if message.error():
            reader.close()
            return out
        out.append((message.key(), message.value()))


def plan_in_log(world: KafkaWorld) -> Plan:
    """Return the group's latest committed plan."""
    records = [decode(k, v).record for k, v in committed_records(world)]
    return [r for r in records if isinstance(r, Plan) and r.group == world.group][-1]


def ends(control: KafkaControl) -> None:
    """See that a controller finds itself replaced; until it has read by whom, it can only say that its writing is refused."""

    def fenced() -> bool:
        try:
            control.observe()
        except FencedError:
            return True
        return False

    until("it is replaced", fenced, passing=TransientError)


def test_a_second_controller_fences_the_first_which_changes_nothing_any_more(world: KafkaWorld) -> None:
    world.start(0)
    world.publisher.publish(to(world, 0, "first"))
    world.until(lambda s: not s.pending and len(s.owner) == 4)
    second = world.control()
    try:
        before = committed_records(world)
        with pytest.raises(FencedError, match=world.group):
            world.publisher.publish(to(world, 1, "late"))
        with pytest.raises(FencedError):
            world.publisher.observe()
        assert committed_records(world) == before
        state = second.observe()
        assert (state.epoch, second.last_summary()) == (1, "first")
        assert second.publish(to(world, 0, "second")) == 2
    finally:
        second.close()


def test_a_predecessor_is_fenced_before_its_log_is_read(world: KafkaWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it could publish a plan between the two, which the new controller would not know of."""
    world.start(0)
    world.publisher.publish(to(world, 0, "first"))
    predecessor, read, tried = world.publisher, KafkaControl._read_to_end, list[str]()

    def late(self: KafkaControl, log: LogReader) -> None:
        if self is not predecessor and not tried:
            tried.append("a plan")
            with pytest.raises(TransientError):
                predecessor.publish(to(world, 0, "late"))
        read(self, log)

    monkeypatch.setattr(KafkaControl, "_read_to_end", late)
    second = world.control()
    try:
        assert tried
        assert (second.observe().epoch, second.last_summary()) == (1, "first")
        ends(predecessor)  # it had found nobody that took over from it, and does now
        assert second.publish(to(world, 0, "second")) == 2
    finally:
        second.close()


def test_who_resolves_an_unfinished_transaction_does_not_end_its_successor(world: KafkaWorld) -> None:
    """It takes the transactional id again, not knowing that there is one; who has the higher number takes it back."""
    world.start(0)
    world.publisher.publish(to(world, 0, "first"))
    second = world.control()
    try:
        world.publisher._take_id()
        with pytest.raises(TransientError, match=r"FENCED|INVALID_PRODUCER_EPOCH"):
            second.publish(to(world, 0, "second"))
        assert second.publish(to(world, 0, "third")) == 2
        ends(world.publisher)
    finally:
        second.close()


def test_ticks_of_a_controller_that_has_been_replaced_end_nobody(world: KafkaWorld) -> None:
    """It does not know it yet and goes on stamping; they say nothing of who came later."""
    world.start(0)
    world.publisher.publish(to(world, 0, "first"))
    second = world.control()
    try:
        ticks = second._log.own_tick_seen if second._log else None
        first = world.publisher._log
        assert first is not None
        seen = first.own_tick_seen
        until("the first reads its ticks", lambda: first.own_tick_seen != seen)
        until("the second reads its ticks", lambda: not second._log or second._log.own_tick_seen != ticks)
        second._transactions.unsure = True
        assert second.observe().epoch == 1
        ends(world.publisher)
    finally:
        second.close()


def test_a_fenced_controller_expires_nobody(world: KafkaWorld) -> None:
    instance = world.start(0)
    second = world.control()
    try:
        world.publisher.ended(frozenset({instance}))
        ends(world.publisher)
        assert [w.instance for w in second.observe().workers] == [instance]
    finally:
        second.close()


def test_a_restarted_controller_sees_what_its_predecessor_saw(world: KafkaWorld) -> None:
    for slot in (0, 1):
        world.start(slot)
    target = dict(zip(partitions(world), (0, 0, 1, 1), strict=True))
    world.publisher.publish(PlanIntent(target=target, requested=frozenset({0, 1}), summary="what stands"))
    before = world.until(lambda s: not s.pending and len(s.owner) == 4)
    world.publisher.close()
    world.publisher = world.control()
    after = world.publisher.observe()
    assert (after.epoch, after.owner, after.orphans, after.pending, after.requested, after.plan_at) == (
        before.epoch, before.owner, before.orphans, before.pending, before.requested, before.plan_at,
    )  # fmt: skip
    assert [(w.name, w.uuid, w.slot, w.owned) for w in after.workers] == [
        (w.name, w.uuid, w.slot, w.owned) for w in before.workers
    ]
    assert world.publisher.last_summary() == "what stands"
    assert world.publisher.publish(to(world, 1)) == 2


def test_a_silent_worker_is_over_by_the_heartbeat_log_alone(world: KafkaWorld) -> None:
    world.start(0)
    world.publisher.publish(to(world, 0))
    world.until(lambda s: not s.pending and len(s.owner) == 4)
    world.die(0)
    began = time.monotonic()
    state = world.until(lambda s: not s.workers)
    assert time.monotonic() - began > world.lease_s - 1
    assert state.orphans == set(partitions(world))
    found = [r for k, v in committed_records(world) if isinstance(r := decode(k, v).record, Expired)]
    assert [r.evidence for r in found if r.group == world.group] == ["heartbeats"]  # groups share partitions


def test_a_restarted_controller_needs_no_new_lease_to_see_who_is_over(world: KafkaWorld) -> None:
    world.start(0)
    world.start(1)
    world.publisher.publish(to(world, 0))
    world.until(lambda s: not s.pending and len(s.owner) == 4)
    world.die(0)
    world.until(lambda s: len(s.workers) == 1)  # the other worker's stamps say so from now on
    world.publisher.close()
    forgotten = world.control()  # the record of it stands; but what if it had not been written?
    forgotten._state.over.clear()
    try:
        assert {w.name for w in forgotten._state.to_expire()} == {f"{world.group}-0"}
    finally:
        forgotten.close()
    world.publisher = world.control()


def test_an_open_transaction_of_another_hides_plans_and_no_heartbeats(world: KafkaWorld) -> None:
    admin = AdminClient(world.broker.connection())
    partition = partition_for(world.group, describe(admin, (CONTROL_TOPIC,))[CONTROL_TOPIC].partitions)
    other = Producer({**world.broker.connection(), "transactional.id": f"other-{world.group}"})
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(CONTROL_TOPIC, b"{}", b'["plan","nobody"]', partition=partition)
    other.flush(30)
    instance = world.start(0)  # waits until its heartbeat is seen
    assert [w.instance for w in world.publisher.observe().workers] == [instance]
    assert world.publisher.publish(to(world, 0)) == 1
    with pytest.raises(TransientError, match="was read to offset"):
        world.publisher.observe()  # its own plan is hidden: it must not decide without it
    other.abort_transaction(30)
    state = world.until(lambda s: not s.pending and len(s.owner) == 4)
    assert state.epoch == 1


def test_records_of_another_control_topic_and_strange_ones_are_ignored_and_said_once_per_kind(
    world: KafkaWorld, caplog: pytest.LogCaptureFixture
) -> None:
    instance = world.start(0)
    world.publisher.publish(to(world, 0))
    before = world.until(lambda s: not s.pending and len(s.owner) == 4)
    admin = AdminClient(world.broker.connection())
    partition = partition_for(world.group, describe(admin, (CONTROL_TOPIC,))[CONTROL_TOPIC].partitions)
    me = Incarnation(before.workers[0].name, before.workers[0].uuid)
    foreign = Plan(
        group=world.group, epoch=Epoch("another-control-topic", 99), topics={}, grants={}, waits={}, starts={}, leases_s={},
        requested=(), summary="old", at=0.0,
    )  # fmt: skip
    stray = Producer({**world.broker.connection(), "enable.idempotence": True})
    for key, value in (
        (placement_key("another group"), b"{}"),  # is another reader's, and not strange
        encode(Expired(group=world.group, worker=me, control_id="another-control-topic", evidence="platform")),
        encode(foreign),
        (b"not json", b"{"),
        (b'["plan","x"]', b"{}"),
        (b'["plan","y"]', b"{}"),
        (b'["tick",1]', None),
    ):
        stray.produce(CONTROL_TOPIC, value, key, partition=partition)
        stray.produce(HEARTBEAT_TOPIC, value, key, partition=partition)
    assert stray.flush(30) == 0
    world.publisher.publish(to(world, 0))  # reads past its own commit, and so past those
    after = world.publisher.observe()
    assert (after.epoch, after.owner, after.orphans) == (2, before.owner, frozenset())
    assert [w.instance for w in after.workers] == [instance]
    assert "placement" not in caplog.text
    world.until(lambda _: sum(" is ignored" in r.getMessage() for r in caplog.records) >= 6)
    said = sorted(r.getMessage().split(" at offset ")[0] for r in caplog.records if " is ignored" in r.getMessage())
    assert said == sorted(
        f"{topic}-{partition}: a {kind}"
        for topic in (CONTROL_TOPIC, HEARTBEAT_TOPIC)
        for kind in ("record (key)", "plan (version)", *(("expired (control)", "plan (control)") * (topic == CONTROL_TOPIC)))
    )


@contextmanager
def without_workers(
    broker: Broker, group: str, topic: str, reset_policy: Literal["earliest", "latest"]
) -> Iterator[tuple[KafkaControl, KafkaWorld]]:
    """Give a controller of a group that nobody has worked for, and the world in which its plans are looked up."""
    control = KafkaControl(
        connection=broker.connection(), group=group, topics=(topic,), reset_policy=reset_policy, lease_s=1.0,
        replication_factor=1, slot_of=lambda _: None, clock=SystemClock(),
    )  # fmt: skip
    world = KafkaWorld.__new__(KafkaWorld)
    world.broker, world.group, world.topic = broker, group, topic
    try:
        yield control, world
    finally:
        control.close()


def test_partitions_that_nobody_committed_begin_where_the_policy_says_and_later_ones_at_their_start(
    broker: Broker, make_topic: MakeTopic, group: str
) -> None:
    topic = make_topic(partitions=3)
    admin = AdminClient(broker.connection())
    producer = Producer(broker.connection())
    for number in (0, 0, 1):
        producer.produce(topic, b"x", partition=number)
    assert producer.flush(30) == 0
    commit(broker, group, topic, {1: 1})
    with without_workers(broker, group, topic, "latest") as (control, world):
        wanted = {Partition(topic=topic, partition=n): 0 for n in range(3)}
        published(control, PlanIntent(target=wanted, requested=frozenset({0}), summary="one"))
        topic_id = next(iter(plan_in_log(world).topics))
        assert plan_in_log(world).starts == {Tp(topic_id, 0): 2, Tp(topic_id, 2): 0}
        admin.create_partitions([NewPartitions(topic, 4)])[topic].result(30)
        producer.produce(topic, b"x", partition=0)
        assert producer.flush(30) == 0

        def starts() -> Mapping[Tp, int]:
            control.publish(PlanIntent(target=wanted, requested=frozenset({0}), summary="two"))
            return plan_in_log(world).starts

        until("the new partition has its start", starts, lambda found: Tp(topic_id, 3) in found)
        assert plan_in_log(world).starts == {Tp(topic_id, 0): 2, Tp(topic_id, 2): 0, Tp(topic_id, 3): 0}
        commit(broker, group, topic, {0: 2})
        control.publish(PlanIntent(target=wanted, requested=frozenset({0}), summary="three"))
        assert plan_in_log(world).starts == {Tp(topic_id, 2): 0, Tp(topic_id, 3): 0}


def test_an_offset_of_a_topic_that_is_no_more_is_none_of_the_new_one(broker: Broker, make_topic: MakeTopic, group: str) -> None:
    topic = make_topic(partitions=2)
    stale = commit_metadata("an-earlier-topic", 3, "w")
    consumer = Consumer({**broker.connection(), "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 7, metadata=stale), TopicPartition(topic, 1, 0)], asynchronous=False)
    consumer.close()
    with without_workers(broker, group, topic, "earliest") as (control, world):
        wanted = {Partition(topic=topic, partition=n): 0 for n in range(2)}
        published(control, PlanIntent(target=wanted, requested=frozenset({0}), summary="one"))
        assert plan_in_log(world).starts == {Tp(next(iter(plan_in_log(world).topics)), 0): 0}


def published(control: KafkaControl, intent: PlanIntent) -> None:
    """Publish the first plan of a group that has committed before: the heartbeat log may have to be observed first (rule 12)."""
    until("a plan stands", lambda: control.publish(intent), passing=TransientError)


def test_the_topics_are_made_as_the_protocol_needs_them(world: KafkaWorld) -> None:
    admin = AdminClient(world.broker.connection())
    resources = [ConfigResource(ConfigResource.Type.TOPIC, t) for t in (CONTROL_TOPIC, HEARTBEAT_TOPIC)]
    control, beats = (
        {k: v.value for k, v in f.result(30).items()} for _, f in sorted(admin.describe_configs(resources).items(), key=name)
    )
    assert (control["cleanup.policy"], control["message.timestamp.type"]) == ("compact", "LogAppendTime")
    assert (beats["cleanup.policy"], beats["message.timestamp.type"]) == ("delete", "LogAppendTime")
    assert int(beats["retention.ms"]) >= 4000 * world.lease_s
    assert control["unclean.leader.election.enable"] == "false"


def name(item: tuple[ConfigResource, object]) -> str:
    return str(item[0].name)


def test_a_lease_too_long_for_the_kept_heartbeats_is_refused_with_the_command_that_helps(world: KafkaWorld) -> None:
    admin = AdminClient(world.broker.connection())
    with pytest.raises(SettingsError, match=r"retention.ms must be .*kafka-configs.sh --alter .*__autoscaler_heartbeats"):
        ensure_control_topics(admin, lease_s=3600.0, replication_factor=None)


def test_an_unknown_topic_is_named(broker: Broker, group: str) -> None:
    with pytest.raises(SettingsError, match="'no-such-topic' does not exist"):
        KafkaControl(
            connection=broker.connection(), group=group, topics=("no-such-topic",), reset_policy="earliest", lease_s=3.0,
            replication_factor=None, slot_of=lambda _: None, clock=SystemClock(),
        )  # fmt: skip


def test_the_probe_tells_every_missing_topic_and_an_unreachable_broker(broker: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    assert probe(broker.connection(), (topic,))[topic].partitions == 3
    with pytest.raises(SettingsError) as missing:
        probe(broker.connection(), (topic, "one", "two"))
    assert len(missing.value.problems) == 2
    with pytest.raises(TransientError, match=r"no broker answers at 127.0.0.1:1\b"):
        probe({"bootstrap.servers": "127.0.0.1:1"}, (topic,), timeout_s=1.0)


def test_a_setting_that_the_client_does_not_know_is_named() -> None:
    with pytest.raises(SettingsError, match=r"no.such.setting"):
        probe({"bootstrap.servers": "127.0.0.1:1", "no.such.setting": "x"}, ("t",))


def test_a_missing_permission_is_a_matter_of_settings(secure_broker: Broker, group: str) -> None:
    with pytest.raises(SettingsError, match="give this user the permission"):
        KafkaControl(
            connection=secure_broker.connection("limited"), group=group, topics=("t",), reset_policy="earliest", lease_s=3.0,
            replication_factor=None, slot_of=lambda _: None, clock=SystemClock(),
        )  # fmt: skip
