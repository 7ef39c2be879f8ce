"""What a worker takes from the control log: committed plans only; and what it says when none gives it anything."""

from collections.abc import Callable, Iterator

import pytest

from autoscaler.devtools.broker import Broker
from autoscaler.handover.codec import encode
from autoscaler.handover.records import CONTROL_TOPIC, Incarnation, Tp
from autoscaler.worker import idle_reason
from tests.kafka.in_process import Running, plan
from tests.kafka.workers import Publisher, others_write
from tests.until import until


@pytest.fixture
def running(broker: Broker, group: str, topic: str) -> Iterator[Running]:
    made = Running(broker, group, topic)
    yield made
    made.close()


@pytest.mark.parametrize("joined", ["before", "after"])
def test_a_plan_that_is_not_committed_is_never_followed(  # noqa: PLR0917  (fixtures and a case)
    broker: Broker, control: Publisher, group: str, topic: str, produce: Callable[..., None], joined: str
) -> None:
    """Its epoch is the higher one: whoever took it would take no other."""
    produce(topic, {0: 3, 1: 3})
    first = Running(broker, group, topic)
    try:
        me = control.incarnation("w-0")
        names = {control.topic_id: topic}
        key, value = encode(plan(control, 9, names, {Tp(control.topic_id, 0): me}))
        control.producer.begin_transaction()
        control.producer.produce(CONTROL_TOPIC, value, key, control.where)
        assert control.producer.flush(30) == 0
        control.producer.abort_transaction(30)
        if joined == "after":
            first.close()
            first = Running(broker, group, topic)
            me = control.incarnation("w-0", other_than=frozenset({me}))
        control.publish(plan(control, 1, names, {Tp(control.topic_id, 1): me}))
        until("the committed one is followed", lambda: len(first.got) == 3)
        control.holds(me, {1})
        assert first.got == [(topic, 1, n) for n in range(3)]
    finally:
        first.close()


def test_a_worker_that_no_plan_gives_anything_says_so(
    control: Publisher, running: Running, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(idle_reason, "LONG_S", 0.0)
    me = control.incarnation("w-0")
    control.publish(plan(control, 1, {control.topic_id: topic}, {Tp(control.topic_id, 0): Incarnation("w-1", "nobody")}))
    until("it says so", lambda: f"{me.name}/{me.uuid}: no partition for" in caplog.text)


def test_who_joins_a_log_into_which_others_write_all_the_time_gets_ready(
    broker: Broker, control: Publisher, group: str, topic: str, produce: Callable[..., None]
) -> None:
    """A client tells the end of a log only when it has asked for records and none came."""
    produce(topic, {0: 3})
    with others_write(broker.bootstrap, group):
        joined = Running(broker, group, topic)
        try:
            me = control.incarnation("w-0")
            control.publish(plan(control, 1, {control.topic_id: topic}, {Tp(control.topic_id, 0): me}))
            until("the plan is followed", lambda: len(joined.got) == 3)
        finally:
            joined.close()
