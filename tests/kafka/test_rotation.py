"""A password or a certificate that is changed while everything runs: who connects anew takes it, and nobody is started again."""

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.control_log.watch import ControlLogs, KafkaWatch
from autoscaler.adapters.kafka.membership import KafkaGroupReader
from autoscaler.errors import TransientError
from autoscaler.streaming.lag import GroupRules
from tests.conftest import create_topic
from tests.kafka.measuring import Measured
from tests.kafka.permissions import Permissions
from tests.kafka.secured import CertificateBroker, PasswordBroker
from tests.kafka.whole_step import controller, of_job, plan
from tests.until import let_pass, until

OLD, NEW = "what it was before", "what it is by now"
LAPSED_S = 75.0  # for so long the first certificate is good: a busy machine takes its time to connect everybody


@pytest.fixture
def scrambled(tmp_path: Path) -> Iterator[PasswordBroker]:
    with PasswordBroker(tmp_path / "certificates") as broker:
        broker.set_password("job", OLD)
        yield broker


@pytest.fixture
def certified(tmp_path: Path) -> Iterator[CertificateBroker]:
    with CertificateBroker(tmp_path / "certificates") as broker:
        yield broker


class Everybody:
    """Every client that the job has of a cluster, as one user."""

    def __init__(self, broker: PasswordBroker | CertificateBroker, group: str) -> None:
        self.topic = create_topic(broker, f"topic-{group}", 4)
        Permissions(broker).grant("job", *of_job(self.topic, group))
        connection = broker.connection("job")
        self.group = group
        self.control = controller(broker, self.topic, group)
        self.logs = ControlLogs(connection)
        self.watch = KafkaWatch(
            logs=self.logs, group=f"{group}-2", topics=(self.topic,), lease_s=3.0, slot_of=lambda _: None, clock=SystemClock()
        )
        self.reader = KafkaGroupReader(connection, (group,), SystemClock(), 0.2)
        self.measured = Measured(connection, (GroupRules(group=group, topics=(self.topic,)),))

    def working(self, since: float) -> list[bool]:
        """Return who is in, by what came after an instant."""
        members, seen = self.reader.members(self.group), self.measured.one()
        return [
            _tried(self.control.observe), _tried(self.watch.observe), members is not None and members.at > since,
            seen.known and seen.error is None and self.measured.discovery.picture().error is None,
        ]  # fmt: skip

    def publish(self) -> None:
        """Publish a plan."""
        self.control.publish(plan(self.topic, 0, 0, 0, 0))

    def close(self) -> None:
        self.measured.close()
        self.reader.close()
        self.watch.close()
        self.logs.close()
        self.control.close()


def _tried(what: Callable[[], object]) -> bool:
    try:
        what()
    except TransientError:
        return False
    return True


@pytest.mark.timeout(300)
def test_every_client_of_the_job_takes_a_changed_password_and_none_says_it(
    scrambled: PasswordBroker, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    everybody = Everybody(scrambled, group)
    try:
        until("all work", lambda: everybody.working(0.0), all, every_s=0.2)
        everybody.publish()
        scrambled.set_password("job", NEW)
        scrambled.password("job").write_text(OLD)
        until("all work", lambda: everybody.working(0.0), all, every_s=0.2)  # old connections go on
        scrambled.restart()
        at = time.time()
        until(
            "none works", lambda: everybody.working(at), lambda found: not any(found), every_s=0.2
        )  # nobody gets in with the old one
        scrambled.password("job").write_text(NEW)
        until("all work again", lambda: everybody.working(at), all, every_s=0.2)
        everybody.publish()
    finally:
        everybody.close()
    assert OLD not in caplog.text
    assert NEW not in caplog.text


@pytest.mark.timeout(400)
def test_every_client_of_the_job_takes_a_renewed_certificate_and_none_says_its_key(
    certified: CertificateBroker, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    over = time.time() + LAPSED_S
    old = certified.certificates.of("job", until=over)[1].read_text()
    everybody = Everybody(certified, group)
    try:
        until("all work", lambda: everybody.working(0.0), all, every_s=0.2)
        everybody.publish()
        let_pass(max(0.0, over + 1.0 - time.time()))
        at = time.time()
        until("all work again", lambda: everybody.working(at), all, every_s=0.2)  # who is connected goes on with one that is over
        certified.restart()
        at = time.time()
        until("none works", lambda: everybody.working(at), lambda found: not any(found), every_s=0.2)  # nobody gets in with it
        new = certified.certificates.of("job")[1].read_text()
        until("all work again", lambda: everybody.working(at), all, every_s=0.2)
        everybody.publish()
    finally:
        everybody.close()
    for line in (old + new).splitlines():
        assert "PRIVATE KEY" in line or line not in caplog.text
