"""The pages on writing a consumer: they show the files as they are, name every setting, and what they show runs."""

import contextlib
import dataclasses
import re
import signal
import socket
import sqlite3
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from autoscaler.devtools.broker import Broker
from autoscaler.worker.settings import WorkerSettings
from tests.conftest import create_topic
from tests.kafka.workers import Publisher, Workers
from tests.until import until

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
WRITING = ROOT / "docs" / "tasks" / "consumer.md"
ADOPTING = ROOT / "docs" / "tasks" / "adopt.md"
LIBRARY = ROOT / "docs" / "reference" / "library.md"
METRICS = ROOT / "docs" / "reference" / "metrics.md"


def section(page: Path, title: str) -> str:
    """Return the text of a section of a page."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def commands(page: Path) -> list[str]:
    """Return the command lines of a page, in their order, without what is remarked behind them."""
    blocks = re.findall(r"^ *```\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [line.split(" #")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


@pytest.mark.parametrize(("page", "name"), [(WRITING, "orders.py"), (WRITING, "orders.yaml"), (METRICS, "exporter.py")])
def test_the_page_shows_the_file_as_it_is(page: Path, name: str) -> None:
    blocks = re.findall(r"^```\w+\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert (EXAMPLES / name).read_text(encoding="utf-8") in blocks


def test_the_page_names_every_setting_with_its_default() -> None:
    said = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", section(LIBRARY, "Settings"), re.MULTILINE))
    fields = {f.name: f for f in dataclasses.fields(WorkerSettings) if f.repr}  # not shown: how the connection was read
    assert set(said) >= set(fields)
    for name, field in fields.items():
        if isinstance(field.default, float | int) and not isinstance(field.default, bool):
            assert float(said[name].split()[0].replace(",", "")) == field.default, name


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


@pytest.fixture
def workers(workers: Workers, tmp_path: Path) -> Workers:
    workers.script = EXAMPLES / "orders.py"
    workers.environment |= {"ORDERS_DB": str(tmp_path / "orders.db"), "METRICS_PORT": str(free_port())}
    return workers


@pytest.fixture
def say(broker: Broker, topic: str) -> Callable[[str, str], None]:
    """Return ``say(key, value)``: one record of partition 0."""

    def produce(key: str, value: str) -> None:
        producer = Producer(broker.connection())
        producer.produce(topic, value.encode(), key.encode(), partition=0)
        assert producer.flush(30) == 0

    return produce


@pytest.fixture
def dead(broker: Broker) -> str:
    name = "orders.dead"
    reader = Consumer({**broker.connection(), "group.id": "look"})
    known = name in reader.list_topics(timeout=30).topics
    reader.close()
    return name if known else create_topic(broker, name)


def rows(workers: Workers) -> dict[str, str]:
    with contextlib.closing(sqlite3.connect(workers.environment["ORDERS_DB"], timeout=30)) as db:
        return dict(db.execute("SELECT id, state FROM orders").fetchall())


def test_the_example_keeps_orders_writes_dead_letters_and_answers_a_scrape(
    control: Publisher, workers: Workers, dead: str, broker: Broker, say: Callable[[str, str], None]
) -> None:
    for state in ("new", "paid", "sent"):
        say("7", f'{{"id": "7", "state": "{state}"}}')
    say("8", "no order")
    say("9", '{"id": "9", "state": "new"}')
    workers.start("w-0")
    me = control.incarnation("w-0")
    control.plan({0: me})
    until("all is committed", lambda: control.committed_at(0, 5))
    assert rows(workers) == {"7": "sent", "9": "new"}
    reader = Consumer({**broker.connection(), "group.id": "letters"})
    reader.assign([TopicPartition(dead, 0, OFFSET_BEGINNING)])
    assert b"no order" in {m.value() for m in reader.consume(1, 30)}
    reader.close()
    with urllib.request.urlopen(f"http://127.0.0.1:{workers.environment['METRICS_PORT']}/", timeout=30) as answer:
        figures = dict(line.split() for line in answer.read().decode().splitlines())
    assert figures["consumer_records_total"] == "5"
    assert figures["consumer_errors_total"] == "3"
    assert figures["consumer_dead_lettered_total"] == "1"
    assert figures["consumer_partitions"] == "1"
    workers.signal("w-0", signal.SIGTERM)
    assert workers.ended("w-0") == 0


def test_the_example_refuses_what_comes_with_an_older_token(
    control: Publisher, workers: Workers, dead: str, topic: str, say: Callable[[str, str], None]
) -> None:
    """As if its partition had a newer owner that has written already."""
    workers.start("w-0")
    me = control.incarnation("w-0")
    until("there are tables", lambda: has_tables(workers))
    with contextlib.closing(sqlite3.connect(workers.environment["ORDERS_DB"], timeout=30)) as db, db:
        db.execute("INSERT INTO owner VALUES (?, 0, 1000)", (topic,))
    say("7", '{"id": "7", "state": "new"}')
    control.plan({0: me})
    assert workers.ended("w-0") == 1
    assert "has a newer owner" in (workers.folder / "w-0.err").read_text(encoding="utf-8")
    assert rows(workers) == {}
    until("it has left", lambda: control.has_left(me))
    assert {r.offset for (tp, w), r in control.released.items() if w == me} == {0}


def has_tables(workers: Workers) -> bool:
    try:
        rows(workers)
    except sqlite3.OperationalError:
        return False
    return True
