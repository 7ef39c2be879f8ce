"""An ordinary consumer, for the demos of native groups: it subscribes, Kafka assigns, and the worker library has no part in it.

A limited rate stands for real work, as in the managed demo. ``python -m autoscaler.devtools.subscriber`` runs until SIGTERM. What
is not given on the command line comes from the environment that every started consumer has. With CONSUMER_LOG_DIR each record
leaves a line in a file there: topic, partition, offset, 0, when it was processed (ns), when it was appended (ms).
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message

from autoscaler.adapters.clock import SystemClock

_BATCH = 100  # what is in hand is processed to its end before a rebalance goes on

Record = Callable[[Sequence[Message]], None]


def consume(consumer: Consumer, bytes_per_s: float, stop: threading.Event, record: Record) -> None:
    """Process records at ``bytes_per_s`` of payload until ``stop`` is set; what was processed may be committed from then on."""
    free_at = time.monotonic()  # when the work accepted so far is done
    while not stop.is_set():
        batch = consumer.consume(_BATCH, timeout=0.2)
        for message in batch:
            if (error := message.error()) is not None:
                raise KafkaException(error)
            free_at = max(free_at, time.monotonic() - 0.05) + len(message) / bytes_per_s
            if (left := free_at - time.monotonic()) > 0:
                time.sleep(left)
        if batch:
            record(batch)
            for message in batch:
                consumer.store_offsets(message)


def log_into(directory: str | None, name: str) -> Record:
    """Return what writes a line per processed record; nothing without a directory."""
    if not directory:
        return lambda _: None
    clock, file = SystemClock(), Path(directory) / f"processed-{name}-{os.getpid()}.log"

    def record(batch: Sequence[Message]) -> None:
        at_ns = int(clock.now() * 1e9)
        lines = [f"{m.topic()} {m.partition()} {m.offset()} 0 {at_ns} {m.timestamp()[1]}\n" for m in batch]
        with file.open("a", encoding="utf-8") as log:
            log.writelines(lines)

    return record


def main(argv: Sequence[str] | None = None) -> int:
    """Subscribe and consume until told to end."""
    parser = argparse.ArgumentParser(prog="python -m autoscaler.devtools.subscriber", description="Subscribe and consume.")
    parser.add_argument("--bootstrap", default=_bootstrap(), help="brokers, host:port")
    parser.add_argument("--topic", default=os.environ.get("AUTOSCALER_TOPICS"), help="topics, separated by commas")
    parser.add_argument("--group", default=os.environ.get("AUTOSCALER_GROUP"))
    parser.add_argument("--client", default=os.environ.get("AUTOSCALER_WORKER_NAME", "consumer"), help="client id")
    parser.add_argument("--bytes-per-s", type=float, default=1_000_000, help="payload that it can process (default 1000000)")
    args = parser.parse_args(argv)
    if not (args.bootstrap and args.topic and args.group):
        parser.error("--bootstrap, --topic and --group are needed where the environment does not say them")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    consumer = Consumer(
        {
            "bootstrap.servers": args.bootstrap,
            "group.id": args.group,
            "client.id": args.client,
            "partition.assignment.strategy": "cooperative-sticky",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
            "enable.auto.offset.store": False,  # stored by us, after the work: at least once
            "log_level": 3,
        }
    )
    try:
        # With callbacks, even idle ones, a partition is given up between two batches only, not while one is in work.
        consumer.subscribe(args.topic.split(","), on_assign=lambda *_: None, on_revoke=lambda *_: None)
        consume(consumer, args.bytes_per_s, stop, log_into(os.environ.get("CONSUMER_LOG_DIR"), args.client))
    finally:
        consumer.close()
    return 0


def _bootstrap() -> str | None:
    connection = json.loads(os.environ.get("AUTOSCALER_CONNECTION", "{}"))
    servers = str(connection.get("bootstrap.servers", ""))
    return os.environ.get(servers.removeprefix("env:")) if servers.startswith("env:") else servers or None


if __name__ == "__main__":
    sys.exit(main())
