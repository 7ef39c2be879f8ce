"""What a worker does when commits fail, or when what it finds committed is not of its topic."""

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from autoscaler.devtools.broker import Broker
from autoscaler.handover.commit_metadata import commit_metadata
from autoscaler.handover.records import Incarnation, Tp, Wait
from tests.kafka.in_process import Running, plan
from tests.kafka.workers import Publisher
from tests.until import until


@pytest.fixture
def run(broker: Broker, group: str) -> Iterator[Callable[..., Running]]:
    """Return ``run(*topics, exactly_once=False)``: a consumer in this process."""
    started: list[Running] = []

    def start(*topics: str, exactly_once: bool = False) -> Running:
        started.append(Running(broker, group, *topics, exactly_once=exactly_once))
        return started[-1]

    yield start
    for running in started:
        running.close()


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_topic_that_takes_no_commit_keeps_others_neither_from_beginning_nor_from_ending(  # noqa: PLR0917  (fixtures and a case)
    control: Publisher,
    run: Callable[..., Running],
    topic: str,
    make_topic: Callable[..., str],
    produce: Callable[..., None],
    exactly_once: bool,  # noqa: FBT001  (a case)
) -> None:
    """A first owner commits where it begins; of a topic that is gone that is refused for good."""
    doomed = make_topic(partitions=1)
    gone = Tp(until("its id is known", lambda: control.identify(doomed)), 0)
    control.admin.delete_topics([doomed])[doomed].result(30)
    produce(topic, {0: 3, 1: 3})
    running = run(topic, exactly_once=exactly_once)
    me = control.incarnation("w-0")
    kept = {Tp(control.topic_id, 0): me, Tp(control.topic_id, 1): me}
    control.publish(plan(control, 1, {control.topic_id: topic, gone.topic_id: doomed}, {**kept, gone: me}))
    until("the others are processed", lambda: len(running.got) == 6)
    assert sorted(running.got) == [(topic, p, o) for p in range(2) for o in range(3)]
    running.consumer.stop()
    until("it has left", lambda: control.has_left(me))
    assert control.committed_at(0, 3)
    assert control.committed_at(1, 3)


def test_a_first_owner_begins_only_after_its_start_is_committed(
    control: Publisher, run: Callable[..., Running], topic: str, produce: Callable[..., None]
) -> None:
    """Else the next owner could begin elsewhere, by another start."""
    produce(topic, {0: 10})
    running = run(topic)
    me, tp = control.incarnation("w-0"), Tp(control.topic_id, 0)
    running.commits.refuse = True
    control.publish(plan(control, 1, {control.topic_id: topic}, {tp: me}))
    until("it has tried to commit again and again", lambda: running.commits.tries >= 3)
    early, running.commits.refuse = list(running.got), False
    until("it begins", lambda: len(running.got) == 10)
    assert early == []


def test_nothing_is_released_before_what_was_processed_is_committed(
    control: Publisher, run: Callable[..., Running], topic: str, produce: Callable[..., None]
) -> None:
    running = run(topic)
    me, other, tp = control.incarnation("w-0"), Incarnation("w-1", "nobody"), Tp(control.topic_id, 0)
    control.publish(plan(control, 1, {control.topic_id: topic}, {tp: me}))
    control.holds(me, {0})
    until("its start is committed", lambda: control.committed_at(0, 0))
    running.commits.refuse = True
    produce(topic, {0: 10})
    until("all are processed", lambda: len(running.got) == 10)
    control.publish(plan(control, 2, {control.topic_id: topic}, {tp: other}, (tp, Wait(worker=me, epoch=2))))
    until("it is told to stop", lambda: not running.consumer.partitions)
    tried = running.commits.tries

    def released() -> bool:
        control.observe()
        return (tp, me) in control.released

    until("it has tried again and again", lambda: released() or running.commits.tries >= tried + 3)
    assert not released()
    running.commits.refuse = False
    until("it is released", released)
    assert control.released[tp, me].offset == 10
    assert control.committed_at(0, 10)


def test_an_offset_of_another_topic_of_that_name_is_no_place_to_begin(
    broker: Broker, control: Publisher, run: Callable[..., Running], topic: str, produce: Callable[..., None]
) -> None:
    """A late commit of a topic that was made anew: beginning there would skip what nobody has seen."""
    consumer = Consumer({**broker.connection(), "group.id": control.group})
    stale, own = commit_metadata("an-earlier-topic", 3, "w"), commit_metadata(control.topic_id, 3, "w")
    offsets = [TopicPartition(topic, 0, 7, metadata=stale), TopicPartition(topic, 1, 7, metadata=own)]

    def committed() -> bool:
        with suppress(KafkaException):  # a broker that has just started loads its coordinator
            return bool(consumer.commit(offsets=offsets, asynchronous=False))
        return False

    until("the offsets are committed", committed)
    consumer.close()
    produce(topic, {0: 10, 1: 10})
    running = run(topic)
    me = control.incarnation("w-0")
    control.publish(plan(control, 4, {control.topic_id: topic}, {Tp(control.topic_id, n): me for n in range(2)}))
    until("the rest is processed", lambda: {(topic, 0, 9), (topic, 1, 9)} <= set(running.got))
    assert [o for _, p, o in running.got if p == 0] == list(range(10))
    assert [o for _, p, o in running.got if p == 1] == list(range(7, 10))
