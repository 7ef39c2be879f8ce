"""Reads the consumers' logs for when each stage of a handover was reached, and says how long each took."""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.bench.processed import percentile

# Runs the consumer given as argument, with the lines that this module reads.
CONSUMER = """
import logging, runpy, sys
logging.basicConfig(level=logging.INFO, format="%(created).6f %(message)s")
logging.getLogger("autoscaler.worker").setLevel(logging.DEBUG)
runpy.run_path(sys.argv[1], run_name="__main__")
"""
BY_OLD_OWNER = ("told to stop", "drained", "released")
BY_NEW_OWNER = ("free", "offset read", "fetching")
STAGES = (
    "plan until its old owner reads it",
    "rest of the old owner's batch",
    "commit and release",
    "release until the new owner may start",
    "reading the offset",
    "beginning to fetch",
    "first record fetched",
    "first record handed over and done",
)
_LINE = re.compile(r"^(\d+\.\d+) (?:plan (\d+): )?(.*?): (.*)$")


@dataclass(frozen=True, slots=True)
class Move:
    """One partition's way; all times in seconds since the Unix epoch."""

    partition: int
    epoch: int
    published: float
    appended: float
    done: float


class Log:
    """What all consumers wrote: (stage, epoch, partition) -> when; arrivals in order per partition."""

    def __init__(self, directory: Path) -> None:
        """Read every log."""
        self._at: dict[tuple[str, int, int], float] = {}
        self._arrived: dict[int, list[float]] = defaultdict(list)
        for file in directory.glob("worker-*.log"):
            for line in file.read_text(encoding="utf-8").splitlines():
                if (match := _LINE.match(line)) is not None:
                    self._take(float(match[1]), match[2], match[3], match[4].split())
        for times in self._arrived.values():
            times.sort()

    def _take(self, at: float, epoch: str | None, stage: str, names: Iterable[str]) -> None:
        numbers = [int(n) for name in names if (n := name.rpartition("-")[2]).isdecimal()]
        for partition in numbers:
            if stage == "arrived":
                self._arrived[partition].append(at)
            elif epoch is not None:
                key = (stage, int(epoch), partition)
                self._at[key] = min(at, self._at.get(key, at))  # who ends says the same again, later

    def pauses(self, epoch: int) -> list[float]:
        """Return for each partition that changed hands under a plan how long nobody had it, beyond the rest of the batch."""
        ended = {p: at for (stage, number, p), at in self._at.items() if (stage, number) == ("drained", epoch)}
        begun = {p: at for (stage, number, p), at in self._at.items() if (stage, number) == ("fetching", epoch)}
        return [begun[p] - ended[p] for p in begun.keys() & ended.keys()]

    def of(self, move: Move) -> list[float] | None:
        """Return the durations of ``STAGES``; ``None`` if a line is missing (a plan was overtaken by the next)."""
        said = [self._at.get((stage, move.epoch, move.partition)) for stage in (*BY_OLD_OWNER, *BY_NEW_OWNER)]
        if None in said:
            return None
        times = [move.published, *(t for t in said if t is not None)]
        arrivals = self._arrived[move.partition]
        index = bisect_left(arrivals, times[-1])
        if index == len(arrivals):
            return None
        times += [max(times[-1], arrivals[index]), move.done]
        took = [b - a for a, b in pairwise(times)]
        took[-2] = max(0.0, arrivals[index] - max(times[-3], move.appended))  # a record that was not there yet is no delay
        return took


def rows(log: Log, moves: list[Move], title: str) -> list[tuple[str, str]]:
    """Return p50 / p95 / max of each stage, and the stages of the slowest move."""
    found = [took for m in moves if (took := log.of(m)) is not None]
    if not found:
        return [(f"{title}: stages", "not found in the logs")]
    out = []
    for index, stage in enumerate(STAGES):
        values = [took[index] for took in found]
        p50, p95, top = (percentile(values, share) * 1e3 for share in (0.5, 0.95, 1.0))
        out.append((f"... {stage}", f"{p50:.0f} / {p95:.0f} / {top:.0f} ms"))
    slowest = max(found, key=sum)
    out.append(("... the slowest, stage by stage", " ".join(f"{x * 1e3:.0f}" for x in slowest) + " ms"))
    return out
