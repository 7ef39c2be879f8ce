"""A consumer whose partitions the autoscaler assigns; everything it needs to know comes from the environment.

Run ``AUTOSCALER_BOOTSTRAP=localhost:9092 AUTOSCALER_GROUP=orders AUTOSCALER_TOPICS=orders python consumer.py``. Each record
costs time as if real work limited the rate to CONSUMER_BYTES_PER_S, and leaves a line in CONSUMER_LOG_DIR: topic, partition,
offset, granting epoch, when it was processed (ns), when it was appended (ms).
"""

# ruff: noqa: INP001, PLR2004, TID251

import logging
import os
import time
from pathlib import Path

from autoscaler.worker import ManagedConsumer

RATE = float(os.environ.get("CONSUMER_BYTES_PER_S", "1_000_000"))
FOLDER = Path(os.environ.get("CONSUMER_LOG_DIR", "."))


def main() -> None:
    """Process batch after batch until told to end."""
    free_at = time.monotonic()  # when the work accepted so far is done
    # A moved partition waits for the batch that its new owner has in hand: keep batches short.
    with ManagedConsumer(batch_size_bytes=32_000, wait_time_s=0.02) as consumer:
        for batch in consumer:
            me = consumer.incarnation
            lines = []
            for message in batch:
                free_at = max(free_at, time.monotonic() - 0.05) + len(message) / RATE
                while (left := free_at - time.monotonic()) > 0.001:
                    time.sleep(min(left, 0.01))
                topic, partition = message.topic(), message.partition()
                token = batch.token(topic, partition)
                lines.append(f"{topic} {partition} {message.offset()} {token} {time.time_ns()} {message.timestamp()[1]}\n")
            with (FOLDER / f"processed-{me.uuid if me else 'none'}.log").open("a", encoding="utf-8") as log:
                log.writelines(lines)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main()
