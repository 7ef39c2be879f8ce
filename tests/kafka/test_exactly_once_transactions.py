"""One producer's transactions on a real broker: all or nothing, tried again where that may be, and over once they are fenced."""

import os
import signal
import struct
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from autoscaler.adapters.kafka import fencing
from autoscaler.devtools.broker import Broker
from autoscaler.errors import PermanentError
from autoscaler.handover.records import Incarnation
from autoscaler.worker.transactions import Outcome, Output, Transactions, fence
from tests.kafka.permissions import DESCRIBE, GROUP, READ, TOPIC, TRANSACTION, WRITE, Grant, Permissions
from tests.until import let_pass, until

MakeTopic = Callable[..., str]
Make = Callable[..., Transactions]
LONG_S = 30.0
HEAD = struct.Struct(">qiibIhiqqqhii")  # of a batch: format 2
CONTROL = 0x20


@pytest.fixture
def make(broker: Broker, group: str) -> Iterator[Make]:
    """Return ``make(uuid, timeout_s=30, cluster=broker)``: opened transactions of an incarnation of the group."""
    consumers: list[Consumer] = []

    def transactions(uuid: str, *, timeout_s: float = LONG_S, cluster: Broker = broker) -> Transactions:
        consumers.append(Consumer({**cluster.connection(), "group.id": group}))
        metadata = consumers[-1].consumer_group_metadata
        made = Transactions(cluster.connection(), group, uuid, timeout_s=timeout_s, metadata=metadata)
        made.open(LONG_S)
        return made

    yield transactions
    for consumer in consumers:
        consumer.close()


def seen(cluster: Broker, topic: str) -> list[bytes | None]:
    """Return what a reader of committed records finds in a topic's only partition."""
    reader = Consumer({
        **cluster.connection(), "group.id": "seen", "isolation.level": "read_committed", "enable.partition.eof": True,
        "enable.auto.commit": False,
    })  # fmt: skip
    reader.assign([TopicPartition(topic, 0, 0)])
    out = []
    while (message := reader.poll(LONG_S)) is not None and message.error() is None:
        out.append(message.value())
    assert message is not None
    reader.close()
    return out


def written(cluster: Broker, topic: str) -> str:
    """Return what the log itself holds, marks of transactions included: what a failure is explained by."""
    (segment,) = cluster.nodes[0].data.glob(f"{topic}-0/*.log")
    data, lines = segment.read_bytes(), []
    while len(data) > HEAD.size:
        base, size, _, _, _, attributes, _, _, _, producer, epoch, sequence, records = HEAD.unpack_from(data)
        mark = ("abort", "commit")[data[HEAD.size + 8] & 1]  # the key of a control record: version, kind
        what = mark if attributes & CONTROL else f"{records} records, sequence {sequence}"
        lines.append(f"{base}: producer {producer}, epoch {epoch}: {what}")
        data = data[12 + size :]
    return "\n".join(lines)


def committed(cluster: Broker, group: str, topic: str) -> int:
    reader = Consumer({**cluster.connection(), "group.id": group})
    (found,) = reader.committed([TopicPartition(topic, 0)], LONG_S)
    reader.close()
    return int(found.offset)


def always() -> bool:
    return True


def test_outputs_and_offsets_are_there_together(broker: Broker, make: Make, make_topic: MakeTopic, group: str) -> None:
    source, to = make_topic(), make_topic()
    outputs = [Output(topic=to, value="a", headers={"h": "1"}), Output(topic=to, value=b"b", partition=0, headers=[("h", b"2")])]
    assert make("u").write(outputs, [TopicPartition(source, 0, 7)], always) is Outcome.COMMITTED
    assert (seen(broker, to), committed(broker, group, source)) == ([b"a", b"b"], 7)


def test_without_a_lease_nothing_is_sent(broker: Broker, make: Make, make_topic: MakeTopic, group: str) -> None:
    source, to = make_topic(), make_topic()
    outcome = make("u").write([Output(topic=to, value="a")], [TopicPartition(source, 0, 7)], lambda: False)
    assert outcome is Outcome.OVER
    assert (seen(broker, to), committed(broker, group, source)) == ([], -1001)


def test_a_fenced_producer_is_over_for_good_and_another_incarnation_is_not(
    broker: Broker, make: Make, make_topic: MakeTopic, group: str
) -> None:
    source, to = make_topic(), make_topic()
    old, new = make("old"), make("new")
    fence(broker.connection(), group, "old", LONG_S)
    for _ in range(2):
        assert old.write([Output(topic=to, value="old")], [TopicPartition(source, 0, 7)], always) is Outcome.OVER
    assert "FENCED" in old.why
    assert new.write([Output(topic=to, value="new")], [TopicPartition(source, 0, 9)], always) is Outcome.COMMITTED
    assert (seen(broker, to), committed(broker, group, source)) == ([b"new"], 9)


@pytest.mark.parametrize("given", [{"topic": "no-such-topic"}, {"partition": 99}, {"value": b"x" * 2_000_000}], ids=str)
def test_what_is_refused_for_what_it_is_is_said_and_nothing_of_it_remains(
    broker: Broker, make: Make, make_topic: MakeTopic, group: str, given: dict[str, object]
) -> None:
    source, to = make_topic(), make_topic()
    transactions = make("u", timeout_s=5.0)
    refused = Output(**{"topic": to, "value": b"v", **given})  # type: ignore[arg-type]
    with pytest.raises(PermanentError, match=f"an output to topic {refused.topic} is refused"):
        transactions.write([Output(topic=to, value="a"), refused], [TopicPartition(source, 0, 7)], always)
    assert (seen(broker, to), committed(broker, group, source)) == ([], -1001)
    again = [Output(topic=to, value="b")], [TopicPartition(source, 0, 7)], always
    assert transactions.write([], [TopicPartition(source, 0, 5)], always) is Outcome.COMMITTED
    assert transactions.write(*again) is Outcome.OVER, "what was given up would come with it if a broker had left it open"
    assert make("next").write(*again) is Outcome.COMMITTED
    assert (seen(broker, to), committed(broker, group, source)) == ([b"b"], 7)


class Interrupted(list[Output]):
    """Outputs between the first and the second of which the broker stands still, until the second one has been given up."""

    pid = 0
    given_up: Callable[[], bool]

    def __iter__(self) -> Iterator[Output]:
        yield self[0]
        let_pass(1.0)  # it has been sent
        os.kill(self.pid, signal.SIGSTOP)
        threading.Thread(target=self._go_on).start()
        yield self[1]

    def _go_on(self) -> None:
        try:
            until("it is given up", self.given_up, within_s=LONG_S)
        finally:
            os.kill(self.pid, signal.SIGCONT)


def test_what_cannot_be_sent_in_time_is_given_up_and_can_be_tried_by_another_incarnation(
    own_broker: Broker, make: Make, make_topic: MakeTopic, group: str
) -> None:
    source, to = make_topic(cluster=own_broker), make_topic(cluster=own_broker)
    transactions = make("u", timeout_s=15.0, cluster=own_broker)  # given up after 9 s, looked at once a second
    outputs = Interrupted([Output(topic=to, value="a"), Output(topic=to, value="b")])
    outputs.pid, outputs.given_up = own_broker.pid or 0, lambda: bool(transactions._failed)
    assert transactions.write(outputs, [TopicPartition(source, 0, 2)], always) is Outcome.OVER
    fence(own_broker.connection(), group, "u", LONG_S)
    another = make("another", timeout_s=15.0, cluster=own_broker)
    assert another.write(list.copy(outputs), [TopicPartition(source, 0, 2)], always) is Outcome.COMMITTED
    found = seen(own_broker, to), committed(own_broker, group, source)
    assert found == ([b"a", b"b"], 2), written(own_broker, to)


def test_an_id_that_cannot_be_taken_is_an_error(group: str) -> None:
    with pytest.raises(KafkaException):
        fence({"bootstrap.servers": "127.0.0.1:1"}, group, "u", 0.5)


def test_the_permissions_that_the_page_names_are_enough_and_needed(
    secure_broker: Broker, make_topic: MakeTopic, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    source, to = make_topic(cluster=secure_broker), make_topic(cluster=secure_broker)
    job, worker = secure_broker.connection("job"), secure_broker.connection("worker")
    me = Incarnation("w-0", "u")
    of_id: list[Grant] = [(TRANSACTION, f"wk/{group}/", WRITE), (TRANSACTION, f"wk/{group}/", DESCRIBE)]
    permissions = Permissions(secure_broker)
    permissions.grant("worker", (TOPIC, source, READ), (GROUP, group, READ), *of_id, (TOPIC, to, WRITE), (TOPIC, to, DESCRIBE))
    try:
        consumer = Consumer({**worker, "group.id": group})
        transactions = Transactions(worker, group, me.uuid, timeout_s=LONG_S, metadata=consumer.consumer_group_metadata)
        transactions.open(LONG_S)
        write = partial(transactions.write, [Output(topic=to, value="a")], [TopicPartition(source, 0, 7)], always)
        assert write() is Outcome.COMMITTED
        with caplog.at_level("WARNING", logger="autoscaler.kafka"):
            assert fencing.fence(job, group, (me,)) == []
        assert any("see docs/reference/permissions.md" in r.getMessage() for r in caplog.records)
        permissions.grant("job", *of_id)
        until("it is fenced: a permission takes a moment", lambda: fencing.fence(job, group, (me,)) == [me], within_s=LONG_S)
        assert write() is Outcome.OVER
        consumer.close()
    finally:
        for user in ("job", "worker"):
            permissions.revoke(user)
