"""The two topics of the control log as somebody else has made or altered them: refused, or said."""

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.control_log import publisher
from autoscaler.adapters.control_log.publisher import KafkaControl
from autoscaler.adapters.kafka.durability import weaknesses
from autoscaler.devtools.broker import Broker, Cluster
from autoscaler.errors import SettingsError, TransientError
from autoscaler.handover.codec import PARTITIONS
from autoscaler.handover.records import CONTROL_TOPIC, HEARTBEAT_TOPIC
from tests.conftest import create_topic
from tests.kafka.test_control_faults import lose
from tests.until import until

SOUND = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}


@pytest.mark.parametrize(
    ("replicas", "wanted", "config", "said"),
    [
        (3, 3, SOUND, []),
        (1, 1, {"min.insync.replicas": "1"}, []),
        (2, 2, {"min.insync.replicas": "1"}, []),
        (4, 3, SOUND, []),
        (1, 3, {"min.insync.replicas": "1"}, ["it has 1 replica and should have 3"]),
        (2, 3, {"min.insync.replicas": "1"}, ["it has 2 replicas and should have 3"]),
        (3, 3, {"min.insync.replicas": "1"}, ["min.insync.replicas must be 2 (it is 1: a record may be lost with one broker)"]),
        (3, 3, {"min.insync.replicas": "3"}, ["min.insync.replicas must be 2 (it is 3 of 3: no broker may be away)"]),
        (2, 2, {"min.insync.replicas": "2"}, ["min.insync.replicas must be 1 (it is 2 of 2: no broker may be away)"]),
        (3, 3, {**SOUND, "unclean.leader.election.enable": "true"}, ["unclean.leader.election.enable must be false"]),
    ],
)
def test_what_would_not_outlive_a_broker_is_named(replicas: int, wanted: int, config: dict[str, str], said: list[str]) -> None:
    found = weaknesses("t", replicas, config, wanted)
    assert len(found) == len(said)
    assert all(text in problem for text, problem in zip(said, found, strict=True))


def control_of(cluster: Cluster, group: str, topic: str) -> KafkaControl:
    return KafkaControl(
        connection=cluster.connection(), group=group, topics=(topic,), reset_policy="earliest", lease_s=3.0,
        replication_factor=None, slot_of=lambda _: None, clock=SystemClock(),
    )  # fmt: skip


@pytest.fixture
def control(own_broker: Broker, group: str) -> Iterator[KafkaControl]:
    made = control_of(own_broker, group, create_topic(own_broker, "orders", 1))
    yield made
    made.close()


def refused(control: KafkaControl) -> str | None:
    """Return what it is refused for; a cycle may fail for other reasons while topics come and go."""
    try:
        control.observe()
    except SettingsError as e:
        return "; ".join(e.problems)
    except TransientError:
        return None
    return None


def works(control: KafkaControl) -> bool:
    with suppress(SettingsError, TransientError):
        control.observe()
        return True
    return False


def alter(cluster: Cluster, topic: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient(cluster.connection())
    admin.incremental_alter_configs([resource])[resource].result(30)


def test_topics_made_anew_by_somebody_else_are_checked_again(own_broker: Broker, control: KafkaControl) -> None:
    control.observe()
    lose(own_broker, CONTROL_TOPIC)
    create_topic(own_broker, CONTROL_TOPIC, PARTITIONS, cleanup_policy="delete")
    said = until("it is refused", lambda: refused(control))
    assert "cleanup.policy must be compact" in said


def test_a_configuration_that_is_altered_is_refused_until_it_is_as_it_must_be(
    own_broker: Broker, control: KafkaControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "_CHECK_S", 0.0)
    control._check_at = 0.0
    control.observe()
    alter(own_broker, HEARTBEAT_TOPIC, "retention.ms", "1000")
    said = until("it is refused", lambda: refused(control))
    assert f"topic {HEARTBEAT_TOPIC}: retention.ms must be" in said
    alter(own_broker, HEARTBEAT_TOPIC, "retention.ms", "600000")
    until("it goes on", lambda: works(control))


def test_what_does_not_outlive_a_broker_is_said_once_where_it_could(
    three_brokers: Cluster, group: str, make_topic: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    """Said, and not refused; and once, however often the log is opened."""
    control = control_of(three_brokers, group, make_topic(partitions=1, cluster=three_brokers))
    try:
        assert not [r for r in caplog.records if "replica" in r.getMessage()], "those that it makes are as they should be"
        for topic in (CONTROL_TOPIC, HEARTBEAT_TOPIC):
            alter(three_brokers, topic, "min.insync.replicas", "1")
        for _ in range(2):
            control.close()
            until("it works", lambda: works(control))
        said = [r.getMessage() for r in caplog.records if "min.insync.replicas must be 2" in r.getMessage()]
        assert len(said) == 2
        assert all("kafka-configs.sh --alter" in line for line in said)
    finally:
        control.close()
        for topic in (CONTROL_TOPIC, HEARTBEAT_TOPIC):
            alter(three_brokers, topic, "min.insync.replicas", "2")
