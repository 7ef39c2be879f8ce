"""One connection block for both clients, on brokers that ask for certificates or for SCRAM, with ACLs on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.kafka.membership import KafkaGroupReader
from tests.conftest import create_topic
from tests.kafka.permissions import Permissions
from tests.kafka.secured import CertificateBroker, PasswordBroker
from tests.kafka.whole_step import of_job, of_worker, take_a_whole_step
from tests.until import until

SECRETS = {"job": "the job's own secret", "worker": "the worker's own secret"}


@pytest.fixture
def certified(tmp_path: Path) -> Iterator[CertificateBroker]:
    with CertificateBroker(tmp_path / "certificates") as broker:
        yield broker


@pytest.fixture
def scrambled(tmp_path: Path) -> Iterator[PasswordBroker]:
    with PasswordBroker(tmp_path / "certificates") as broker:
        for user, password in SECRETS.items():
            broker.set_password(user, password)
        yield broker


def whole_step(broker: CertificateBroker | PasswordBroker, group: str, directory: Path) -> None:
    topic = create_topic(broker, f"topic-{group}", 4)
    permissions = Permissions(broker)
    permissions.grant("job", *of_job(topic, group))
    permissions.grant("worker", *of_worker(topic, group))
    take_a_whole_step(broker, topic, group, directory)
    reader = KafkaGroupReader(broker.connection("job"), (group,), SystemClock(), 0.1)
    try:
        members = until("the group is known", lambda: reader.members(group))
        assert members.members == ()
    finally:
        reader.close()


def test_certificates_of_both_sides_carry_a_whole_step(certified: CertificateBroker, group: str, tmp_path: Path) -> None:
    whole_step(certified, group, tmp_path)


def test_scram_over_tls_carries_a_whole_step_and_no_secret_is_written_anywhere(
    scrambled: PasswordBroker, group: str, tmp_path: Path
) -> None:
    whole_step(scrambled, group, tmp_path)
    written = [f for f in tmp_path.rglob("*") if f.is_file() and "certificates" not in f.parts]
    assert {f.suffix for f in written} >= {".json", ".log"}, "processes were recorded, and have written"
    for file in written:
        text = file.read_bytes()
        assert not [s for s in SECRETS.values() if s.encode() in text], file
