"""One job on several clusters: real brokers, real workers, topics of one name, and a cluster that goes away."""

import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import yaml
from deltalake import DeltaTable

from autoscaler.devtools.broker import Broker
from tests.conftest import create_topic
from tests.kafka.shop import CAPACITY, PARTITIONS, ROOT, TOPIC, Shop

RATES = {"east": 500_000.0, "west": 120_000.0}
KNOWN_FOR_S = 8.0
NEEDED = {"east": 3, "west": 1}  # of consumers of 300,000 bytes/s, of which four fifths are planned with


@dataclass
class Two(Shop):
    """A group on each of two clusters, and one on a third that is not there."""

    loads: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def begin(self, brokers: dict[str, Broker]) -> None:
        """Write the configuration and let records arrive."""
        settings = yaml.safe_load(self.config.read_text())
        settings["measure"]["known_for"] = KNOWN_FOR_S  # a busy machine takes its time from a sample to a decision
        (group,) = settings["groups"]
        where = {name: broker.bootstrap for name, broker in brokers.items()} | {"gone": "127.0.0.1:1"}
        settings["clusters"] = [{"name": n, "connection": {"bootstrap.servers": b}} for n, b in where.items()]
        settings["groups"] = [
            {
                **group,
                "group": f"shop-{n}",
                "cluster": n,
                "capacity": {"bytes_per_s": CAPACITY},
                **({"mode": "advise"} if n == "gone" else {}),
            }
            for n in where
        ]
        self.config.write_text(yaml.safe_dump(settings))
        for name, broker in brokers.items():
            scenario = self.directory / f"{name}.json"
            scenario.write_text(json.dumps({"moments": [{"at_s": 0, "bytes_per_s": [RATES[name] / PARTITIONS] * PARTITIONS}]}))
            (self.directory / name).mkdir()
            self.loads.append(self.spawn(
                f"{name}-load", sys.executable, "-m", "autoscaler.devtools.load", "--bootstrap", broker.bootstrap,
                "--topic", TOPIC, "--scenario", str(scenario), "--duration", "600", "--log", str(self.directory / name),
            ))  # fmt: skip

    def of(self, cluster: str, since: float) -> list[dict[str, object]]:
        """Return the cycles of the cluster's group."""
        return [c for c in self.cycles(since) if c["group"] == f"shop-{cluster}"]

    def close(self) -> None:
        for load in self.loads:
            load.kill()  # one whose broker is gone would wait for it
        Shop.close(self)

    def end_workers(self) -> None:
        subprocess.run([sys.executable, "-m", "autoscaler.cli", "workers", "stop", "--config", str(self.config)], check=True)


@pytest.fixture
def brokers() -> Iterator[dict[str, Broker]]:
    with Broker(heap_mb=160) as east, Broker(heap_mb=160) as west:
        yield {"east": east, "west": west}


@pytest.fixture
def shop(brokers: dict[str, Broker], tmp_path: Path) -> Iterator[Two]:
    for broker in brokers.values():
        create_topic(broker, TOPIC, PARTITIONS)
    it = Two(brokers["east"], tmp_path)
    it.begin(brokers)
    yield it
    it.close()


STALE_S = 13.0  # stale_after_s is 10
READ_TIMEOUT_S = 2.0  # as it is by default


def pace(cycles: list[dict[str, object]]) -> float:
    """Return how far the samples are apart that cycles have decided on, as a rule."""
    samples = [float(str(c["t"])) - float(str(c["sample_age_s"])) for c in cycles]
    apart = [b - a for a, b in itertools.pairwise(samples)]
    assert min(apart) > 0, "each has measured anew"
    return statistics.median(apart)


def away(shop: Two, since: float) -> None:
    """Wait until there are some cycles of the cluster that is away since it counts as stale; they take long on a busy machine."""
    shop.wait("cycles without the east", lambda: len([c for c in shop.of("east", since) if late(c, since)]) > 3)


def late(cycle: dict[str, object], since: float) -> bool:
    return float(str(cycle["t"])) > since + STALE_S


def held(shop: Two, since: float, usual_s: float) -> None:
    """Assert what a cluster that is away may cost: its own group's freshness, and nobody else anything."""
    east, west = shop.of("east", since), shop.of("west", since)
    assert not any(c["known"] for c in east if late(c, since))
    stale = [c["reason"] for c in east if late(c, since)]
    assert len(stale) > 3
    assert set(stale) <= {"STALE_INPUT", "NOT_READY"}
    assert all(int(str(c["consumers"])) >= NEEDED["east"] for c in east)
    assert not any("remove" in str(c["actions"]) for c in east)
    assert all(c["known"] for c in west), [c["detail"] for c in west if not c["known"]]
    assert len(west) >= len(east) - 1, "each trigger has a cycle of every group"
    assert pace(west) <= 2 * usual_s + READ_TIMEOUT_S, "what was usual on this machine, and one wait for the broker that is away"


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_each_cluster_is_looked_after_whatever_becomes_of_the_others(shop: Two, brokers: dict[str, Broker]) -> None:
    began = time.time()
    supervisor = shop.start_job()

    def settled() -> bool:
        latest = {name: shop.of(name, began)[-1:] for name in RATES}
        return all(
            c and c[0]["known"] and c[0]["consumers_now"] == NEEDED[n] and c[0]["reason"] == "WITHIN_TARGET"
            for n, c in latest.items()
        )

    shop.wait("both groups at work", settled)
    at = time.time()
    shop.wait("some more cycles", lambda: all(len(shop.of(n, at)) > 5 for n in RATES))
    usual_s = pace(shop.of("west", at))
    for name, rate in RATES.items():  # topics and partitions have the same names, and each group its own rates
        measured = [float(str(c["total_bytes_per_s"])) for c in shop.of(name, at)]
        assert all(0.8 * rate < m < 1.3 * rate for m in measured), (name, measured)
        assert {c["cluster"] for c in shop.of(name, began)} == {name}
    assert {c["reason"] for c in shop.of("gone", began)} <= {"NOT_READY", "STALE_INPUT"}

    hung = psutil.Process(brokers["east"].pid)
    hung.suspend()  # it takes connections and answers nothing
    at = time.time()
    try:
        away(shop, at)
    finally:
        hung.resume()
    held(shop, at, usual_s)
    shop.wait("both groups at work again", settled)

    brokers["east"].stop()  # nobody listens there
    at = time.time()
    away(shop, at)
    held(shop, at, usual_s)
    assert supervisor.poll() is None

    supervisor.terminate()
    supervisor.wait(60)
    told = DeltaTable(str(shop.directory / "state" / "tables" / "loads")).to_pyarrow_table(columns=["group", "cluster"])
    assert {(r["group"], r["cluster"]) for r in told.to_pylist()} == {(f"shop-{n}", n) for n in (*RATES, "gone")}
    claimed = json.loads((shop.directory / "state" / "checkpoint" / "autoscaler.json").read_text())["clusters"]
    assert claimed == {"east": 0, "west": 1, "gone": 2}


def test_a_first_start_names_the_cluster_whose_topics_are_not_there(tmp_path: Path, brokers: dict[str, Broker]) -> None:
    create_topic(brokers["east"], TOPIC, 1)
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({
        "clusters": [{"name": n, "connection": {"bootstrap.servers": b.bootstrap}} for n, b in brokers.items()],
        "state_dir": str(tmp_path / "state"),
        "groups": [{"group": n, "cluster": n, "topics": [TOPIC]} for n in brokers],
    }))  # fmt: skip
    script = f"from autoscaler.service import greet; from autoscaler.config.settings import load; greet(load({str(config)!r}))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert f"clusters.west: topic '{TOPIC}' does not exist at {brokers['west'].bootstrap}" in done.stderr, done.stderr
    assert "clusters.east" not in done.stderr
    (tmp_path / "state" / "tables").mkdir(parents=True)  # it has run before: its checkpoint may have been replaced since
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert f"clusters.west: topic '{TOPIC}' does not exist" in done.stderr, "a warning"
