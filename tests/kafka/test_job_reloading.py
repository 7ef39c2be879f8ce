"""The whole job while somebody edits its configuration file: real broker, real processes."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from autoscaler.devtools.broker import Broker
from tests.conftest import create_topic
from tests.kafka.shop import GROUP, PARTITIONS, TOPIC, Shop


@pytest.fixture
def shop(own_broker: Broker, tmp_path: Path) -> Iterator[Shop]:
    create_topic(own_broker, TOPIC, PARTITIONS)
    it = Shop(own_broker, tmp_path)
    yield it
    it.close()


def edit(shop: Shop, **changes: object) -> float:
    """Change settings of the group in the file, as an editor does, and return when."""
    settings = yaml.safe_load(shop.config.read_text())
    settings["groups"][0].update(changes)
    at = time.time()
    shop.config.write_text(yaml.safe_dump(settings))
    return at


def drivers(supervisor_pid: int) -> set[int]:
    """Return the job's Python processes; others of its children come and go while they are looked at."""
    found = set()
    for child in psutil.Process(supervisor_pid).children(recursive=True):
        with suppress(psutil.Error):
            if child.name().startswith("python") and "jobs/autoscale.py" in " ".join(child.cmdline()):
                found.add(child.pid)
    return found


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_changed_settings_hold_without_a_restart_and_a_faulty_file_changes_nothing(shop: Shop) -> None:
    began = time.time()
    shop.produce("steady", 150_000)
    supervisor = shop.start_job()
    assert shop.settles("a settled group", began) == 1
    running = drivers(supervisor.pid)

    at = edit(shop, holds={"pinned": 3, "paused": "scale_up"})
    shop.wait("holding it", lambda: any(c["limited_by"] == "PAUSED" and c["reason"] == "PINNED" for c in shop.cycles(at)))
    at = edit(shop, holds={"pinned": 3})
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

    at = edit(shop, holds={"pinned": 1})
    shop.wait("one consumer", lambda: any(c["consumers"] == 1 for c in shop.cycles(at)))
    assert drivers(supervisor.pid) == running, "the job never ended"
    supervisor.terminate()
    supervisor.wait(60)


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_groups_come_and_go_while_the_process_goes_on(shop: Shop) -> None:
    began, whole = time.time(), shop.config.read_text()
    shop.produce("steady", 150_000)
    supervisor = shop.start_job()
    assert shop.settles("a settled group", began) == 1
    running, consumers = drivers(supervisor.pid), shop.workers()

    at = set_groups(shop, lambda groups: [*groups, {"group": "other", "topics": [TOPIC]}])
    shop.wait("deciding for both", lambda: {c["group"] for c in shop.cycles(at) if c["known"]} == {GROUP, "other"})
    print(f"the new group is measured {min(c['t'] for c in known(shop, 'other', at)) - at:.1f} s after the file was changed")

    at = set_groups(shop, lambda groups: groups[1:])
    shop.wait("deciding for the new one only", lambda: bool(shop.cycles(at)) and only(shop, "other"))
    assert {slot: p.pid for slot, p in shop.workers().items()} == {slot: p.pid for slot, p in consumers.items()}
    assert drivers(supervisor.pid) == running, "the process never ended"
    supervisor.terminate()
    supervisor.wait(60)
    shop.config.write_text(whole)  # by which its consumers are ended


def set_groups(shop: Shop, changed: Callable[[list[Any]], list[Any]]) -> float:
    settings = yaml.safe_load(shop.config.read_text())
    at = time.time()
    shop.config.write_text(yaml.safe_dump({**settings, "groups": changed(settings["groups"])}))
    return at


def known(shop: Shop, group: str, since: float) -> list[dict[str, Any]]:
    return [c for c in shop.cycles(since) if c["group"] == group and c["known"]]


def only(shop: Shop, group: str) -> bool:
    """Say whether the latest cycles were of one group."""
    return {c["group"] for c in shop.cycles()[-4:]} == {group}
