"""Reads and changes which broker holds what: implements ``brokers.ports.ClusterAdmin`` with kafka-python.

confluent-kafka has no reassignments. One client is kept, and made anew after an error: what it refers to may have changed.
"""

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaPartition
from kafka.admin import AlterConfigOp, ConfigResource
from kafka.errors import KafkaError

from autoscaler.adapters.kafka.control_topics import Connection, client_log
from autoscaler.brokers.view import (
    LISTS,
    RATES,
    Broker,
    Cancel,
    ClearThrottle,
    Command,
    Elect,
    Holders,
    Reassign,
    SetThrottle,
    Setting,
    ShortenLists,
    View,
)
from autoscaler.clients.kafka_python import ClientError, connect, named
from autoscaler.errors import PermanentError, TransientError
from autoscaler.model import TopicPartition

_CALL_S = 10.0
_PREFERRED = 0
_GONE = frozenset({"NoReassignmentInProgressError", "ElectionNotNeededError"})  # it has been done, or has ended
_KEYS = {"broker": RATES, "topic": LISTS}
_T = TypeVar("_T")


class KafkaClusterAdmin:
    """The replicas of one cluster."""

    def __init__(self, connection: Connection) -> None:
        self._connection = dict(connection)
        self._admin: KafkaAdminClient | None = None

    def observe(self, topics: Collection[str]) -> View:
        """Return what is there now, see ``brokers.ports.ClusterAdmin``."""
        return self._asked("read brokers and replicas", lambda admin: _view(admin, topics))

    def execute(self, command: Command) -> Mapping[TopicPartition, str]:
        """Do it, see ``brokers.ports.ClusterAdmin``."""
        return self._asked(f"{type(command).__name__}", lambda admin: _done(admin, command))

    def close(self) -> None:
        """Release connections."""
        admin, self._admin = self._admin, None
        if admin is not None:
            with suppress(KafkaError, OSError):
                admin.close()

    def _asked(self, what: str, call: Callable[[KafkaAdminClient], _T]) -> _T:
        try:
            if self._admin is None:
                self._admin = connect(self._connection, time.monotonic() + _CALL_S)
            return call(self._admin)
        except (ClientError, OSError, ValueError) as e:
            self.close()
            if "Authorization" in type(e).__name__:
                todo = "give this user the permission, see docs/reference/permissions.md"
                raise PermanentError(f"{what}: the cluster refuses ({named(e)}); {todo}") from e
            raise TransientError(f"{what}: {named(e)}") from e


def _view(admin: KafkaAdminClient, topics: Collection[str]) -> View:
    running = admin.list_partition_reassignments()  # first: what ends after it is seen in the replicas
    described = [t for t in admin.describe_topics() if not t["error_code"]]
    alive = sorted((b for b in admin.describe_cluster()["brokers"] if not b.get("is_fenced")), key=lambda b: int(b["broker_id"]))
    ids = [int(b["broker_id"]) for b in alive]
    there = {t["name"] for t in described}
    disks, sizes = _log_dirs(admin, ids)
    throttles, answered = _of_brokers(admin, ids)
    return View(
        brokers={n: _broker(b["rack"], disks.get(n), answered[n]) for n, b in zip(ids, alive, strict=True)},
        partitions={
            TopicPartition(topic=t["name"], partition=p["partition_index"]): Holders(
                tuple(p["replica_nodes"]), frozenset(p["isr_nodes"]), p["leader_id"]
            )
            for t in described
            for p in t["partitions"]
        },
        sizes=sizes,
        running={TopicPartition(topic=p.topic, partition=p.partition): _leads_to(r) for p, r in running.items()},
        throttles=throttles | _throttles(admin, "topic", sorted(there & set(topics))),
    )


def _broker(rack: str | None, disk: tuple[float, float] | None, answered_s: float) -> Broker:
    all_bytes, free = disk or (None, None)
    return Broker(rack=rack, disk_bytes=all_bytes, free_bytes=free, answered_s=answered_s)


def _leads_to(reassignment: Mapping[str, list[int]]) -> tuple[int, ...]:
    return tuple(b for b in reassignment["replicas"] if b not in reassignment["removing_replicas"])


def _log_dirs(admin: KafkaAdminClient, ids: list[int]) -> tuple[dict[int, tuple[float, float]], dict[TopicPartition, float]]:
    """Return bytes of disks, all and free ones, by broker, and the greatest size of each partition's replicas."""
    disks, sizes = dict[int, tuple[float, float]](), dict[TopicPartition, float]()
    for found in admin.describe_log_dirs(brokers=ids):
        good = [d for d in found["log_dirs"] if not d["error_code"]]
        told = [(d.get("total_bytes", -1), d.get("usable_bytes", -1)) for d in good]
        if told and all(total >= 0 and free >= 0 for total, free in told):
            disks[found["broker"]] = float(sum(total for total, _ in told)), float(sum(free for _, free in told))
        for topic in (t for d in good for t in d["topics"]):
            for p in topic["partitions"]:
                key = TopicPartition(topic=topic["name"], partition=p["partition_index"])
                if not p["is_future_key"]:
                    sizes[key] = max(sizes.get(key, 0.0), float(p["partition_size"]))
    return disks, sizes


def _of_brokers(admin: KafkaAdminClient, ids: list[int]) -> tuple[dict[Setting, str], dict[int, float]]:
    """Return the brokers' throttles, and in how many seconds each has answered for itself, in one queue with what clients ask."""
    throttles, answered = dict[Setting, str](), dict[int, float]()
    for n in ids:
        began = time.monotonic()
        throttles |= _throttles(admin, "broker", [str(n)])
        answered[n] = time.monotonic() - began
    return throttles, answered


def _throttles(admin: KafkaAdminClient, kind: str, names: list[str]) -> dict[Setting, str]:
    wanted = [ConfigResource(kind, n, dict.fromkeys(_KEYS[kind])) for n in names]
    found = admin.describe_configs(wanted) if wanted else {}
    return {
        Setting(kind, name, key): str(entry["value"])
        for name, entries in found.get(kind, {}).items()
        for key, entry in entries.items()
        if key in _KEYS[kind] and entry["value"]
    }


def _done(admin: KafkaAdminClient, command: Command) -> Mapping[TopicPartition, str]:
    match command:
        case SetThrottle(values=values):
            _alter(admin, {s: (AlterConfigOp.APPEND if s.key in LISTS else AlterConfigOp.SET, v) for s, v in values.items()})
        case ClearThrottle(settings=settings):
            _alter(admin, dict.fromkeys(settings, (AlterConfigOp.DELETE, None)))
        case ShortenLists(values=values):
            _alter(admin, {s: (AlterConfigOp.SUBTRACT, v) for s, v in values.items()})
        case Reassign(replicas=replicas):
            return _reassign(admin, replicas)
        case Cancel(partitions=partitions):
            return _reassign(admin, dict.fromkeys(partitions))
        case Elect(partitions=partitions):
            return _elect(admin, partitions)
    return {}


def _alter(admin: KafkaAdminClient, entries: Mapping[Setting, tuple[Any, str | None]]) -> None:
    resources = {
        (s.kind, s.name): {x.key: e for x, e in entries.items() if (x.kind, x.name) == (s.kind, s.name)} for s in entries
    }
    wanted = [ConfigResource(kind, name, configs) for (kind, name), configs in sorted(resources.items())]
    found = admin.alter_configs(wanted, raise_on_unknown=False, incremental=True)
    failed = {f"{kind} {name}: {said}" for kind, x in found.items() for name, said in x.items() if said != "OK"}
    failed = {x for x in failed if "UnknownTopicOrPartition" not in x}  # a topic that is gone has no throttle
    if any("Authorization" in x for x in failed):
        raise PermanentError(f"throttle: the cluster refuses ({'; '.join(sorted(failed))}), see docs/reference/permissions.md")
    if failed:
        raise TransientError(f"throttle: {'; '.join(sorted(failed))}")


def _reassign(admin: KafkaAdminClient, replicas: Mapping[TopicPartition, tuple[int, ...] | None]) -> dict[TopicPartition, str]:
    found = admin.alter_partition_reassignments({KafkaPartition(*p): r for p, r in replicas.items()})
    return _refused({p: e.__name__ for p, e in found.items() if e is not None})


def _elect(admin: KafkaAdminClient, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
    asked: dict[str, list[int]] = {}
    for p in partitions:
        asked.setdefault(p.topic, []).append(p.partition)
    answer = admin.elect_leaders(_PREFERRED, asked, raise_errors=False)
    codes = {
        KafkaPartition(r.topic, p.partition_id): named(p.error_code)
        for r in answer.replica_election_results
        for p in r.partition_result
        if p.error_code
    }
    return _refused(codes)


def _refused(found: Mapping[KafkaPartition, str]) -> dict[TopicPartition, str]:
    refused = {TopicPartition(topic=p.topic, partition=p.partition): name for p, name in found.items() if name not in _GONE}
    if refused:
        client_log.info("refused: %s", ", ".join(f"{p}: {name}" for p, name in sorted(refused.items())[:5]))
    return refused
