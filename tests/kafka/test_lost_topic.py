"""A group of several topics of which one can be described no longer: its load is unknown, so the group stays as it is."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from autoscaler.core.decide import decide
from autoscaler.core.group.history import History
from autoscaler.devtools.broker import Broker
from autoscaler.model import Decision, LoadSnapshot, Observation, TopicPartition
from autoscaler.streaming.lag import GroupRules
from tests.builders import moment, policy, state
from tests.conftest import create_topic
from tests.kafka.measuring import Measured
from tests.kafka.permissions import DESCRIBE, GROUP, TOPIC, Permissions
from tests.until import until


@pytest.fixture
def topics(secure_broker: Broker, group: str) -> tuple[str, str]:
    return create_topic(secure_broker, f"kept-{group}", 2), create_topic(secure_broker, f"lost-{group}", 2)


@pytest.fixture
def permissions(secure_broker: Broker, topics: tuple[str, str], group: str) -> Iterator[Permissions]:
    made = Permissions(secure_broker)
    made.grant("job", (GROUP, group, DESCRIBE), *((TOPIC, t, DESCRIBE) for t in topics))
    yield made
    made.revoke("job")


def decided(topics: tuple[str, str], snapshot: LoadSnapshot) -> Decision:
    """Decide for a group of four consumers, one partition each, that has had nothing to do for minutes."""
    now = snapshot.sample_ts
    history = History(recommendations=tuple((now - 400 + 10 * i, 1) for i in range(40)))
    owner = {TopicPartition(topic=t, partition=n): 2 * i + n for i, t in enumerate(topics) for n in range(2)}
    return decide(
        Observation(group="g", snapshot=snapshot, state=state(owner), members=None), history, policy(topics=topics), moment(now)
    )[0]


@pytest.mark.parametrize("how", ["deleted", "forbidden"])
def test_a_group_is_not_shrunk_while_one_of_its_topics_cannot_be_described(
    secure_broker: Broker, permissions: Permissions, topics: tuple[str, str], group: str, how: str
) -> None:
    _, lost = topics
    with Measured(secure_broker.connection("job"), (GroupRules(group=group, topics=topics),)) as measured:
        idle = measured.until(lambda s: s.known and len(s.loads) == 4 and all(p.bytes_per_s == 0 for p in s.loads))
        assert decided(topics, idle).consumers == 1, "with all known it would shrink"
        if how == "deleted":
            admin = AdminClient(secure_broker.connection())
            admin.delete_topics([lost])[lost].result(30)
        else:
            permissions.revoke("job", (TOPIC, lost, DESCRIBE))
        aged = policy().stale_after_s  # so long its last rates are as good as new ones
        measured.until(lambda s: not s.known and (len(s.loads) < 4 or any(p.age_s > aged for p in s.loads)))

        def look() -> tuple[LoadSnapshot, Decision]:
            found = measured.one()
            decision = decided(topics, found)
            assert decision.consumers == 4
            assert not decision.actions
            return found, decision

        def gone(seen: tuple[LoadSnapshot, Decision]) -> bool:
            return {p.partition.topic for p in seen[0].loads} != set(topics)

        found, decision = until("nothing is left of it in the measurement", look, gone, every_s=0.2)
        assert lost in decision.detail
        assert lost in (found.error or "")
