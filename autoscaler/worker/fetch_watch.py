"""Whether the data client brings what is in the log.

Once its broker has come back, librdkafka (2.16.0) may take a topic for unknown for good: it then fetches nothing and says
nothing, while the worker keeps its lease and its partitions. What is in the log is asked with another client, of one partition
at a time.
"""

from collections.abc import Callable, Sequence

from autoscaler.worker.delivery import Run

LOOK_S = 10.0  # between two looks; what was there at one and has not come by the next does not come
_LONGEST_S = 600.0  # the same after replacements that changed nothing: an open transaction hides records as well


class FetchWatch:
    """Looks now and then, while the application asks in vain."""

    def __init__(self, look_s: float = LOOK_S) -> None:
        self._least_s = self._pause_s = look_s
        self._look_at = 0.0
        self._turn = 0
        self._behind: tuple[Run, int] | None = None  # a partition that had more, and where it was
        self._seen = -1  # how often the application had asked by then

    def is_deaf(self, runs: Sequence[Run], in_vain: int, now: float, end: Callable[[Run], int | None]) -> bool:
        """Say whether the client is to be replaced.

        Args:
            runs: Partitions that are fetched and of which the application has nothing in hand.
            in_vain: How many times in a row the application has asked and got nothing.
            now: Seconds on a clock that only grows.
            end: Returns where a partition's log ends, ``None`` if that is not known.
        """
        if not in_vain or not runs:
            self._behind, self._pause_s, self._look_at = None, self._least_s, now + self._least_s
            return False
        if now < self._look_at:
            return False
        self._look_at = now + self._pause_s
        behind, asked = self._behind, self._seen
        self._behind, self._seen = None, in_vain
        if behind is not None and behind[0] in runs and behind[0].position == behind[1] and in_vain > asked:
            self._pause_s = min(2 * self._pause_s, _LONGEST_S)
            return True
        self._turn += 1
        run = runs[self._turn % len(runs)]
        if (last := end(run)) is not None and last > run.position:
            self._behind = run, run.position
        return False
