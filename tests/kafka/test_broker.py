"""The embedded broker: what the other tests and the demo rely on."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, ResourcePatternType, ResourceType
from kafka import KafkaAdminClient

from autoscaler import jars
from autoscaler.devtools import class_archive
from autoscaler.devtools.broker import USERS, Broker, BrokerError, Cluster, _new_cluster_id
from tests.conftest import create_topic
from tests.until import until

Produce = Callable[..., None]


def end_offset(cluster: Cluster, topic: str, partition: int) -> int:
    consumer = Consumer({**cluster.connection(), "group.id": "reader", "log_level": 0})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)[1])
    finally:
        consumer.close()


def test_listens_on_loopback_only_and_outside_the_ports_of_outgoing_connections(broker: Broker) -> None:
    assert broker.pid is not None
    listening = {(c.laddr.ip, c.laddr.port) for c in psutil.Process(broker.pid).net_connections() if c.status == "LISTEN"}
    assert {ip.removeprefix("::ffff:") for ip, _ in listening} == {"127.0.0.1"}
    assert all(port < 32_768 for _, port in listening)


def test_a_misspelt_topic_is_not_made(broker: Broker) -> None:
    found = AdminClient({**broker.connection(), "log_level": 0}).list_topics("no-such-topic", timeout=10)
    assert found.topics["no-such-topic"].error is not None
    assert "no-such-topic" not in AdminClient({**broker.connection(), "log_level": 0}).list_topics(timeout=10).topics


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_restart_keeps_ports_and_acknowledged_records(own_broker: Broker, produce: Produce, end: str) -> None:
    topic = create_topic(own_broker, "kept", 1)
    produce(topic, {0: 20}, cluster=own_broker)
    before = own_broker.bootstrap
    getattr(own_broker, end)()
    assert not own_broker.nodes[0].running
    own_broker.start()
    assert own_broker.bootstrap == before
    assert end_offset(own_broker, topic, 0) == 20


def test_a_given_directory_is_kept_and_used_again(tmp_path: Path, produce: Produce) -> None:
    with Broker(tmp_path, heap_mb=128) as first:
        produce(create_topic(first, "kept", 1), {0: 3}, cluster=first)
    assert list(tmp_path.glob("data-1/kept-0/*.log"))
    with Broker(tmp_path, heap_mb=128) as second:  # other ports, same data
        assert end_offset(second, "kept", 0) == 3


def test_a_temporary_directory_goes_with_the_broker() -> None:
    with Broker(heap_mb=128) as node:
        assert node.directory.exists()
        pid = node.pid
    assert not node.directory.exists()
    assert pid is not None
    assert not psutil.pid_exists(pid)


def test_a_broker_that_cannot_start_shows_its_log_and_what_to_do(tmp_path: Path) -> None:
    node = Broker(tmp_path, heap_mb=128, settings={"num.io.threads": "none"})
    with pytest.raises(BrokerError, match=r"(?s)num\.io\.threads.*What to do"):
        node.start()
    assert not node.nodes[0].running


def test_classes_are_kept_for_later_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "classes.jsa"
    monkeypatch.setattr(jars, "class_archive", lambda _: place)
    assert class_archive.make() == place
    made = place.stat()
    assert class_archive.make().stat() == made, "a second call makes nothing anew"
    with Broker(tmp_path / "broker", heap_mb=128) as node:
        assert node.pid is not None
        assert str(place) in {f.path for f in psutil.Process(node.pid).memory_maps()}


def test_classes_that_cannot_be_read_hold_no_broker_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "classes.jsa"
    place.write_bytes(b"none" * 1000)
    monkeypatch.setattr(jars, "class_archive", lambda _: place)
    with Broker(tmp_path / "broker", heap_mb=128) as node:
        assert node.nodes[0].running


def test_logs_are_appended_over_restarts(own_broker: Broker) -> None:
    own_broker.nodes[0].log.write_text("earlier\n", encoding="utf-8")
    own_broker.restart()
    assert own_broker.nodes[0].log.read_text(encoding="utf-8").startswith("earlier\n")


def test_no_broker_outlives_its_program(tmp_path: Path) -> None:
    program = (
        "import sys, time, pathlib; from autoscaler.devtools.broker import Broker\n"
        "broker = Broker(pathlib.Path(sys.argv[1]), heap_mb=128).start(); print(broker.pid, flush=True); time.sleep(300)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        broker = psutil.Process(int(owner.stdout.readline()))
        os.kill(owner.pid, signal.SIGKILL)
    until("the broker has ended", lambda: not broker.is_running() or broker.status() == psutil.STATUS_ZOMBIE, within_s=30)


def test_three_nodes_replicate_and_survive_the_loss_of_one(three_brokers: Cluster, produce: Produce) -> None:
    topic = create_topic(three_brokers, "replicated", 3)
    produce(topic, {0: 5, 1: 5, 2: 5}, cluster=three_brokers)
    three_brokers.nodes[0].kill()
    try:
        produce(topic, {0: 5, 1: 5, 2: 5}, cluster=three_brokers)
    finally:
        three_brokers.start()
    assert [end_offset(three_brokers, topic, p) for p in range(3)] == [10, 10, 10]


def test_only_the_admin_may_look_until_acls_say_more(secure_broker: Broker) -> None:
    topic = create_topic(secure_broker, "guarded", 1)
    limited = AdminClient({**secure_broker.connection("limited"), "log_level": 0})
    assert topic not in limited.list_topics(timeout=10).topics

    def allow(kind: ResourceType, name: str, operation: AclOperation) -> None:
        admin = AdminClient({**secure_broker.connection("admin"), "log_level": 0})
        acl = AclBinding(kind, name, ResourcePatternType.LITERAL, "User:limited", "*", operation, AclPermissionType.ALLOW)
        for future in admin.create_acls([acl]).values():
            future.result(timeout=10)

    allow(ResourceType.TOPIC, topic, AclOperation.DESCRIBE)
    until("the topic may be described", lambda: limited.list_topics(timeout=10).topics, lambda topics: topic in topics)
    assert topic in _log_dirs(secure_broker, "admin")
    assert _log_dirs(secure_broker, "limited") == []


def _log_dirs(cluster: Broker, user: str) -> list[str]:
    admin = KafkaAdminClient(
        bootstrap_servers=cluster.bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username=user,
        sasl_plain_password=USERS[user],
    )
    try:
        dirs = [d for broker in admin.describe_log_dirs() for d in broker["log_dirs"]]
        return [t["name"] for d in dirs for t in d["topics"] if not t["name"].startswith("__")]
    finally:
        admin.close()


def test_a_wrong_password_is_refused(secure_broker: Broker) -> None:
    client = AdminClient({**secure_broker.connection("limited"), "sasl.password": "wrong", "log_level": 0})
    with pytest.raises(KafkaException):
        client.list_topics(timeout=3)


def test_no_cluster_id_looks_like_an_option_of_the_storage_tool() -> None:
    ids = {_new_cluster_id() for _ in range(2000)}
    assert len(ids) == 2000
    assert all(len(i) == 22 and not i.startswith("-") for i in ids)
