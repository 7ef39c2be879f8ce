"""Applications that do not return, take long and say so, or end by an error; and a worker that cannot read its control log."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from autoscaler.devtools.broker import Broker
from autoscaler.errors import Exit
from autoscaler.handover.records import CONTROL_TOPIC, Phase
from tests.kafka.workers import Publisher, Workers
from tests.until import let_pass, until


@pytest.fixture
def workers(workers: Workers) -> Workers:
    workers.script = Path(__file__).with_name("held_consumer.py")
    return workers


@pytest.fixture
def say(broker: Broker, topic: str) -> Callable[..., None]:
    """Return ``say(what, partition=0)``: one record that tells the application what to do."""

    def produce(what: str, partition: int = 0) -> None:
        producer = Producer(broker.connection())
        producer.produce(topic, what.encode(), partition=partition)
        assert producer.flush(30) == 0

    return produce


def phases(control: Publisher) -> list[Phase]:
    control.observe()
    return [h.phase for h in control.heartbeats]


def done(workers: Workers) -> list[str]:
    log = workers.folder / "done.log"
    return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


def test_an_application_that_never_returns_is_stuck_then_silent_and_then_its_process_ends(
    control: Publisher, workers: Workers, say: Callable[..., None]
) -> None:
    workers.environment["MAX_BATCH_S"] = "1"
    workers.end_leases()
    workers.start("w-0")
    me = control.incarnation("w-0")
    control.plan({0: me})
    control.holds(me, {0})
    say("hold")
    assert workers.ended("w-0") == Exit.HELD
    assert phases(control)[-1] is Phase.STUCK
    assert not control.has_left(me), "the application may still be at its record"
    said = (workers.folder / "w-0.err").read_text(encoding="utf-8")
    assert "the lease is over" in said
    assert "the process ends" in said


def test_a_process_whose_commits_do_not_return_ends(control: Publisher, workers: Workers, say: Callable[..., None]) -> None:
    """A client waits for a coordinator for ever now and then; heartbeats and the application go on, and nothing is released."""
    workers.environment["MAX_BATCH_S"] = "2"
    workers.end_leases()
    workers.start("w-0")
    me = control.incarnation("w-0")
    control.plan({0: me})
    control.holds(me, {0})
    say("wedge")
    until("the application goes on", lambda: done(workers) == ["0 0"])
    assert workers.ended("w-0") == Exit.HELD
    assert "a call to the brokers (a commit, or a partition's start) has not returned for" in (
        (workers.folder / "w-0.err").read_text(encoding="utf-8")
    )
    assert not control.has_left(me)


def test_a_process_that_was_stopped_while_a_commit_took_its_time_goes_on(
    control: Publisher, workers: Workers, say: Callable[..., None]
) -> None:
    """The whole process stood still, and with it what it was waiting for: nothing of its client says that it does not return."""
    longest_s = 6.0
    workers.environment["MAX_BATCH_S"] = str(longest_s)
    workers.environment["AUTOSCALER_LEASE_S"] = str(10 * longest_s)
    workers.start("w-0")
    me = control.incarnation("w-0")
    control.plan({0: me})
    control.holds(me, {0})
    say("slow")
    until("the application has done it", lambda: done(workers) == ["0 0"])
    workers.signal("w-0", signal.SIGSTOP)
    let_pass(3 * longest_s)
    workers.signal("w-0", signal.SIGCONT)
    until("its offset is committed", lambda: control.committed_at(0, 1))
    say("fine")
    until("it goes on", lambda: done(workers) == ["0 0", "0 1"])
    assert "has not returned for" not in (workers.folder / "w-0.err").read_text(encoding="utf-8")


def test_an_application_that_says_that_it_takes_long_is_not_stuck(
    control: Publisher, workers: Workers, say: Callable[..., None]
) -> None:
    workers.environment["MAX_BATCH_S"] = "4"
    workers.start("w-0")
    me = control.incarnation("w-0")
    control.plan({0: me})
    control.holds(me, {0})
    say("keep")
    until("the batch is done", lambda: done(workers) == ["0 0"])
    until("its offset is committed", lambda: control.committed_at(0, 1))
    assert Phase.STUCK not in phases(control)
    assert {h.worker for h in control.heartbeats if h.worker.name == "w-0"} == {me}


def test_a_control_log_in_which_nothing_happens_or_a_transaction_stays_open_is_normal(
    control: Publisher, workers: Workers, broker: Broker
) -> None:
    longest_s = 4.0
    workers.environment["MAX_BATCH_S"] = str(longest_s)
    workers.start("w-0")
    me = control.incarnation("w-0")
    other = Producer({**broker.connection(), "transactional.id": f"other-{control.group}"})
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(CONTROL_TOPIC, b"{}", b'["plan","nobody"]', partition=control.where)
    other.flush(30)

    def span_s() -> float:
        control.observe()
        stamps = [h.stamp for h in control.heartbeats if h.worker == me]
        return stamps[-1] - stamps[0]

    until("three times that long has passed", lambda: span_s() > 3 * longest_s)
    other.abort_transaction(30)
    assert Phase.STUCK not in phases(control)


def test_an_application_that_ends_by_an_error_says_on_which_partition(
    control: Publisher, workers: Workers, topic: str, say: Callable[..., None]
) -> None:
    workers.environment["MAX_BATCH_S"] = "60"
    for number in range(3):
        say("fine", number)
    say("fail", 1)
    workers.start("w-0")
    me = control.incarnation("w-0")
    control.plan(dict.fromkeys(range(3), me))
    assert workers.ended("w-0") != 0
    until("it has left", lambda: control.has_left(me))
    failed = {tp.partition: r.failed for (tp, w), r in control.released.items() if w == me}
    assert failed == {0: False, 1: True, 2: False}
