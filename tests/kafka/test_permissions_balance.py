"""The permissions that docs/reference/permissions.md names for the job that balances brokers: enough, and each is needed."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AclOperation

from autoscaler.adapters.control_log.balance_journal import KafkaJournal
from autoscaler.adapters.kafka.cluster_admin import KafkaClusterAdmin
from autoscaler.brokers.journal import NOTHING
from autoscaler.brokers.view import LISTS, RATES, Cancel, ClearThrottle, Elect, Reassign, SetThrottle, Setting
from autoscaler.devtools.broker import Broker
from autoscaler.errors import AutoscalerError, PermanentError, SettingsError
from autoscaler.handover.records import CONTROL_TOPIC
from autoscaler.model import TopicPartition
from autoscaler.streaming.lag import GroupRules
from jobs.balance_brokers import MEASURED
from tests.conftest import create_topic
from tests.kafka.measuring import Measured
from tests.kafka.permissions import CLUSTER, DESCRIBE, READ, TOPIC, TRANSACTION, WRITE, Grant, Permissions
from tests.kafka.whole_step import OWN
from tests.until import until

ON_CLUSTER = "kafka-cluster"
WAITS_S = 15.0
ALTER, CONFIGS, SEE = AclOperation.ALTER, AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS
ADVISES: list[Grant] = [(CLUSTER, ON_CLUSTER, DESCRIBE), (TOPIC, "*", DESCRIBE)]
ACTS: list[Grant] = [
    (CLUSTER, ON_CLUSTER, ALTER), (CLUSTER, ON_CLUSTER, CONFIGS), (TOPIC, "*", CONFIGS),
    *((TOPIC, t, o) for t in OWN for o in (AclOperation.CREATE, DESCRIBE, SEE)),
    (TOPIC, CONTROL_TOPIC, READ), (TOPIC, CONTROL_TOPIC, WRITE),
    (TRANSACTION, f"{CONTROL_TOPIC}/", WRITE),
]  # fmt: skip


@pytest.fixture
def topic(secure_broker: Broker, group: str) -> str:
    return create_topic(secure_broker, f"topic-{group}", 1)


@pytest.fixture
def permissions(secure_broker: Broker) -> Iterator[Permissions]:
    made = Permissions(secure_broker)
    made.grant("job", *ADVISES)
    yield made
    made.revoke("job")


def advise(broker: Broker, topic: str) -> None:
    """Look at everything, and measure, as the job does in either mode."""
    admin = KafkaClusterAdmin(broker.connection("job"))
    part = TopicPartition(topic=topic, partition=0)
    try:
        view = admin.observe(())
        assert view.sizes
        assert part in view.partitions
    finally:
        admin.close()
    with Measured(broker.connection("job"), (GroupRules(group=MEASURED, topics=(topic,)),)) as measured:
        measured.until(lambda s: [x.partition for x in s.loads if x.bytes_per_s is not None] == [part], within_s=WAITS_S)


def act(broker: Broker, topic: str) -> None:
    """Do everything that the job does, once."""
    admin, journal = KafkaClusterAdmin(broker.connection("job")), KafkaJournal(broker.connection("job"))
    part = TopicPartition(topic=topic, partition=0)
    throttle = {Setting("broker", "1", key): "1000000" for key in RATES} | {Setting("topic", topic, key): "0:1" for key in LISTS}
    try:
        journal.take()
        journal.write(NOTHING)
        admin.execute(SetThrottle(values=throttle))
        assert admin.observe([topic]).throttles == throttle
        assert admin.execute(Reassign(replicas={part: (1,)})) == {}
        assert admin.execute(Elect(partitions=frozenset({part}))) == {}
        assert admin.execute(Cancel(partitions=frozenset({part}))) == {}
        admin.execute(ClearThrottle(settings=frozenset(throttle)))
    finally:
        admin.close()
        journal.close()


def test_what_the_page_names_is_enough_to_advise_and_to_act(secure_broker: Broker, permissions: Permissions, topic: str) -> None:
    advise(secure_broker, topic)
    permissions.grant("job", *ACTS)
    act(secure_broker, topic)


def test_advise_without_read_on_the_control_log_knows_at_once_that_it_cannot_know_what_is_begun(
    secure_broker: Broker, permissions: Permissions, topic: str
) -> None:
    permissions.grant("job", *ACTS)
    act(secure_broker, topic)
    read: Grant = (TOPIC, CONTROL_TOPIC, READ)
    journal = KafkaJournal(secure_broker.connection("job"))
    assert journal.read() == NOTHING
    permissions.revoke("job", read)

    def refused() -> str | None:
        try:
            journal.read()
        except SettingsError as e:
            return str(e)
        return None

    began = time.monotonic()
    assert "permission" in until("it is refused", refused, within_s=30)
    assert time.monotonic() - began < 25, "before the time in which it would have been given up"


@pytest.mark.parametrize("missing", ADVISES, ids=lambda g: f"{g[2].name} on {g[1]}")
def test_without_one_of_them_it_cannot_advise(
    secure_broker: Broker, permissions: Permissions, topic: str, missing: Grant
) -> None:
    permissions.revoke("job", missing)
    with pytest.raises((PermanentError, AssertionError)) as refused:
        advise(secure_broker, topic)
    assert refused.type is AssertionError or "permission" in str(refused.value)


@pytest.mark.parametrize(
    "missing", [g for g in ACTS if g[0] is not TOPIC or g[2] in {CONFIGS, WRITE}], ids=lambda g: f"{g[2].name} on {g[1]}"
)
def test_without_one_of_them_it_cannot_act(secure_broker: Broker, permissions: Permissions, topic: str, missing: Grant) -> None:
    permissions.grant("job", *(g for g in ACTS if g != missing))

    def refused() -> bool:
        try:
            act(secure_broker, topic)
        except AutoscalerError as e:
            return "permission" in str(e).lower() or "authorization" in str(e).lower()
        return False

    until("it cannot do without", refused, within_s=30)
