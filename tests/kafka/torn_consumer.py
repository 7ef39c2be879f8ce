"""A consumer whose next batch is cut short by the handler of a signal, once for each file ``armed``, and which goes on after it.

The signal comes while it asks for a batch, wherever in it: that is the library's code, and the application is outside. With
COPY_TO it copies each record there exactly once, and the signal comes while a batch is being committed.
"""

import os
import random
import signal
from pathlib import Path
from types import FrameType

from autoscaler.worker import ManagedConsumer
from autoscaler.worker.effect_loop import Loop

TO = os.environ.get("COPY_TO", "")
WITHIN = (Loop.commit_batch if TO else ManagedConsumer._await).__code__  # before it begins, nothing is torn
FOLDER = Path(os.environ["CONSUMER_LOG_DIR"])
ARMED = FOLDER / "armed"


class TornError(Exception):
    """As a time limit raises it."""


def handler(_number: int, frame: FrameType | None) -> None:
    """Raise where it is to; elsewhere come again."""
    while frame is not None:
        if frame.f_code is WITHIN:
            if ARMED.exists():
                ARMED.unlink()
                raise TornError
            break
        frame = frame.f_back
    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0005, 0.01 if TO else 0.03))


def main() -> None:
    """Write down every record, batch by batch."""
    signal.signal(signal.SIGALRM, handler)
    with ManagedConsumer(batch_size_bytes=2_000, wait_time_s=0.02, exactly_once=bool(TO)) as consumer:
        while True:
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            try:
                for batch in consumer:
                    me = consumer.incarnation
                    with (FOLDER / f"processed-{me.uuid if me else 'none'}.log").open("a", encoding="utf-8") as log:
                        for m in batch:
                            log.write(f"{m.topic()} {m.partition()} {m.offset()} 0 0 {m.timestamp()[1]}\n")
                            if TO:
                                batch.produce(TO, f"{m.partition()} {m.offset()}")
            except TornError:
                continue
            signal.setitimer(signal.ITIMER_REAL, 0)
            return


main()
