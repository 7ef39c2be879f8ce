"""What a run left behind, read into compact values: the topic's records, the workers' logs, the tables.

Arrays with one entry per offset keep a run of a million records below a hundred megabytes.
"""

import json
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from deltalake import DeltaTable

_READ_TIMEOUT_S = 10.0
_BATCH = 10_000


class EvidenceError(Exception):
    """Something that the check needs cannot be read; the message says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the run was, as ``run.json`` says.

    Attributes:
        usable_bytes_per_s: Payload rate that one consumer may carry at the target utilisation.
        load_from_s: When the load began, seconds since the Unix epoch; ``load_to_s`` when it ended.
    """

    bootstrap: str
    topic: str
    group: str
    window_s: float
    usable_bytes_per_s: float
    load_from_s: float
    load_to_s: float
    logs: Path
    tables: Path
    produced: Path

    @classmethod
    def load(cls, directory: Path, bootstrap: str | None = None) -> "Run":
        """Read ``run.json`` of a run directory.

        Raises:
            EvidenceError: It is missing or lacks something.
        """
        file = directory / "run.json"
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
            return cls(
                bootstrap=bootstrap or str(data["bootstrap"]),
                topic=str(data["topic"]),
                group=str(data["group"]),
                window_s=float(data["window_s"]),
                usable_bytes_per_s=float(data["usable_bytes_per_s"]),
                load_from_s=float(data["load_from_s"]),
                load_to_s=float(data["load_to_s"]),
                logs=directory / str(data["logs"]),
                tables=directory / str(data["tables"]),
                produced=directory / str(data["produced"]),
            )
        except OSError as e:
            msg = f"{file} cannot be read ({e.strerror}): give the directory of a run that went to its end"
            raise EvidenceError(msg) from e
        except (KeyError, TypeError, ValueError) as e:
            msg = f"{file} does not describe a finished run: {type(e).__name__} {e}"
            raise EvidenceError(msg) from e


@dataclass(slots=True)
class Tenure:
    """What one worker processed of one partition under one granting epoch.

    Attributes:
        descents: How often an offset was not above the one before it.
    """

    worker: str
    partition: int
    epoch: int
    first_ns: int
    last_ns: int
    first_offset: int
    last_offset: int
    records: int = 1
    descents: int = 0

    def extend(self, offset: int, at_ns: int) -> None:
        """Add the next record of the worker's log."""
        self.records += 1
        self.descents += offset <= self.last_offset
        self.last_offset = offset
        self.first_ns = min(self.first_ns, at_ns)
        self.last_ns = max(self.last_ns, at_ns)


@dataclass(slots=True)
class Partition:
    """The records of one partition, indexed by offset from ``start``; 0 means that there is none."""

    start: int
    end: int
    appended_ms: "array[int]" = field(default_factory=lambda: array("q"))
    processed_ns: "array[int]" = field(default_factory=lambda: array("q"))  # of the first time
    times: bytearray = field(default_factory=bytearray)
    bytes_by_second: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make room for every offset."""
        size = self.end - self.start
        self.appended_ms = array("q", bytes(8 * size))
        self.processed_ns = array("q", bytes(8 * size))
        self.times = bytearray(size)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow:
    """A decision that the tables hold; ``at`` in seconds since the Unix epoch."""

    decision_id: str
    at: float
    reason: str
    consumers_now: int | None
    consumers: int
    acted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleRow:
    """A cycle that the tables hold; there is one for each, while decisions that change nothing are thinned out."""

    decision_id: str
    at: float
    consumers_now: int | None
    acted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRow:
    """An intent or an outcome that the tables hold."""

    decision_id: str
    phase: str
    status: str
    epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverRow:
    """A change of hands that the tables hold."""

    partition: int
    from_worker: str | None
    to_worker: str
    epoch: int
    offset: int
    pause_s: float | None


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
    evidence.decisions = sorted(_decisions(run), key=lambda d: d.at)
    evidence.cycles = sorted(_cycles(run), key=lambda c: c.at)
    evidence.actions = list(_actions(run))
    evidence.handovers = list(_handovers(run))
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
    heard = time.monotonic()
    while left:
        messages = consumer.consume(_BATCH, timeout=0.2)
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > _READ_TIMEOUT_S:
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
    size = len(message.value() or b"") + len(message.key() or b"")
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
        msg = f"{run.produced} does not say what was produced: {type(e).__name__} {e}"
        raise EvidenceError(msg) from e


def _lines(file: Path) -> Iterator[tuple[str, int, int, int, int]]:
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.endswith("\n"):  # cut off by a kill in the middle of a write: that record was not finished
                continue
            try:
                topic, partition, offset, epoch, at_ns, _ = line.split()
                yield topic, int(partition), int(offset), int(epoch), int(at_ns)
            except ValueError as e:
                msg = f"{file}: cannot be read: {line!r}"
                raise EvidenceError(msg) from e


def read_table(run: Run, name: str, columns: Sequence[str]) -> Sequence[Mapping[str, object]]:
    """Return some columns of a Delta table's rows that belong to the run's group.

    Raises:
        EvidenceError: The table is not there or lacks a column.
    """
    place = run.tables / name
    try:
        rows = DeltaTable(str(place)).to_pyarrow_table(columns=[*columns, "group"]).to_pylist()
    except Exception as e:  # the reader raises types of its own and of Arrow
        msg = f"table {place} cannot be read: {e}"
        raise EvidenceError(msg) from e
    return [r for r in rows if r["group"] == run.group]


def _decisions(run: Run) -> Iterator[DecisionRow]:
    columns = ("decision_id", "at", "reason", "consumers_now", "consumers", "acted")
    for row in read_table(run, "decisions", columns):
        yield DecisionRow(
            decision_id=str(row["decision_id"]),
            at=_seconds(row["at"]),
            reason=str(row["reason"]),
            consumers_now=_count(row["consumers_now"]),
            consumers=_whole(row["consumers"]),
            acted=row["acted"] is True,
        )


def _cycles(run: Run) -> Iterator[CycleRow]:
    for row in read_table(run, "loads", ("decision_id", "at", "consumers_now", "acted")):
        yield CycleRow(
            decision_id=str(row["decision_id"]),
            at=_seconds(row["at"]),
            consumers_now=_count(row["consumers_now"]),
            acted=row["acted"] is True,
        )


def _actions(run: Run) -> Iterator[ActionRow]:
    for row in read_table(run, "actions", ("decision_id", "phase", "status", "epoch")):
        yield ActionRow(
            decision_id=str(row["decision_id"]),
            phase=str(row["phase"]),
            status=str(row["status"]),
            epoch=_count(row["epoch"]),
        )


def _handovers(run: Run) -> Iterator[HandoverRow]:
    for row in read_table(run, "handovers", ("topic", "partition", "from_uuid", "to_uuid", "epoch", "offset", "pause_s")):
        before, pause = row["from_uuid"], row["pause_s"]
        if row["topic"] != run.topic:
            continue
        yield HandoverRow(
            partition=_whole(row["partition"]),
            from_worker=None if before is None else str(before),
            to_worker=str(row["to_uuid"]),
            epoch=_whole(row["epoch"]),
            offset=_whole(row["offset"]),
            pause_s=None if pause is None else _number(pause),
        )


def _whole(value: object) -> int:
    return int(_number(value))


def _count(value: object) -> int | None:
    return None if value is None else _whole(value)


def _number(value: object) -> float:
    if isinstance(value, int | float):
        return float(value)
    msg = f"a table holds {value!r} where a number belongs"
    raise EvidenceError(msg)


def _seconds(value: object) -> float:
    return value.timestamp() if isinstance(value, datetime) else _number(value)
