"""The permissions that docs/reference/permissions.md names: enough for a whole step of a managed group, and none too many."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as LogPosition
from confluent_kafka.admin import AclOperation

from autoscaler.devtools.broker import Broker
from autoscaler.errors import AutoscalerError, TransientError
from autoscaler.handover.records import CONTROL_TOPIC, HEARTBEAT_TOPIC, Heartbeat, Phase
from autoscaler.model import WorkerPhase
from tests.conftest import create_topic
from tests.kafka.permissions import DESCRIBE, GROUP, READ, TOPIC, TRANSACTION, WRITE, Grant, Permissions
from tests.kafka.whole_step import PARTITIONS, ROOT, controller, of_job, of_worker, plan, take_a_whole_step
from tests.until import PATIENCE_S, until

if TYPE_CHECKING:
    from autoscaler.adapters.control_log.publisher import KafkaControl


@pytest.fixture
def topic(secure_broker: Broker, group: str) -> str:
    return create_topic(secure_broker, f"topic-{group}", PARTITIONS)


@pytest.fixture
def permissions(secure_broker: Broker, topic: str, group: str) -> Iterator[Permissions]:
    made = Permissions(secure_broker)
    made.grant("job", *of_job(topic, group))
    made.grant("worker", *of_worker(topic, group))
    yield made
    for user in ("job", "worker"):
        made.revoke(user)


def test_what_the_page_names_is_enough_to_measure_scale_and_hand_over(
    secure_broker: Broker, permissions: Permissions, topic: str, group: str, tmp_path: Path
) -> None:
    take_a_whole_step(secure_broker, topic, group, tmp_path)


def test_a_worker_that_may_not_read_the_control_log_any_more_is_stuck_then_over_and_joins_anew_when_it_may(
    secure_broker: Broker, permissions: Permissions, topic: str, group: str, tmp_path: Path
) -> None:
    environment = {
        **os.environ, "AUTOSCALER_CONNECTION": json.dumps(secure_broker.connection("worker")), "AUTOSCALER_GROUP": group,
        "AUTOSCALER_TOPICS": topic, "AUTOSCALER_LEASE_S": "3", "AUTOSCALER_WORKER_NAME": "w-0", "MAX_BATCH_S": "3",
        "CONSUMER_LOG_DIR": str(tmp_path), "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    control = controller(secure_broker, topic, group)

    def look(wanted: Callable[[dict[str, str]], bool]) -> dict[str, str]:
        """Return the phase of every live incarnation, once they are as wanted: on a busy machine a cycle may fail."""
        phases = lambda: {w.uuid: w.phase.value for w in control.observe().workers}  # noqa: E731
        return until("phases as wanted", phases, wanted, passing=TransientError)

    command = [sys.executable, str(Path(__file__).with_name("held_consumer.py"))]
    with (tmp_path / "err").open("ab") as err, subprocess.Popen(command, env=environment, stderr=err) as process:
        try:
            (first,) = look(lambda p: list(p.values()) == ["active"])
            permissions.revoke("worker", (TOPIC, CONTROL_TOPIC, READ))
            look(lambda p: p.get(first) == "stuck")
            look(lambda p: bool(p) and first not in p)
            permissions.grant("worker", (TOPIC, CONTROL_TOPIC, READ))
            look(lambda p: "active" in p.values())
            assert "the lease is over" in (tmp_path / "err").read_text(encoding="utf-8")
        finally:
            process.kill()
            control.close()


def test_dead_letters_need_write_on_their_topic_and_nothing_else(
    secure_broker: Broker, permissions: Permissions, topic: str, group: str, tmp_path: Path
) -> None:
    dead = create_topic(secure_broker, f"dead-{group}", 1)
    producer = Producer(secure_broker.connection())
    producer.produce(topic, b"fail", partition=0)
    assert producer.flush(30) == 0
    environment = {
        **os.environ, "AUTOSCALER_CONNECTION": json.dumps(secure_broker.connection("worker")), "AUTOSCALER_GROUP": group,
        "AUTOSCALER_TOPICS": topic, "AUTOSCALER_WORKER_NAME": "w-0", "ON_ERROR": dead, "CONSUMER_LOG_DIR": str(tmp_path),
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    command = [sys.executable, str(Path(__file__).with_name("processing_consumer.py"))]
    without = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert without.returncode == 1
    assert f"dead-letter topic {dead}: Broker: Topic authorization failed; consumers need Write on it" in without.stderr

    permissions.grant("worker", (TOPIC, dead, WRITE))
    control = controller(secure_broker, topic, group)
    letters = Consumer({**secure_broker.connection(), "group.id": f"reader-{group}", "enable.auto.commit": False})
    letters.assign([LogPosition(dead, 0, 0)])
    with (tmp_path / "err").open("ab") as err, subprocess.Popen(command, env=environment, stderr=err) as process:
        try:
            until("it is active", lambda: any(w.phase is WorkerPhase.ACTIVE for w in control.observe().workers))
            control.publish(plan(topic, 0, 0, 0, 0))
            said = partial((tmp_path / "err").read_text, encoding="utf-8")
            letter = until("a letter", lambda: letters.poll(0.1), lambda x: x is not None and x.error() is None, explain=said)
            assert letter is not None
            assert letter.value() == b"fail"
        finally:
            process.kill()
            control.close()
            letters.close()


def grant_of(name: str, topic: str, group: str) -> Grant:
    return {
        "topic": (TOPIC, topic, DESCRIBE),
        "group": (GROUP, group, DESCRIBE),
        "read control": (TOPIC, CONTROL_TOPIC, READ),
        "write control": (TOPIC, CONTROL_TOPIC, WRITE),
        "describe configs": (TOPIC, HEARTBEAT_TOPIC, AclOperation.DESCRIBE_CONFIGS),
        "transaction": (TRANSACTION, f"{CONTROL_TOPIC}/", WRITE),
    }[name]


@pytest.mark.parametrize("missing", ["topic", "group", "read control", "write control", "describe configs", "transaction"])
def test_without_one_of_them_the_controller_cannot_act(
    secure_broker: Broker, permissions: Permissions, topic: str, group: str, missing: str
) -> None:
    assert act(secure_broker, topic, group), "with all of them it can"
    permissions.revoke("job", grant_of(missing, topic, group))
    until("it cannot do without", lambda: not act(secure_broker, topic, group))


@pytest.mark.parametrize(
    ("what", "named", "log"),
    [(READ, "read", HEARTBEAT_TOPIC), (WRITE, "write to", HEARTBEAT_TOPIC), (READ, "read", CONTROL_TOPIC)],
    ids=["read heartbeats", "write heartbeats", "read control"],
)
def test_a_missing_permission_for_the_logs_is_named(  # noqa: PLR0917  (fixtures and a case)
    secure_broker: Broker, permissions: Permissions, topic: str, group: str, what: AclOperation, named: str, log: str
) -> None:
    permissions.revoke("job", (TOPIC, log, what))
    control: KafkaControl | None = None

    def said() -> str:
        nonlocal control
        try:
            control = control or controller(secure_broker, topic, group)
            control.observe()
        except AutoscalerError as e:
            return str(e)
        return ""

    wanted = f"this user may not {named} {log}: give it the permission, see docs/reference/permissions.md"
    try:
        until(wanted, said, lambda text: wanted in text, every_s=0.1)
    finally:
        if control is not None:
            control.close()


def act(broker: Broker, topic: str, group: str) -> bool:
    """Publish a plan and look at it, as a restarted controller; return whether that went well."""
    try:
        control = controller(broker, topic, group)
        try:
            control.publish(plan(topic, 0, 0, 0, 0))
            control.observe()
        finally:
            control.close()
    except AutoscalerError:
        return False
    return True


def test_a_worker_needs_nothing_for_the_group_that_its_reader_of_the_control_log_is_named_by(
    secure_broker: Broker, permissions: Permissions, topic: str, group: str, tmp_path: Path
) -> None:
    """The client is refused that group's coordinator; the log of a group in which nothing happens is read all the same."""
    longest_s = 4.0
    environment = {
        **os.environ, "AUTOSCALER_CONNECTION": json.dumps(secure_broker.connection("worker")), "AUTOSCALER_GROUP": group,
        "AUTOSCALER_TOPICS": topic, "AUTOSCALER_LEASE_S": "15", "AUTOSCALER_WORKER_NAME": "w-0", "MAX_BATCH_S": str(longest_s),
        "CONSUMER_LOG_DIR": str(tmp_path), "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    control = controller(secure_broker, topic, group)
    command = [sys.executable, str(Path(__file__).with_name("held_consumer.py"))]
    with (tmp_path / "err").open("ab") as err, subprocess.Popen(command, env=environment, stderr=err) as process:
        try:
            beats: list[Heartbeat] = []
            said = partial((tmp_path / "err").read_text, encoding="utf-8")

            def span_s() -> float:
                with suppress(TransientError):  # a cycle on a busy machine waits for the next one
                    control.observe()
                beats.extend(b.heartbeat for b in control._state.beats.values() if b.heartbeat not in beats[-1:])
                return beats[-1].stamp - beats[0].stamp if beats else 0.0

            until("it beats for four times that long", span_s, lambda lasted: lasted >= 4 * longest_s, explain=said)
            assert {b.phase for b in beats} <= {Phase.JOINING, Phase.ACTIVE}, said()
        finally:
            process.kill()
            control.close()
