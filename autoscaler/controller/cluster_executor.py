"""The groups of several clusters side by side: waiting for one cluster keeps no other's groups waiting.

Beside the path, called from the job once per micro-batch. One cycle of a cluster runs at a time; a cluster
that is still busy with an earlier one is left out, because the next cycle looks anew anyway. Where there is one cluster, nothing
runs in a thread of its own. Must know neither groups nor clusters.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait

from autoscaler.concurrency import started

Work = Callable[[], None]


class ClusterExecutor:
    """Runs work side by side, one thing at a time by name.

    Args:
        patience_s: How long ``run`` waits for those that take long, in seconds; they go on behind it.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._running: dict[str, tuple[Future[None], float]] = {}  # and since when (monotonic)

    def run(self, work: Mapping[str, Work]) -> frozenset[str]:
        """Run the work of every cluster that is free, and return the names of those that were not.

        Raises:
            Exception: What the work for a cluster raised, now or since the last call.
        """
        if len(work) == 1 and not self._running:
            for only in work.values():
                only()
            return frozenset()
        busy = self._finished()
        for name in work.keys() - busy:
            self._running[name] = started(work[name], f"cluster {name}"), time.monotonic()
        wait([future for name, (future, _) in self._running.items() if name not in busy], self._patience_s)
        self._finished()
        return busy

    @property
    def busy_s(self) -> float:
        """Return for how long the cluster has been busy that has been so the longest, in seconds; 0 if none is."""
        return max((time.monotonic() - since for future, since in self._running.values() if not future.done()), default=0.0)

    def close(self, timeout_s: float) -> None:
        """Wait for what still runs, so long at most; what it raises is of no interest any more."""
        wait([future for future, _ in self._running.values()], timeout_s)

    def _finished(self) -> frozenset[str]:
        """Take out what has ended, and return the names of the others."""
        ended = [name for name, (future, _) in self._running.items() if future.done()]
        for future in [self._running.pop(name)[0] for name in ended]:
            future.result()
        return frozenset(self._running)


class Waits:
    """Since when which clusters have been busy, so that it can be said when one is so for long, and when that is over.

    Args:
        patience_s: For how long a cluster may be busy before it is worth a word, in seconds.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._since: dict[str, float] = {}
        self._told: set[str] = set()

    def news(self, busy: frozenset[str], now: float) -> tuple[frozenset[str], Mapping[str, float]]:
        """Return the clusters that are busy for so long by now, and for how many seconds those told before were so.

        Args:
            busy: What ``ClusterExecutor.run`` has returned.
            now: Seconds of a clock that is never set.
        """
        over = {name: now - self._since[name] for name in sorted(self._told - busy)}
        self._since = {name: self._since.get(name, now) for name in busy}
        began = frozenset(name for name in busy - self._told if now - self._since[name] >= self._patience_s)
        self._told = (self._told & busy) | began
        return began, over
