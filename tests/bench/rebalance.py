"""A consumer joins, leaves, and is killed: this project's handover beside Kafka's own protocols, in one run on one broker.

``python -m tests.bench.rebalance`` takes the protocols one after the other, with the same topic, load, work per record and number
of consumers, as real processes. What each record waited for is read from the consumers' own logs: from its partition's last
record before it (or its own append, if later) until it was done. Kafka's protocols are tuned: heartbeats every .5 s, sessions of
6 s; the lease here is 6 s too.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from autoscaler.adapters.workers.process_registry import read_all
from autoscaler.devtools.broker import Broker
from autoscaler.model import TopicPartition
from tests.bench.handover import FAST, PRODUCER, intent, joined, make_topic, managed_group, milliseconds, settle
from tests.bench.processed import Processed, read, waits
from tests.bench.stages import Log
from tests.bench.subscribed import PROTOCOLS, Subscribed

RECORD_BYTES = 4000
UTILISATION = 0.8  # of the consumers that are there when none has joined
LEASE_S = 6.0
CYCLE_S = 1.0
MANAGED, SILENT = "managed", "managed, death not seen by the platform"
_SETTLES_S = 15.0  # between two events: the slowest protocol has settled long before
_CALM_S = 4.0  # before each event


class Fleet(Protocol):
    """The consumers of one group."""

    def begin(self, count: int) -> None:
        """Start so many and wait until each has its share."""

    def join(self) -> None:
        """Start one more, which takes its share."""

    def leave(self) -> None:
        """End the one that joined last, in order."""

    def kill(self) -> str:
        """Kill one, and return when its partitions have been given to others; say by what name it wrote its log."""

    def close(self) -> None:
        """End all."""


class Managed:
    """Consumers whose partitions a plan assigns; this is the controller."""

    def __init__(self, bootstrap: str, topic: str, directory: Path, *, partitions: int, capacity: float, seen: bool) -> None:
        """Remember what to run; ``seen``: the platform tells who has ended."""
        self._pool, self._control = managed_group(bootstrap, topic, directory, capacity, lease_s=LEASE_S)
        self._directory = directory / "workers"
        self._tps = [TopicPartition(topic=topic, partition=p) for p in range(partitions)]
        self._owner: dict[TopicPartition, int] = {}
        self._slots: frozenset[int] = frozenset()
        self._seen = seen

    def begin(self, count: int) -> None:
        """Start so many and give each its share."""
        self._pool.observe()
        self._pool.apply(frozenset(range(count)), expected=frozenset(), releasable=frozenset())
        self._await(frozenset(range(count)))
        self._owner = {tp: n % count for n, tp in enumerate(self._tps)}
        self._publish(frozenset(range(count)))

    def join(self) -> None:
        """Start one more, and move partitions to it when it is there."""
        new = max(self._slots) + 1
        slots = self._slots | {new}
        self._pool.apply(slots, expected=self._slots, releasable=frozenset())
        self._await(slots)
        self._share(slots)
        self._publish(slots)

    def leave(self) -> None:
        """Take everything from the last one, then end it."""
        slots = self._slots - {max(self._slots)}
        ending = self._slots - slots
        self._share(slots)
        self._publish(slots)
        self._pool.apply(slots, expected=self._slots | ending, releasable=ending)

    def kill(self) -> str:
        """Kill the last one; the loop looks every second, as the job does."""
        victim = max(self._slots)
        worker = next(w for w in self._control.observe().workers if w.slot == victim)
        pid = next(r.pid for r in read_all(self._directory) if r.slot == victim)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        slots = self._slots - {victim}
        while True:
            pool = self._pool.observe()
            if self._seen:
                self._control.ended(pool.ended)
            if all(w.slot != victim for w in self._control.observe().workers):
                break
            time.sleep(CYCLE_S)
        self._share(slots)
        self._publish(slots)
        return worker.uuid

    def close(self) -> None:
        """End all."""
        self._pool.stop_all(20)
        self._control.close()

    def _share(self, slots: frozenset[int]) -> None:
        """Give everybody an equal number, moving as few as that takes."""
        held = {slot: [tp for tp in self._tps if self._owner[tp] == slot] for slot in {*slots, *self._owner.values()}}
        most = -(-len(self._tps) // len(slots))
        spare = [tp for slot, tps in held.items() for tp in tps[most if slot in slots else 0 :]]
        for slot in sorted(slots):
            for _ in range(most - min(most, len(held[slot]))):
                if spare:
                    self._owner[spare.pop()] = slot

    def _publish(self, slots: frozenset[int]) -> None:
        self._slots = slots
        self._control.publish(intent(self._owner, slots))
        settle(self._control)

    def _await(self, slots: frozenset[int]) -> None:
        joined(self._control, slots)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that was done to a group; seconds since the Unix epoch. ``victim`` is the name in the log of who was killed."""

    what: str
    at: float
    victim: str | None = None


def measure(protocol: str, bootstrap: str, directory: Path, args: argparse.Namespace) -> list[tuple[str, str]]:
    """Return (what, figure) rows of one protocol."""
    topic = f"bench-{directory.name}"
    make_topic(bootstrap, topic, args.partitions)
    capacity = args.bytes_per_s / args.workers / UTILISATION
    events: list[Event] = []
    with ExitStack() as stack:
        if protocol in PROTOCOLS:
            fleet: Fleet = Subscribed(bootstrap, topic, directory, protocol=PROTOCOLS[protocol], capacity=capacity)
        else:
            seen = protocol == MANAGED
            fleet = Managed(bootstrap, topic, directory, partitions=args.partitions, capacity=capacity, seen=seen)
        stack.callback(fleet.close)
        fleet.begin(args.workers)
        stack.enter_context(_load(bootstrap, topic, args))
        time.sleep(20 + _SETTLES_S)  # the load rises slowly
        for _ in range(args.rounds if protocol != SILENT else 0):
            for what, act in (("join", fleet.join), ("leave", fleet.leave)):
                events.append(Event(what, time.time()))
                act()
                time.sleep(_SETTLES_S)
        for _ in range(args.kills):
            fleet.join()
            time.sleep(_SETTLES_S)
            at = time.time()
            events.append(Event("kill", at, fleet.kill()))
            time.sleep(_SETTLES_S)
    log = None if protocol in PROTOCOLS else Log(directory / "workers")
    return [(f"{protocol}: {what}", figure) for what, figure in _rows(read(directory / "processed"), events, log)]


@contextmanager
def _load(bootstrap: str, topic: str, args: argparse.Namespace) -> Iterator[None]:
    rate = args.bytes_per_s / RECORD_BYTES
    command = [sys.executable, "-c", PRODUCER, bootstrap, topic, str(args.partitions), str(rate), str(RECORD_BYTES)]
    producer = subprocess.Popen(command)
    try:
        yield
    finally:
        producer.terminate()
        producer.wait()


def _rows(by: dict[int, list[Processed]], events: list[Event], log: Log | None) -> Iterator[tuple[str, str]]:
    for what in ("join", "leave"):
        moved, unmoved, calm = [], [], []
        of_this = [e for e in events if e.what == what]
        for event in of_this:
            for records in by.values():
                near = [(p, r, w) for p, r, w in waits(records) if event.at - _CALM_S <= r.done < event.at + _SETTLES_S]
                took = [w for p, r, w in near if p.worker != r.worker and r.done >= event.at]
                moved += took
                unmoved += [] if took else [max(w for _, r, w in near if r.done >= event.at)]
                calm += [max((w for _, r, w in near if r.done < event.at), default=0.0)]
        if of_this:
            yield f"one consumer {what}s: wait of a moved partition's record (n {len(moved)})", milliseconds(moved)
            yield "... longest wait in each unmoved partition", milliseconds(unmoved)
            yield f"... longest wait in each partition in the {_CALM_S:.0f} s before", milliseconds(calm)
    kills = [e for e in events if e.what == "kill"]
    if kills:
        gone = [_without_owner(by, e) for e in kills]
        yield "killed: without a record, p50 / p95 / max of all partitions", milliseconds([x for each in gone for x in each])
        if (
            log is not None
        ):  # what waits is worked off one after the other: the last partition's first record waits for the others'
            owned = [at - e.at for e in kills for p in _held(by, e) if (at := log.begun(p, e.at)) is not None]
            yield "... until the new owner fetches", milliseconds(owned)
        yield "... records processed twice, each kill", " ".join(str(_twice(by, e)) for e in kills)


def _held(by: dict[int, list[Processed]], event: Event) -> list[int]:
    """Return the partitions that the victim held."""
    before = {p: [r.worker for r in records if r.done < event.at] for p, records in by.items()}
    return [p for p, workers in before.items() if workers and workers[-1] == event.victim]


def _without_owner(by: dict[int, list[Processed]], event: Event) -> list[float]:
    """Return from the kill until somebody else's first record, for each partition that the victim held."""
    out = []
    for partition in _held(by, event):
        after = next((r for r in by[partition] if r.done >= event.at and r.worker != event.victim), None)
        if after is not None:
            out.append(after.done - max(event.at, after.appended))
    return out


def _twice(by: dict[int, list[Processed]], event: Event) -> int:
    """Return how many records the victim processed and somebody else did again."""
    count = 0
    for records in by.values():
        mine = {r.offset for r in records if r.worker == event.victim}
        count += sum(r.offset in mine for r in records if r.worker != event.victim)
    return count


def main() -> None:
    """Measure and print."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # end the consumers too
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=200, help="of 2,000 a fetch names 500, and two cores are too few")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--bytes-per-s", type=float, default=4_000_000)
    parser.add_argument("--protocols", nargs="+", choices=(MANAGED, SILENT, *PROTOCOLS), default=[MANAGED, SILENT, *PROTOCOLS])
    args = parser.parse_args()
    eager = {"group.consumer.min.heartbeat.interval.ms": "500", "group.consumer.heartbeat.interval.ms": "500"}
    short = {"group.consumer.min.session.timeout.ms": "6000", "group.consumer.session.timeout.ms": "6000"}
    with ExitStack() as stack:
        temporary = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(Broker(temporary / "broker", heap_mb=512, settings={**eager, **short}, java_options=FAST))
        for number, protocol in enumerate(args.protocols):
            directory = temporary / str(number)
            directory.mkdir()
            for what, figure in measure(protocol, broker.bootstrap, directory, args):
                sys.stdout.write(f"{what}: {figure}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
