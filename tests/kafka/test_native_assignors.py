"""Predicted against real: groups of real clients on the broker grow and shrink, and get what was foretold."""

import random
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient

from autoscaler.adapters.kafka.control_topics import describe
from autoscaler.core.assignors.forecast import Rates, forecast, hottest
from autoscaler.core.assignors.group_model import Assignor, Consumer, NativeGroup
from autoscaler.core.assignors.group_reader import read_group
from autoscaler.core.assignors.simulate import ties
from autoscaler.devtools.broker import Broker
from autoscaler.model import GroupMembers, TopicPartition
from tests.kafka.native_members import KINDS, Kind, members

MakeTopic = Callable[..., str]


def real(found: GroupMembers, rates: Rates) -> float:
    return hottest({m.member_id: tuple(m.assigned) for m in found.members}, rates)


def told_apart(
    broker: Broker, make_topic: MakeTopic, sizes: tuple[int, ...], kind: Kind
) -> tuple[dict[str, int], dict[str, str]]:
    """Return topics with their sizes, and their ids, of which no two share a bucket: what they get can be foretold then."""
    while True:
        counts = {make_topic(partitions=n): n for n in sizes}
        ids = {t: f.topic_id for t, f in describe(AdminClient(broker.connection()), tuple(counts)).items()}
        somebody = Consumer(member_id="m", topics=frozenset(counts))
        group = NativeGroup(assignor=Assignor(kind.assignor), consumers=(somebody,), partitions=counts, topic_ids=ids)
        if len(ties(group)) == 1:
            return counts, ids


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_real_group_gets_what_was_predicted(broker: Broker, make_topic: MakeTopic, kind: Kind) -> None:
    rnd = random.Random(str(kind))
    counts, ids = told_apart(broker, make_topic, (5, 7), kind)
    partitions = [TopicPartition(t, n) for t, count in counts.items() for n in range(count)]
    rates = {p: rnd.paretovariate(1.2) for p in partitions}
    with members(broker, kind, tuple(counts)) as (_, settled):
        found = settled(2, len(partitions))
        for count in (3, 5, 4):
            group = read_group(found, partitions, ids)
            assert isinstance(group, NativeGroup), group
            told = forecast(group, rates, count)
            found = settled(count, len(partitions))
            load = real(found, rates)
            assert told is not None
            assert told.low * 0.98 <= load <= told.high * 1.02, (told, count)
            assert {m.library for m in found.members} == ({""} if kind.protocol == "consumer" else {kind.library})
