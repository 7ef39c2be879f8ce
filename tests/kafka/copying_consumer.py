"""Copies each record to the topic COPY_TO, once: the value says which partition and offset it came from.

Environment: COPY_TO; COPY_S: seconds of work per record; STOP_AT: ``produce`` or ``commit``, once HOLD (a file) is there: the
process stops itself (SIGSTOP) after it has looked at its lease for the last time, before anything has been sent or right before
the commit.
"""

import faulthandler
import logging
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from autoscaler.worker import ManagedConsumer
from autoscaler.worker.transactions import Output, Transactions
from tests.until import let_pass

TO, WORK_S, STOP_AT, HOLD = os.environ["COPY_TO"], float(os.environ["COPY_S"]), os.environ["STOP_AT"], Path(os.environ["HOLD"])


class Stopping(Transactions):
    """Stands still where a lease is of no use: behind its last check."""

    _sent = False

    def _produce(self, output: Output) -> None:
        if STOP_AT == "produce":
            self._stop()
        super()._produce(output)
        self._sent = True

    def _persist(self, call: Callable[[], object], valid: Callable[[], bool]) -> None:
        super()._persist(call, valid)
        if self._sent and STOP_AT == "commit":  # the offsets have been sent
            self._producer.flush()
            self._stop()
        self._sent = False

    def _stop(self) -> None:
        try:
            HOLD.rename(HOLD.with_suffix(f".{os.getpid()}"))
        except FileNotFoundError:
            return  # nothing holds, or another consumer has taken it
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # of the process this thread might go on for a moment


def main() -> None:
    with ManagedConsumer(batch_size_bytes=2_000, wait_time_s=0.02, exactly_once=True) as consumer:
        for batch in consumer:
            for message in batch:
                let_pass(WORK_S)
                batch.produce(TO, f"{message.partition()} {message.offset()}", partition=message.partition())


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    faulthandler.register(signal.SIGUSR1)  # to see where one hangs
    if STOP_AT:
        import autoscaler.worker.consumer as library

        vars(library)["Transactions"] = Stopping
    main()
