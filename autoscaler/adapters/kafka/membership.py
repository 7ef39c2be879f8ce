"""Membership of consumer groups, read in the background: implements ``ports.GroupReader`` on Kafka.

One thread asks for all groups every few seconds; a cycle takes the latest answer and never waits. Used for native groups, and to
refuse a managed group that other consumers subscribe with (``docs/design/protocol.md``, rule 13). It asks with kafka-python:
where a coordinator goes away meanwhile, the same request of librdkafka aborts the process (docs/decisions/0006).
"""

import logging
import struct
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import ACLOperation
from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription, ConsumerProtocolType
from kafka.protocol.metadata import FindCoordinatorRequest

from autoscaler.adapters.kafka.control_topics import Connection, client_log
from autoscaler.adapters.kafka.messages import ConsumerGroupDescribeRequest
from autoscaler.clients.kafka_python import ClientError, connect, named, translate
from autoscaler.clients.secrets import resolve_secrets
from autoscaler.concurrency import started
from autoscaler.errors import AutoscalerError, TransientError
from autoscaler.handover.placement_record import introduced
from autoscaler.model import GroupMembers, Member, TopicPartition
from autoscaler.ports import Clock

_log = logging.getLogger(__name__)
_CALL_S = 5.0
_STALE_READS = 3.0
_STALE_S = 10.0
_NOT_THERE = 69  # GROUP_ID_NOT_FOUND: there is no such group, or it is on the other protocol
_RACKS = 3  # version of a subscription from which on it can name a rack
_DEAD_DESCRIBED = 5  # version of the request up to which a group that is not there is described like the others
_TYPES_LISTED = 5  # version of the request from which on groups are listed with their type
_STATES = {
    "PreparingRebalance": "PREPARING_REBALANCING",
    "CompletingRebalance": "COMPLETING_REBALANCING",
    "": "UNKNOWN",
}  # the others only in capitals


class KafkaGroupReader:
    """Reads the membership of groups every ``every_s``; ``members`` answers from the latest read.

    Raises:
        SettingsError: A connection setting is unknown to the client or impossible.
    """

    def __init__(self, connection: Connection, groups: Sequence[str], clock: Clock, every_s: float = 2.0) -> None:
        translate(resolve_secrets(dict(connection)))
        self._connection = dict(connection)
        self._groups, self._clock, self._every_s = tuple(groups), clock, every_s
        self._latest: dict[str, tuple[float, GroupMembers]] = {}
        self._unreadable: dict[str, str] = {}  # why, as it was said last
        self._failures: dict[str, str] = {}  # of the latest read
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="group-reader", daemon=True)
        self._thread.start()

    def members(self, group: str) -> GroupMembers | None:
        """Return the latest membership, ``None`` before the first read or when reads fail for long."""
        read_at, found = self._latest.get(group, (0.0, None))
        if found is None or self._clock.monotonic() - read_at > max(_STALE_S, _STALE_READS * self._every_s):
            return None
        return found

    def failure(self, group: str) -> str | None:
        """Return why the latest read failed, ``None`` if it did not."""
        return self._failures.get(group)

    def close(self) -> None:
        """Stop reading."""
        self._stop.set()
        self._thread.join(2 * _CALL_S)

    def _run(self) -> None:
        admin: KafkaAdminClient | None = None
        while not self._stop.is_set():
            try:
                admin = admin or connect(self._connection, time.monotonic() + _CALL_S)
                self._take(_Asking(admin).describe(self._groups))
            except Exception as e:  # noqa: BLE001  a defect must not end the thread: no group would be known until a restart
                usual = isinstance(e, AutoscalerError | ClientError | OSError | TimeoutError)
                said = client_log.info if usual else client_log.exception
                said("membership of %s could not be read: %s", ", ".join(self._groups), named(e))
                self._failures = dict.fromkeys(self._groups, named(e))
                _close(admin)
                admin = None  # it may know coordinators that are gone
            self._stop.wait(self._every_s)
        _close(admin)

    def _take(self, found: "_Found") -> None:
        for group, described in found.items():
            if isinstance(described, int):
                client_log.info("membership of group %s could not be read: %s", group, named(described))
                self._failures[group] = f"its coordinator answers {named(described)}"
                continue
            if isinstance(described, str):
                self._not_understood(group, described)
                continue
            self._unreadable.pop(group, None)
            self._failures.pop(group, None)
            self._latest[group] = (self._clock.monotonic(), _as_read(described, self._clock.now()))

    def _not_understood(self, group: str, why: str) -> None:
        """Forget what the group was, and say why, once for as long as that stays."""
        self._latest.pop(group, None)
        self._failures[group] = f"what its members sent makes no sense: {why}"
        if self._unreadable.get(group) != why:
            _log.warning("membership of group %s is unknown, what its members sent makes no sense: %s", group, why)
        self._unreadable[group] = why


_Described = tuple[str, str, str, tuple[Member, ...]]  # kind, state, assignor, members
_Found = dict[str, _Described | int | str]  # by group; or the error code that its coordinator gave, or why it makes no sense
Described = GroupMembers | str  # or why it could not be read


def _as_read(described: _Described, at: float) -> GroupMembers:
    kind, state, assignor, members = described
    return GroupMembers(state=state, kind=kind, assignor=assignor, members=members, at=at)


def describe(admin: KafkaAdminClient, groups: Sequence[str], at: float) -> dict[str, Described]:
    """Ask once, now (``at``, wall clock in s), what groups are, with a client that is connected."""
    found = _Asking(admin).describe(groups)
    said = {g: named(d) if isinstance(d, int) else d for g, d in found.items()}
    return {g: d if isinstance(d, str) else _as_read(d, at) for g, d in said.items()}


def operations_on(admin: KafkaAdminClient, group: str) -> frozenset[str]:
    """Return what this user may do with a group, whether it exists and whatever its protocol is, as ``READ``.

    Raises:
        TransientError: Its coordinator does not say so.
    """
    return _Asking(admin).operations(group)


class _Asking:
    """One round of questions to the coordinators of groups."""

    def __init__(self, admin: KafkaAdminClient) -> None:
        self._manager = admin._manager  # noqa: SLF001  kafka-python has no public call for KIP-848; its version is pinned

    def describe(self, groups: Sequence[str]) -> _Found:
        """Return what each group is, or why that is not known."""
        found: _Found = {}
        by_node: dict[int, list[str]] = {}
        if groups:
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=list(groups), min_version=4)
            for c in self._send(request, None).coordinators:
                if c.error_code:
                    found[c.key] = c.error_code
                else:
                    by_node.setdefault(c.node_id, []).append(c.key)
        for node, here in by_node.items():
            found |= self._of_node(node, here)
        return found

    def operations(self, group: str) -> frozenset[str]:
        """Return what this user may do with a group."""
        where = self._send(FindCoordinatorRequest(key_type=0, coordinator_keys=[group], min_version=4), None).coordinators[0]
        # up to this version one that does not exist, or is on the new protocol, is described as a dead one, with operations
        request = DescribeGroupsRequest(groups=[group], include_authorized_operations=True, max_version=_DEAD_DESCRIBED)
        answer = where if where.error_code else self._send(request, where.node_id).groups[0]
        if answer.error_code:  # says nothing of permissions: those that are not told would read as missing
            msg = f"group {group}: {named(answer.error_code)}"
            raise TransientError(msg)
        return frozenset(o.name for o in ACLOperation if o.value in (answer.authorized_operations or ()))

    def _of_node(self, node: int, groups: list[str]) -> _Found:
        found: _Found = {}
        if ConsumerGroupDescribeRequest.API_KEY in self._manager.broker_version_data.api_versions:
            for g in self._send(ConsumerGroupDescribeRequest(group_ids=groups), node).groups:
                if g.error_code != _NOT_THERE:
                    found[g.group_id] = g.error_code or _understood(_consumer, g)
        rest = [g for g in groups if g not in found]
        if rest:
            for g in self._send(DescribeGroupsRequest(groups=rest), node).groups:
                found[g.group_id] = _DEAD if g.error_code == _NOT_THERE else g.error_code or _understood(_classic, g)
        dead = [g for g in rest if found[g] == _DEAD]
        return found | (self._others(node, dead) if dead else {})

    def _others(self, node: int, groups: list[str]) -> dict[str, "_Described"]:
        """Return those that exist after all, as groups that neither protocol of consumers describes."""
        if self._manager.broker_version_data.api_versions[ListGroupsRequest.API_KEY][1] < _TYPES_LISTED:
            return {}
        listed = self._send(ListGroupsRequest(states_filter=[], types_filter=["share", "streams"], min_version=5), node).groups
        return {g.group_id: (g.group_type.upper(), _state(g.group_state), "", ()) for g in listed if g.group_id in groups}

    def _send(self, request: Any, node: int | None) -> Any:
        async def answer() -> Any:
            return await self._manager.send(request, node_id=node, request_timeout_ms=1000 * _CALL_S)

        return self._manager.run(answer)


_DEAD: _Described = ("UNKNOWN", "DEAD", "", ())


def _understood(kind: Callable[[Any], _Described], group: Any) -> _Described | str:
    """Return what a group is, or why its description makes no sense: its members' bytes are whatever they sent."""
    try:
        return kind(group)
    except Exception as e:  # noqa: BLE001  whatever one group's members send, the others must be read
        return f"{type(e).__name__}: {e}"


def _consumer(group: Any) -> _Described:
    members = [
        _member(
            m,
            place,
            [(t.topic_name, t.partitions) for t in m.assignment.topic_partitions],
            topics=None if m.subscribed_topic_regex else frozenset(m.subscribed_topic_names),
            instance=m.instance_id,
        )
        for place, m in enumerate(group.members)
    ]
    return "CONSUMER", _state(group.group_state), group.assignor_name, _ordered(members)


def _classic(group: Any) -> _Described:
    kind = "UNKNOWN" if group.group_state == "Dead" else "CLASSIC"
    if kind == "CLASSIC" and group.protocol_type not in {ConsumerProtocolType, ""}:
        return "OTHER", _state(group.group_state), group.protocol_data, ()
    members = _ordered(_subscribed(m, place) for place, m in enumerate(group.members))
    return kind, _state(group.group_state), group.protocol_data, members


def _subscribed(member: Any, place: int) -> Member:
    """Return a member of the classic protocol; how it joined is not told while the group rebalances."""
    held, instance = _assigned(member.member_assignment), member.group_instance_id
    try:
        said = ConsumerProtocolSubscription.decode(member.member_metadata) if member.member_metadata else None
    except (struct.error, ValueError):
        said = None
    if said is None:
        return _member(member, place, held, topics=None, instance=instance)
    name, *_ = introduced(said.user_data)
    rack = said.rack_id or "" if said.version >= _RACKS else ""
    topics = frozenset(t for t in said.topics or () if t is not None)
    return _member(member, place, held, topics=topics, instance=instance, library=_library(said), name=name, rack=rack)


def _member(member: Any, place: int, held: Sequence[tuple[str, Sequence[int]]], **joined: Any) -> Member:
    """Return a member with what it holds and what it said when it joined."""
    assigned = frozenset(TopicPartition(topic=t, partition=p) for t, ps in held for p in ps)
    ids = {"member_id": member.member_id, "client_id": member.client_id, "host": member.client_host}
    return Member(**ids, assigned=assigned, place=place, **joined)


def _ordered(members: Iterable[Member]) -> tuple[Member, ...]:
    return tuple(sorted(members, key=lambda m: m.member_id))


def _library(said: Any) -> str:
    """Return which library wrote a subscription: they differ in its version and in what they leave empty.

    With a rack, those of Kafka's own client and of librdkafka are the same: then it is not known.
    """
    if said.version >= _RACKS and said.rack_id is not None:
        return "librdkafka" if said.rack_id == "" else ""  # the others leave out a rack that is not set
    if said.version == 0 or (said.version == 1 and said.user_data == b""):
        return "kafka-python"
    return "java"


def _assigned(encoded: bytes | None) -> list[tuple[str, Sequence[int]]]:
    """Return what an assignment of the classic protocol holds: nothing while the group rebalances, or of another protocol."""
    try:
        found = ConsumerProtocolAssignment.decode(encoded) if encoded else None
    except (struct.error, ValueError):
        return []
    given = found.assigned_partitions or () if found else ()
    return [(topic, partitions or ()) for topic, partitions in given if topic is not None]


def _state(name: str) -> str:
    return _STATES.get(name, name.upper())


def _close(admin: KafkaAdminClient | None) -> None:
    """Close in the background: closing waits for a broker that may be away."""
    if admin is not None:
        started(admin.close, "kafka-close")
