"""What every test may ask for: real brokers, topics on them, a Spark session; and what holds for all of them.

Which tests ``make unit`` runs is decided here and nowhere else (``NEEDS``, ``FOLDERS``), nothing is skipped unseen, and a test
that fails leaves what it said, logs and stacks in ``.run/failed``.
"""

import gc
import os
import re
import signal
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from autoscaler import jars
from autoscaler.devtools.broker import Broker, Cluster
from tests import evidence
from tests.scheduling import order
from tests.until import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]
_GONE = re.compile(r"^%\d\|[0-9.]+\|FAIL\|.*: Connection refused")  # librdkafka's lines on standard error
OPTIONAL = "optional data"  # how the reason of a skip begins that --no-skips lets pass

# What a test needs besides Python and the package is told by the fixtures it asks for or by its folder. One that needs nothing of
# it is a unit test: whatever it does, it finds no Java.
NEEDS = {"spark": {"spark"}, "broker": {"broker", "three_brokers", "secure_broker", "own_broker", "make_topic"}, "java": {"java"}}
FOLDERS = {ROOT / "tests" / name: mark for name, mark in (
    ("kafka", "broker"), ("browser", "browser"), ("kubernetes", "kubernetes"), ("prometheus", "prometheus"),
)}  # fmt: skip
MARKS = {
    "unit": "needs neither Java nor jars nor a browser: make unit",
    "spark": "needs a Spark session (Java)",
    "broker": "needs a real Kafka broker (Java, fetched jars)",
    "java": "starts Java itself",
    "browser": "needs Chromium",
    "kubernetes": "needs a Kubernetes control plane (Go): make kubernetes-test",
    "prometheus": "needs Prometheus and its promtool",
    "slow": "longer than a minute; part of make chaos, left out of make test",
}
HEAVY = {"spark": 2, "broker": 1}
NO_JAVA = """\
#!/bin/sh
echo "$PPID: java $*" >>"{told}"
echo "java: a unit test starts none; who needs it asks for a fixture that says so (tests/conftest.py)" >&2
exit 97
"""

MakeTopic = Callable[..., str]
Report = pytest.TestReport | pytest.CollectReport

# How long an example takes says something of the machine, nothing of the code; and a test draws the same ones every time.
SLOW_IS_FINE = [HealthCheck.too_slow]
settings.register_profile("steady", deadline=None, suppress_health_check=SLOW_IS_FINE, derandomize=True)
settings.register_profile("search", deadline=None, suppress_health_check=SLOW_IS_FINE, max_examples=1000)  # looks for new ones
settings.load_profile(os.environ.get("HYPOTHESIS", "steady"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help=f"a skipped test fails, unless its reason begins with '{OPTIONAL}'")
    parser.addoption(
        "--data", metavar="DIR", help="recorded streams (landau_stream_delta5.csv ...); without it their tests are skipped"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Let Ctrl-C and a hang-up reach the processes that tests start: in a shell's background or below nohup they would not."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    for mark, meaning in MARKS.items():
        config.addinivalue_line("markers", f"{mark}: {meaning}")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what unit tests alone would not need: its libraries may be missing."""
    return True if config.getoption("markexpr") == "unit" and collection_path in FOLDERS else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark by what a test asks for, so that no author has to remember to, and begin with what takes long.

    Files go to the process that is free (``pytest_xdist_make_scheduler``): the many quick ones at the end keep all processes busy
    until the end.
    """
    heaviest, longest, many = dict[Path, int](), dict[Path, float](), Counter(item.path for item in items)
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        needed = {mark for mark, fixtures in NEEDS.items() if names & fixtures}
        needed |= {mark for folder, mark in FOLDERS.items() if folder in item.path.parents}
        needed |= {m.name for m in item.iter_markers()} & {*NEEDS, *FOLDERS.values(), "slow"}
        for mark in sorted(needed) or ["unit"]:
            item.add_marker(mark)
        heaviest[item.path] = max(heaviest.get(item.path, 0), sum(HEAVY.get(mark, 0) for mark in needed))
        limit = item.get_closest_marker("timeout")
        longest[item.path] = max(longest.get(item.path, 0.0), limit.args[0] if limit else 0.0)
    items.sort(key=lambda i: (order(i.path, heaviest[i.path]), -longest[i.path], -many[i.path], i.path))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """With ``--dist loadfile``: the tests of a file in one process, and files that share what is dear in the same one."""
    if config.getoption("dist") != "loadfile":
        return None
    from tests.scheduling import Sharing  # noqa: PLC0415  xdist is there wherever this is asked

    return Sharing(config, log)


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what was imported and collected: it stays, and is most of what there is.

    A timeline keeps thousands of decisions, in which it looked for garbage at every seven hundredth new value: a fifth of the
    time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Report, Report]:
    report = _readable(_unskipped((yield), item.config))
    if report.failed and isinstance(report, pytest.TestReport):
        report.user_properties.append(("evidence", str(evidence.keep(item, report))))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [r for kind in ("failed", "error") for r in terminalreporter.stats.get(kind, [])]
    places = {str(v) for r in reports for name, v in getattr(r, "user_properties", ()) if name == "evidence"}
    if places:
        terminalreporter.write_line(f"logs and stacks of {len(places)} failed: {', '.join(sorted(places)[:5])}")


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
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that JAVA_HOME may name: its Java writes to ``told`` who started it, and ends."""
    home = tmp_path_factory.mktemp("no-java")
    (home / "bin").mkdir()
    (home / "bin" / "java").write_text(NO_JAVA.format(told=home / "told"), encoding="utf-8")
    (home / "bin" / "java").chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def no_java(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, stand_in: Path) -> Iterator[None]:
    """A unit test starts no Java, nor does any process that it starts."""
    if request.node.get_closest_marker("unit") is None:
        yield
        return
    monkeypatch.setenv("JAVA_HOME", str(stand_in))
    monkeypatch.setenv("PATH", str(stand_in / "bin"), prepend=":")
    yield
    told = stand_in / "told"
    if told.exists():
        said = told.read_text(encoding="utf-8")
        told.unlink()
        pytest.fail(f"a unit test has started Java: {said}", pytrace=False)


@pytest.fixture
def java() -> str:
    """The java executable: who starts it, or has the jars fetched with it, asks for this."""
    return jars.java()


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


def create_topic(cluster: Cluster, name: str, partitions: int = 1, *, replicas: object = None, **config: object) -> str:
    from confluent_kafka.admin import AdminClient, NewTopic  # noqa: PLC0415  tests without a broker need no client

    admin = AdminClient({**cluster.connection(), "log_level": 0})
    settings = {key.replace("_", "."): str(value) for key, value in config.items()}
    placed = {"replica_assignment": replicas} if replicas else {"replication_factor": min(3, len(cluster.nodes))}
    topic = NewTopic(name, num_partitions=partitions, config=settings, **placed)
    admin.create_topics([topic], operation_timeout=20)[name].result(timeout=30)

    def leaders() -> list[int]:
        return [p.leader for p in admin.list_topics(name, timeout=10).topics[name].partitions.values()]

    until(f"{name} has its leaders", leaders, lambda found: len(found) == partitions and min(found) >= 0, within_s=30)
    return name


def delete_topic(cluster: Cluster, name: str) -> None:
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415  tests without a broker need no client

    admin = AdminClient({**cluster.connection(), "log_level": 0})
    admin.delete_topics([name])[name].result(30)


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
        "spark.python.daemon.module": "autoscaler.streaming.daemon",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraClassPath": jars.class_path(jars.DELTA, jars.S3A),
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
