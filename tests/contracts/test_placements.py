"""One contract for ``PlacementPublisher``, kept by the fake and by the real control log, which members read as they do."""

from collections.abc import Iterator, Mapping
from typing import Protocol

import pytest

from autoscaler.adapters.control_log.placement_publisher import KafkaPlacements
from autoscaler.assignor import Placements
from autoscaler.devtools.broker import Broker
from autoscaler.errors import FencedError
from autoscaler.handover.placement_record import Placement
from autoscaler.model import TopicPartition
from autoscaler.ports import PlacementPublisher
from tests.fakes import FakePlacements
from tests.until import until

Owners = Mapping[TopicPartition, str]


class World(Protocol):
    @property
    def publisher(self) -> PlacementPublisher: ...

    def told(self, last: Owners) -> list[Owners]:
        """Return every placement that members were told, once they have been told this one."""
        ...

    def take_over(self) -> PlacementPublisher:
        """Let another controller write for the group."""
        ...

    def close(self) -> None: ...


class FakeWorld:
    def __init__(self) -> None:
        self.publisher = FakePlacements()
        self._all = [self.publisher]

    def told(self, last: Owners) -> list[Owners]:
        said: list[Owners] = [owners for p in self._all for owners in p.published]
        assert said[-1] == last
        return said

    def take_over(self) -> FakePlacements:
        self._all[-1].fenced = True
        self._all.append(FakePlacements())
        return self._all[-1]

    def close(self) -> None:
        for publisher in self._all:
            publisher.close()


class KafkaWorld:
    def __init__(self, broker: Broker, group: str) -> None:
        self._broker, self._group = broker, group
        self.publisher = KafkaPlacements(broker.connection(), group)
        self._all = [self.publisher]
        self._said: list[Placement] = []
        self._reader = Placements(group, bootstrap_servers=broker.bootstrap)
        self._reader.on_change(self._said.append)

    def told(self, last: Owners) -> list[Owners]:
        until(f"{last} is told", lambda: list(self._said), lambda said: said and _owners(said[-1]) == last)
        return [_owners(p) for p in self._said]

    def take_over(self) -> KafkaPlacements:
        self._all.append(KafkaPlacements(self._broker.connection(), self._group))
        return self._all[-1]

    def close(self) -> None:
        self._reader.close()
        for publisher in self._all:
            publisher.close()


def _owners(placement: Placement) -> Owners:
    return {TopicPartition(*tp): name for tp, name in placement.owners.items()}


@pytest.fixture(params=["fake", pytest.param("kafka", marks=pytest.mark.broker)])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made: World
    if request.param == "fake":
        made = FakeWorld()
    else:
        made = KafkaWorld(request.getfixturevalue("broker"), request.getfixturevalue("group"))
    yield made
    made.close()


def owners(*names: str) -> dict[TopicPartition, str]:
    return {TopicPartition(topic="orders", partition=n): name for n, name in enumerate(names)}


def published(world: World, wanted: Owners) -> None:
    """Publish it, and wait until members know."""
    world.publisher.publish(wanted)
    world.told(wanted)


def test_members_are_told_what_was_published_and_nothing_else(world: World) -> None:
    published(world, owners("x", "y", "x"))
    published(world, owners("y"))  # all of it is replaced: nobody is told to hold what is left out
    assert world.told(owners("y")) == [owners("x", "y", "x"), owners("y")]


def test_what_is_published_once_more_is_no_news(world: World) -> None:
    for _ in range(3):
        published(world, owners("x", "y"))
    published(world, owners("y", "x"))
    published(world, owners("x", "y"))  # this is: it is not what was written last
    assert world.told(owners("x", "y")) == [owners("x", "y"), owners("y", "x"), owners("x", "y")]


def test_a_placement_of_nothing_is_one_too(world: World) -> None:
    published(world, {})
    published(world, owners("x"))
    published(world, {})
    assert world.told({}) == [{}, owners("x"), {}]


def test_what_a_caller_does_with_its_own_afterwards_changes_nothing(world: World) -> None:
    mine = owners("x", "y")
    published(world, mine)
    mine[TopicPartition(topic="orders", partition=0)] = "z"
    assert world.told(owners("x", "y")) == [owners("x", "y")]
    published(world, mine)  # it is another one than was written, although it is the same object
    assert world.told(owners("z", "y")) == [owners("x", "y"), owners("z", "y")]


def test_one_who_was_replaced_is_told_and_writes_nothing_more(world: World) -> None:
    published(world, owners("x", "y"))
    successor = world.take_over()
    for _ in range(2):  # and stays so
        with pytest.raises(FencedError):
            world.publisher.publish(owners("y", "y"))
    successor.publish(owners("x", "x"))
    world.told(owners("x", "x"))
    with pytest.raises(FencedError):
        world.publisher.publish(owners("y", "y"))
    successor.publish(owners("y", "x"))
    assert world.told(owners("y", "x")) == [owners("x", "y"), owners("x", "x"), owners("y", "x")]


def test_a_placement_stays_when_its_writer_closes(world: World) -> None:
    published(world, owners("x", "y"))
    world.publisher.close()
    assert world.told(owners("x", "y")) == [owners("x", "y")]
