"""Threads over a managed consumer on a real broker: moves, ends, errors, dead letters, stuck records and slow handlers."""

import signal
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition
from kafka import KafkaProducer

from autoscaler.devtools.broker import Broker
from autoscaler.errors import Exit
from autoscaler.handover.records import Incarnation, Phase
from tests.kafka.workers import LEASE_S, Publisher, Workers, all_processed
from tests.until import until

Say = Callable[..., None]


@pytest.fixture
def workers(workers: Workers) -> Workers:
    workers.script = Path(__file__).with_name("processing_consumer.py")
    return workers


@pytest.fixture
def say(broker: Broker, topic: str) -> Say:
    """Return ``say({partition: [value, …]}, keys=5)``: the records' keys go round."""

    def produce(said: dict[int, list[str]], *, keys: int = 5) -> None:
        producer = Producer({**broker.connection(), "linger.ms": 50})
        for partition, values in said.items():
            for number, value in enumerate(values):
                producer.produce(topic, value.encode(), b"%d" % (number % keys), partition=partition)
        assert producer.flush(30) == 0

    return produce


def alone(control: Publisher, workers: Workers, *partitions: int) -> Incarnation:
    """Start one worker and give it everything."""
    workers.start("w-0")
    me = control.incarnation("w-0")
    control.plan(dict.fromkeys(partitions, me))
    control.holds(me, set(partitions))
    return me


def sums(workers: Workers) -> tuple[int, int, int, int]:
    """Return records, errors, skipped, dead-lettered of every batch."""
    log = workers.folder / "reports.log"
    lines = log.read_text(encoding="utf-8").rpartition("\n")[0].splitlines() if log.exists() else []
    found = [tuple(map(int, line.split())) for line in lines]
    records, errors, skipped, letters = (sum(f[i] for f in found) for i in range(4))
    return records, errors, skipped, letters


def assert_in_order(workers: Workers, keys: int = 5) -> None:
    """Records of a key, which go round, were processed in their order."""
    lines = sorted(workers.lines(), key=lambda x: x[4])
    for key in {(x[1], x[2] % keys) for x in lines}:
        offsets = [x[2] for x in lines if (x[1], x[2] % keys) == key]
        assert offsets == sorted(offsets), key


def test_partitions_move_between_workers_with_threads_without_loss_duplicate_or_disorder(
    control: Publisher, workers: Workers, say: Say
) -> None:
    workers.start("w-0")
    workers.start("w-1")
    a, b = control.incarnation("w-0"), control.incarnation("w-1")
    for owners in ({0: a, 1: a, 2: a, 3: a}, {0: a, 1: b, 2: a, 3: b}, {0: b, 1: a, 2: a, 3: b}, {0: b, 1: b, 2: b, 3: a}):
        say({p: ["x"] * 100 for p in range(4)})
        control.plan(owners)
        control.holds(a, {p for p, w in owners.items() if w == a})
        control.holds(b, {p for p, w in owners.items() if w == b})
    all_processed(workers, dict.fromkeys(range(4), 400))
    assert set(workers.processed().values()) == {1}
    assert_in_order(workers)
    ordered = sorted(workers.lines(), key=lambda x: (x[1], x[4]))
    assert all(x[3] <= y[3] for x, y in pairwise(ordered) if x[1] == y[1])  # tokens only grow


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_told_to_end_ends_its_records_in_work_leaves_and_blames_nobody(
    control: Publisher, workers: Workers, say: Say, number: int
) -> None:
    workers.environment["RECORD_S"] = "0.05"
    say({p: ["x"] * 200 for p in range(2)}, keys=200)
    me = alone(control, workers, 0, 1)
    until("it works", lambda: len(workers.processed()) > 8)
    workers.signal("w-0", number)
    code = workers.ended("w-0")
    assert (code == 0) == (number == signal.SIGTERM)
    until("it has left", lambda: control.has_left(me))
    released = {tp.partition: r for (tp, w), r in control.released.items() if w == me}
    assert not any(r.failed for r in released.values())
    done = workers.processed()
    assert len(done) < 400
    for partition, r in released.items():
        assert all((partition, o) in done for o in range(max(0, r.offset)))  # nothing beyond what was processed
    workers.environment["RECORD_S"] = "0"
    workers.start("w-1")
    control.plan(dict.fromkeys(range(2), control.incarnation("w-1")))
    all_processed(workers, {0: 200, 1: 200})
    if number == signal.SIGTERM:
        assert set(workers.processed().values()) == {1}


def test_another_interrupt_releases_nothing_under_a_record_in_work(control: Publisher, workers: Workers, say: Say) -> None:
    workers.environment |= {"RECORD_S": "2", "THREADS": "2"}
    say({0: ["x"] * 8}, keys=8)
    alone(control, workers, 0)
    until("two are done, two in work", lambda: len(workers.processed()) == 2)
    log = workers.folder / "w-0.err"

    def interrupted() -> bool:
        if "waiting for the records in work" in log.read_text(encoding="utf-8"):
            return True
        workers.signal("w-0", signal.SIGINT)
        return False

    until("it waits for the records in work", interrupted, every_s=0.1)
    assert workers.ended("w-0") == -signal.SIGINT
    assert sorted(workers.processed()) == [(0, n) for n in range(4)]


def test_a_worker_that_fails_names_the_partition_of_the_record_that_failed(
    control: Publisher, workers: Workers, say: Say
) -> None:
    say({0: ["x"] * 20, 1: ["x"] * 5 + ["fail"], 2: ["x"] * 20}, keys=50)
    workers.start("w-0")
    me = control.incarnation("w-0")
    control.plan(dict.fromkeys(range(3), me))
    assert workers.ended("w-0") == 1
    until("it has left", lambda: control.has_left(me))
    assert {tp.partition: r.failed for (tp, w), r in control.released.items() if w == me} == {0: False, 1: True, 2: False}
    assert "ValueError: cannot be processed" in (workers.folder / "w-0.err").read_text(encoding="utf-8")
    assert all(r.offset <= 5 for (tp, _), r in control.released.items() if tp.partition == 1)


def test_records_that_cannot_be_processed_are_skipped_after_another_try(control: Publisher, workers: Workers, say: Say) -> None:
    workers.environment["ON_ERROR"] = "skip"
    say({0: ["x", "fail", "x", "flaky", "x"]})
    alone(control, workers, 0)
    until("it goes on behind them", lambda: control.committed_at(0, 5))
    assert sorted(workers.processed()) == [(0, n) for n in (0, 2, 3, 4)]
    assert sums(workers) == (5, 3, 1, 0)
    said = (workers.folder / "w-0.err").read_text(encoding="utf-8")
    assert "-0 at 1 is skipped after 2 tries" in said
    assert "ValueError: cannot be processed" in said


def letters(broker: Broker, topic: str, number: int) -> list[Message]:
    reader = Consumer({**broker.connection(), "group.id": "letters", "enable.auto.commit": False})
    reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found = reader.consume(number, 30)
    reader.close()
    return found


@pytest.fixture
def dead(make_topic: Callable[..., str]) -> str:
    """Return a topic for dead letters."""
    return make_topic(partitions=1)


@pytest.mark.parametrize("exactly_once", ["false", "true"])
def test_a_dead_letter_says_where_it_came_from_and_why(
    control: Publisher, workers: Workers, say: Say, broker: Broker, dead: str, *, exactly_once: str
) -> None:
    workers.environment |= {"ON_ERROR": dead, "AUTOSCALER_EXACTLY_ONCE": exactly_once}
    say({0: ["x", "fail", "x"], 1: ["flaky"]})
    alone(control, workers, 0, 1)
    until("it goes on behind it", lambda: control.committed_at(0, 3))
    until("there too", lambda: control.committed_at(1, 1))
    assert sums(workers) == (4, 3, 0, 1)
    (letter,) = letters(broker, dead, 1)
    assert (letter.key(), letter.value()) == (b"1", b"fail")
    said = {k: v.decode() for k, v in dict(letter.headers() or ()).items() if isinstance(v, bytes)}
    assert abs(int(said.pop("dead-letter.timestamp")) / 1000 - time.time()) < 3600
    assert said == {
        "dead-letter.topic": control.topic, "dead-letter.partition": "0", "dead-letter.offset": "1", "dead-letter.worker": "w-0",
        "dead-letter.error-type": "builtins.ValueError", "dead-letter.error": "cannot be processed", "dead-letter.attempts": "2",
    }  # fmt: skip


class NoText(str):
    """A header's name as any client may write it: brokers do not look at it."""

    __slots__ = ()

    def encode(self, *_: object) -> bytes:
        return b"\xff\xfe"


def test_a_record_whose_headers_cannot_be_read_becomes_a_dead_letter_without_them(
    control: Publisher, workers: Workers, broker: Broker, dead: str
) -> None:
    workers.environment["ON_ERROR"] = dead
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    producer.send(control.topic, b"fail", headers=[(NoText("name"), b"value")], partition=0).get(30)
    producer.close()
    alone(control, workers, 0, 1)
    until("it goes on behind it", lambda: control.committed_at(0, 1), explain=workers.said)
    (letter,) = letters(broker, dead, 1)
    assert letter.value() == b"fail"
    assert dict(letter.headers() or ())["dead-letter.headers"] == b"left out: their names are no UTF-8"


def test_a_dead_letter_that_cannot_be_written_is_not_skipped(
    control: Publisher, workers: Workers, say: Say, make_topic: Callable[..., str]
) -> None:
    workers.environment["ON_ERROR"] = make_topic(partitions=1, max_message_bytes=1000)
    say({0: ["x"], 1: ["x", "fail " + "x" * 1000]})
    workers.start("w-0")
    me = control.incarnation("w-0")
    control.plan(dict.fromkeys(range(2), me))
    assert workers.ended("w-0") == 1
    until("it has left", lambda: control.has_left(me))
    released = {tp.partition: r for (tp, w), r in control.released.items() if w == me}
    assert {p: r.failed for p, r in released.items()} == {0: False, 1: True}
    assert released[1].offset <= 1
    assert "could not be written to the dead-letter topic" in (workers.folder / "w-0.err").read_text(encoding="utf-8")


def test_a_dead_letter_topic_that_is_not_there_is_said_before_anything_is_processed(
    control: Publisher, workers: Workers, say: Say
) -> None:
    workers.environment["ON_ERROR"] = "no-such-topic"
    say({0: ["x"]})
    workers.start("w-0")
    assert workers.ended("w-0") == 1
    assert "dead-letter topic no-such-topic: " in (workers.folder / "w-0.err").read_text(encoding="utf-8")
    assert not workers.processed()


def test_a_record_that_is_stuck_beside_others_that_end_is_seen(control: Publisher, workers: Workers, say: Say) -> None:
    workers.environment |= {"MAX_BATCH_S": "1", "RECORD_S": "0.02", "THREADS": "2"}
    workers.end_leases()
    say({0: ["hold"], 1: ["x"] * 1000})
    me = alone(control, workers, 0, 1)
    assert workers.ended("w-0") == Exit.HELD
    control.observe()
    assert [h.phase for h in control.heartbeats if h.worker == me][-1] is Phase.STUCK


def test_a_batch_of_many_records_that_all_end_is_not_stuck(control: Publisher, workers: Workers, say: Say) -> None:
    workers.environment |= {"MAX_BATCH_S": "10", "RECORD_S": "0.1", "THREADS": "2"}
    say({0: ["x"] * 300})  # at least 15 s in one batch
    me = alone(control, workers, 0)
    all_processed(workers, {0: 300})
    control.observe()
    assert Phase.STUCK not in [h.phase for h in control.heartbeats]
    assert {h.worker for h in control.heartbeats if h.worker.name == "w-0"} == {me}
    assert set(workers.processed().values()) == {1}


def test_after_a_pause_beyond_the_lease_only_records_past_their_check_are_handled(
    control: Publisher, workers: Workers, say: Say
) -> None:
    threads = 4
    workers.environment |= {"THREADS": str(threads), "RECORD_S": "0.02"}
    workers.end_leases()
    say({0: ["x"] * 400}, keys=8)
    a = alone(control, workers, 0)
    until("it works", lambda: len(workers.processed()) > 20)
    workers.signal("w-0", signal.SIGSTOP)
    until("the process stands still", lambda: psutil.Process(workers.running["w-0"].pid).status() == psutil.STATUS_STOPPED)
    before = len(workers.lines())
    resume_at = time.monotonic() + LEASE_S + 1
    control.expire(a)
    until("the lease is over", lambda: time.monotonic() > resume_at)
    workers.signal("w-0", signal.SIGCONT)
    again = control.incarnation("w-0", other_than=frozenset({a}))
    assert len([x for x in workers.lines() if x[5] == a.uuid]) <= before + threads
    control.plan({0: again})
    all_processed(workers, {0: 400})
    assert_in_order_of_last(workers)


def assert_in_order_of_last(workers: Workers) -> None:
    """What was repeated was repeated in order."""
    for uuid in {x[5] for x in workers.lines()}:
        lines = sorted((x for x in workers.lines() if x[5] == uuid), key=lambda x: x[4])
        for key in range(8):
            offsets = [x[2] for x in lines if x[2] % 8 == key]
            assert offsets == sorted(offsets)


def test_a_slow_handler_on_a_full_topic_takes_no_more_memory_and_the_lag_stays(
    control: Publisher, workers: Workers, topic: str, produce: Callable[..., None]
) -> None:
    """60 MB wait; what is fetched ahead and a batch is all that is held of them."""
    workers.environment |= {"RECORD_S": "0.02", "THREADS": "2"}
    produce(topic, dict.fromkeys(range(4), 1500), size=10_000)
    me = alone(control, workers, *range(4))
    process = psutil.Process(workers.running["w-0"].pid)
    until("it works", lambda: len(workers.processed()) > 100)
    settled = process.memory_info().rss
    until("it works on", lambda: len(workers.processed()) > 600)
    assert process.memory_info().rss - settled < 10_000_000
    produce(topic, dict.fromkeys(range(4), 500), size=10_000)
    until("and on", lambda: len(workers.processed()) > 900)
    assert process.memory_info().rss - settled < 10_000_000
    done = len(workers.processed())
    assert done < 8000, "the lag is real"
    workers.signal("w-0", signal.SIGTERM)
    assert workers.ended("w-0") == 0
    until("it has left", lambda: control.has_left(me))
    committed = sum(r.offset for (_, w), r in control.released.items() if w == me)
    assert committed == len(workers.processed())
