"""``python -m tests.handover.soak``: a million schedules, or one of them made as short as it can be.

Prints how far it is, how many schedules reached each hazard, and of every one that breaks a promise the shortest trace and the
expression that makes it in a test. Ends with 1 if there was one.
"""

import argparse
import math
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator

from tests.handover.simulation.schedule import draw
from tests.handover.simulation.shrink import as_code, broken_by, shrink, trace_of
from tests.handover.simulation.tally import Tally

_CHUNK = 50
_SAY_EVERY_S = 30.0
_SHRUNK = 3  # of those that break a promise; more of them say the same, mostly


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.handover.soak")
    parser.add_argument("--schedules", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--minutes", type=float, help="for so long; as many schedules as that gives")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, help="run this one and shrink it if it breaks a promise")
    given = parser.parse_args(arguments)
    if given.seed is not None:
        return 1 if _look_at(given.seed) else 0
    told: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: told.append(number))  # what is done by then is judged
    schedules = given.schedules if given.minutes is None else 1 << 30
    limit = math.inf if given.minutes is None else time.monotonic() + 60 * given.minutes
    return _soak(given.first, given.first + schedules, given.processes, lambda: bool(told) or time.monotonic() > limit)


def _soak(first: int, end: int, processes: int, over: Callable[[], bool]) -> int:
    tally, began, said = Tally(), time.monotonic(), time.monotonic()
    starts = range(first, end, _CHUNK * processes)
    rounds = ([range(x, min(end, x + _CHUNK)) for x in range(at, min(end, at + _CHUNK * processes), _CHUNK)] for at in starts)
    with multiprocessing.Pool(processes) as pool:
        for chunks in rounds:
            if over():
                break
            done = Tally()
            for one in pool.map(_run, chunks, 1):
                done.add(one)
            tally.add(done)
            for seed, promise in done.broken.items():
                print(f"seed {seed}: {promise}")
            if time.monotonic() - said >= _SAY_EVERY_S:
                said = time.monotonic()
                rate = tally.histories / (said - began)
                print(f"{tally.histories:,} schedules, {rate:.0f} a second")
    print(tally.report())
    for seed in _some(tally):
        _look_at(seed)
    return 1 if tally.broken else 0


def _run(seeds: range) -> Tally:
    return Tally().run(seeds)


def _some(tally: Tally) -> Iterator[int]:
    return iter(sorted(tally.broken)[:_SHRUNK])


def _look_at(seed: int) -> bool:
    """Print a seed's shortest trace, and say whether it breaks a promise."""
    schedule = draw(seed)
    if broken_by(schedule) is None:
        print(f"seed {seed} breaks no promise:", *trace_of(schedule), sep="\n")
        return False
    shortest = shrink(schedule)
    print(f"seed {seed}, {len(schedule.faults)} faults, shrunk to {len(shortest.faults)}:", *trace_of(shortest), sep="\n")
    print(as_code(shortest))
    return True


if __name__ == "__main__":
    sys.exit(main())
