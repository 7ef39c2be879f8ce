"""Brokers that make a topic when somebody asks for it: those of the control log are made by the controller, as they must be."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.control_log.publisher import KafkaControl
from autoscaler.adapters.control_log.release import release
from autoscaler.adapters.control_log.watch import ControlLogs, KafkaWatch
from autoscaler.adapters.kafka.control_topics import check_control_topics, describe
from autoscaler.devtools.broker import Broker
from autoscaler.errors import PermanentError, TransientError
from autoscaler.handover.codec import PARTITIONS
from autoscaler.handover.records import CONTROL_TOPIC, HEARTBEAT_TOPIC
from autoscaler.model import WorkerPhase
from tests.conftest import create_topic
from tests.kafka.in_process import Running
from tests.kafka.test_control_faults import lose
from tests.until import until

LEASE_S = 3.0
OWN = (CONTROL_TOPIC, HEARTBEAT_TOPIC)


@pytest.fixture
def eager() -> Iterator[Broker]:
    """One node that makes what it is asked for."""
    with Broker(heap_mb=160, settings={"auto.create.topics.enable": "true", "num.partitions": "1"}) as node:
        yield node


def test_nobody_but_the_controller_makes_the_topics_of_the_control_log(
    eager: Broker, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic, admin = create_topic(eager, "orders", 1), AdminClient(eager.connection())
    worker = Running(eager, group, topic, lease_s=LEASE_S)
    control = None
    try:
        until("the worker waits", lambda: "waiting for the controller's topics" in caplog.text)
        watch = KafkaWatch(
            logs=ControlLogs(eager.connection()), group=group, topics=(topic,), lease_s=LEASE_S, slot_of=lambda _: None,
            clock=SystemClock(),
        )  # fmt: skip
        assert watch.observe() is None
        with pytest.raises(PermanentError, match="there is no topic"):
            release(eager.connection(), group)
        assert describe(admin, OWN) == {}
        control = KafkaControl(
            connection=eager.connection(), group=group, topics=(topic,), reset_policy="earliest", lease_s=LEASE_S,
            replication_factor=None, slot_of=lambda _: 0, clock=SystemClock(),
        )  # fmt: skip
        until("the worker has joined", lambda: joined(control))
        lose(eager, *OWN)
        until("its heartbeats find no topic", lambda: "heartbeat not acknowledged" in caplog.text)
        assert describe(admin, OWN) == {}
        until("it has joined the new ones", lambda: joined(control))
        found = describe(admin, OWN)
        assert [found[name].partitions for name in OWN] == [PARTITIONS] * 2
        check_control_topics(admin, LEASE_S, found)
    finally:
        worker.close()
        if control is not None:
            control.close()


def joined(control: KafkaControl) -> bool:
    try:
        return any(w.phase is WorkerPhase.ACTIVE for w in control.observe().workers)
    except TransientError:
        return False
