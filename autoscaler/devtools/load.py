"""Produces the load of a scenario on a real topic and keeps its own count of what was acknowledged.

``python -m autoscaler.devtools.load --bootstrap HOST:PORT --topic NAME`` runs until the duration is over or it is told to
end (SIGTERM, SIGINT). Its log is written by the producer alone, so that what the autoscaler measures can be held against it.
"""

import argparse
import json
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from autoscaler.devtools import scenario
from autoscaler.errors import AutoscalerError, PermanentError, SettingsError

_TICK_S = 0.05
_GOLDEN = 0.618033988749895  # its multiples fill an interval evenly, however many there are
_FLUSH_S = 60.0
_BLOCK = 1 << 20
_LOG = "produced.jsonl"


@dataclass(slots=True)
class Tally:
    """What was acknowledged, per partition: records, payload bytes, offset of the last."""

    records: dict[int, int] = field(default_factory=dict)
    payload: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    failed: int = 0
    error: str = ""

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        """Count one record; called by the client for each."""
        if error is not None:
            self.failed += 1
            self.error = str(error)
            return
        partition, offset = message.partition(), message.offset()
        if partition is None or offset is None:  # never of an acknowledged record; the client's types allow it
            return
        self.records[partition] = self.records.get(partition, 0) + 1
        self.payload[partition] = self.payload.get(partition, 0) + len(message)
        self.last[partition] = max(offset, self.last.get(partition, -1))


@dataclass(slots=True, kw_only=True)
class Log:
    """Append-only JSON lines: one per second with what that second acknowledged, and a summary at the end."""

    file: TextIO | None
    _records: dict[int, int] = field(default_factory=dict)
    _payload: dict[int, int] = field(default_factory=dict)

    def second(self, tally: Tally) -> None:
        """Write what was acknowledged since the last call: ``{"t", "partitions": {number: [records, bytes, last offset]}}``."""
        grown = {
            str(p): [n - self._records.get(p, 0), tally.payload[p] - self._payload.get(p, 0), tally.last[p]]
            for p, n in sorted(tally.records.items())
            if n > self._records.get(p, 0)
        }
        self._records, self._payload = dict(tally.records), dict(tally.payload)
        self._write({"t": time.time(), "partitions": grown})

    def summary(self, tally: Tally, *, name: str, began: float, hot: Sequence[int]) -> dict[str, object]:
        """Write and return the totals."""
        totals = {str(p): [n, tally.payload[p], tally.last[p]] for p, n in sorted(tally.records.items())}
        said: dict[str, object] = {
            "summary": name,
            "began": began,
            "ended": time.time(),
            "hot": list(hot),
            "records": sum(tally.records.values()),
            "bytes": sum(tally.payload.values()),
            "failed": tally.failed,
            "partitions": totals,
        }
        self._write(said)
        return said

    def _write(self, line: dict[str, object]) -> None:
        if self.file is not None:
            self.file.write(json.dumps(line) + "\n")
            self.file.flush()


class Payloads:
    """Values that no codec can shrink and that all differ, cheap to make: a slice of a random block behind a number."""

    def __init__(self, size: int, seed: int) -> None:
        """Make the block."""
        self._size = size
        self._dice = random.Random(seed)
        self._block = self._dice.randbytes(_BLOCK + size)
        self._made = 0

    def next(self) -> bytes:
        """Return the next value."""
        self._made += 1
        head = self._made.to_bytes(8, "big")
        start = self._dice.randrange(_BLOCK)
        return head + self._block[start : start + self._size - len(head)]


def produce(  # noqa: PLR0913  everything a run depends on, by name
    *,
    producer: Producer,
    topic: str,
    plan: scenario.Scenario,
    duration_s: float,
    payloads: Payloads,
    record_bytes: int,
    tally: Tally,
    log: Log,
    stop: threading.Event,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Produce what ``plan`` says until ``duration_s`` is over or ``stop`` is set, then wait for what is under way."""
    # Spread over the first record, or partitions of one rate would all send theirs at the same moment, again and again.
    credit = [record_bytes * (p * _GOLDEN % 1.0) for p in range(plan.partitions)]
    began = logged = before = clock()
    ends = began + duration_s  # compared with itself: ``ends - began`` may be rounded to less than ``duration_s``
    while not stop.is_set() and before < ends:
        stop.wait(_TICK_S)
        now = min(clock(), ends)
        for partition, rate in enumerate(plan.rates_at((before + now) / 2 - began)):
            credit[partition] += rate * (now - before)
            while credit[partition] >= record_bytes and _send(producer, topic, partition, payloads, tally):
                credit[partition] -= record_bytes
        before = now
        producer.poll(0)
        if now - logged >= 1:
            logged = now
            log.second(tally)
    if left := producer.flush(_FLUSH_S):
        tally.failed += left
        tally.error = tally.error or f"{left} records were not acknowledged within {_FLUSH_S:.0f} s"
    log.second(tally)


def _send(producer: Producer, topic: str, partition: int, payloads: Payloads, tally: Tally) -> bool:
    stamp = int(time.time() * 1000)
    try:
        producer.produce(topic, payloads.next(), partition=partition, timestamp=stamp, on_delivery=tally.delivered)
    except BufferError:  # the broker is away or slow: what is due stays due
        producer.poll(0)
        return False
    return True


def count_partitions(producer: Producer, topic: str) -> int:
    """Return how many partitions the topic has.

    Raises:
        PermanentError: The broker does not answer, or has no such topic.
    """
    try:
        found = producer.list_topics(topic, timeout=20).topics[topic]
    except KafkaException as e:
        raise PermanentError(f"the broker does not answer ({e}): check --bootstrap") from e
    if found.error is not None or not found.partitions:
        raise PermanentError(f"topic {topic}: {found.error}; make it first")
    return len(found.partitions)


def run(args: argparse.Namespace, stop: threading.Event) -> int:
    """Produce as the command line says; 0 when everything produced was acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": args.bootstrap,
            "enable.idempotence": True,  # implies acks=all; keeps order and lets nothing be written twice
            "compression.type": args.codec,
            "linger.ms": 20,
            "delivery.timeout.ms": 120_000,  # an outage of the broker is waited for
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 3,
            **dict(pair.split("=", 1) for pair in args.property),
        }
    )
    partitions = count_partitions(producer, args.topic)
    plan = scenario.choose(args.scenario, partitions=partitions, duration_s=args.duration, seed=args.seed, scale=args.scale)
    if args.log:
        args.log.mkdir(parents=True, exist_ok=True)
    tally, began = Tally(), time.time()
    with (args.log / _LOG).open("a", encoding="utf-8") if args.log else nullcontext() as file:
        log = Log(file=file)
        produce(
            producer=producer,
            topic=args.topic,
            plan=plan,
            duration_s=args.duration,
            payloads=Payloads(args.record_bytes, args.seed),
            record_bytes=args.record_bytes,
            tally=tally,
            log=log,
            stop=stop,
        )
        summary = log.summary(tally, name=plan.name, began=began, hot=plan.hot)
    sys.stdout.write(json.dumps({k: v for k, v in summary.items() if k != "partitions"}) + "\n")
    if tally.failed:
        sys.stderr.write(f"{tally.failed} records were not acknowledged: {tally.error}\n")
    return 1 if tally.failed else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line and run until done or told to end."""
    parser = argparse.ArgumentParser(prog="python -m autoscaler.devtools.load", description="Produce load on a topic.")
    parser.add_argument("--bootstrap", required=True, help="brokers, host:port")
    parser.add_argument("--topic", required=True, help="topic, which must exist")
    parser.add_argument("--scenario", default="demo", help=f"{', '.join(scenario.NAMED)}, or a JSON file (default demo)")
    parser.add_argument("--duration", type=float, default=240.0, help="seconds (default 240)")
    parser.add_argument("--seed", type=int, default=1, help="of the scenario and the payloads (default 1)")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies every rate (default 1)")
    parser.add_argument("--record-bytes", type=int, default=1000, help="payload of a record, at least 16 (default 1000)")
    parser.add_argument("--codec", default="none", help="compression: none, lz4, zstd, snappy, gzip (default none)")
    parser.add_argument("--property", action="append", default=[], metavar="KEY=VALUE", help="a setting of the producer")
    parser.add_argument("--log", type=Path, help=f"directory for {_LOG}: what was acknowledged, second by second")
    args = parser.parse_args(argv)
    if args.record_bytes < 16 or args.duration <= 0 or args.scale < 0:  # noqa: PLR2004  said in the message
        parser.error("--record-bytes must be at least 16, --duration above 0 and --scale not below 0")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        return run(args, stop)
    except AutoscalerError as e:
        sys.stderr.write("\n".join(e.problems if isinstance(e, SettingsError) else [str(e)]) + "\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
