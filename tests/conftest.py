"""What every test may ask for: real brokers, topics on them, a Spark session; and the rule that nothing is skipped unseen."""

import os
import re
import signal
import sys
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from autoscaler import jars
from autoscaler.devtools.broker import Broker, Cluster
from tests.until import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]
_GONE = re.compile(r"^%\d\|[0-9.]+\|FAIL\|.*: Connection refused")  # librdkafka's lines on standard error
OPTIONAL = "optional data"  # how the reason of a skip begins that --no-skips lets pass

MakeTopic = Callable[..., str]
Report = pytest.TestReport | pytest.CollectReport

# How long an example takes says something of the machine, nothing of the code.
settings.register_profile("anywhere", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("anywhere")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help=f"a skipped test fails, unless its reason begins with '{OPTIONAL}'")
    parser.addoption(
        "--data", metavar="DIR", help="recorded streams (landau_stream_delta5.csv ...); without it their tests are skipped"
    )


def pytest_configure() -> None:
    """Let Ctrl-C and a hang-up reach the processes that tests start: in a shell's background or below nohup they would not."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark by what a test asks for, so that nobody has to remember to, and begin with the files that take long.

    Files go to whoever is free: the many quick ones at the end keep both processes busy until the end.
    """
    needs = {"spark": {"spark"}, "broker": {"broker", "three_brokers", "secure_broker", "own_broker", "make_topic"}}
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        for mark, fixtures in needs.items():
            if names & fixtures:
                item.add_marker(mark)
    weight = {"spark": 2, "broker": 1}
    heaviest: dict[Path, int] = {}
    for item in items:
        heaviest[item.path] = max(heaviest.get(item.path, 0), *(weight.get(m.name, 0) for m in item.iter_markers()), 0)
    items.sort(key=lambda i: -heaviest[i.path])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Report, Report]:
    return _readable(_unskipped((yield), item.config))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Report, Report]:
    """A whole module that skips itself counts like its tests."""
    return _unskipped((yield), collector.config)


def _readable(report: Report) -> Report:
    """Leave out of a failure's output what clients of brokers that are gone say many times a second: it hides the rest."""
    report.sections = [(title, "\n".join(x for x in text.split("\n") if not _GONE.search(x))) for title, text in report.sections]
    return report


def _unskipped(report: Report, config: pytest.Config) -> Report:
    """Let a report of a skip fail, if nothing may be skipped."""
    if report.skipped and not hasattr(report, "wasxfail") and config.getoption("--no-skips"):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if not reason.removeprefix("Skipped: ").startswith(OPTIONAL):
            report.outcome = "failed"
            report.longrepr = f"skipped although nothing may be: {reason}"
    return report


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """One node, shared by the whole run: a test leaves it running and keeps to topics and groups of its own."""
    with Broker(heap_mb=256) as node:
        yield node


@pytest.fixture(scope="session")
def three_brokers() -> Iterator[Cluster]:
    """Three nodes, shared by the whole run; who stops one starts it again."""
    with Cluster(nodes=3, heap_mb=160) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def secure_broker() -> Iterator[Broker]:
    """One node with users ``admin`` and ``limited``; ``connection(user)`` says how to log in, ACLs decide the rest."""
    with Broker(heap_mb=160, authorizer=True) as node:
        yield node


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    """One node of the test's own, to stop, kill and restart."""
    with Broker(heap_mb=160) as node:
        yield node


@pytest.fixture
def make_topic(broker: Broker) -> MakeTopic:
    """Return ``make(partitions=1, cluster=broker, name=None, **config) -> name``: makes a topic and waits for its leaders.

    Settings are given with underscores: ``make_topic(partitions=4, cleanup_policy="compact")``.
    """

    def make(partitions: int = 1, *, cluster: Cluster = broker, name: str | None = None, **config: object) -> str:
        return create_topic(cluster, name or f"topic-{uuid.uuid4().hex[:8]}", partitions, **config)

    return make


def create_topic(cluster: Cluster, name: str, partitions: int = 1, **config: object) -> str:
    from confluent_kafka.admin import AdminClient, NewTopic  # noqa: PLC0415  tests without a broker need no client

    admin = AdminClient({**cluster.connection(), "log_level": 0})
    settings = {key.replace("_", "."): str(value) for key, value in config.items()}
    topic = NewTopic(name, num_partitions=partitions, replication_factor=min(3, len(cluster.nodes)), config=settings)
    admin.create_topics([topic], operation_timeout=20)[name].result(timeout=30)

    def leaders() -> list[int]:
        return [p.leader for p in admin.list_topics(name, timeout=10).topics[name].partitions.values()]

    until(f"{name} has its leaders", leaders, lambda found: len(found) == partitions and min(found) >= 0, within_s=30)
    return name


@pytest.fixture
def group() -> str:
    """Return the name of a consumer group that nobody else uses."""
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """The session that the job would have: conf/spark.conf, Delta on the class path; local, no user interface."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  half a second that only Spark tests should pay

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("tests")
    place = tmp_path_factory.mktemp("spark")
    own = {
        "spark.master": "local[4]",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraClassPath": jars.class_path(jars.DELTA),
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m -Dderby.system.home={place}",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",  # 50 by default, of which each takes as long as one
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for key, value in {**properties(ROOT / "conf" / "spark.conf"), **own}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def properties(file: Path) -> dict[str, str]:
    """Return the settings of a Spark properties file; empty if it is not there."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    pairs = (line.split(maxsplit=1) for line in lines if line.strip() and not line.lstrip().startswith("#"))
    return {key: rest[0].strip() for key, *rest in pairs if rest}
