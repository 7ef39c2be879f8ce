"""Ten minutes of faults at random, on real processes: nothing is lost, and nobody works on what is another's."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.devtools.broker import Cluster
from tests.conftest import create_topic
from tests.kafka.shop import PARTITIONS, TOPIC, Shop, assert_all_holds
from tests.kafka.siege import HANDOVER, besiege

pytestmark = pytest.mark.slow


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with Cluster(tmp_path / "brokers", nodes=3, heap_mb=200) as cluster:
        create_topic(cluster, TOPIC, PARTITIONS, message_timestamp_type="LogAppendTime")
        it = Shop(cluster, tmp_path, handover=HANDOVER)
        yield it
        it.close()


@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.timeout(2400)
def test_nothing_is_lost_in_ten_minutes_of_kills_freezes_and_outages(shop: Shop) -> None:
    findings, siege = besiege(shop, minutes=10, seed=1, say=print)
    assert_all_holds(findings)
    assert siege.done.total() >= 20
