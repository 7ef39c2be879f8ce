"""A consumer whose next batch is cut short by the handler of a signal, once for each file ``armed``, and which goes on after it.

The signal comes while it asks for a batch, wherever in it: that is the library's code, and the application is outside.
"""

import os
import random
import signal
from pathlib import Path
from types import FrameType

from autoscaler.worker import ManagedConsumer

FOLDER = Path(os.environ["CONSUMER_LOG_DIR"])
ARMED = FOLDER / "armed"


class TornError(Exception):
    """As a time limit raises it."""


def handler(_number: int, frame: FrameType | None) -> None:
    """Raise within ``__next__``; elsewhere come again."""
    while frame is not None:
        if frame.f_code is ManagedConsumer.__next__.__code__:
            if ARMED.exists():
                ARMED.unlink()
                raise TornError
            break
        frame = frame.f_back
    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.001, 0.03))


def main() -> None:
    """Write down every record, batch by batch."""
    signal.signal(signal.SIGALRM, handler)
    with ManagedConsumer(batch_size_bytes=2_000, wait_time_s=0.02) as consumer:
        while True:
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            try:
                for batch in consumer:
                    me = consumer.incarnation
                    lines = [f"{m.topic()} {m.partition()} {m.offset()} 0 0 {m.timestamp()[1]}\n" for m in batch]
                    with (FOLDER / f"processed-{me.uuid if me else 'none'}.log").open("a", encoding="utf-8") as log:
                        log.writelines(lines)
            except TornError:
                continue
            signal.setitimer(signal.ITIMER_REAL, 0)
            return


main()
