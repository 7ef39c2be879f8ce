"""What a worker takes from the control log: committed plans only; and what it says when none gives it anything."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from autoscaler.devtools.broker import Broker
from autoscaler.handover.codec import encode
from autoscaler.handover.records import CONTROL_TOPIC, Incarnation, Tp
from autoscaler.worker import control_log, effect_loop, idle_reason
from autoscaler.worker.fetch_watch import FetchWatch
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


class Forgetful(Consumer):
    """A client that comes to believe that the log is not there, as librdkafka's may for good once its broker has come back."""

    def __init__(self, settings: dict[str, object]) -> None:
        super().__init__(settings)
        self.forgot, self.asked = False, 0

    def get_watermark_offsets(self, *given: Any, **named: Any) -> tuple[int, int]:  # noqa: ANN401  (as of the client)
        if self.forgot:
            self.asked += 1
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        return super().get_watermark_offsets(*given, **named)

    def poll(self, *given: Any) -> Any:  # noqa: ANN401  (as above)
        return None if self.forgot else super().poll(*given)


def test_a_client_that_does_not_know_the_log_any_more_is_replaced(  # noqa: PLR0917  (fixtures)
    broker: Broker, control: Publisher, group: str, topic: str, produce: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then the worker keeps what it holds, and no plan reaches it."""
    made: list[Forgetful] = []

    def client_of(settings: dict[str, object]) -> Forgetful:
        made.append(Forgetful(settings))
        return made[-1]

    monkeypatch.setattr(control_log, "Consumer", client_of)
    monkeypatch.setattr(effect_loop, "_PROVE_S", 0.2)
    produce(topic, {0: 3, 1: 3})
    running = Running(broker, group, topic)
    try:
        me = control.incarnation("w-0")
        names = {control.topic_id: topic}
        first, second = Tp(control.topic_id, 0), Tp(control.topic_id, 1)
        control.publish(plan(control, 1, names, {first: me}))
        until("the first plan is followed", lambda: len(running.got) == 3)
        (client,) = made
        client.forgot = True
        until("it has been asked in vain", lambda: client.asked > 0)
        control.publish(plan(control, 2, names, {first: me, second: me}))
        until("the second plan is followed", lambda: len(running.got) == 6)
        assert [where for where in running.got if where[1] == 0] == [(topic, 0, n) for n in range(3)], "nothing is read again"
        assert len(made) == 2
    finally:
        running.close()


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


def test_a_data_client_that_brings_nothing_of_what_is_there_is_replaced_and_nothing_comes_twice(
    control: Publisher, running: Running, topic: str, produce: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """After a broker's restart a client may fetch nothing for good; one whose partitions are paused does the same."""
    me, tps = control.incarnation("w-0"), [Tp(control.topic_id, n) for n in range(2)]
    control.publish(plan(control, 1, {control.topic_id: topic}, dict.fromkeys(tps, me)))
    control.holds(me, {0, 1})
    produce(topic, {0: 50, 1: 50})
    until("they are processed", lambda: len(running.got), lambda got: got == 100)
    intake, loop = running.consumer._intake, running.consumer._loop
    assert intake is not None
    assert loop is not None
    with intake._client() as deaf:
        deaf.pause([TopicPartition(topic, n) for n in range(2)])
    loop._fetching = FetchWatch(look_s=0.5)
    produce(topic, {0: 50, 1: 50})
    until("the rest is processed", lambda: len(running.got), lambda got: got >= 200)
    assert intake.consumer is not deaf
    assert sorted(running.got) == [(topic, p, n) for p in range(2) for n in range(100)]
    assert [n for _, p, n in running.got if p == 0] == list(range(100)), "in order"
    assert "brings nothing of what is in the log" in caplog.text
    until("all of it is committed", lambda: control.committed(0).offset, lambda offset: offset == 100)
