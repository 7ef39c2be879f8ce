"""The whole job on a standalone cluster, its state in an object store: a machine, the store and the driver fail in turn."""

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from autoscaler.devtools.broker import Broker
from tests.conftest import create_topic
from tests.kafka.machines import Standalone, executors_of, private_mounts, python_of_another_machine
from tests.kafka.shop import PARTITIONS, TOPIC, Shop, assert_all_holds
from tests.object_store import BUCKET, ObjectStore

if TYPE_CHECKING:
    import subprocess

pytestmark = pytest.mark.timeout(1800)
STEADY, BURST = 700_000.0, 500_000.0  # bytes/s
NEAR = 0.2  # a rate is that near to the truth, as a ratio: the producer has a part of a busy machine only
LONG_S = 1800.0
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"  # of JVMs that live for a minute


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    (tmp_path / "store").mkdir()
    with (
        ObjectStore(tmp_path / "store") as running,
        mock.patch.dict(os.environ, {**running.environment(), "AUTOSCALER_JAVA_OPTIONS": QUICK}),
    ):
        yield running


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Standalone]:
    """Its workers do not see what the driver keeps below ``shop``: there each of them has its own disk."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "spark").mkdir()
    with Standalone(tmp_path / "shop", tmp_path / "spark") as running:
        yield running


@pytest.fixture
def shop(own_broker: Broker, store: ObjectStore, cluster: Standalone, tmp_path: Path) -> Iterator[Shop]:
    create_topic(own_broker, TOPIC, PARTITIONS)
    python = python_of_another_machine(tmp_path / "python")
    spark = {
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.executor.memory": "640m",
        "spark.pyspark.python": python, "spark.cores.max": 2, "spark.executor.extraJavaOptions": QUICK,
        **{f"spark.hadoop.{key}": value for key, value in store.hadoop().items()},
    }  # fmt: skip
    options = ("--master", cluster.url, *(x for key, value in spark.items() for x in ("--conf", f"{key}={value}")))
    places = {"checkpoint": f"s3a://{BUCKET}/job/checkpoint", "tables": f"s3a://{BUCKET}/job/tables"}
    it = Shop(own_broker, tmp_path / "shop", places=places, options=options)
    yield it
    it.close()


def produce(shop: Shop, name: str, bytes_per_s: float) -> "subprocess.Popen[bytes]":
    return shop.produce_moments(name, [{"at_s": 0, "bytes_per_s": [bytes_per_s / PARTITIONS] * PARTITIONS}], LONG_S)


def assert_near(cycles: list[dict[str, object]], bytes_per_s: float) -> None:
    rates = [float(str(c["total_bytes_per_s"])) for c in cycles if c["known"]]
    assert rates
    assert all(abs(rate / bytes_per_s - 1) < NEAR for rate in rates), rates


def test_nothing_is_wrong_and_nothing_missing_when_a_machine_the_store_and_the_driver_fail(
    shop: Shop, store: ObjectStore, cluster: Standalone
) -> None:
    log = shop.directory / "state" / "logs" / "job.log"

    def said(since: int = 0) -> str:
        return log.read_text(encoding="utf-8")[since:] if log.exists() else ""

    print(f"private mounts by {' '.join(private_mounts()) or 'nothing: directories of their own only'}")
    began = time.time()
    steady = produce(shop, "steady", STEADY)
    supervisor = shop.start_job()
    shop.settles("a settled group", began)
    assert said().count("has the job's package and all that it needs") == 2, "both machines were looked at"

    at, so_far = time.time(), len(said())
    cluster.kill_worker()
    shop.wait("cycles that know", lambda: len([c for c in shop.cycles(at + 5) if c["known"]]) > 3)
    assert "starting the job" not in said(so_far), "the driver has gone on with the other machine"
    cluster.add_worker()
    shop.wait("an executor on the new machine", lambda: bool(executors_of(cluster.workers[-1])))

    at, so_far = time.time(), len(said())
    assert_near(shop.cycles(began), STEADY)
    burst = produce(shop, "burst", BURST)
    shop.wait("asking for more", lambda: any("add" in str(c["actions"]) for c in shop.cycles(at)))
    store.stop()
    shop.wait("its end with the store away", lambda: "the job ended with exit code 1" in said(so_far))
    held = shop.holding()
    away = time.time()
    shop.wait("consumers at work meanwhile", lambda: held <= shop.at_work(since=away))
    store.start()
    shop.settles("a group that is looked after again", time.time())

    at = time.time()
    _, victim = min(shop.workers().items())
    victim.send_signal(signal.SIGKILL)
    shop.wait("seeing the death", lambda: any(c["reason"] == "WORKER_LOST" and c["actions"] for c in shop.cycles(at)))
    shop.kill_job(supervisor.pid)
    restarted = time.time() + 1
    shop.settles("a group that the next driver looks after", restarted)
    shop.wait("rows of its own", lambda: shop.recorded() > restarted)

    assert_near(shop.cycles(at), STEADY + BURST)
    assert not any("remove" in str(c["actions"]) for c in shop.cycles(began)), "the load has only risen"

    ended = time.time()
    for child in (burst, steady):
        child.terminate()
        child.wait(30)
    shop.wait("an empty backlog", lambda: any(c["known"] and c["total_lag_records"] == 0 for c in shop.cycles(time.time() - 2)))
    supervisor.terminate()
    assert supervisor.wait(120) == 0, "told to end"
    shop.end_workers()

    codes = re.findall(r"the job ended with exit code (\d+)", said())
    assert codes[-1] == "137", "killed"
    assert set(codes[:-1]) == {"1"}, "the store was away"
    assert_all_holds(shop.findings(("steady", "burst"), began, ended))
