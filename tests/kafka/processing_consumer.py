"""A consumer by ``process`` that does what its records say: ``fail`` on it, ``flaky``: fail once, ``hold`` it, or take RECORD_S.

Environment: THREADS, ON_ERROR (fail, skip, or a dead-letter topic), MAX_BATCH_S, RECORD_S, SLOW_SLOT (whose worker takes twice as
long). Each record that was processed leaves a line in CONSUMER_LOG_DIR like those of the example; a batch leaves its report in
reports.log.
"""

import logging
import os
import threading
import time
from pathlib import Path

from confluent_kafka import Message

from autoscaler.worker import Batch, BatchReport, DeadLetter, Fail, ManagedConsumer, OnError, Skip, process
from tests.until import let_pass

FOLDER = Path(os.environ["CONSUMER_LOG_DIR"])
SLOW = os.environ.get("AUTOSCALER_WORKER_NAME", "").endswith(f"-{os.environ.get('SLOW_SLOT', 'none')}")
RECORD_S = float(os.environ.get("RECORD_S", "0.002")) * (2 if SLOW else 1)
failed: set[tuple[int | None, int | None]] = set()
lock = threading.Lock()


def policy() -> OnError:
    match os.environ.get("ON_ERROR", "fail"):
        case "fail":
            return Fail()
        case "skip":
            return Skip(retries=1, pause_s=0.01)
        case topic:
            return DeadLetter(topic=topic, retries=1, pause_s=0.01)


def main() -> None:
    longest_s = float(os.environ.get("MAX_BATCH_S", "60"))
    with ManagedConsumer(batch_size_bytes=32_000, wait_time_s=0.05, max_batch_s=longest_s) as consumer:

        def handle(message: Message, batch: Batch) -> None:
            work(message)
            me = consumer.incarnation
            topic, partition = message.topic(), message.partition()
            token = batch.token(topic, partition)
            line = f"{topic} {partition} {message.offset()} {token} {time.time_ns()} {message.timestamp()[1]}\n"
            with lock, (FOLDER / f"processed-{me.uuid if me else 'none'}.log").open("a", encoding="utf-8") as log:
                log.write(line)

        process(consumer, handle, threads=int(os.environ.get("THREADS", "4")), on_error=policy(), metrics=tell)
    assert not [t for t in threading.enumerate() if t is not threading.main_thread() and not t.daemon]


def tell(report: BatchReport) -> None:
    with (FOLDER / "reports.log").open("a", encoding="utf-8") as log:
        log.write(f"{report.records} {report.errors} {report.skipped} {report.dead_lettered} {report.partitions}\n")


def work(message: Message) -> None:
    where = message.partition(), message.offset()
    match (message.value() or b"").split(b" ")[0]:
        case b"fail":
            msg = "cannot be processed"
            raise ValueError(msg)
        case b"flaky" if where not in failed:
            failed.add(where)
            raise TimeoutError
        case b"hold":
            let_pass(3600)
        case _:
            let_pass(RECORD_S)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main()
