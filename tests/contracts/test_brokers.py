"""One contract for ``ClusterAdmin`` and one for ``JournalLog``, kept by what tests use and by real brokers."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import pytest

from autoscaler.brokers.journal import NOTHING, Journal, Move, can_be_written
from autoscaler.brokers.ports import ClusterAdmin, JournalLog
from autoscaler.brokers.view import (
    LISTS,
    RATES,
    Cancel,
    ClearThrottle,
    Elect,
    Holders,
    Reassign,
    SetThrottle,
    Setting,
    ShortenLists,
    View,
)
from autoscaler.errors import FencedError, TransientError
from autoscaler.model import TopicPartition
from tests.brokers.fake_cluster import FakeCluster, FakeJournal, holders
from tests.conftest import create_topic
from tests.until import until

if TYPE_CHECKING:
    from autoscaler.devtools.broker import Cluster


class World(Protocol):
    admin: ClusterAdmin
    topic: str  # of two partitions with two replicas each, on the first two of the brokers
    nodes: tuple[int, int, int]

    def journal(self) -> JournalLog: ...
    def fill(self) -> None:
        """Store some megabytes in partition 0."""
        ...


@dataclass
class FakeWorld:
    topic: str = "t"
    nodes: tuple[int, int, int] = (1, 2, 3)

    def __post_init__(self) -> None:
        where = {TopicPartition(topic=self.topic, partition=n): holders(1, 2) for n in range(2)}
        self.admin: ClusterAdmin = FakeCluster(where, looks=4, sizes=dict.fromkeys(where, 8e6))
        self._journal = FakeJournal()

    def journal(self) -> JournalLog:
        return self._journal.opened()

    def fill(self) -> None:
        pass


class KafkaWorld:
    def __init__(self, cluster: "Cluster") -> None:
        from autoscaler.adapters.kafka.cluster_admin import KafkaClusterAdmin  # noqa: PLC0415  the fake needs no client

        self._cluster = cluster
        a, b, c = sorted(n.number for n in cluster.nodes)
        self.nodes = (a, b, c)
        self.admin: ClusterAdmin = KafkaClusterAdmin(cluster.connection())
        self.topic = create_topic(cluster, f"balance-{uuid.uuid4().hex[:8]}", 2, replicas=[[a, b], [a, b]])

    def journal(self) -> JournalLog:
        from autoscaler.adapters.control_log.balance_journal import KafkaJournal  # noqa: PLC0415  as above

        return KafkaJournal(self._cluster.connection())

    def fill(self) -> None:
        from confluent_kafka import Producer  # noqa: PLC0415  as above

        producer = Producer({**self._cluster.connection(), "log_level": 0})
        for _ in range(80):
            producer.produce(self.topic, b"x" * 100_000, partition=0)
        producer.flush(30)


@pytest.fixture(params=["fake", pytest.param("kafka", marks=pytest.mark.broker)])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    found: World = FakeWorld() if request.param == "fake" else KafkaWorld(request.getfixturevalue("three_brokers"))
    yield found
    found.admin.close()


def part(world: World, number: int) -> TopicPartition:
    return TopicPartition(topic=world.topic, partition=number)


def seen(world: World, what: str, holds: Callable[[View], object]) -> View:
    return until(what, lambda: world.admin.observe([world.topic]), holds, within_s=30)


def test_it_tells_who_holds_what_and_how_large_it_is(world: World) -> None:
    world.fill()
    view = seen(world, "sizes", lambda v: v.sizes.get(part(world, 0), 0) > 7e6)
    a, b, _ = world.nodes
    assert view.brokers.keys() >= set(world.nodes)
    assert view.partitions[part(world, 0)] == Holders((a, b), frozenset({a, b}), a)
    assert not [p for p in view.running if p.topic == world.topic]


def test_it_tells_how_long_each_broker_takes_to_answer(world: World) -> None:
    answered = {n: b.answered_s for n, b in world.admin.observe([]).brokers.items()}
    assert set(world.nodes) <= answered.keys()
    assert all(0.0 < s < 30.0 for s in answered.values())


def test_the_order_of_replicas_and_an_election_move_a_leadership(world: World) -> None:
    a, b, _ = world.nodes
    moved = frozenset({part(world, 1)})
    assert not world.admin.execute(Reassign(replicas={part(world, 1): (b, a)}))
    seen(world, "the order", lambda v: v.partitions[part(world, 1)].replicas == (b, a))
    assert not world.admin.execute(Elect(partitions=moved))
    seen(world, "the leader", lambda v: v.partitions[part(world, 1)].leader == b)
    assert not world.admin.execute(Elect(partitions=moved))  # twice is no error


def test_a_throttle_is_told_and_taken_away(world: World) -> None:
    a, _, _ = world.nodes
    values = {Setting("broker", str(a), RATES[0]): "1000000", Setting("topic", world.topic, LISTS[0]): f"0:{a}"}
    world.admin.execute(SetThrottle(values=values))
    seen(world, "the throttle", lambda v: v.throttles.items() >= values.items())
    for _ in range(2):
        world.admin.execute(ClearThrottle(settings=frozenset(values)))
    seen(world, "no throttle", lambda v: not v.throttles.keys() & values.keys())


def test_a_list_is_shared_with_other_tools(world: World) -> None:
    a, b, _ = world.nodes
    ours = Setting("topic", world.topic, LISTS[0])
    world.admin.execute(SetThrottle(values={ours: f"1:{a}"}))
    seen(world, "the list", lambda v: v.throttles.get(ours) == f"1:{a}")
    for _ in range(2):
        world.admin.execute(SetThrottle(values={ours: f"0:{a},0:{b}"}))
    seen(world, "both", lambda v: v.throttles.get(ours) == f"1:{a},0:{a},0:{b}")
    for _ in range(2):
        world.admin.execute(ShortenLists(values={ours: f"0:{a},0:{b}"}))
    seen(world, "what was there before", lambda v: v.throttles.get(ours) == f"1:{a}")
    world.admin.execute(ClearThrottle(settings=frozenset({ours})))


def test_a_running_reassignment_is_told_with_its_end_and_can_be_cancelled(world: World) -> None:
    world.fill()
    a, b, c = world.nodes
    slow = {Setting("broker", str(n), key): "1000" for n in world.nodes for key in RATES}
    slow |= {Setting("topic", world.topic, LISTS[0]): f"0:{a},0:{b}", Setting("topic", world.topic, LISTS[1]): f"0:{c}"}
    world.admin.execute(SetThrottle(values=slow))
    seen(world, "the throttle", lambda v: v.throttles.items() >= slow.items())
    assert not world.admin.execute(Reassign(replicas={part(world, 0): (a, c)}))
    seen(world, "it runs", lambda v: v.running.get(part(world, 0)) == (a, c))
    for _ in range(2):
        assert not world.admin.execute(Cancel(partitions=frozenset({part(world, 0)})))
    seen(world, "it is back", lambda v: not v.running and v.partitions[part(world, 0)].replicas == (a, b))
    world.admin.execute(ClearThrottle(settings=frozenset(slow)))


def test_what_cannot_be_reassigned_is_told(world: World) -> None:
    a, b, _ = world.nodes
    absent = TopicPartition(topic=f"{world.topic}-absent", partition=0)
    assert world.admin.execute(Reassign(replicas={absent: (a, b)})) == {absent: "UnknownTopicOrPartitionError"}


def test_the_largest_journal_that_a_batch_begins_with_is_written_also_when_all_of_it_is_doubted(world: World) -> None:
    """Above that, Kafka refuses."""

    def begun(count: int) -> Journal:
        name = "x" * 249  # as long as a topic's name can be
        parts = [TopicPartition(topic=f"{name[4:]}{n:04}", partition=n) for n in range(count)]
        return Journal(batch="b", moves=dict.fromkeys(parts, Move(before=(1001, 1002), after=(1003, 1002))))

    count = next(n for n in range(3000, 0, -1) if can_be_written(begun(n)))
    most, log = begun(count), world.journal()
    try:
        log.take()
        doubted = replace(most, doubted=frozenset(most.moves), waits_since=1.7e9, elections=10)
        log.write(doubted)
        assert log.read() == doubted
        with pytest.raises(TransientError, match="MSG_SIZE_TOO_LARGE"):
            log.write(begun(3 * count))
        log.write(NOTHING)
        assert log.read() == NOTHING
    finally:
        log.close()


def test_a_job_that_takes_the_journal_finds_what_was_begun_and_ends_the_others_turn(world: World) -> None:
    first, second = world.journal(), world.journal()
    try:
        first.take()
        begun = Journal(batch="b", moves={part(world, 0): Move(before=(1, 2), after=(3, 2))})
        first.write(begun)
        assert second.read() == begun
        first.write(begun)  # to read takes nothing away
        assert second.take() == begun
        for _ in range(2):
            with pytest.raises(FencedError):
                first.write(NOTHING)
        second.write(NOTHING)
        assert second.take() == NOTHING
    finally:
        first.close()
        second.close()
