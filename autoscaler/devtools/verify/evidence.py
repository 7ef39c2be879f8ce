"""What a run left behind, read into compact values: the topic's records, the workers' logs, and what ``rows`` reads.

Arrays with one entry per offset keep a run of a million records below a hundred megabytes.
"""

import json
import time
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from autoscaler.devtools.verify import rows
from autoscaler.devtools.verify.rows import ActionRow, CycleLine, CycleRow, DecisionRow, HandoverRow
from autoscaler.devtools.verify.run import EvidenceError, Run

_READ_TIMEOUT_S = 10.0
_BATCH = 10_000


@dataclass(slots=True)
class Tenure:
    """What one worker processed of one partition under one granting epoch."""

    worker: str
    partition: int
    epoch: int
    first_ns: int
    last_ns: int
    first_offset: int
    last_offset: int
    records: int = 1
    descents: int = 0  # how often an offset was not above the one before it
    before_last_ns: int = 0  # when all but its last record had been processed; 0 where it has one

    def extend(self, offset: int, at_ns: int) -> None:
        """Add the next record of the worker's log."""
        self.records += 1
        self.descents += offset <= self.last_offset
        self.last_offset = offset
        self.first_ns = min(self.first_ns, at_ns)
        self.before_last_ns = max(self.before_last_ns, min(self.last_ns, at_ns))
        self.last_ns = max(self.last_ns, at_ns)


@dataclass(slots=True)
class Partition:
    """The records of one partition, indexed by offset from ``start``; 0 means that there is none."""

    start: int
    end: int
    appended_ms: "array[int]" = field(default_factory=lambda: array("q"))
    processed_ns: "array[int]" = field(default_factory=lambda: array("q"))  # of the first time
    times: bytearray = field(default_factory=bytearray)
    values: set[int] = field(default_factory=set)  # hashes of all values: the load's records are distinct
    bytes_by_second: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make room for every offset."""
        size = self.end - self.start
        self.appended_ms = array("q", bytes(8 * size))
        self.processed_ns = array("q", bytes(8 * size))
        self.times = bytearray(size)


@dataclass(slots=True, kw_only=True)
class Evidence:
    """Everything that the rules look at."""

    run: Run
    partitions: dict[int, Partition] = field(default_factory=dict)
    tenures: list[Tenure] = field(default_factory=list)
    acknowledged: dict[int, int] = field(default_factory=dict)  # records by partition, as the producer counted them
    unknown: list[str] = field(default_factory=list)  # lines about records that are not in the topic
    decisions: list[DecisionRow] = field(default_factory=list)
    cycles: list[CycleRow] = field(default_factory=list)
    lines: list[CycleLine] = field(default_factory=list)
    actions: list[ActionRow] = field(default_factory=list)
    handovers: list[HandoverRow] = field(default_factory=list)


def collect(run: Run) -> Evidence:
    """Read everything that a run left.

    Raises:
        EvidenceError: Something cannot be read.
    """
    evidence = Evidence(run=run)
    evidence.partitions = read_topic(run)
    read_logs(run, evidence)
    evidence.acknowledged = read_produced(run)
    evidence.decisions = sorted(rows.decisions(run), key=lambda d: d.at)
    evidence.cycles = sorted(rows.cycles(run), key=lambda c: c.at)
    evidence.lines = list(rows.lines(run))
    evidence.actions = list(rows.actions(run))
    evidence.handovers = list(rows.handovers(run))
    return evidence


def read_topic(run: Run) -> dict[int, Partition]:
    """Read the append time and the size of every record of the topic.

    Raises:
        EvidenceError: The broker does not answer, or stops answering on the way.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": run.bootstrap,
            "group.id": "check",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.queue.backoff.ms": 5,
        }
    )
    try:
        return _read_partitions(consumer, run)
    except KafkaException as e:
        msg = f"topic {run.topic} on {run.bootstrap} cannot be read ({e.args[0]}): the broker of the run must be up"
        raise EvidenceError(msg) from e
    finally:
        consumer.close()


def _read_partitions(consumer: Consumer, run: Run) -> dict[int, Partition]:
    found = consumer.list_topics(run.topic, timeout=_READ_TIMEOUT_S).topics[run.topic]
    if found.error is not None:
        raise KafkaException(found.error)
    partitions = {}
    for number in found.partitions:
        partitions[number] = Partition(*_ends(consumer, TopicPartition(run.topic, number)))
    left = {n for n, p in partitions.items() if p.end > p.start}
    consumer.assign([TopicPartition(run.topic, n, partitions[n].start) for n in left])
    limit = time.monotonic() + _READ_TIMEOUT_S
    while left:
        messages = consumer.consume(_BATCH, timeout=0.2)
        if messages:
            limit = time.monotonic() + _READ_TIMEOUT_S
        elif time.monotonic() > limit:
            msg = f"topic {run.topic}: no record came for {_READ_TIMEOUT_S:.0f} s although partitions {sorted(left)} hold more"
            raise EvidenceError(msg)
        for message in messages:
            _take(message, partitions, left)
    return partitions


def _ends(consumer: Consumer, partition: TopicPartition) -> tuple[int, int]:
    """Return the first offset and the one after the last; waits while a broker that has just started looks for leaders."""
    limit = time.monotonic() + _READ_TIMEOUT_S
    while True:
        try:
            low, high = consumer.get_watermark_offsets(partition, timeout=_READ_TIMEOUT_S)
        except KafkaException:
            if time.monotonic() > limit:
                raise
            time.sleep(0.1)
        else:
            return low, high


def _take(message: Message, partitions: Mapping[int, Partition], left: set[int]) -> None:
    number, offset, error = message.partition(), message.offset(), message.error()
    if number is None or offset is None:
        raise KafkaException(error)
    if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  librdkafka's own name of it
        raise KafkaException(error)
    partition = partitions[number]
    if error is not None or offset >= partition.end:
        left.discard(number)
        return
    at_ms = message.timestamp()[1]
    partition.appended_ms[offset - partition.start] = at_ms
    value = message.value() or b""
    partition.values.add(hash(value))
    size = len(value) + len(message.key() or b"")
    second = at_ms // 1000
    partition.bytes_by_second[second] = partition.bytes_by_second.get(second, 0) + size


def read_logs(run: Run, evidence: Evidence) -> None:
    """Read the workers' logs: when each record was processed, how often, and by whom under which epoch."""
    tenures: dict[tuple[str, int, int], Tenure] = {}
    for file in sorted(run.logs.glob("processed-*.log")):
        worker = file.stem.removeprefix("processed-")
        for topic, number, offset, epoch, at_ns in _lines(file):
            partition = evidence.partitions.get(number) if topic == run.topic else None
            index = -1 if partition is None else offset - partition.start
            if partition is None or not 0 <= index < len(partition.times) or not partition.appended_ms[index]:
                evidence.unknown.append(f"{worker} {topic}-{number}@{offset}")
                continue
            if partition.times[index] < 255:  # noqa: PLR2004  a byte holds no more
                partition.times[index] += 1
            first = partition.processed_ns[index]
            if not first or at_ns < first:
                partition.processed_ns[index] = at_ns
            key = (worker, number, epoch)
            if key in tenures:
                tenures[key].extend(offset, at_ns)
            else:
                tenures[key] = Tenure(worker, number, epoch, at_ns, at_ns, offset, offset)
    evidence.tenures = sorted(tenures.values(), key=lambda t: (t.partition, t.first_ns))


def read_produced(run: Run) -> dict[int, int]:
    """Return how many records of each partition the broker acknowledged, by the producer's own log.

    Raises:
        EvidenceError: The log is not there or has no end.
    """
    try:
        summary = json.loads(run.produced.read_text(encoding="utf-8").splitlines()[-1])
        return {int(p): int(counts[0]) for p, counts in summary["partitions"].items()}
    except (OSError, IndexError, KeyError, ValueError) as e:
        raise EvidenceError(f"{run.produced} does not say what was produced: {type(e).__name__} {e}") from e


def _lines(file: Path) -> Iterator[tuple[str, int, int, int, int]]:
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.endswith("\n"):  # cut off by a kill in the middle of a write: that record was not finished
                continue
            try:
                topic, partition, offset, epoch, at_ns, _ = line.split()
                yield topic, int(partition), int(offset), int(epoch), int(at_ns)
            except ValueError as e:
                raise EvidenceError(f"{file}: cannot be read: {line!r}") from e
