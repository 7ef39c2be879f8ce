"""A consumer's password or certificate that is changed while it runs: cut off, it joins anew with the new one, in one process."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer

from autoscaler.errors import TransientError
from tests.conftest import create_topic
from tests.kafka.permissions import Permissions
from tests.kafka.secured import CertificateBroker, PasswordBroker
from tests.kafka.whole_step import ROOT, controller, of_job, of_worker, plan
from tests.until import let_pass, until

PARTITIONS, RECORDS = 2, 40
GOOD_FOR_S = 75.0  # the first certificate: a busy machine takes its time to start
OLD, NEW = "what it was before", "what it is by now"


Guarded = PasswordBroker | CertificateBroker


@contextmanager
def consumer(broker: Guarded, topic: str, group: str, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = {
        **os.environ, "AUTOSCALER_CONNECTION": json.dumps(broker.connection("worker")), "AUTOSCALER_GROUP": group,
        "AUTOSCALER_TOPICS": topic, "AUTOSCALER_LEASE_S": "15", "AUTOSCALER_WORKER_NAME": "w-0",
        "CONSUMER_LOG_DIR": str(directory), "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    command = [sys.executable, str(ROOT / "docs" / "examples" / "consumer.py")]
    with (directory / "said").open("wb") as said, subprocess.Popen(command, env=environment, stderr=said) as process:
        try:
            yield process
        finally:
            process.kill()


class Scene:
    """A group with one consumer."""

    def __init__(self, broker: Guarded, group: str, directory: Path) -> None:
        self.broker, self.group, self.directory = broker, group, directory
        self.topic = create_topic(broker, f"topic-{group}", PARTITIONS)
        permissions = Permissions(broker)
        permissions.grant("job", *of_job(self.topic, group))
        permissions.grant("worker", *of_worker(self.topic, group))
        self.control = controller(broker, self.topic, group)
        self.produced = 0

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        until(what, holds, explain=(self.directory / "said").read_text, every_s=0.1)

    def active(self) -> set[str]:
        """Return the incarnations that are at work."""
        with suppress(TransientError):
            return {w.uuid for w in self.control.observe().workers if w.phase == "active"}
        return set()

    def processed(self) -> set[tuple[str, str]]:
        lines = [x.split() for f in self.directory.glob("processed-*.log") for x in f.read_text().splitlines()]
        return {(partition, offset) for _, partition, offset, *_ in lines}

    def works(self, but: frozenset[str] = frozenset()) -> str:
        """Have what is produced now processed, by an incarnation that is none of these; return which."""
        self.until("a consumer works", lambda: bool(self.active() - but))
        (one,) = self.active() - but
        self.control.publish(plan(self.topic, *[0] * PARTITIONS))
        self.produce()
        self.until("all is processed", lambda: len(self.processed()) == self.produced)
        return one

    def produce(self) -> None:
        producer = Producer(self.broker.connection())
        for number in range(RECORDS):
            producer.produce(self.topic, b"x" * 100, partition=number % PARTITIONS)
        assert producer.flush(30) == 0
        self.produced += RECORDS

    def cut_within_a_commit(self) -> None:
        """Let the broker die when it has been told what to commit and has not answered."""
        before = len(self.processed())
        self.produce()
        self.until("more is processed", lambda: len(self.processed()) > before)
        node = self.broker.nodes[0]
        node.signal(signal.SIGSTOP)
        let_pass(2.0)  # more than a worker's commits are apart
        node.kill()


@pytest.mark.timeout(400)
def test_a_changed_password_is_taken_although_it_comes_late(tmp_path: Path, group: str) -> None:
    with PasswordBroker(tmp_path / "certificates") as broker:
        broker.set_password("job", "the job's")
        broker.set_password("worker", OLD)
        scene = Scene(broker, group, tmp_path)
        with consumer(broker, scene.topic, group, tmp_path) as process:
            first = scene.works()
            broker.set_password("worker", NEW)
            broker.password("worker").write_text(OLD)
            broker.restart()
            scene.until("the first has ended", lambda: first not in scene.active())
            broker.password("worker").write_text(NEW)
            scene.works(frozenset({first}))
            assert process.poll() is None
        scene.control.close()
        said = (tmp_path / "said").read_text()
        assert "the lease is over" in said
        assert OLD not in said
        assert NEW not in said


@pytest.mark.timeout(400)
def test_a_renewed_certificate_is_taken_before_the_lease_of_the_old_one_is_over(tmp_path: Path, group: str) -> None:
    with CertificateBroker(tmp_path / "certificates") as broker:
        over = time.time() + GOOD_FOR_S
        broker.certificates.of("worker", until=over)
        scene = Scene(broker, group, tmp_path)
        with consumer(broker, scene.topic, group, tmp_path) as process:
            first = scene.works()
            broker.certificates.of("worker")
            let_pass(max(0.0, over + 1.0 - time.time()))
            assert scene.works() == first, "who is connected goes on"
            scene.cut_within_a_commit()
            broker.restart()
            scene.works(frozenset({first}))
            assert process.poll() is None
        scene.control.close()
        assert "certificate of the connection has been replaced: joining with it" in (tmp_path / "said").read_text()
