"""Exactly once on three brokers that are killed one after the other: leaders, coordinators and open transactions move."""

from pathlib import Path

import pytest

from autoscaler.devtools.broker import Cluster
from tests.kafka.conftest import Produce
from tests.kafka.test_exactly_once import PARTITIONS, copying_on, once
from tests.until import throughout

LEASE_S = 12.0  # Kafka needs up to nine seconds to notice that a broker is gone


@pytest.mark.timeout(400)
def test_killed_brokers_leave_every_record_copied_once(
    three_brokers: Cluster, group: str, produce: Produce, tmp_path: Path
) -> None:
    total = 0
    with copying_on(three_brokers, group, tmp_path, lease_s=LEASE_S) as copying:
        for node in three_brokers.nodes:
            produce(copying.topic, dict.fromkeys(range(PARTITIONS), 300), size=100, cluster=three_brokers)
            total += 300
            node.kill()
            throughout("it is away", copying.look, for_s=4.0, every_s=0.1)
            three_brokers.start()
            copying.start()
            copying.give(0, 1, 0, 1)
            copying.give(0, 0, 1, 1)
        counts = dict.fromkeys(range(PARTITIONS), total)
        assert copying.all_copied(counts) == once(counts)
