"""All brokers are away for half a minute, at the lease that stands where nothing is said: nobody lapses, and all go on."""

from pathlib import Path

import pytest
from confluent_kafka import Producer

from autoscaler.devtools.broker import Broker
from autoscaler.handover.records import LEASE_S
from tests.conftest import create_topic
from tests.kafka.workers import Publisher, Workers, all_processed
from tests.until import let_pass, until

OUTAGE_S = 30.0
pytestmark = pytest.mark.timeout(600)


def test_half_a_minute_without_brokers_ends_no_lease(own_broker: Broker, tmp_path: Path) -> None:
    topic = create_topic(own_broker, "orders", 4)
    control = Publisher(own_broker.bootstrap, "group", topic)
    workers = Workers(own_broker.bootstrap, "group", topic, tmp_path)
    del workers.environment["AUTOSCALER_LEASE_S"]
    try:
        for name in ("w-0", "w-1"):
            workers.start(name)
        a, b = (control.incarnation(name) for name in ("w-0", "w-1"))
        control.plan({0: a, 1: a, 2: b, 3: b})
        control.holds(a, {0, 1})
        control.holds(b, {2, 3})
        produce(own_broker, topic, 200)
        all_processed(workers, dict.fromkeys(range(4), 200))
        assert {h.lease_s for h in control.heartbeats} == {LEASE_S}
        own_broker.stop()
        let_pass(OUTAGE_S)
        own_broker.start()
        produce(own_broker, topic, 200)
        all_processed(workers, dict.fromkeys(range(4), 400))
        until("all is committed", lambda: all(control.committed_at(p, 400) for p in range(4)))
        control.observe()
        assert {h.worker for h in control.heartbeats} == {a, b}, "nobody joined anew"
        assert not control.left
        assert set(workers.processed().values()) == {1}
    finally:
        workers.close()
        control.close()


def produce(broker: Broker, topic: str, count: int) -> None:
    producer = Producer({**broker.connection(), "enable.idempotence": True, "log_level": 0})
    for number in range(4 * count):
        producer.produce(topic, b"x" * 1000, partition=number % 4)
    assert producer.flush(120) == 0
