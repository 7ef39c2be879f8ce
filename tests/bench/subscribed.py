"""Consumers that share partitions by one of Kafka's own protocols, doing the same work as the example consumer of this project.

``python -m tests.bench.subscribed`` is one of them; everything it needs is in the environment.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.until import until

Settings = Mapping[str, str | int]
PROTOCOLS: dict[str, Settings] = {
    "cooperative-sticky": {
        "partition.assignment.strategy": "cooperative-sticky",
        "heartbeat.interval.ms": 500,
        "session.timeout.ms": 6000,
    },
    "consumer (KIP-848)": {"group.protocol": "consumer"},  # the broker says how often heartbeats come and how long a session is
}
_COMMIT_S = 1.0
_RECORDS = 128  # of a batch, at most
_WAIT_S = 0.02


class Subscribed:
    """The consumers of one group."""

    def __init__(self, bootstrap: str, topic: str, directory: Path, *, protocol: Settings, capacity: float) -> None:
        """Remember what to run."""
        self._logs, self._directory = directory / "processed", directory
        self._logs.mkdir()
        self._group = f"{topic}-subscribed"
        self._topic = topic
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        connection = {"bootstrap.servers": bootstrap, "group.id": self._group, **protocol}
        self._environment = {
            "SUBSCRIBED_CONNECTION": json.dumps(connection),
            "SUBSCRIBED_TOPIC": topic,
            "CONSUMER_LOG_DIR": str(self._logs),
            "CONSUMER_BYTES_PER_S": str(capacity),
        }
        self._running: list[subprocess.Popen[bytes]] = []

    def begin(self, count: int) -> None:
        """Start so many and wait until each has its share."""
        for _ in range(count):
            self._start()
        self._await(count)

    def join(self) -> None:
        """Start one more."""
        self._start()
        self._await(len(self._running))

    def leave(self) -> None:
        """End the one that joined last, in order."""
        last = self._running.pop()
        last.terminate()
        last.wait(30)

    def kill(self) -> str:
        """Kill the one that joined last."""
        last = self._running.pop()
        last.kill()
        last.wait(30)
        return str(last.pid)

    def close(self) -> None:
        """End all."""
        for process in self._running:
            process.terminate()
        for process in self._running:
            process.wait(30)

    def _start(self) -> None:
        with (self._directory / "consumers.log").open("ab") as log:
            command = [sys.executable, "-m", "tests.bench.subscribed"]
            self._running.append(subprocess.Popen(command, env={**os.environ, **self._environment}, stdout=log, stderr=log))

    def _await(self, count: int) -> None:
        """Wait until the group has so many members, each with partitions."""

        def holding() -> int:
            found = self._admin.describe_consumer_groups([self._group], request_timeout=5)[self._group].result()
            return sum(bool(m.assignment.topic_partitions) for m in found.members)

        what = f"{count} consumers have partitions"
        until(what, holding, lambda n: n == count, passing=KafkaException, within_s=90, every_s=0.2)


def main() -> None:
    """Process what comes until told to end."""
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    consumer = Consumer({
        "auto.offset.reset": "earliest", "enable.auto.commit": False, "enable.auto.offset.store": False,
        "fetch.wait.max.ms": 50, **json.loads(os.environ["SUBSCRIBED_CONNECTION"]),
    })  # fmt: skip
    consumer.subscribe([os.environ["SUBSCRIBED_TOPIC"]], on_revoke=lambda c, _: _commit(c))
    rate, log = float(os.environ["CONSUMER_BYTES_PER_S"]), Path(os.environ["CONSUMER_LOG_DIR"]) / f"processed-{os.getpid()}.log"
    free_at = commit_at = time.monotonic()
    while not ended:
        messages = [m for m in consumer.consume(_RECORDS, _WAIT_S) if m.error() is None]
        free_at = _process(messages, rate, free_at, log)
        for message in messages:
            _store(consumer, message)
        if time.monotonic() >= commit_at:
            commit_at = time.monotonic() + _COMMIT_S
            _commit(consumer)
    _commit(consumer)
    consumer.close()


def _process(messages: list[Message], rate: float, free_at: float, log: Path) -> float:
    """Take the time that the work takes, write the lines that the example consumer writes, and return when all is done."""
    lines = []
    for message in messages:
        free_at = max(free_at, time.monotonic() - 0.05) + len(message) / rate
        while (left := free_at - time.monotonic()) > 0.001:
            time.sleep(min(left, 0.01))
        lines.append(f"{message.topic()} {message.partition()} {message.offset()} 0 {time.time_ns()} {message.timestamp()[1]}\n")
    with log.open("a", encoding="utf-8") as out:
        out.writelines(lines)
    return free_at


def _store(consumer: Consumer, message: Message) -> None:
    topic, offset = message.topic(), message.offset()
    assert topic is not None
    assert offset is not None
    try:
        consumer.store_offsets(offsets=[TopicPartition(topic, message.partition() or 0, offset + 1)])
    except KafkaException:
        return  # given away meanwhile: the next owner does it again


def _commit(consumer: Consumer) -> None:
    try:
        consumer.commit(asynchronous=False)
    except KafkaException:
        return  # nothing to commit, or in the middle of a rebalance: the next one does


if __name__ == "__main__":
    main()
