"""Workers that abort all the time, on brokers that are stopped, killed and cut off: no output is seen twice, none is missing.

``python -m tests.kafka.aborts --minutes 20 --seed 1 --aborts 10000``. A worker here is what ``autoscaler.worker`` does with its
transactions: it writes the record that the committed offset names, and goes on under another id when an incarnation is over.
Three transactions in ten have an output that is refused. A seed gives the same faults in the same order. Ctrl-C ends the faults,
and what has been written by then is judged.
"""

import argparse
import random
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from threading import Event, Thread

from confluent_kafka import Consumer, KafkaException, TopicPartition

from autoscaler import jars
from autoscaler.errors import PermanentError
from autoscaler.worker.settings import Connection
from autoscaler.worker.transactions import Outcome, Output, Transactions, fence
from tests.conftest import create_topic
from tests.kafka.proxy import ProxiedCluster
from tests.until import let_pass, until

WORKERS, LEASE_S, CALL_S = 12, 10.0, 5.0
SETTINGS = {"broker.session.timeout.ms": "20000"}  # a broker that stood still is not fenced when it comes back
GROUP, FROM, TO = "aborts", "from", "to"
REFUSED = b"x" * 2_000_000
ENOUGH_S = 300.0  # for what is under way when the faults are over


class Worker:
    """One worker, whose partition is its number; counts what it has given up."""

    def __init__(self, number: int, connection: Connection, seed: int, ended: Event) -> None:
        self.number, self.aborts, self.incarnations = number, 0, 0
        self._connection, self._dice, self._ended = connection, random.Random(f"{seed} {number}"), ended
        self._offsets = Consumer({**connection, "group.id": GROUP, "log_level": 0})

    def run(self) -> None:
        """Write record after record until told to end."""
        while not self._ended.is_set():
            self.incarnations += 1
            with suppress(KafkaException):
                self._incarnation(f"{self.number}-{self.incarnations}")

    def _incarnation(self, uuid: str) -> None:
        own = Transactions(self._connection, GROUP, uuid, timeout_s=LEASE_S, metadata=self._offsets.consumer_group_metadata)
        own.open(CALL_S)
        at = max(0, self.committed())
        while not self._ended.is_set():
            outputs = [Output(topic=TO, value=str(at), partition=self.number)]
            if self._dice.random() < 0.3:
                outputs.append(Output(topic=TO, value=REFUSED, partition=self.number))
            try:
                outcome = own.write(outputs, [TopicPartition(FROM, self.number, at + 1)], lambda: True)
            except PermanentError:
                self.aborts += 1
                continue
            if outcome is Outcome.COMMITTED:
                at += 1
            else:
                self.aborts += own.failure is not None
            if outcome is Outcome.OVER or own.over:
                break
        own.close()
        while True:  # nothing is read before the id has been taken
            with suppress(KafkaException):
                fence(self._connection, GROUP, uuid, CALL_S)
                return

    def committed(self) -> int:
        """Return the next record of this worker.

        Raises:
            KafkaException: It is not known now.
        """
        (found,) = self._offsets.committed([TopicPartition(FROM, self.number)], CALL_S)
        if found.error is not None:
            raise KafkaException(found.error)
        return int(found.offset)


class Faults:
    """What is done to the brokers, one thing after the other."""

    def __init__(self, cluster: ProxiedCluster, seed: int) -> None:
        self.cluster, self.dice, self.done = cluster, random.Random(seed), Counter[str]()

    def one(self) -> None:
        """Make one fault and undo it."""
        kinds = {"stopped": self._stop, "killed": self._kill, "cut off": self._cut}
        kind = self.dice.choices(list(kinds), (4, 1, 4))[0]
        kinds[kind](self.dice.randrange(len(self.cluster.nodes)))
        self.done[kind] += 1
        let_pass(self.dice.uniform(0.5, 3.0))

    def _stop(self, n: int) -> None:
        self.cluster.nodes[n].signal(signal.SIGSTOP)
        let_pass(self.dice.uniform(0.2, 1.5 * LEASE_S))
        self.cluster.nodes[n].signal(signal.SIGCONT)

    def _kill(self, n: int) -> None:
        self.cluster.nodes[n].kill()
        let_pass(self.dice.uniform(0.2, LEASE_S))
        self.cluster.start(ENOUGH_S)

    def _cut(self, n: int) -> None:
        proxy = self.cluster.proxies[self.cluster.nodes[n].number]
        proxy.cut()
        let_pass(self.dice.uniform(0.1, 5.0))
        proxy.mend()


def judged(cluster: ProxiedCluster, due: dict[int, int]) -> tuple[list[str], int]:
    """Return what is wrong with what readers of committed records see, and how many partitions stall."""
    wrong, stalls = [], 0
    for number, count in due.items():
        reader = Consumer({
            **cluster.connection(), "group.id": "judge", "isolation.level": "read_committed", "enable.partition.eof": True,
            "enable.auto.commit": False, "log_level": 0,
        })  # fmt: skip
        reader.assign([TopicPartition(TO, number, 0)])
        seen = []
        while (message := reader.poll(60)) is not None and message.error() is None:
            seen.append(int(message.value() or b"-1"))
        (position,) = reader.position([TopicPartition(TO, number)])
        _, end = reader.get_watermark_offsets(TopicPartition(TO, number), 30)
        reader.close()
        stalled = message is None or position.offset < _end(cluster, number)
        stalls += stalled
        if seen != list(range(len(seen))) or (len(seen) != count and not stalled):
            twice = [v for v, n in Counter(seen).items() if n > 1]
            wrong.append(f"partition {number}: {len(seen)} of {count}, twice {twice[:5]}, ends at {end}")
    return wrong, stalls


def _end(cluster: ProxiedCluster, number: int) -> int:
    reader = Consumer({**cluster.connection(), "group.id": "ends", "isolation.level": "read_uncommitted", "log_level": 0})
    found = reader.get_watermark_offsets(TopicPartition(TO, number), 30)
    reader.close()
    return int(found[1]) if found else -1


def main() -> int:
    """Run it and say what was seen; 1 if an output was repeated or lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.aborts", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--aborts", type=int, default=10_000, help="enough, whatever time is left")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--kafka", default=jars.KAFKA.version, help="version of the brokers")
    given = parser.parse_args()
    print(f"seed {given.seed}, brokers {given.kafka}", flush=True)
    told, ended = Event(), Event()
    signal.signal(signal.SIGINT, lambda *_: told.set())
    with ProxiedCluster(bundle=jars.kafka(given.kafka), settings=SETTINGS) as cluster:
        for topic in (FROM, TO):
            create_topic(cluster, topic, WORKERS)
        workers = [Worker(n, cluster.proxied(), given.seed, ended) for n in range(WORKERS)]
        threads = [Thread(target=w.run, daemon=True) for w in workers]
        for thread in threads:
            thread.start()
        faults, until_s = Faults(cluster, given.seed), time.monotonic() + 60 * given.minutes
        while time.monotonic() < until_s and not told.is_set() and sum(w.aborts for w in workers) < given.aborts:
            faults.one()
        ended.set()
        until("the workers have ended", lambda: not any(t.is_alive() for t in threads), within_s=ENOUGH_S)
        due = {w.number: max(0, until("it is known", w.committed, passing=KafkaException)) for w in workers}
        wrong, stalls = judged(cluster, due)
    done = ", ".join(f"{n} {kind}" for kind, n in sorted(faults.done.items()))
    aborts, incarnations = sum(w.aborts for w in workers), sum(w.incarnations for w in workers)
    print(f"{aborts} aborts, {incarnations} incarnations, {sum(due.values())} records")
    print(f"faults: {done}; {stalls} of {WORKERS} partitions stall")
    print("\n".join(wrong) or "none twice, none missing")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
