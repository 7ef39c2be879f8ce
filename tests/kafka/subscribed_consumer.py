"""A consumer as a group has them before it is adopted: it subscribes, and commits what it has processed.

Environment: OLD_BOOTSTRAP, OLD_GROUP, OLD_TOPIC. Each record leaves a line ``partition offset`` in CONSUMER_LOG_DIR; a commit
comes after every 50 records and at the end.
"""

import os
import signal
import sys
from pathlib import Path
from types import FrameType

from confluent_kafka import Consumer, KafkaException

from tests.until import let_pass

told: list[int] = []


def end(number: int, _frame: FrameType | None) -> None:
    told.append(number)


def commit(consumer: Consumer) -> None:
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as e:
        print(e, file=sys.stderr)


def main() -> None:
    signal.signal(signal.SIGTERM, end)
    consumer = Consumer(
        {
            "bootstrap.servers": os.environ["OLD_BOOTSTRAP"],
            "group.id": os.environ["OLD_GROUP"],
            "client.id": f"old-{os.getpid()}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
        }
    )
    consumer.subscribe([os.environ["OLD_TOPIC"]])
    done = 0
    with (Path(os.environ["CONSUMER_LOG_DIR"]) / f"old-{os.getpid()}.log").open("a", buffering=1, encoding="utf-8") as log:
        while not told:
            message = consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            let_pass(0.002)
            log.write(f"{message.partition()} {message.offset()}\n")
            done += 1
            if done % 50 == 0:
                commit(consumer)
        if done % 50:
            commit(consumer)
        consumer.close()


if __name__ == "__main__":
    main()
