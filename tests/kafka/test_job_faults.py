"""The whole job under faults, as a user runs it: real broker, real processes, real signals, judged by the independent check."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from autoscaler.devtools.broker import Broker, Cluster
from autoscaler.handover.codec import decode, partition_for
from autoscaler.handover.records import CONTROL_TOPIC, LEASE_S, Incarnation, Plan, Released, Tp
from tests.conftest import create_topic
from tests.kafka.shop import GROUP, PARTITIONS, TOPIC, Shop, assert_all_holds

AWAY_CYCLES = 12  # longer than a group waits before it shrinks


def awaited(broker: Cluster) -> set[tuple[Tp, Incarnation]]:
    """Return which releases the latest plan waits for that have not been written."""
    reader = Consumer(
        {**broker.connection(), "group.id": "test", "isolation.level": "read_committed", "enable.partition.eof": True}
    )
    partitions = reader.list_topics(CONTROL_TOPIC, timeout=30).topics[CONTROL_TOPIC].partitions
    reader.assign([TopicPartition(CONTROL_TOPIC, partition_for(GROUP, len(partitions)), OFFSET_BEGINNING)])
    waits: set[tuple[Tp, Incarnation, int]] = set()
    released: dict[tuple[Tp, Incarnation], int] = {}
    while (message := reader.poll(30)) is not None:
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            break
        match decode(message.key(), message.value()).record:
            case Plan() as plan if plan.group == GROUP:
                waits = {(tp, w.worker, w.epoch) for tp, ws in plan.waits.items() for w in ws}
            case Released() as r if r.group == GROUP:
                released[r.tp, r.worker] = r.epoch
    reader.close()
    return {(tp, worker) for tp, worker, epoch in waits if released.get((tp, worker), -1) < epoch}


@pytest.fixture
def shop(own_broker: Broker, tmp_path: Path) -> Iterator[Shop]:
    create_topic(own_broker, TOPIC, PARTITIONS)
    it = Shop(own_broker, tmp_path)
    yield it
    it.close()


@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_nothing_is_lost_and_nothing_shrinks_when_worker_broker_and_job_fail(shop: Shop) -> None:
    began = time.time()
    steady = shop.produce("steady", 700_000)
    supervisor = shop.start_job()
    consumers = shop.settles("a settled group", began)
    assert consumers >= 3

    at = time.time()
    slot, victim = min(shop.workers().items())
    victim.send_signal(signal.SIGKILL)
    shop.wait("seeing the death", lambda: any(c["reason"] == "WORKER_LOST" for c in shop.cycles(at)))
    shop.wait("starting it again", lambda: slot in shop.workers() and shop.workers()[slot].pid != victim.pid)
    consumers = shop.settles("a group that has taken over", time.time())

    at = time.time()
    incarnations = shop.holding()  # one that has just come back may hold nothing, where the others carry its share
    assert len(incarnations) >= 3
    shop.broker.stop()
    shop.wait("cycles that know nothing", lambda: len([c for c in shop.cycles(at) if not c["known"]]) >= AWAY_CYCLES)
    shop.broker.restart()
    back = time.time()
    shop.wait("measuring again", lambda: any(c["known"] and c["reason"] != "NOT_READY" for c in shop.cycles(time.time() - 1)))
    away = shop.cycles(at)
    assert any(not c["known"] for c in away)
    assert all(int(str(c["consumers"])) >= consumers for c in away)  # unknown is not zero
    assert not any("remove" in str(c["actions"]) for c in away)
    # What came while the job started is still being worked off, and what came since on top of it.
    shop.settles("a group that works after the outage", time.time(), 600)
    if back - at < LEASE_S - 5:  # a heartbeat before it, and one after it, and a machine that took longer has none to show
        assert incarnations <= shop.at_work(since=back), "a lease has lapsed"

    at = time.time()
    frozen = list(shop.workers().values())
    burst = shop.produce("burst", 500_000)
    shop.wait("asking for more", lambda: any("add" in str(c["actions"]) for c in shop.cycles(at)))
    for worker in frozen:
        worker.suspend()  # nobody gives up a partition before the job is gone; nor is given up, so soon before that
    shop.wait("moving partitions", lambda: bool(awaited(shop.broker)))
    shop.kill_job(supervisor.pid)
    assert awaited(shop.broker), "it was killed in the middle of a handover"
    for worker in frozen:
        worker.resume()
    restarted = time.time() + 1
    shop.settles("a restarted job that carries on", restarted)
    shop.wait("rows of its own", lambda: shop.recorded() > restarted)  # its tables are open: what is left is written as it ends
    assert supervisor.poll() is None

    ended = time.time()
    for child in (burst, steady):
        child.terminate()
        child.wait(30)
    shop.wait("an empty backlog", lambda: any(c["known"] and c["total_lag_records"] == 0 for c in shop.cycles(time.time() - 2)))
    supervisor.terminate()
    supervisor.wait(60)
    shop.end_workers()

    assert_all_holds(shop.findings(("steady", "burst"), began, ended))
