"""Two whole jobs on one group: the second waits until the first has ended, however that ends, and fences it not."""

import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from autoscaler.devtools.broker import Broker
from tests.conftest import create_topic
from tests.kafka.shop import GROUP, PARTITIONS, ROOT, TOPIC, Shop
from tests.until import until

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def shop(own_broker: Broker, tmp_path: Path) -> Iterator[Shop]:
    (tmp_path / "shop").mkdir()
    create_topic(own_broker, TOPIC, PARTITIONS)
    it = Shop(own_broker, tmp_path / "shop")
    yield it
    it.close()


def test_a_second_job_waits_for_the_first_one_and_goes_on_when_that_is_killed(shop: Shop, tmp_path: Path) -> None:
    first = shop.spawn("first", str(ROOT / "spark-submit.sh"), "--config", str(shop.config))
    shop.produce("load", 100_000)
    shop.settles("the first one acts", since=0.0)
    settings = yaml.safe_load(shop.config.read_text(encoding="utf-8"))
    other = tmp_path / "other.yaml"
    other.write_text(yaml.safe_dump({**settings, "state_dir": str(tmp_path / "other")}), encoding="utf-8")
    second = shop.spawn("second", str(ROOT / "spark-submit.sh"), "--config", str(other))
    log = tmp_path / "other" / "logs" / "job.log"

    def said() -> str:
        return log.read_text(encoding="utf-8") if log.exists() else ""

    waits = f"another controller acts on {GROUP}: this job does nothing until that one has ended"
    until("the second one waits", said, lambda text: waits in text, within_s=300)
    seen = len(shop.cycles())
    until("the first one goes on", shop.cycles, lambda cycles: len(cycles) > seen + 5, within_s=120)
    assert not (tmp_path / "other" / "tables").exists()
    assert first.poll() is None
    for process in [*psutil.Process(first.pid).children(recursive=True), psutil.Process(first.pid)]:
        if not any("consumer.py" in part for part in process.cmdline()):
            process.kill()
    first.wait(60)
    until(
        "the second one goes on", said, lambda text: f"the other controller of {GROUP} has ended: going on" in text, within_s=120
    )
    cycles = tmp_path / "other" / "logs" / "cycles.jsonl"
    until("it decides", lambda: cycles.exists() and cycles.stat().st_size > 0, within_s=300, explain=said)
    second.send_signal(signal.SIGTERM)
    assert second.wait(120) == 0
