"""An operator's release of parked partitions (rule 9): reads a group's latest plan and writes what is to be released beside it.

Used by ``autoscaler release``, while a controller runs or while none does: the record stays in the control log until a plan has
followed it. It fences no controller and takes no decision; the controller's next one says which worker gets the partition.
"""

import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from autoscaler.adapters.kafka.control_topics import Connection, admin_client, answering, client, describe, translated
from autoscaler.clients.log_follower import FOLLOWER_SETTINGS, LogFollower, is_end
from autoscaler.errors import PermanentError, TransientError
from autoscaler.handover.codec import decode, encode, partition_for
from autoscaler.handover.controller_state import ControllerState
from autoscaler.handover.records import CONTROL_TOPIC, Tp, Unparked
from autoscaler.model import TopicPartition as Partition

_CALL_S = 5.0
_READ_S = 30.0


def release(
    connection: Connection, group: str, *, topic: str | None = None, partition: int | None = None
) -> tuple[Partition, ...]:
    """Let parked partitions of a group (only those of a topic, or one of them) be handed out again, and return which.

    Raises:
        PermanentError: No such partition is parked; says which are.
        SettingsError: The cluster refuses.
        TransientError: The cluster does not answer.
    """
    admin = admin_client(connection)
    answering(admin, connection, timeout_s=_CALL_S)
    control = describe(admin, (CONTROL_TOPIC,)).get(CONTROL_TOPIC)
    if control is None:
        raise PermanentError(f"there is no topic {CONTROL_TOPIC} on this cluster: nothing is managed here, so nothing is parked")
    number = partition_for(group, control.partitions)
    state = _read(connection, group, number, control.topic_id)
    topics = state.plan.topics if state.plan else {}
    parked = {
        Partition(topics[tp.topic_id], tp.partition): (tp, at) for tp, at in state.parked().items() if tp.topic_id in topics
    }
    wanted = {p: x for p, x in sorted(parked.items()) if topic in {None, p.topic} and partition in {None, p.partition}}
    if not wanted:
        raise PermanentError(_nothing(group, parked, topic, partition))
    _write(connection, number, [_record(group, control.topic_id, *x) for x in wanted.values()])
    return tuple(wanted)


def _record(group: str, control_id: str, tp: Tp, epoch: int) -> Unparked:
    return Unparked(group=group, tp=tp, control_id=control_id, epoch=epoch)


def _nothing(group: str, parked: dict[Partition, Any], topic: str | None, partition: int | None) -> str:
    if not parked:
        return f"group {group}: nothing is parked"
    asked = topic if partition is None else f"{topic}-{partition}"
    return f"group {group}: {asked} is not parked; parked are {', '.join(map(str, sorted(parked)))}"


def _read(connection: Connection, group: str, number: int, control_id: str) -> ControllerState:
    """Return the group as the committed records of its control partition say."""
    reader = client(Consumer, connection, {**FOLLOWER_SETTINGS, "auto.offset.reset": "error"})
    follower, log = LogFollower(reader), (CONTROL_TOPIC, number)
    state, deadline = ControllerState(group, control_id, 0.0), time.monotonic() + _READ_S
    try:
        with translated("read the control log"):
            for failure in follower.begin([log], timeout_s=_CALL_S).values():
                raise failure
            while not follower.reached.caught_up(log):
                if time.monotonic() > deadline:
                    raise TransientError(f"the control log could not be read to its end within {_READ_S:.0f} s")
                messages = follower.fetch(0.1)
                for message in messages:
                    _fold(state, message, control_id)
                follower.note(messages)
    finally:
        reader.close()
    return state


def _fold(state: ControllerState, message: Message, control_id: str) -> None:
    if is_end(message):
        return
    if (error := message.error()) is not None:
        raise KafkaException(error)
    said = decode(message.key(), message.value(), control_id=control_id)
    if said.tombstone:
        state.forget(said.key or ())
    elif said.record is not None:
        state.fold(said.record, offset=message.offset() or 0, at=0.0)


def _write(connection: Connection, number: int, records: list[Unparked]) -> None:
    failed: list[KafkaError] = []
    producer = client(Producer, connection, {
        "enable.idempotence": True, "acks": "all", "linger.ms": 0, "message.timeout.ms": int(1000 * _CALL_S),
    })  # fmt: skip
    for record in records:
        key, value = encode(record)
        producer.produce(CONTROL_TOPIC, value, key, partition=number, on_delivery=lambda e, _m: failed.append(e) if e else None)
    left = producer.flush(2 * _CALL_S)
    with translated("write the release into the control log"):
        if failed:
            raise KafkaException(failed[0])
    if left:
        msg = "the release could not be written into the control log in time"
        raise TransientError(msg)
