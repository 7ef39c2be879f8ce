"""``autoscaler check`` on a broker with ACLs: what is missing is named with the command that gives it, and then all is fine."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer
from confluent_kafka.admin import AclOperation, ResourceType

from autoscaler.adapters.kafka.control_topics import admin_client, ensure_control_topics
from autoscaler.cli.main import main
from autoscaler.devtools.broker import Broker
from tests.conftest import create_topic
from tests.kafka.permissions import CLUSTER, DESCRIBE, GROUP, READ, TOPIC, TRANSACTION, Grant, Permissions
from tests.kafka.whole_step import PARTITIONS, of_job
from tests.until import until

KINDS = {"topic": TOPIC, "group": GROUP, "cluster": CLUSTER, "transactional-id": TRANSACTION}


@pytest.fixture
def topic(secure_broker: Broker, group: str) -> str:
    return create_topic(secure_broker, f"topic-{group}", PARTITIONS)


@pytest.fixture
def permissions(secure_broker: Broker) -> Iterator[Permissions]:
    made = Permissions(secure_broker)
    yield made
    made.revoke("job")


@dataclass
class Checking:
    """A configuration of one group, and what ``check`` answers about it."""

    broker: Broker
    group: str
    topic: str
    place: Path
    capsys: pytest.CaptureFixture[str]
    cluster: dict[str, object] = field(default_factory=dict)

    def written(self, *more_topics: str, user: str | None = "job", **more: object) -> Path:
        connection = {**(self.broker.connection() if user is None else self.broker.connection(user))}
        connection["sasl.password"] = f"file:{self.place / 'password'}"
        (self.place / "password").write_text(str(self.broker.connection(user or "admin")["sasl.password"]), encoding="utf-8")
        one = {
            "group": self.group,
            "topics": [self.topic, *more_topics],
            "mode": "act",
            "capacity": {"bytes_per_s": "1MB"},
            **more,
        }
        if one["mode"] == "act":
            one["workers"] = {"kind": "processes", "command": ["true"]}
        settings = {
            "clusters": [{"name": "main", "connection": connection, **self.cluster}],
            "state_dir": str(self.place),
            "groups": [one],
        }
        file = self.place / "conf.yaml"
        file.write_text(yaml.safe_dump(settings), encoding="utf-8")
        return file

    def answer(self) -> tuple[int, dict[str, Any]]:
        """Return the exit code and what is said of the group."""
        code = main(["check", "--config", str(self.place / "conf.yaml"), "--json"])
        printed = self.capsys.readouterr()
        assert printed.out, printed.err
        (found,) = json.loads(printed.out)["groups"]
        return code, found

    def text(self) -> tuple[int, str]:
        """Return the exit code and what a person reads."""
        code = main(["check", "--config", str(self.place / "conf.yaml")])
        return code, self.capsys.readouterr().out


@pytest.fixture
def checking(secure_broker: Broker, topic: str, group: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Checking:
    return Checking(secure_broker, group, topic, tmp_path, capsys)


def grants(command: str) -> list[Grant]:
    """Return what a command gives, as the printed text says it."""
    words = shlex.split(command)
    assert words[:2] == ["kafka-acls.sh", "--bootstrap-server"]
    assert words[words.index("--allow-principal") + 1] == "User:job"
    (kind,) = (k for k in KINDS if f"--{k}" in words)
    name = "kafka-cluster" if kind == "cluster" else words[words.index(f"--{kind}") + 1]
    operations = [words[n + 1] for n, word in enumerate(words) if word == "--operation"]
    found = {o.name.replace("_", "").lower(): o for o in AclOperation}
    return [(KINDS[kind], name, found[o.lower()]) for o in operations]


def test_the_commands_that_it_prints_give_all_that_the_job_needs(checking: Checking, permissions: Permissions) -> None:
    checking.written()
    code, found = checking.answer()
    assert code == 1
    assert not found["fine"]
    given = 0
    while not found["fine"]:
        assert given < 2, "what is given is not asked for again and again"
        permissions.grant("job", *(g for command in found["commands"] for g in grants(command)))
        given += 1
        code, found = checking.answer()
    assert code == 0, found
    assert found["fine"]
    code, said = checking.text()
    assert code == 0
    assert f"{checking.group}: fine" in said
    assert f"1 topic with {PARTITIONS} partitions" in said


@pytest.mark.parametrize("mode", ["advise", "act"])
def test_what_the_job_that_balances_brokers_needs_is_checked_where_it_is_configured(
    checking: Checking, permissions: Permissions, mode: str
) -> None:
    checking.cluster = {"balance": {"mode": mode}}
    file = checking.written(mode="advise")
    ensure_control_topics(admin_client(checking.broker.connection()), lease_s=3.0, replication_factor=None)

    def brokers() -> dict[str, Any]:
        main(["check", "--config", str(file), "--json"])
        *_, found = json.loads(checking.capsys.readouterr().out)["groups"]
        assert found["group"] == "balance of brokers"
        return dict(found)

    permissions.grant("job", (TOPIC, checking.topic, DESCRIBE), (GROUP, checking.group, DESCRIBE))
    before = brokers()
    assert not before["fine"]
    missing = {f"{p['operation']} {p['on']}" for p in before["permissions"] if p["allowed"] is False}
    assert ("Alter cluster" in missing) is (mode == "act")
    assert "Describe cluster" in missing
    permissions.grant("job", *(g for command in before["commands"] for g in grants(command)))
    assert brokers()["fine"]
    code, said = checking.text()
    assert code == 0
    assert "balance of brokers: fine" in said


HEARTBEATS, CONTROL = "__autoscaler_heartbeats", "__autoscaler_control"


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        (TOPIC, None, "missing: Describe on topic {}: its partitions and their ends cannot be read"),
        (GROUP, None, "missing: Describe on group {}: what it has committed, and its members, cannot be read"),
        (TOPIC, HEARTBEATS, "missing: Create, Read, Write, Describe, DescribeConfigs on topic {}: no plan can be published"),
        (TOPIC, CONTROL, "missing: Create, Read, Write, Describe, DescribeConfigs on topic {}: no plan can be published"),
        (TRANSACTION, f"{CONTROL}/", "missing: Write on transactional-id {}: no plan can be published"),
        (CLUSTER, "kafka-cluster", "without: Describe on cluster: rates are records times their mean size"),
    ],
)
def test_what_is_missing_is_named_and_only_that(
    checking: Checking, permissions: Permissions, kind: ResourceType, name: str | None, said: str
) -> None:
    checking.written()
    ensure_control_topics(admin_client(checking.broker.connection()), lease_s=3.0, replication_factor=None)
    name = name or {TOPIC: checking.topic, GROUP: checking.group}[kind]
    of_topic = [(TOPIC, checking.topic, READ), (TOPIC, checking.topic, AclOperation.DESCRIBE_CONFIGS)]
    every = [*of_job(checking.topic, checking.group), *of_topic, (GROUP, checking.group, READ)]
    permissions.grant("job", *(g for g in every if g[:2] != (kind, name)))
    code, printed = checking.text()
    assert said.format(name) in printed
    assert code == (0 if kind is CLUSTER else 1)
    lines = [line for line in printed.splitlines() if line.strip().startswith(("missing", "without", "not seen"))]
    named = "on cluster" if kind is CLUSTER else f" {name}"
    assert all(named in line for line in lines), printed


def test_what_the_job_would_refuse_is_said(checking: Checking) -> None:
    connection = checking.broker.connection()
    consumer = Consumer({**connection, "group.id": checking.group, "client.id": "a-stranger", "log_level": 0})
    consumer.subscribe([checking.topic])
    checking.written("not-there", "^nor-this", user=None)

    def refused() -> list[str]:
        consumer.poll(0.1)
        return list(checking.answer()[1]["refused"])

    try:
        absent, unmatched, foreign = until("it has joined", refused, lambda said: len(said) == 3)
    finally:
        consumer.close()
    assert absent == "topic not-there is not there"
    assert unmatched == "no topic that this user may describe matches ^nor-this yet"
    assert "1 member subscribe with this group's id (client ids a-stranger" in foreign
    checking.written(user=None)
    assert checking.answer()[0] == 0, "it has left"


def test_ordinary_consumers_can_be_advised(checking: Checking, permissions: Permissions) -> None:
    permissions.grant("job", (TOPIC, checking.topic, DESCRIBE), (GROUP, checking.group, DESCRIBE))
    strategy = {"partition.assignment.strategy": "range"}
    consumer = Consumer({**checking.broker.connection(), "group.id": checking.group, **strategy, "log_level": 0})
    consumer.subscribe([checking.topic])
    checking.written(mode="advise", assignment="native")

    def facts() -> list[str]:
        consumer.poll(0.1)
        return list(checking.answer()[1]["facts"])

    try:
        _, members = until("it is stable", facts, lambda said: any("stable" in x for x in said))
        assert members == "1 member (classic protocol, range), stable"
        code, printed = checking.text()
    finally:
        consumer.close()
    assert code == 0
    assert f"{checking.group}: fine" in printed
    assert f"without: Read on topic {checking.topic}: transaction markers" in printed


def test_a_cluster_that_does_not_answer_is_named_and_the_others_are_looked_at(checking: Checking) -> None:
    file = checking.written(user=None, cluster="main")
    settings = yaml.safe_load(file.read_text(encoding="utf-8"))
    settings["clusters"].append({"name": "away", "connection": {"bootstrap.servers": "127.0.0.1:1"}})
    settings["groups"].append({**settings["groups"][0], "group": "another", "cluster": "away"})
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    code, printed = checking.text()
    assert code == 1
    assert "cluster away: not reached: no broker answers at 127.0.0.1:1" in printed
    assert f"{checking.group} on main: fine" in printed
