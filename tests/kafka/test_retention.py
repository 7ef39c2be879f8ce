"""Offsets that do not advance are kept (rule 10), on a broker that forgets them after a minute."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.control_log.publisher import KafkaControl
from autoscaler.adapters.kafka.control_topics import admin_client, offsets_retention_s
from autoscaler.devtools.broker import Broker
from autoscaler.model import GroupState
from autoscaler.model import TopicPartition as Partition
from autoscaler.ports import PlanIntent
from tests.conftest import create_topic
from tests.contracts.publishers import commit
from tests.kafka.conftest import Produce
from tests.kafka.log_worker import LogWorker
from tests.until import until

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 400.0
FORGETFUL = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}


@pytest.fixture
def forgetful() -> Iterator[Broker]:
    with Broker(heap_mb=128, settings=FORGETFUL) as broker:
        yield broker


@pytest.fixture
def worker(forgetful: Broker, tmp_path: Path) -> Iterator[str]:
    """Run the example as slot 0 of group ``g``, and return its instance."""
    environment = {
        **os.environ, "AUTOSCALER_BOOTSTRAP": forgetful.bootstrap, "AUTOSCALER_GROUP": "g", "AUTOSCALER_TOPICS": "t",
        "AUTOSCALER_LEASE_S": "3", "AUTOSCALER_WORKER_NAME": "g-0", "AUTOSCALER_INSTANCE": "i-0", "PYTHONPATH": str(ROOT),
        "CONSUMER_LOG_DIR": str(tmp_path),
    }  # fmt: skip
    process = subprocess.Popen([sys.executable, str(ROOT / "docs/examples/consumer.py")], env=environment)
    yield "i-0"
    process.kill()
    process.wait()


def offset(broker: Broker, group: str, partition: int) -> int:
    reader = Consumer({**broker.connection(), "group.id": group})
    try:
        (found,) = reader.committed([TopicPartition("t", partition)], timeout=30)
        return int(found.offset)
    finally:
        reader.close()


def observed(control: KafkaControl, wanted: Callable[[GroupState], bool]) -> GroupState:
    return until("the group as wanted", control.observe, wanted, within_s=PATIENCE_S, every_s=0.1)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_stands_still_is_kept_by_its_owner_and_what_is_parked_by_the_controller(
    forgetful: Broker, worker: str, produce: Produce
) -> None:
    create_topic(forgetful, "t", 2)
    produce("t", {0: 5, 1: 5}, cluster=forgetful)
    control = KafkaControl(
        connection=forgetful.connection(), group="g", topics=("t",), reset_policy="earliest", lease_s=3.0,
        replication_factor=None, slot_of=lambda name: int(name.removeprefix("g-")), clock=SystemClock(), park_after=1,
    )  # fmt: skip
    zero, one = Partition("t", 0), Partition("t", 1)
    other = LogWorker(forgetful.bootstrap, "g", "g-1", instance="i-1")
    try:
        observed(control, lambda s: {w.instance for w in s.workers if w.phase == "active"} == {worker, "i-1"})
        control.publish(PlanIntent(target={zero: 0, one: 1}, requested=frozenset({0, 1}), summary=""))
        observed(control, lambda s: not s.pending and len(s.owner) == 2)
        observed(control, lambda _: offset(forgetful, "g", 0) == 5)
        commit(forgetful, "g", "t", {1: 2})
        other.silence()
        control.ended(frozenset({"i-1"}))
        state = observed(control, lambda s: set(s.parked) == {one})
        control.publish(PlanIntent(target=state.owner, requested=frozenset({0}), summary="", parked=frozenset({one})))
        commit(forgetful, "nobody", "t", {0: 3})
        observed(control, lambda _: offset(forgetful, "nobody", 0) < 0)
        assert (offset(forgetful, "g", 0), offset(forgetful, "g", 1)) == (5, 2)
    finally:
        other.silence()
        control.close()


def test_how_long_offsets_are_kept_is_read_where_it_may_be(broker: Broker, secure_broker: Broker) -> None:
    week_s = 7 * 86_400.0
    assert offsets_retention_s(admin_client(broker.connection())) == week_s
    assert offsets_retention_s(admin_client(secure_broker.connection("limited"))) is None
