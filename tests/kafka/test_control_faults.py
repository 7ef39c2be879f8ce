"""The control log through outages: a broker that goes away, topics that are made anew."""

import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from autoscaler.adapters.control_log.transactions import ControlTransactions
from autoscaler.adapters.kafka.control_topics import describe
from autoscaler.devtools.broker import Broker
from autoscaler.errors import TransientError
from autoscaler.handover.records import CONTROL_TOPIC, HEARTBEAT_TOPIC
from autoscaler.model import GroupState
from autoscaler.ports import PlanIntent
from tests.conftest import create_topic
from tests.contracts.publishers import KafkaWorld, commit, partitions
from tests.until import PATIENCE_S, throughout, until

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def world(own_broker: Broker, group: str) -> Iterator[KafkaWorld]:
    # Nobody is to lapse, however slowly a broker comes back.
    made = KafkaWorld(own_broker, create_topic(own_broker, "orders", 4), group, lease_s=PATIENCE_S)
    yield made
    made.close()


def intent(world: KafkaWorld, *slots: int) -> PlanIntent:
    return PlanIntent(target=dict(zip(partitions(world), slots, strict=True)), requested=frozenset(slots), summary=str(slots))


def eventually_publish(world: KafkaWorld, wanted: PlanIntent) -> int:
    """Observe and publish as the controller does, until a plan stands."""

    def publish() -> int:
        world.publisher.observe()
        return world.publisher.publish(wanted)

    return until("a plan stands", publish, passing=TransientError, every_s=0.1)


def brought_about(world: KafkaWorld, *slots: int) -> GroupState:
    """Publish until everything lies where it should: what is not released yet is not moved again."""
    wanted = dict(zip(partitions(world), slots, strict=True))

    def step() -> GroupState:
        eventually_publish(world, intent(world, *slots))
        return world.until(lambda s: not s.pending)

    return until(f"it lies as {slots}", step, lambda state: state.owner == wanted)


def test_a_broker_away_for_ten_seconds_is_a_passing_failure_and_nothing_is_lost(world: KafkaWorld, own_broker: Broker) -> None:
    for slot in (0, 1):
        world.start(slot)
    world.publisher.publish(intent(world, 0, 0, 1, 1))
    before = world.until(lambda s: not s.pending and len(s.owner) == 4)
    own_broker.stop()

    def refused() -> None:
        with pytest.raises(TransientError):
            world.publisher.publish(intent(world, 1, 1, 1, 1))

    throughout("nothing can be published", refused, for_s=10)
    own_broker.start()
    state = brought_about(world, 1, 0, 1, 0)
    assert state.epoch > before.epoch
    assert {w.uuid for w in state.workers} == {w.uuid for w in before.workers}


def test_a_broker_killed_while_plans_are_published_leaves_one_truth(world: KafkaWorld, own_broker: Broker) -> None:
    for slot in (0, 1):
        world.start(slot)
    told = 0
    for turn in range(2):
        told = eventually_publish(world, intent(world, *(turn % 2,) * 4))
        own_broker.kill()
        with pytest.raises(TransientError):
            world.publisher.publish(intent(world, *((turn + 1) % 2,) * 4))
        own_broker.start()
    state = brought_about(world, 0, 0, 1, 1)
    assert state.epoch >= told + 1
    world.publisher.close()
    world.publisher = world.control()
    again = world.publisher.observe()
    assert (again.epoch, again.owner) == (state.epoch, state.owner)


def test_a_control_topic_made_anew_begins_with_a_plan_that_waits_for_everybody(world: KafkaWorld, own_broker: Broker) -> None:
    for slot in (0, 1):
        world.start(slot)
    world.publisher.publish(intent(world, 0, 0, 0, 0))
    before = world.until(lambda s: not s.pending and len(s.owner) == 4)
    old = world.publisher._state.control_id
    lose(own_broker, CONTROL_TOPIC)
    assert eventually_publish_anew(world, old) > before.epoch, "tokens go on"
    world.publisher.observe()
    plan = world.publisher._state.plan
    assert plan is not None
    (other,) = (w.uuid for w in before.workers if w.slot == 1)
    waits = {tp.partition: {w.worker.uuid for w in ws} for tp, ws in plan.waits.items()}
    assert waits == {n: {other} for n in range(4)}, "everybody but the planned owner itself, although nobody else held anything"
    state = world.publisher.observe()
    assert {w.uuid for w in state.workers} == {w.uuid for w in before.workers}
    assert set(state.owner.values()) == {0}


def eventually_publish_anew(world: KafkaWorld, old: str) -> int:
    """Publish until it is in another control topic than that of this id, and return the epoch there."""
    publish = partial(eventually_publish, world, intent(world, 0, 0, 0, 0))
    return until("another control topic", publish, lambda _: world.publisher._state.control_id != old, every_s=0.2)


def lose(broker: Broker, *topics: str) -> None:
    admin = AdminClient(broker.connection())
    before = describe(admin, topics)
    for future in admin.delete_topics(list(topics)).values():
        future.result(30)
    look = partial(describe, admin, topics)
    until("they are gone", look, lambda found: all(before[t] != facts for t, facts in found.items()))


def test_with_both_topics_lost_a_group_that_has_committed_is_observed_first(world: KafkaWorld, own_broker: Broker) -> None:
    commit(own_broker, world.group, world.topic, {0: 0})
    world.publisher.close()
    lose(own_broker, CONTROL_TOPIC, HEARTBEAT_TOPIC)
    world.lease_s = 2.0
    world.publisher = world.control()
    began = time.monotonic()
    with pytest.raises(TransientError, match="before the first plan"):
        world.publisher.publish(intent(world, 0, 0, 0, 0))
    eventually_publish(world, intent(world, 0, 0, 0, 0))
    assert time.monotonic() - began >= 2.0


def test_heartbeats_deleted_before_they_were_read_prove_nothing(
    world: KafkaWorld, own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is over by evidence from before the gap, and the reader goes on although the first tries fail."""
    world.start(0)
    world.publisher.publish(intent(world, 0, 0, 0, 0))
    before = world.until(lambda s: not s.pending and len(s.owner) == 4)
    log = world.publisher._log
    assert log is not None
    end, failures = log.end, iter((TransientError("not now"), TransientError("nor now")))

    def failing(topic: str, spec: object = None) -> int:
        if (failure := next(failures, None)) is not None:
            raise failure
        return end(topic, spec)

    where = TopicPartition(HEARTBEAT_TOPIC, log._partition)
    monkeypatch.setattr(
        "autoscaler.adapters.control_log.publisher._REOPEN_S", 1e6
    )  # a pause looks like silence, and another reader begins
    log._consumer.pause([where])  # what the client has fetched ahead is dropped
    reached = end(HEARTBEAT_TOPIC)
    to = until("some more heartbeats", lambda: end(HEARTBEAT_TOPIC), lambda at: at >= reached + 5, every_s=0.2)
    where.offset = to
    admin = AdminClient(own_broker.connection())
    monkeypatch.setattr(log, "end", failing)  # before there is anything to find out, also by the look that it takes now and then
    admin.delete_records([where])[where].result(30)
    log._consumer.resume([TopicPartition(HEARTBEAT_TOPIC, log._partition)])

    def floor() -> int:
        with suppress(TransientError):
            world.publisher.observe()
        return world.publisher._state.log.floor

    until("what is lost is known", floor, lambda at: at >= to - 1)
    assert next(failures, None) is None
    state = world.until(lambda s: bool(s.workers))
    assert [w.uuid for w in state.workers] == [w.uuid for w in before.workers]
    assert (state.owner, state.orphans) == (before.owner, frozenset())


def test_a_start_over_that_fails_once_begins_again(
    world: KafkaWorld, own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has taken over meanwhile: it must not end."""
    world.start(0)
    world.publisher.publish(intent(world, 0, 0, 0, 0))
    world.until(lambda s: not s.pending and len(s.owner) == 4)
    old = world.publisher._state.control_id
    take, failures = ControlTransactions.take, iter((TransientError("not now"), TransientError("nor now")))

    def failing(self: ControlTransactions, transactional_id: str, partition: int) -> None:
        if (failure := next(failures, None)) is not None:
            raise failure
        take(self, transactional_id, partition)

    monkeypatch.setattr(ControlTransactions, "take", failing)
    lose(own_broker, CONTROL_TOPIC)
    eventually_publish_anew(world, old)
    assert next(failures, None) is None
    assert world.publisher._state.number == 2, "it goes on where it was"
