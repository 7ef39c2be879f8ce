"""The simulated assignors against the classes of the embedded broker: the same assignment, not just the same load."""

import base64
import random
import uuid
from collections.abc import Iterator

import pytest

from autoscaler.core.assignors.group_model import Assigned, Assignor, Client, Consumer, NativeGroup
from autoscaler.core.assignors.simulate import assign, following
from tests.kafka.java_assignors import KafkaAssignors, kafka

CLASSIC = tuple(a for a in Assignor if a is not Assignor.UNIFORM)
KIP_848 = (Assignor.RANGE, Assignor.UNIFORM)
GROUPS, STEPS = 15, 3


@pytest.fixture(scope="module")
def classes() -> Iterator[KafkaAssignors]:
    with kafka() as found:
        yield found


def short_id(rnd: random.Random) -> str:
    return base64.urlsafe_b64encode(uuid.UUID(int=rnd.getrandbits(128)).bytes).decode().rstrip("=")


def member(rnd: random.Random, topics: frozenset[str], *, classic: bool, static: bool = False) -> Consumer:
    name = f"app-{uuid.UUID(int=rnd.getrandbits(128))}" if classic else short_id(rnd)
    return Consumer(member_id=name, topics=topics, instance=f"i{rnd.randrange(10**6)}" if static else None)


def some_group(rnd: random.Random, assignor: Assignor, *, classic: bool, static: bool = False) -> NativeGroup:
    topics = {f"topic-{i}": rnd.choice([1, 3, 7, 16, 40]) for i in range(rnd.choice([1, 1, 2, 4]))}
    everything = frozenset(topics)
    consumers = tuple(
        member(rnd, everything, classic=classic, static=static and rnd.random() < 0.5) for _ in range(rnd.randint(1, 12))
    )
    ids = {t: short_id(rnd) for t in topics}
    return NativeGroup(assignor=assignor, consumers=consumers, partitions=topics, topic_ids=ids)


def after(rnd: random.Random, group: NativeGroup, held: Assigned, *, classic: bool) -> NativeGroup:
    """Return the group with what its members hold now, and some more of them or some fewer."""
    there = [
        Consumer(member_id=c.member_id, topics=c.topics, instance=c.instance, owned=frozenset(held[c.member_id]))
        for c in group.consumers
    ]
    if rnd.random() < 0.5:
        joining = [member(rnd, frozenset(group.partitions), classic=classic) for _ in range(rnd.randint(1, 5))]
        return following(group, [*there, *joining])
    return following(group, rnd.sample(there, rnd.randint(1, len(there))))


@pytest.mark.parametrize("assignor", CLASSIC)
def test_a_classic_group_gets_exactly_what_kafkas_class_gives_it(classes: KafkaAssignors, assignor: Assignor) -> None:
    rnd = random.Random(assignor)
    for number in range(GROUPS):
        group = some_group(rnd, assignor, classic=True, static=number % 3 == 0)
        for _ in range(STEPS):
            held = classes.assign(group)
            assert assign(group, Client.JAVA) == held, group
            group = after(rnd, group, held, classic=True)


@pytest.mark.parametrize("assignor", KIP_848)
def test_a_group_on_the_new_protocol_gets_exactly_what_the_coordinators_class_gives_it(
    classes: KafkaAssignors, assignor: Assignor
) -> None:
    rnd = random.Random(assignor)
    for _ in range(GROUPS):
        group = some_group(rnd, assignor, classic=False)
        for _ in range(STEPS):
            held = classes.assign_in_coordinator(group)
            assert assign(group, Client.JAVA) == held, group
            group = after(rnd, group, held, classic=False)


@pytest.mark.parametrize("assignor", [Assignor.RANGE, Assignor.ROUND_ROBIN])
def test_members_that_subscribe_differently_get_what_kafkas_class_gives_them(classes: KafkaAssignors, assignor: Assignor) -> None:
    rnd = random.Random(assignor)
    for _ in range(GROUPS):
        group = some_group(rnd, assignor, classic=True)
        topics = sorted(group.partitions)
        consumers = [
            Consumer(member_id=c.member_id, topics=frozenset(rnd.sample(topics, rnd.randint(1, len(topics)))))
            for c in group.consumers
        ]
        wanted = frozenset(t for c in consumers for t in c.topics)
        mixed = NativeGroup(assignor=assignor, consumers=tuple(consumers), partitions={t: group.partitions[t] for t in wanted})
        assert assign(mixed, Client.JAVA) == classes.assign(mixed), mixed
