"""A password that is changed while everything runs: who connects anew takes it, and nobody has to be started again."""

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.kafka_reader import KafkaGroupReader
from autoscaler.adapters.kafka_watch import ControlLogs, KafkaWatch
from autoscaler.errors import TransientError
from autoscaler.streaming.lag import GroupRules
from tests.conftest import create_topic
from tests.kafka.measuring import Measured
from tests.kafka.permissions import Permissions
from tests.kafka.secured import PasswordBroker
from tests.kafka.whole_step import controller, of_job, plan

OLD, NEW = "what it was before", "what it is by now"
PATIENCE_S = 90.0


@pytest.fixture
def scrambled(tmp_path: Path) -> Iterator[PasswordBroker]:
    with PasswordBroker(tmp_path / "certificates") as broker:
        broker.set_password("job", OLD)
        yield broker


def until(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.2)


@pytest.mark.timeout(300)
def test_every_client_of_the_job_takes_a_changed_password_and_none_says_it(
    scrambled: PasswordBroker, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    topic = create_topic(scrambled, f"topic-{group}", 4)
    Permissions(scrambled).grant("job", *of_job(topic, group))
    connection = scrambled.connection("job")
    control = controller(scrambled, topic, group)
    watch = KafkaWatch(
        logs=ControlLogs(connection),
        group=f"{group}-2",
        topics=(topic,),
        lease_s=3.0,
        slot_of=lambda _: None,
        clock=SystemClock(),
    )
    reader = KafkaGroupReader(connection, (group,), SystemClock(), 0.2)
    measured = Measured(connection, (GroupRules(group=group, topics=(topic,)),))

    def tried(what: Callable[[], object]) -> bool:
        try:
            what()
        except TransientError:
            return False
        return True

    def working(since: float) -> list[bool]:
        members, seen = reader.members(group), measured.one()
        return [
            tried(control.observe), tried(watch.observe), members is not None and members.at > since,
            seen.known and seen.error is None and measured.discovery.picture().error is None,
        ]  # fmt: skip

    try:
        until(lambda: all(working(0.0)))
        control.publish(plan(topic, 0, 0, 0, 0))
        scrambled.set_password("job", NEW)
        scrambled.password("job").write_text(OLD)
        until(lambda: all(working(0.0)))  # old connections go on
        scrambled.restart()
        at = time.time()
        until(lambda: not any(working(at)))  # nobody gets in with the old one
        scrambled.password("job").write_text(NEW)
        until(lambda: all(working(at)))
        control.publish(plan(topic, 0, 0, 0, 0))
    finally:
        measured.close()
        reader.close()
        watch.close()
        control.close()
    assert OLD not in caplog.text
    assert NEW not in caplog.text
