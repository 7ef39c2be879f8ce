"""One job that runs on while its configuration file is edited and its topics come and go: real broker, real processes.

The job is started once. Each test begins with one consumer of one group at work, and leaves it so.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil
import pytest
import yaml

from autoscaler.devtools.broker import Broker
from tests.conftest import create_topic, delete_topic
from tests.kafka.conftest import Produce
from tests.kafka.shop import GROUP, PARTITIONS, TOPIC, Shop

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@dataclass
class Running(Shop):
    """The job, its processes as it was settled first, and its configuration at that time."""

    drivers: frozenset[int] = frozenset()
    whole: str = ""

    def edit(self, **changes: object) -> float:
        """Change settings of the group in the file, as an editor does, and return when."""
        return self.set_groups(lambda groups: [{**groups[0], **changes}, *groups[1:]])

    def set_groups(self, changed: Callable[[list[Any]], list[Any]]) -> float:
        settings = yaml.safe_load(self.config.read_text())
        at = time.time()
        self.config.write_text(yaml.safe_dump({**settings, "groups": changed(settings["groups"])}))
        return at

    def running(self) -> frozenset[int]:
        """Return the job's Python processes; others of its children come and go while they are looked at."""
        found = set()
        for child in psutil.Process(self.children[-1].pid).children(recursive=True):
            with suppress(psutil.Error):
                if child.name().startswith("python") and "jobs/autoscale.py" in " ".join(child.cmdline()):
                    found.add(child.pid)
        return frozenset(found)

    def decided(self) -> set[object]:
        """Return the groups of the latest cycles."""
        return {c["group"] for c in self.cycles()[-4:]}

    def held(self) -> set[str]:
        """Return the topics that consumers held in the latest cycle."""
        owned = [p for c in self.cycles()[-1:] for w in json.loads(json.dumps(c["workers"])) for p in w["partitions"]]
        return {str(p).rpartition("-")[0] for p in owned}


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Broker(heap_mb=160) as broker:
        create_topic(broker, TOPIC, PARTITIONS)
        it = Running(broker, tmp_path_factory.mktemp("job"))
        settings = yaml.safe_load(it.config.read_text())
        settings["groups"][0]["topics"] = [f"^{TOPIC}", f"!{TOPIC}-dead"]
        settings["measure"]["metadata_every"] = 1
        it.config.write_text(yaml.safe_dump(settings))
        it.whole = it.config.read_text()
        it.produce("steady", 150_000)
        try:
            it.start_job()
            it.wait("the first topic held", lambda: it.held() == {TOPIC})
            it.drivers = it.running()
            yield it
        finally:
            it.config.write_text(it.whole)  # by which its consumers are ended
            it.close()


@pytest.fixture
def shop(started: Running) -> Iterator[Running]:
    assert started.settles("one consumer at work", time.time()) == 1
    yield started
    assert started.running() == started.drivers, "the process never ended"
    started.config.write_text(started.whole)


def test_changed_settings_hold_at_once_and_a_faulty_file_changes_nothing(shop: Running) -> None:
    at = shop.edit(holds={"pinned": 3, "paused": "scale_up"})
    shop.wait("holding it", lambda: any(c["limited_by"] == "PAUSED" and c["reason"] == "PINNED" for c in shop.cycles(at)))
    at = shop.edit(holds={"pinned": 3})
    shop.wait("three consumers at work", lambda: any(c["consumers_now"] == 3 for c in shop.cycles(at)))
    shop.wait("all well with three", lambda: any(c["limited_by"] == "PINNED" for c in shop.cycles(at)))

    whole = shop.config.read_text()
    at = time.time()
    shop.config.write_text(whole.replace("pinned: 3", "pinned: many"))
    said = shop.directory / "job.log"
    logged = shop.directory / "state" / "logs" / "job.log"
    wrong = f"groups.{GROUP}.holds.pinned"
    shop.wait("saying what is wrong", lambda: any(wrong in f.read_text() for f in (said, logged) if f.exists()))
    shop.wait("cycles since then", lambda: len(shop.cycles(at + 1)) >= 5)
    assert {c["consumers"] for c in shop.cycles(at + 1)} == {3}

    at = shop.edit(holds={"pinned": 1})
    shop.wait("one consumer", lambda: any(c["consumers_now"] == 1 for c in shop.cycles(at)))


def test_a_new_topic_gets_consumers_and_one_that_is_deleted_is_let_go(shop: Running, produce: Produce) -> None:
    assert isinstance(shop.broker, Broker)
    new, dead = create_topic(shop.broker, f"{TOPIC}-2", 2), create_topic(shop.broker, f"{TOPIC}-dead", 1)
    for topic in (new, dead):
        produce(topic, {0: 5}, cluster=shop.broker)
    shop.wait("the new topic held", lambda: shop.held() == {TOPIC, new})
    logs = shop.directory / "processed"
    shop.wait("the new topic consumed", lambda: any(new in f.read_text() for f in logs.glob("processed-*.log")))
    delete_topic(shop.broker, new)
    shop.wait("the deleted topic gone", lambda: shop.held() == {TOPIC})
    assert shop.settles("all well without it", time.time()) == 1
    assert not any(dead in f.read_text() for f in logs.glob("processed-*.log"))


def test_groups_come_and_go_while_the_process_goes_on(shop: Running) -> None:
    consumers = shop.workers()
    at = shop.set_groups(lambda groups: [*groups, {"group": "other", "topics": [TOPIC]}])
    shop.wait("deciding for both", lambda: {c["group"] for c in shop.cycles(at) if c["known"]} == {GROUP, "other"})
    first = min(float(str(c["t"])) for c in shop.cycles(at) if c["group"] == "other" and c["known"])
    print(f"the new group is measured {first - at:.1f} s after the file was changed")

    at = shop.set_groups(lambda groups: groups[1:])
    shop.wait("deciding for the new one only", lambda: shop.decided() == {"other"})
    assert {slot: p.pid for slot, p in shop.workers().items()} == {slot: p.pid for slot, p in consumers.items()}

    at = shop.set_groups(lambda _: yaml.safe_load(shop.whole)["groups"])
    shop.wait("deciding for the first again", lambda: shop.decided() == {GROUP})
