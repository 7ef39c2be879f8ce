"""A signal's handler raises while the next batch is being fetched, and the application goes on: nothing is skipped."""

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.kafka.workers import Publisher, Workers
from tests.until import until

TEARS, EACH = 6, 300


def test_an_exception_of_a_signals_handler_skips_nothing(
    control: Publisher, workers: Workers, produce: Callable[..., None], topic: str
) -> None:
    torn(control, workers, produce, topic)


def test_one_in_the_middle_of_a_transaction_copies_nothing_twice_and_skips_nothing(
    control: Publisher, workers: Workers, produce: Callable[..., None], topic: str, make_topic: Callable[..., str]
) -> None:
    to = make_topic(partitions=1)
    workers.environment["COPY_TO"] = to
    ends = torn(control, workers, produce, topic)
    reader = Consumer({
        "bootstrap.servers": control.bootstrap, "group.id": "copies", "isolation.level": "read_committed",
        "enable.partition.eof": True, "enable.auto.commit": False,
    })  # fmt: skip
    reader.assign([TopicPartition(to, 0, 0)])
    copies = Counter[str]()
    while (message := reader.poll(30)) is not None and message.error() is None:
        copies[(message.value() or b"").decode()] += 1
    error = message.error() if message is not None else None
    assert error is not None, "the end was not reached"
    assert error.code() == KafkaError._PARTITION_EOF, error
    reader.close()
    assert copies == {f"{p} {o}": 1 for p, end in ends.items() for o in range(end)}


def torn(control: Publisher, workers: Workers, produce: Callable[..., None], topic: str) -> dict[int, int]:
    """Tear it again and again, end it, and return where each partition ends."""
    workers.script = Path(__file__).with_name("torn_consumer.py")
    workers.start("w-0")
    me = control.incarnation("w-0")
    gone = frozenset({me})
    for tear in range(1, TEARS + 1):
        control.plan({0: me, 1: me})
        control.holds(me, {0, 1})
        (workers.folder / "armed").touch()

        def torn_off() -> bool:
            produce(topic, {0: 5, 1: 5})
            return not (workers.folder / "armed").exists()

        until("it is torn out of its batch", torn_off, every_s=0)
        produce(topic, {0: EACH, 1: EACH})
        me = control.incarnation("w-0", other_than=gone)
        gone |= {me}
        assert len(gone) == tear + 1
    control.plan({0: me, 1: me})
    control.holds(me, {0, 1})
    produce(topic, {0: 1, 1: 1})
    ends = {p: control.reader.get_watermark_offsets(TopicPartition(topic, p), 30)[1] for p in (0, 1)}
    assert all(end > TEARS * EACH for end in ends.values())
    until("all is committed", lambda: all(control.committed(p).offset == end for p, end in ends.items()))
    workers.signal("w-0", signal.SIGTERM)
    assert workers.ended("w-0") == 0
    done = set(workers.processed())
    assert {(p, o) for p, end in ends.items() for o in range(end)} <= done
    return ends
