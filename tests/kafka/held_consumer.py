"""A consumer that does what its records say: ``hold`` it for ever, ``keep`` it long and say so, ``fail`` on it.

After ``wedge`` no commit returns any more, after ``slow`` each takes a third of what a call may.

Environment: MAX_BATCH_S. Each record that was processed leaves a line ``partition offset`` in CONSUMER_LOG_DIR/done.log.
"""

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from autoscaler.worker import ManagedConsumer, effect_loop
from autoscaler.worker.delivery import Run
from autoscaler.worker.offsets import Offsets
from tests.until import let_pass, throughout

LONGEST_S = float(os.environ["MAX_BATCH_S"])
LOG = Path(os.environ["CONSUMER_LOG_DIR"]) / "done.log"


def process(consumer: ManagedConsumer, said: bytes | None) -> None:
    match said:
        case b"hold":
            let_pass(3600)
        case b"keep":
            throughout("it takes long", consumer.keep_alive, for_s=3 * LONGEST_S, every_s=0.05)
        case b"wedge":
            effect_loop._CLIENT_S = LONGEST_S
            Offsets._commit_plainly = lambda *_: let_pass(3600)  # type: ignore[method-assign,assignment]
        case b"slow":
            effect_loop._CLIENT_S = LONGEST_S
            soon = Offsets._commit_plainly

            def late(self: Offsets, wanted: Mapping[Run, int]) -> bool:
                let_pass(LONGEST_S / 3)
                return soon(self, wanted)

            Offsets._commit_plainly = late  # type: ignore[method-assign]
        case b"fail":
            msg = "cannot be processed"
            raise ValueError(msg)
        case _:
            pass


def main() -> None:
    with ManagedConsumer(batch_size_bytes=32_000, wait_time_s=0.2, max_batch_s=LONGEST_S) as consumer:
        for batch in consumer:
            for message in batch:
                process(consumer, message.value())
                with LOG.open("a", encoding="utf-8") as log:
                    log.write(f"{message.partition()} {message.offset()}\n")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main()
