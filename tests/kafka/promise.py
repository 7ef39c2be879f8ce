"""``python -m tests.kafka.promise``: which brokers keep what exactly once promises, as a table for docs/tasks/exactly-once.md.

Each version is fetched as the demo's is. Every fault is made twice: to workers as they are, and to one producer that goes on
whatever has happened, which shows what the fault is. Ends with 1 if a worker's output is repeated or lost anywhere.
"""

import sys
import tempfile
from pathlib import Path

from autoscaler import jars
from tests.kafka.late import LATE, SKIPPED, WANTED, Seen, tried_late, tried_skipped
from tests.kafka.proxy import Proxied

VERSIONS = ("4.1.1", "4.2.0", "4.2.1", "4.3.1", "4.4.0")


def table(versions: tuple[str, ...]) -> tuple[list[str], bool]:
    """Return the lines, and whether no output of a worker was repeated or lost."""
    lines, well = [f"| broker | {' | '.join((*LATE, SKIPPED))} |", "|---" * (2 + len(LATE)) + "|"], True
    for version in versions:
        found = tried(version, renews=True)
        without = tried(version, renews=False)
        cells = [f"{verdict(w, found[w])} ({verdict(w, without[w])})" for w in found]
        lines.append(f"| {version} | {' | '.join(cells)} |")
        print(lines[-1], {w: (str(found[w]), str(without[w])) for w in found}, file=sys.stderr, flush=True)
        well = well and all(s.stalls or s == WANTED[w] for w, s in found.items())
    return lines, well


def tried(version: str, *, renews: bool) -> dict[str, Seen]:
    """Make all of them happen on a broker of this version, and return what is seen."""
    bundle = jars.kafka(version)
    with Proxied(bundle=bundle) as broker:
        found = {what: tried_late(broker, what, renews=renews) for what in LATE}
    with tempfile.TemporaryDirectory() as folder:
        return {**found, SKIPPED: tried_skipped(bundle, Path(folder), renews=renews)}


def verdict(what: str, seen: Seen) -> str:
    """Return in a word what became of the records."""
    due, values = WANTED[what].values, seen.values
    if seen.stalls:
        return "readers stall"
    if len(values) > len(set(values)) or seen.offset < WANTED[what].offset:
        return "repeated"
    return "once" if values == due else "lost"


if __name__ == "__main__":
    rows, fine = table(tuple(sys.argv[1:]) or VERSIONS)
    print("\n".join(rows))
    sys.exit(not fine)
