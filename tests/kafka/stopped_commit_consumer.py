"""The example consumer, stopped between its lease check and its next commit, once there is a file ``armed``.

When it goes on that commit reaches the broker, as one does that had left the client and was late on its way: what has not left it
is dropped when the lease is over.
"""

import os
import runpy
import signal
import threading
from collections.abc import Mapping
from pathlib import Path

from autoscaler.worker.delivery import Run
from autoscaler.worker.offsets import Offsets

commit = Offsets._commit_plainly


def stopped(self: Offsets, wanted: Mapping[Run, int]) -> bool:
    flag = Path(os.environ["CONSUMER_LOG_DIR"]) / "armed"
    if flag.exists() and any(offset > 0 for offset in wanted.values()):
        flag.unlink()
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # of the process this thread might go on for a moment
        self._client.client.commit(offsets=self._named(wanted), asynchronous=False)
    return commit(self, wanted)


Offsets._commit_plainly = stopped  # type: ignore[method-assign]
runpy.run_path(str(Path(__file__).resolve().parents[2] / "docs/examples/consumer.py"), run_name="__main__")
