"""The control log of a group that is only advised: what is seen, and that looking leaves no trace."""

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.control_log import managed_groups
from autoscaler.adapters.control_log import watch as control_log_watch
from autoscaler.adapters.control_log.publisher import KafkaControl
from autoscaler.adapters.control_log.watch import ControlLogs, KafkaWatch
from autoscaler.adapters.kafka.control_topics import describe
from autoscaler.devtools.broker import Broker
from autoscaler.errors import TransientError
from autoscaler.handover import codec
from autoscaler.handover.codec import Decoded, partition_for
from autoscaler.handover.records import CONTROL_TOPIC, HEARTBEAT_TOPIC
from autoscaler.model import GroupState
from autoscaler.ports import PlanIntent
from tests.conftest import create_topic
from tests.contracts.publishers import KafkaWorld, partitions
from tests.until import throughout, until

MakeTopic = Callable[..., str]


@pytest.fixture
def world(broker: Broker, make_topic: MakeTopic, group: str) -> Iterator[KafkaWorld]:
    made = KafkaWorld(broker, make_topic(partitions=4), group)
    yield made
    made.close()


@pytest.fixture
def logs(broker: Broker) -> Iterator[ControlLogs]:
    made = ControlLogs(broker.connection())
    yield made
    made.close()


@pytest.fixture
def watch(world: KafkaWorld, logs: ControlLogs) -> Iterator[KafkaWatch]:
    made = watching(world, logs, world.group)
    yield made
    made.close()


def watching(world: KafkaWorld, logs: ControlLogs, group: str) -> KafkaWatch:
    return KafkaWatch(
        logs=logs, group=group, topics=(world.topic,), lease_s=world.lease_s, slot_of=world.slot_of, clock=SystemClock()
    )


def seen(watch: KafkaWatch, wanted: Callable[[GroupState | None], bool]) -> GroupState | None:
    return until("the group as wanted", watch.observe, wanted)


def placed(world: KafkaWorld) -> GroupState:
    """Let two workers hold two partitions each."""
    for slot in (0, 1):
        world.start(slot)
    target = dict(zip(partitions(world), (0, 0, 1, 1), strict=True))
    world.publisher.publish(PlanIntent(target=target, requested=frozenset({0, 1}), summary="what stands"))
    return world.until(lambda s: not s.pending and len(s.owner) == 4)


def ends(world: KafkaWorld) -> dict[str, int]:
    """Return where the group's partitions of both topics end, markers of transactions included."""
    number = partition_for(
        world.group, describe(AdminClient(world.broker.connection()), (CONTROL_TOPIC,))[CONTROL_TOPIC].partitions
    )
    reader = Consumer({**world.broker.connection(), "group.id": "test"})
    try:
        return {
            t: reader.get_watermark_offsets(TopicPartition(t, number), timeout=30)[1] for t in (CONTROL_TOPIC, HEARTBEAT_TOPIC)
        }
    finally:
        reader.close()


def test_it_sees_what_the_controller_saw(world: KafkaWorld, watch: KafkaWatch) -> None:
    before = placed(world)
    world.publisher.close()
    after = seen(watch, lambda s: s is not None and len(s.workers) == 2)
    assert after is not None
    assert (after.epoch, after.owner, after.orphans, after.pending, after.requested, after.plan_at) == (
        before.epoch, before.owner, before.orphans, before.pending, before.requested, before.plan_at,
    )  # fmt: skip
    assert [(w.name, w.uuid, w.slot, w.owned) for w in after.workers] == [
        (w.name, w.uuid, w.slot, w.owned) for w in before.workers
    ]


def test_it_follows_a_controller_that_goes_on(world: KafkaWorld, watch: KafkaWatch) -> None:
    placed(world)
    seen(watch, lambda s: s is not None and s.epoch == 1)
    world.publisher.publish(PlanIntent(
        target=dict.fromkeys(partitions(world), 1), requested=frozenset({1}), summary="all to one"
    ))  # fmt: skip
    state = seen(watch, lambda s: s is not None and s.epoch == 2 and not s.pending)
    assert state is not None
    assert state.owner == dict.fromkeys(partitions(world), 1)
    assert world.publisher.observe().epoch == 2, "the controller was not fenced"


def test_it_writes_nothing(world: KafkaWorld, watch: KafkaWatch) -> None:
    placed(world)
    world.publisher.close()
    for slot in (0, 1):
        world.leave(slot)
    before = ends(world)
    began = time.monotonic()
    seen(watch, lambda s: s is not None and not s.workers and time.monotonic() > began + 3 * world.lease_s / 10)
    watch.close()
    assert ends(world) == before


def test_workers_that_died_while_nobody_controlled_are_not_shown_for_ever(world: KafkaWorld, watch: KafkaWatch) -> None:
    placed(world)
    world.publisher.close()
    assert len(seen(watch, lambda s: s is not None and len(s.workers) == 2).workers) == 2  # type: ignore[union-attr]
    for slot in (0, 1):
        world.die(slot)
    state = seen(watch, lambda s: s is not None and not s.workers)
    assert state is not None
    assert state.orphans == set(partitions(world))


def test_a_log_that_was_let_go_is_opened_at_once_and_not_taken_for_absent(world: KafkaWorld, watch: KafkaWatch) -> None:
    placed(world)
    seen(watch, lambda s: s is not None)
    watch.close()
    assert watch.observe() is not None


def test_living_workers_are_never_taken_for_dead(world: KafkaWorld, watch: KafkaWatch) -> None:
    placed(world)
    world.publisher.close()
    seen(watch, lambda s: s is not None and len(s.workers) == 2)
    throughout("both live", watch.observe, lambda s: s is not None and len(s.workers) == 2, for_s=3 * world.lease_s, every_s=0.05)


def test_a_group_that_nobody_manages_is_not_known(world: KafkaWorld, logs: ControlLogs) -> None:
    other = watching(world, logs, f"{world.group}-native")
    try:
        assert other.observe() is None
    finally:
        other.close()


def test_a_group_that_comes_to_be_managed_is_seen(world: KafkaWorld, watch: KafkaWatch) -> None:
    world.publisher.observe()  # there are control logs, in which nothing is this group's
    assert watch.observe() is None
    placed(world)
    state = seen(watch, lambda s: s is not None and len(s.workers) == 2)
    assert state is not None
    assert state.epoch == 1


def test_no_defect_ends_the_looking_for_groups(world: KafkaWorld, watch: KafkaWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came with a defect was not looked at: nothing is said of a group until all has been read again."""
    monkeypatch.setattr(control_log_watch, "_REOPEN_S", 1.0)
    defects = [RuntimeError("a defect")]

    def decode(key: bytes | None, value: bytes | None) -> Decoded:
        if defects and key is not None and world.group.encode() in key:
            raise defects.pop()
        return codec.decode(key, value)

    monkeypatch.setattr(managed_groups, "decode", decode)
    placed(world)
    with pytest.raises(TransientError, match="could not be read: RuntimeError: a defect"):
        watch.observe()

    def look() -> GroupState | str:
        state = patiently(watch)
        assert state is not None, "unread is not unknown"
        return state

    until("it is read", look, lambda state: isinstance(state, GroupState), every_s=0.1)


def test_control_logs_that_were_made_anew_are_read_anew(own_broker: Broker) -> None:
    """And groups that only the old ones knew are not managed any more."""
    topic = create_topic(own_broker, "topic", 1)
    group, logs = "of-the-old-ones", ControlLogs(own_broker.connection())
    watch = KafkaWatch(logs=logs, group=group, topics=(topic,), lease_s=3.0, slot_of=lambda _: None, clock=SystemClock())
    admin = AdminClient(own_broker.connection())
    acting = controller(own_broker, group, topic)
    try:
        acting.publish(PlanIntent(target={}, requested=frozenset(), summary="a plan"))
        seen(watch, lambda s: s is not None)
        acting.close()
        for future in admin.delete_topics([CONTROL_TOPIC, HEARTBEAT_TOPIC]).values():
            future.result(30)
        controller(own_broker, "another", topic).close()  # makes them anew
        until("it is not known any more", lambda: patiently(watch), lambda state: state is None, every_s=0.1)
    finally:
        watch.close()
        logs.close()


def patiently(watch: KafkaWatch) -> GroupState | str | None:
    try:
        return watch.observe()
    except TransientError as e:
        return str(e)


def controller(broker: Broker, group: str, topic: str) -> KafkaControl:
    return KafkaControl(
        connection=broker.connection(), group=group, topics=(topic,), reset_policy="earliest", lease_s=3.0,
        replication_factor=None, slot_of=lambda _: None, clock=SystemClock(),
    )  # fmt: skip


def test_an_absent_broker_is_said_and_asked_again_only_after_a_while(world: KafkaWorld) -> None:
    absent = KafkaWatch(
        logs=ControlLogs({"bootstrap.servers": "127.0.0.1:9"}), group="g", topics=("t",), lease_s=3.0, slot_of=world.slot_of,
        clock=SystemClock(),
    )  # fmt: skip
    try:
        with pytest.raises(TransientError, match=r"no broker answers at 127\.0\.0\.1:9"):
            absent.observe()
        again = time.monotonic()
        with pytest.raises(TransientError, match=r"no broker answers at 127\.0\.0\.1:9"):
            absent.observe()
        assert time.monotonic() - again < 1.0, "it did not wait a second time"
    finally:
        absent.close()
