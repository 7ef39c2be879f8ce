"""What may go wrong between a worker's transactions and a broker, each made to happen: what readers see afterwards is told.

``Writer`` goes on as a worker does: another incarnation, under another transactional id, once one is over. With ``renews`` false
it is what a worker must not be: one producer that goes on whatever has happened.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Thread
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from autoscaler import jars
from autoscaler.devtools.broker import Broker, Cluster
from autoscaler.errors import PermanentError
from autoscaler.worker.settings import Connection
from autoscaler.worker.transactions import Outcome, Output, Transactions, fence
from tests.conftest import create_topic
from tests.kafka.proxy import END_TXN, PRODUCE, TXN_OFFSET_COMMIT, Proxied
from tests.until import let_pass, until

GROUP, LONG_S, OFFSET = "late", 15.0, 9
NOWHERE = "no-such-topic"


@dataclass(frozen=True, slots=True)
class Seen:
    """What readers of committed records see."""

    values: tuple[str, ...]
    offset: int
    stalls: bool = False  # readers get no further, although nothing is being written

    def __str__(self) -> str:
        return f"{' '.join(self.values) or 'nothing'}, offset {self.offset}" + (", readers stall" if self.stalls else "")


@dataclass
class Writer:
    """One worker after the other."""

    connection: Connection
    source: str
    renews: bool = True
    incarnations: int = 0
    refused: int = 0
    _now: Transactions | None = None
    _ended: bool = False
    _clients: list[Consumer] = field(default_factory=list)

    def write(self, outputs: Sequence[Output], offset: int | None, *, tries: int = 9) -> Outcome:
        """Write until it is committed, or refused, or so often; ``None``: without an offset."""
        outcome, offsets = Outcome.OVER, [] if offset is None else [TopicPartition(self.source, 0, offset)]
        for _ in range(tries):
            if self._ended:
                self.next_incarnation()
            try:
                outcome = self._transactions().write(outputs, offsets, lambda: True)
            except PermanentError:
                self.refused += 1
                return Outcome.ABORTED
            self._ended = outcome is Outcome.OVER
            if outcome is Outcome.COMMITTED:
                break
        return outcome

    def next_incarnation(self) -> None:
        """Take the id of the last one, as a worker does before it says that it has left."""
        assert self._now is not None
        self._now.close()
        self._now, self._ended = None, False
        until("the id is taken", self._fenced)

    def _fenced(self) -> bool:
        try:
            fence(self.connection, GROUP, f"{self.source}-{self.incarnations}", 5.0)
        except KafkaException:
            return False
        return True

    def _transactions(self) -> Transactions:
        if self._now is None:
            self.incarnations += 1
            self._clients.append(Consumer({**self.connection, "group.id": GROUP, "log_level": 0}))
            metadata = self._clients[-1].consumer_group_metadata
            kind, uuid = Transactions if self.renews else Unrenewed, f"{self.source}-{self.incarnations}"
            self._now = kind(self.connection, GROUP, uuid, timeout_s=LONG_S, metadata=metadata)
            self._now.open(LONG_S)
        return self._now


class Unrenewed(Transactions):
    """Goes on after whatever has been aborted."""

    def write(self, outputs: Sequence[Output], offsets: Sequence[TopicPartition], _: Callable[[], bool]) -> Outcome:
        producer = self._producer
        failed: list[KafkaError] = []
        try:
            producer.begin_transaction()
            for output in outputs:
                producer.produce(output.topic, output.value, on_delivery=lambda e, _: failed.append(e) if e else None)
            while producer.flush(1.0):
                pass
            if not failed:
                if offsets:
                    producer.send_offsets_to_transaction(list(offsets), self._metadata(), LONG_S)
                producer.commit_transaction(LONG_S)
                return Outcome.COMMITTED
        except KafkaException as e:
            failed.append(e.args[0])
        try:
            producer.abort_transaction(LONG_S)
        except KafkaException:
            return Outcome.OVER
        return Outcome.ABORTED


def seen(cluster: Cluster, source: str, to: str) -> Seen:
    """Return what a reader of committed records finds, and whether it comes to the end of what is there."""
    reader = Consumer({
        **cluster.connection(), "group.id": GROUP, "isolation.level": "read_committed", "enable.partition.eof": True,
        "enable.auto.commit": False, "log_level": 0,
    })  # fmt: skip
    reader.assign([TopicPartition(to, 0, 0)])
    values = []
    while (message := reader.poll(LONG_S)) is not None and message.error() is None:
        values.append((message.value() or b"").decode())
    assert message is not None
    _, end = _edges(cluster, to)
    (position,) = reader.position([TopicPartition(to, 0)])
    reader.close()
    return Seen(tuple(values), _committed(cluster, source), stalls=position.offset < end)


def _committed(cluster: Cluster, topic: str) -> int:
    reader = Consumer({**cluster.connection(), "group.id": GROUP, "log_level": 0})
    try:
        (found,) = reader.committed([TopicPartition(topic, 0)], LONG_S)
    finally:
        reader.close()
    return int(found.offset)


def _edges(cluster: Cluster, topic: str) -> tuple[int, int]:
    reader = Consumer({**cluster.connection(), "group.id": "edges", "isolation.level": "read_uncommitted", "log_level": 0})
    found = reader.get_watermark_offsets(TopicPartition(topic, 0), LONG_S)
    reader.close()
    assert found is not None
    return found


class Behind(list[Output]):
    """Outputs of which the last comes only after something has been done, when the others have been written."""

    def __init__(self, outputs: Sequence[Output], before_last: Callable[[], object]) -> None:
        super().__init__(outputs)
        self._before_last = before_last

    def __iter__(self) -> Iterator[Output]:
        yield from self[:-1]
        self._before_last()
        yield self[-1]


def outputs(to: str, *values: str) -> list[Output]:
    return [Output(topic=to, value=v) for v in values]


# --- a request that comes late: it was kept by the proxy, and the client has asked again ---


def late_produce(broker: Proxied, writer: Writer, to: str) -> None:
    """A Produce of a transaction that was given up arrives in the next one, before that one's own.

    Its connection was lost, and there was none when it was given up for another output: the client counts it as never sent.
    """
    produce = broker.proxy.hold(PRODUCE)

    def lose() -> None:
        until("it is on its way", lambda: produce.caught)
        broker.proxy.cut()
        Thread(target=mend).start()

    def mend() -> None:
        let_pass(2.0)
        broker.proxy.mend()

    writer.write(Behind([*outputs(to, "a"), Output(topic=to, value=b"b" * 2_000_000)], lose), OFFSET)
    again = broker.proxy.hold(PRODUCE, every=True)

    def arrive() -> None:
        until("the next transaction has begun to write", lambda: again.caught)
        produce.let_go()
        again.pass_on()

    _beside(arrive, lambda: writer.write(outputs(to, "b"), OFFSET))


def late_offsets(broker: Proxied, writer: Writer, to: str) -> None:
    """A TxnOffsetCommit arrives in the next transaction, between that one's own and its end."""
    first = broker.proxy.hold(TXN_OFFSET_COMMIT)
    writer.write(outputs(to, "a"), OFFSET - 4)
    end = broker.proxy.hold(END_TXN, every=True)

    def arrive() -> None:
        until("the next transaction is to end", lambda: end.caught)
        first.let_go()
        end.pass_on()

    _beside(arrive, lambda: writer.write(outputs(to, "b"), OFFSET))


def late_end(broker: Proxied, writer: Writer, to: str) -> None:
    """The end of a transaction arrives in the next one, half of which has been written and which is given up then."""
    end = broker.proxy.hold(END_TXN)
    writer.write(outputs(to, "a"), OFFSET - 4)
    until("it is committed", lambda: not seen(broker, writer.source, to).stalls)
    before = _edges(broker, to)[1]

    def arrive() -> None:
        until("half of it is written", lambda: _edges(broker, to)[1] > before)
        end.let_go()

    half = Behind([*outputs(to, "b"), Output(topic=NOWHERE, value="c")], arrive)
    writer.write(half, OFFSET - 2)
    writer.write(outputs(to, "b", "c"), OFFSET)


def _beside(work: Callable[[], None], call: Callable[[], object]) -> None:
    thread = Thread(target=work)
    thread.start()
    call()
    thread.join()


# --- a partition without a leader while a transaction is aborted ---

DISKS = {
    "offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1",
    "replica.high.watermark.checkpoint.interval.ms": "200",  # what notices that a directory is gone
}  # fmt: skip


@contextmanager
def disks(bundle: jars.Bundle, folder: Path) -> Iterator[Broker]:
    """Run a broker each of whose partitions lies in a directory of its own."""
    own = str(folder / "data-1")
    places = ",".join([own, *(str(folder / f"disk-{n}") for n in range(8))])
    settings = {**DISKS, "log.dirs": places, "metadata.log.dir": own}
    with Broker(folder, heap_mb=160, bundle=bundle, settings=settings) as broker:
        yield broker


@contextmanager
def without_leader(broker: Broker, folder: Path, topic: str) -> Iterator[None]:
    """Take the directory of a topic's only partition away; the broker is started anew when it is back."""
    (place,) = folder.glob(f"disk-*/{topic}-0")
    away = place.parent.with_name("away")
    place.parent.rename(away)
    admin = AdminClient({**broker.connection(), "log_level": 0})
    until("it has no leader", lambda: admin.list_topics(topic, timeout=10).topics[topic].partitions[0].leader < 0)
    try:
        yield
    finally:
        broker.stop()
        shutil.rmtree(place.parent, ignore_errors=True)
        away.rename(place.parent)
        broker.start()
        until("its coordinators answer", partial(_committed, broker, "any"), passing=KafkaException)


def skipped_marker(broker: Broker, folder: Path, writer: Writer, to: str) -> None:
    """The partition of a transaction that is given up has no leader for a moment."""
    before = _edges(broker, to)[1]

    def leave() -> None:
        until("half of it is written", lambda: _edges(broker, to)[1] > before)
        away.__enter__()

    away = without_leader(broker, folder, to)
    half = Behind([*outputs(to, "a"), Output(topic=NOWHERE, value="b")], leave)
    try:
        writer.write(half, None, tries=1)
        writer.write([], OFFSET, tries=1)  # begins when the coordinator has done with the one before, if it ever has
    finally:
        away.__exit__(None, None, None)
    writer.write(outputs(to, "a", "b"), None)  # without offsets: a client may not find the group's coordinator again


LATE = {"late Produce": late_produce, "late TxnOffsetCommit": late_offsets, "late EndTxn": late_end}
SKIPPED = "skipped marker"
WANTED = {
    "late Produce": Seen(("b",), OFFSET),
    "late TxnOffsetCommit": Seen(("a", "b"), OFFSET),
    "late EndTxn": Seen(("a", "b", "c"), OFFSET),
    SKIPPED: Seen(("x", "a", "b"), OFFSET),
}


def tried_late(broker: Proxied, what: str, *, renews: bool = True) -> Seen:
    """Make one of these happen, and return what is seen then; without ``renews`` to one producer that goes on."""
    name = uuid4().hex[:8]
    source, to = create_topic(broker, f"from-{name}"), create_topic(broker, f"to-{name}")
    LATE[what](broker, Writer(broker.proxied(), source, renews=renews), to)
    return seen(broker, source, to)


def tried_skipped(bundle: jars.Bundle, folder: Path, *, renews: bool = True) -> Seen:
    """The same of the marker that is not written, on a broker of this version."""
    with disks(bundle, folder) as broker:
        source, to = create_topic(broker, "from"), create_topic(broker, "to")
        writer = Writer(broker.connection(), source, renews=renews)
        writer.write(outputs(to, "x"), OFFSET)
        skipped_marker(broker, folder, writer, to)
        return seen(broker, source, to)
