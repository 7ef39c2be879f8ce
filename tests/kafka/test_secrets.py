"""The whole job on a broker that asks for a password: where it may be read by, and that it is written nowhere else."""

import http.client
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import yaml
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AclOperation
from deltalake import DeltaTable

from autoscaler.handover.codec import PARTITIONS as LOGS
from autoscaler.handover.records import CONTROL_TOPIC, HEARTBEAT_TOPIC
from tests.conftest import create_topic
from tests.kafka.permissions import TOPIC as OF_TOPIC
from tests.kafka.permissions import Permissions
from tests.kafka.secured import PasswordBroker
from tests.kafka.shop import GROUP, PARTITIONS, TOPIC, Shop
from tests.kafka.whole_step import of_job, of_worker
from tests.until import until

UNSAID = "what nobody but the brokers may know"
RECORDS = 400


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    (tmp_path / "shop").mkdir()
    with PasswordBroker(tmp_path / "certificates") as broker:
        broker.set_password("job", UNSAID)
        create_topic(broker, TOPIC, PARTITIONS)
        retention = (OF_TOPIC, TOPIC, AclOperation.DESCRIBE_CONFIGS)
        Permissions(broker).grant("job", *{*of_job(TOPIC, GROUP), *of_worker(TOPIC, GROUP), retention})
        it = Shop(broker, tmp_path / "shop")
        settings = yaml.safe_load(it.config.read_text())
        settings["clusters"] = [{"connection": broker.connection("job")}]
        settings["http"] = {"listen": f"127.0.0.1:{free_port()}", "partitions": True}
        it.config.write_text(yaml.safe_dump(settings))
        yield it
        it.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def served(shop: Shop) -> str:
    """Return all that the job answers over HTTP, once it has decided its group."""
    host, port = yaml.safe_load(shop.config.read_text())["http"]["listen"].split(":")

    def ask(path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(host, int(port), timeout=30)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    until("it is ready", lambda: ask("/readyz")[0], lambda status: status == http.HTTPStatus.OK)
    metrics, advice = ask("/metrics")[1], ask(f"/advice/{GROUP}")[1]
    assert "autoscaler_consumers_recommended{" in metrics
    return metrics + advice


def processed(shop: Shop) -> int:
    return sum(len(f.read_bytes().splitlines()) for f in (shop.directory / "processed").glob("processed-*.log"))


def processes(shop: Shop) -> str:
    """Return the arguments and the environment of everything that runs for the job."""
    ours = [*map(psutil.Process, (c.pid for c in shop.children)), *shop.workers().values()]
    ours += [child for p in tuple(ours) for child in p.children(recursive=True)]
    found = []
    for p in ours:
        with suppress(psutil.NoSuchProcess):  # Spark's come and go; one that has ended and is not reaped is none either
            found.append(f"{p.cmdline()} {p.environ()}")
    return "\n".join(found)


def tables(shop: Shop) -> str:
    found = sorted(x.parent for x in (shop.directory / "state" / "tables").rglob("_delta_log"))
    assert {x.name for x in found} >= {"decisions", "loads"}
    return "\n".join(str(DeltaTable(str(x)).to_pyarrow_table().to_pylist()) for x in found)


def logs(shop: Shop) -> bytes:
    """Return everything in the control log and the heartbeat log."""
    consumer = Consumer({**shop.broker.connection(), "group.id": "nobody", "enable.partition.eof": True})
    consumer.assign([TopicPartition(t, p, OFFSET_BEGINNING) for t in (CONTROL_TOPIC, HEARTBEAT_TOPIC) for p in range(LOGS)])
    found, ended = bytearray(), 0

    def read() -> int:
        nonlocal ended
        message = consumer.poll(0.5)
        if message is None:
            return ended
        if (error := message.error()) is None:
            found.extend((message.key() or b"") + (message.value() or b""))
        else:
            assert error.code() == KafkaError._PARTITION_EOF
            ended += 1
        return ended

    try:
        until("every log is read to its end", read, lambda n: n == 2 * LOGS, every_s=0)
    finally:
        consumer.close()
    return bytes(found)


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_password_is_in_no_log_table_plan_argument_or_environment(shop: Shop) -> None:
    job = shop.start_job()
    producer = Producer(shop.broker.connection())
    for number in range(RECORDS):
        producer.produce(TOPIC, b"x" * 200, partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    shop.wait("everything is processed", lambda: processed(shop) >= RECORDS)
    said, answered = processes(shop), served(shop)
    job.terminate()
    job.wait(60)
    shop.end_workers()
    everything = {"processes": said, "tables": tables(shop), "control log": logs(shop).decode(errors="replace"),
                  "http": answered}  # fmt: skip
    for where, text in everything.items():
        assert GROUP in text, f"{where}: nothing was found, so nothing was shown"
        assert UNSAID not in text, where
    files = [f for f in shop.directory.rglob("*") if f.is_file()]
    assert {"job.log", "cycles.jsonl", "config.yaml"} <= {f.name for f in files}
    assert [f for f in files if UNSAID.encode() in f.read_bytes()] == []
