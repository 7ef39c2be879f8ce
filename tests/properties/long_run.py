"""``python -m tests.properties.long_run``: inputs of the planners as of ``test_packing_fuzz.py``, for minutes or so many.

Every algorithm but EXACT gets every input. Ends with 1 if one breaks a rule; input number ``i`` is the same in every run.
"""

import argparse
import multiprocessing
import os
import signal
import sys
import time
import traceback

from tests.properties.test_packing_fuzz import FAST, both, run

_CHUNK, _LONGEST_S = 10, 900.0


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.properties.long_run")
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="the first input's number")
    parser.add_argument("--minutes", type=float, help="for so long; as many inputs as that gives")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    end, over = given.first + (1 << 60 if given.minutes else given.inputs), Told()
    limit = time.monotonic() + 60 * (given.minutes or 1e9)
    done, failed, at = 0, 0, given.first
    with multiprocessing.Pool(given.processes) as pool:
        while at < end and not over.told and time.monotonic() < limit:
            chunks = [range(x, min(end, x + _CHUNK)) for x in range(at, min(end, at + _CHUNK * given.processes), _CHUNK)]
            for found in filter(None, pool.map_async(_one, chunks, 1).get(_LONGEST_S)):  # one that runs on without end is a fault
                failed += 1
                print(found)
            done += sum(map(len, chunks))
            at = chunks[-1].stop
    print(f"{done:,} inputs from {given.first} on, each to {len(FAST)} algorithms and by rate and backlog: {failed} broke a rule")
    return int(failed > 0)


class Told:
    """Whether it was told to end: what is being done is done, and counts."""

    def __init__(self) -> None:
        self.told = False
        signal.signal(signal.SIGINT, self._tell)

    def _tell(self, *_: object) -> None:
        self.told = True


def _one(numbers: range) -> str | None:
    try:
        for algorithm in FAST:
            run(algorithm, numbers)
        both(numbers)
    except Exception:  # noqa: BLE001  whatever it is, it is what is looked for
        return traceback.format_exc()
    return None


if __name__ == "__main__":
    sys.exit(main())
