"""Reads the consumers' logs for when each stage of a handover was reached, and says how long each took."""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
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

    def begun(self, partition: int, after: float) -> float | None:
        """Return when a partition was first fetched by a new owner after that time."""
        times = [at for (stage, _, p), at in self._at.items() if (stage, p) == (BY_NEW_OWNER[-1], partition) and at > after]
        return min(times, default=None)

    def of(self, epoch: int, published: float) -> dict[int, list[float]]:
        """Return, for each partition that changed hands under a plan, how long it took until it was being fetched, by stage.

        One of which a line is missing is left out: its plan was overtaken by the next.
        """
        said = {p: [published] for (stage, number, p) in self._at if (stage, number) == (BY_OLD_OWNER[0], epoch)}
        for stage in (*BY_OLD_OWNER, *BY_NEW_OWNER):
            for partition, times in said.items():
                if (at := self._at.get((stage, epoch, partition))) is not None:
                    times.append(at)
        whole = 1 + len(BY_OLD_OWNER) + len(BY_NEW_OWNER)
        return {p: [b - a for a, b in pairwise(times)] for p, times in said.items() if len(times) == whole}

    def arrival(self, move: Move) -> tuple[float, float] | None:
        """Return how long the first record took to come once it could, and to be done then; ``None`` if a line is missing."""
        began = self._at.get((BY_NEW_OWNER[-1], move.epoch, move.partition))
        arrivals = self._arrived[move.partition]
        if began is None or (index := bisect_left(arrivals, began)) == len(arrivals):
            return None
        came = arrivals[index]
        return max(0.0, came - max(began, move.appended)), move.done - max(began, came)


def rows(log: Log, plans: Mapping[int, float], moves: list[Move], title: str) -> list[tuple[str, str]]:
    """Return p50 / p95 / max of each stage of plans published then, and the stages of the slowest partition."""
    found = [took for epoch, at in plans.items() for took in log.of(epoch, at).values()]
    if not found:
        return [(f"{title}: stages", "not found in the logs")]
    first = [took for m in moves if (took := log.arrival(m)) is not None]
    of_stage = [[took[n] for took in found] for n in range(len(STAGES) - 2)] + [[took[n] for took in first] for n in range(2)]
    out = []
    for stage, values in zip(STAGES, of_stage, strict=True):
        p50, p95, top = (percentile(values, share) * 1e3 for share in (0.5, 0.95, 1.0))
        out.append((f"... {stage} (n {len(values)})", f"{p50:.0f} / {p95:.0f} / {top:.0f} ms"))
    slowest = max(found, key=sum)
    out.append(("... the slowest until it was fetched, stage by stage", " ".join(f"{x * 1e3:.0f}" for x in slowest) + " ms"))
    return out
