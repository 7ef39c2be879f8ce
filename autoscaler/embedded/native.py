"""An ordinary consumer, for the demo of advise mode: it subscribes, Kafka assigns, and nobody of ours is involved.

A limited rate stands for real work, as in the managed demo. ``python -m autoscaler.embedded.native`` runs until SIGTERM.
"""

import argparse
import signal
import sys
import threading
import time
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaException

_BATCH = 500


def consume(consumer: Consumer, bytes_per_s: float, stop: threading.Event) -> None:
    """Process records at ``bytes_per_s`` of payload until ``stop`` is set."""
    free_at = time.monotonic()  # when the work accepted so far is done
    while not stop.is_set():
        for message in consumer.consume(_BATCH, timeout=0.2):
            if (error := message.error()) is not None:
                raise KafkaException(error)
            free_at = max(free_at, time.monotonic() - 0.05) + len(message) / bytes_per_s
            if (left := free_at - time.monotonic()) > 0:
                stop.wait(left)


def main(argv: Sequence[str] | None = None) -> int:
    """Subscribe and consume until told to end."""
    parser = argparse.ArgumentParser(prog="python -m autoscaler.embedded.native", description="Consume like anybody else.")
    parser.add_argument("--bootstrap", required=True, help="brokers, host:port")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--client", required=True, help="client id")
    parser.add_argument("--bytes-per-s", type=float, default=1_000_000, help="payload that it can process (default 1000000)")
    args = parser.parse_args(argv)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    consumer = Consumer(
        {
            "bootstrap.servers": args.bootstrap,
            "group.id": args.group,
            "client.id": args.client,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
            "log_level": 3,
        }
    )
    try:
        consumer.subscribe([args.topic])
        consume(consumer, args.bytes_per_s, stop)
    finally:
        consumer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
