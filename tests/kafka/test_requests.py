"""How often the job asks a broker for something, counted by the broker itself: no more often for sixty groups than for three."""

import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.control_log.publisher import KafkaControl
from autoscaler.devtools.broker import Broker
from tests.conftest import create_topic
from tests.kafka import broker_log
from tests.kafka.shop import ROOT
from tests.kafka.whole_step import plan
from tests.until import until

FEW, MANY = 3, 60
PARTITIONS, PATIENCE_S, COUNTED = 2, 400.0, 10
PER_TRIGGER = {"LIST_OFFSETS": 2, "DESCRIBE_LOG_DIRS": 1, "OFFSET_FETCH": 1}  # of measuring, to one broker
THE_BROKERS_OWN = {"BROKERHEARTBEAT", "INCREMENTALALTERCONFIGS"}  # to its controller; and what turns its log on


def name(number: int) -> str:
    return f"group-{number:02}"


@pytest.fixture
def many(own_broker: Broker) -> Broker:
    """A broker with sixty topics, and a control log in which the first group has a plan."""
    for number in range(MANY):
        create_topic(own_broker, name(number), PARTITIONS)
    acting = KafkaControl(
        connection=own_broker.connection(), group=name(0), topics=(name(0),), reset_policy="earliest", lease_s=45.0,
        replication_factor=None, slot_of=lambda _: None, clock=SystemClock(),
    )  # fmt: skip
    try:
        acting.publish(plan(name(0), *[0] * PARTITIONS))
    finally:
        acting.close()
    return own_broker


def configure(config: Path, broker: Broker, groups: int) -> None:
    """Write a configuration of so many groups, each with a topic of its own."""
    settings = {
        "clusters": [{"connection": {"bootstrap.servers": broker.bootstrap}}],
        "state_dir": str(config.parent / "state"),
        "groups": [{"group": name(n), "topics": [name(n)], "capacity": {"bytes_per_s": 10_000}} for n in range(groups)],
    }
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")


@pytest.fixture
def job(many: Broker, tmp_path: Path) -> Iterator[Path]:
    """Run the job over a few groups; yield its configuration."""
    config = tmp_path / "config.yaml"
    configure(config, many, FEW)
    with (tmp_path / "job.out").open("wb") as out:
        job = subprocess.Popen([str(ROOT / "spark-submit.sh"), "--config", str(config)], stdout=out, stderr=out)
    try:
        yield config
    finally:
        job.terminate()
        job.wait(60)


def cycles(config: Path, group: str) -> list[dict[str, object]]:
    lines = config.parent / "state" / "logs" / "cycles.jsonl"
    text = lines.read_text(encoding="utf-8") if lines.exists() else ""
    return [c for c in map(json.loads, text.split("\n")[:-1]) if c["group"] == group]


def asked(broker: Broker, config: Path, latest: str) -> tuple[int, float, "Counter[tuple[str, str]]"]:
    """Return what was asked in some cycles after the first ones of a group: how many cycles, in how many seconds, and what."""
    await_cycles(config, latest, 6)
    with broker_log.logging(broker, broker_log.REQUESTS, "DEBUG"):
        said, before, began = broker_log.now(broker), len(cycles(config, latest)), time.monotonic()
        await_cycles(config, latest, before + COUNTED)
        return len(cycles(config, latest)) - before, time.monotonic() - began, said.requests()


def await_cycles(config: Path, group: str, wanted: int) -> None:
    until(f"{wanted} cycles", lambda: len(cycles(config, group)), lambda n: n >= wanted, within_s=PATIENCE_S, every_s=0.2)


def on_the_page() -> frozenset[str]:
    """Return the requests that docs/reference/requests.md names."""
    page = (ROOT / "docs" / "reference" / "requests.md").read_text(encoding="utf-8")
    (section,) = [x for x in page.split("\n## ") if x.startswith("What it asks of brokers")]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ")]
    return frozenset(request.strip().upper() for row in rows for request in row.split(","))


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_what_brokers_are_asked_does_not_grow_with_the_number_of_groups(many: Broker, job: Path) -> None:
    per_s: list[dict[str, float]] = []
    for groups in (FEW, MANY):
        configure(job, many, groups)  # groups that are new in the file are taken up by the job that runs
        latest = name(groups - 1)
        run, took_s, requests = asked(many, job, latest)
        assert all(c["known"] for c in cycles(job, latest)[-3:])
        assert cycles(job, name(0))[-1]["consumers_now"] is not None, "its plan was read"
        of_measuring = Counter({what: n for (what, client), n in requests.items() if client.startswith("kafka-python")})
        for what, times in PER_TRIGGER.items():
            assert abs(of_measuring[what] - times * run) <= 2 * times, (what, of_measuring, run)
        per_s.append({w: sum(n for (what, _), n in requests.items() if what == w) / took_s for w, _ in requests})
    few, of_many = per_s
    for what, rate in of_many.items():
        assert rate <= 2 * few.get(what, 0.0) + 1.0, (what, few, of_many)
    seen = {what.replace("_", "") for what in of_many.keys() | few.keys()} - THE_BROKERS_OWN
    assert seen <= on_the_page()
