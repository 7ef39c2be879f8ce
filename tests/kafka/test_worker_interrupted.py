"""Ctrl-C while no broker answers, and again because leaving takes so long: the process ends, and nothing is lost."""

import signal
from pathlib import Path

import pytest
from confluent_kafka import Producer

from autoscaler.devtools.broker import Broker
from tests.conftest import create_topic
from tests.kafka.workers import Publisher, Workers, all_processed
from tests.until import throughout, until

EACH = 300
pytestmark = pytest.mark.timeout(600)


def test_a_second_interrupt_ends_a_worker_that_cannot_leave(own_broker: Broker, tmp_path: Path) -> None:
    topic = create_topic(own_broker, "orders", 2)
    control = Publisher(own_broker.bootstrap, "group", topic)
    workers = Workers(own_broker.bootstrap, "group", topic, tmp_path)
    workers.environment["AUTOSCALER_LEASE_S"] = "1200"  # leaving goes on for so long, if nobody ends it
    try:
        workers.start("w-0")
        me = control.incarnation("w-0")
        control.plan({0: me, 1: me})
        control.holds(me, {0, 1})
        produce(own_broker, topic)
        all_processed(workers, dict.fromkeys(range(2), EACH))
        own_broker.stop()
        workers.signal("w-0", signal.SIGINT)
        process = workers.running["w-0"]
        throughout("it waits for the brokers", process.poll, lambda code: code is None, for_s=2)  # wherever in leaving it is
        workers.signal("w-0", signal.SIGINT)
        assert workers.ended("w-0") != 0
        own_broker.start()
        produce(own_broker, topic)
        control.expire(me)
        workers.start("w-1")
        other = control.incarnation("w-1")
        control.plan({0: other, 1: other})
        all_processed(workers, dict.fromkeys(range(2), 2 * EACH))
        until("all is committed", lambda: all(control.committed_at(p, 2 * EACH) for p in range(2)))
    finally:
        workers.close()
        control.close()


def produce(broker: Broker, topic: str) -> None:
    producer = Producer({**broker.connection(), "enable.idempotence": True, "log_level": 0})
    for number in range(2 * EACH):
        producer.produce(topic, b"x" * 1000, partition=number % 2)
    assert producer.flush(120) == 0
