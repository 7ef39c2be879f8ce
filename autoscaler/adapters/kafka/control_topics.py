"""Kafka's topics and errors, as the control log needs them: made, checked, and failures said in words that name what to do.

Used by the other Kafka adapters beside it; knows no plan and no record. Client exceptions end here: what leaves is one of
``errors.py``, with the cause kept.
"""

import concurrent.futures
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec

from autoscaler.clients.admin_clients import kept
from autoscaler.clients.secrets import resolve_secrets
from autoscaler.errors import AutoscalerError, SettingsError, TransientError, UnreachableError
from autoscaler.handover.codec import PARTITIONS
from autoscaler.handover.expiry import margin_s
from autoscaler.handover.records import CONTROL_TOPIC, HEARTBEAT_TOPIC, NO_AUTO_CREATION, RECOMMIT_S, kafka_id
from autoscaler.topic_selection import names, patterns, wanted

_T = TypeVar("_T")
Connection = Mapping[str, str | int | float | bool]

_MAX_REPLICATION = 3
_HEARTBEAT_RETENTION_S = 600.0  # at least; a lease above two minutes gets more
_HEARTBEAT_LEASES = 4.0
_RETRY_PAUSE_S = 0.05
_SAID_EVERY_S = 10.0
DENIED = frozenset({
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,  # noqa: SLF001  the client's own name for it
})  # fmt: skip

_SPEC: Any = OffsetSpec  # its constructors carry no types
EARLIEST, LATEST = _SPEC.earliest(), _SPEC.latest()


class Sparing(logging.Filter):
    """Lets a kind of message of a client through once in ten seconds: while a broker is away it comes all the time."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[tuple[object, ...], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether to write a record; the client gives facility and its own name as arguments."""
        kind = (record.msg, *map(str, record.args[:2] if isinstance(record.args, tuple) else ()))
        now = time.monotonic()
        if now - self._said.get(kind, -_SAID_EVERY_S) < _SAID_EVERY_S:
            return False
        self._said = {k: at for k, at in self._said.items() if now - at < _SAID_EVERY_S} | {kind: now}
        return True


client_log = logging.getLogger("autoscaler.kafka")
client_log.addFilter(Sparing())


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic as the cluster describes it now; ``replicas`` is that of the partition that has fewest."""

    topic_id: str
    partitions: int
    replicas: int = 1


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn the client's exceptions into ours; ``what`` says what was being done, for the message.

    Raises:
        SettingsError: The cluster refuses (no permission, wrong credentials); the message says what to change.
        TransientError: Everything else: the broker is away, moving, or slow.
    """
    try:
        yield
    except KafkaException as e:
        error = e.args[0]
        name = error.name() if isinstance(error, KafkaError) else str(error)
        if isinstance(error, KafkaError) and error.code() in DENIED:
            todo = "give this user the permission, see docs/reference/permissions.md"
            raise SettingsError((f"{what}: the cluster refuses ({name}); {todo}",)) from e
        raise TransientError(f"{what}: {name}") from e
    except (TimeoutError, concurrent.futures.TimeoutError) as e:
        raise TransientError(f"{what}: no answer in time") from e


def retried(call: Callable[[], _T], *, for_s: float) -> _T:
    """Call until it no longer raises ``TransientError``, at most this long: a topic just made has no leader for a moment."""
    deadline = time.monotonic() + for_s
    while True:
        try:
            return call()
        except TransientError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_PAUSE_S)


def admin_client(connection: Connection) -> AdminClient:
    """Return an admin client that logs into ``autoscaler.kafka``.

    Raises:
        SettingsError: A connection setting is unknown to the client or impossible.
    """
    admin: AdminClient = kept(client(AdminClient, connection, {}))
    return admin


def client(kind: Any, connection: Connection, more: Mapping[str, object]) -> Any:
    """Make a client of this kind; what the connection says is overridden by what the protocol needs.

    References are read now: a password that has been changed since the job began is taken by every new client.

    Raises:
        SettingsError: A connection setting is unknown to the client or impossible, or what it refers to is not there.
    """
    try:
        # Or a broker that creates topics by itself would make those of the control log as they must not be.
        own = {**NO_AUTO_CREATION, **more}
        return kind({"reconnect.backoff.max.ms": 1000, **resolve_secrets(connection), **own}, logger=client_log)
    except KafkaException as e:
        raise SettingsError((f"connection: {e.args[0].str()}",)) from e


def probe(connection: Connection, topics: Sequence[str], *, timeout_s: float = 10.0) -> dict[str, TopicFacts]:
    """Check that the cluster answers and that the topics that are named exist, before anything is started.

    Raises:
        SettingsError: Every one that does not exist or may not be described, and wrong credentials.
        TransientError: No broker answers; the message names the address.
    """
    admin = admin_client(connection)
    where = connection.get("bootstrap.servers")
    try:
        answering(admin, connection, timeout_s=timeout_s)
        found = describe(admin, names(topics), timeout_s=timeout_s)
    finally:
        admin.poll(0)
    missing = tuple(
        f"topic {t!r} does not exist at {where}: create it, or correct groups.*.topics" for t in names(topics) if t not in found
    )
    if missing:
        raise SettingsError(missing)
    return found


def answering(admin: AdminClient, connection: Connection, *, timeout_s: float) -> None:
    """Check that a broker answers.

    Raises:
        SettingsError: Wrong credentials.
        UnreachableError: None answers; the message names the address.
    """
    where = connection.get("bootstrap.servers")
    try:
        with translated(f"no broker answers at {where}: check bootstrap.servers of its connection, and that the cluster runs"):
            admin.list_topics(timeout=timeout_s)
    except TransientError as e:
        raise UnreachableError(str(e)) from e


def chosen(admin: AdminClient, topics: tuple[str, ...], *, timeout_s: float = 5.0) -> frozenset[str]:
    """Return what is named among a group's topics, there or not, and what its patterns mean of what this user may describe.

    Raises:
        TransientError: No broker answers.
    """
    if not patterns(topics):
        return frozenset(topics)
    with translated("list the topics"):
        return wanted(topics, admin.list_topics(timeout=timeout_s).topics)


def describe(admin: AdminClient, topics: Collection[str], *, timeout_s: float = 5.0) -> dict[str, TopicFacts]:
    """Return id and partition count of those of the topics that exist."""
    if not topics:
        return {}
    out = {}
    for name, future in admin.describe_topics(TopicCollection(list(topics)), request_timeout=timeout_s).items():
        facts = facts_of(name, future, timeout_s=timeout_s)
        if facts is not None:
            out[name] = facts
    return out


def facts_of(name: str, future: "concurrent.futures.Future[Any]", *, timeout_s: float) -> TopicFacts | None:
    """Return what one answer of ``describe_topics`` says, ``None`` if there is no such topic."""
    with translated(f"describe topic {name!r}"):
        try:
            found = future.result(timeout_s)
        except KafkaException as e:
            if e.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise
    replicas = min((len(p.replicas) for p in found.partitions), default=1)
    return TopicFacts(topic_id=kafka_id(str(found.topic_id)), partitions=len(found.partitions), replicas=replicas)


def offsets_retention_s(admin: AdminClient, *, timeout_s: float = 5.0) -> float | None:
    """Return for how long the brokers keep an offset that is not committed again; ``None`` if they do not tell this user."""
    try:
        with translated("read the brokers' configuration"):
            broker = min(admin.list_topics(timeout=timeout_s).brokers)
            asked = ConfigResource(ConfigResource.Type.BROKER, str(broker))
            found = admin.describe_configs([asked], request_timeout=timeout_s)[asked].result(timeout_s + 1)
        return 60.0 * float(found["offsets.retention.minutes"].value)
    except (AutoscalerError, ValueError, LookupError) as e:
        client_log.info("how long offsets are kept is not known (%s): they are committed anew every %.0f s", e, RECOMMIT_S)
        return None


def ensure_control_topics(
    admin: AdminClient, *, lease_s: float, replication_factor: int | None, deadline_s: float = 15.0
) -> dict[str, TopicFacts]:
    """Create the two topics of the protocol where they are missing, check those that are there, and return both.

    Heartbeats are kept for at least four leases and margins. A broker that has just started refuses for a while: tried again for
    ``deadline_s``.

    Raises:
        SettingsError: A topic is configured so that the protocol would not hold, or may not be created; says what to write.
        TransientError: The cluster did not answer in time.
    """
    wanted = {CONTROL_TOPIC: _control_config(), HEARTBEAT_TOPIC: _heartbeat_config(lease_s)}

    def attempt() -> dict[str, TopicFacts]:
        found = describe(admin, tuple(wanted))
        if missing := [t for t in wanted if t not in found]:
            _create(admin, {t: wanted[t] for t in missing}, replication_factor)
            found = describe(admin, tuple(wanted))
        if unseen := [t for t in wanted if t not in found]:  # the broker that was asked is behind the one that made them
            raise TransientError(f"{', '.join(unseen)}: made, and not yet known to every broker")
        check_control_topics(admin, lease_s, found)
        return found

    return retried(attempt, for_s=deadline_s)


def _control_config() -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "segment.bytes": str(1 << 20),  # the broker's least: compaction leaves the active segment alone
        "segment.ms": "600000",
        "min.cleanable.dirty.ratio": "0.1",
        "max.compaction.lag.ms": "600000",
        # A worker that read a record and stands still for longer than this may never learn that it was deleted: it then
        # remembers an incarnation that is over and never comes again. A day, the broker's default, is what every joining worker
        # would read.
        "delete.retention.ms": "3600000",
        "message.timestamp.type": "LogAppendTime",  # one clock for releases and takings
    }


def _retention_s(lease_s: float) -> float:
    return _HEARTBEAT_LEASES * (lease_s + margin_s(lease_s))


def _heartbeat_config(lease_s: float) -> dict[str, str]:
    retention_ms = int(1000 * max(_HEARTBEAT_RETENTION_S, _retention_s(lease_s)))
    return {
        "cleanup.policy": "delete",
        "retention.ms": str(retention_ms),
        "segment.ms": str(retention_ms // 4),
        "segment.bytes": str(16 << 20),
        "message.timestamp.type": "LogAppendTime",
    }


def _create(admin: AdminClient, wanted: Mapping[str, dict[str, str]], replication_factor: int | None) -> None:
    factor = wanted_replication(admin, replication_factor)
    durable = {"unclean.leader.election.enable": "false", "min.insync.replicas": str(wanted_in_sync(factor))}
    new = [NewTopic(t, num_partitions=PARTITIONS, replication_factor=factor, config=c | durable) for t, c in wanted.items()]
    for name, future in admin.create_topics(new, operation_timeout=5.0, request_timeout=6.0).items():
        with translated(f"create topic {name!r}"):
            try:
                future.result(7.0)
            except KafkaException as e:
                if e.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
    retried(lambda: _see(admin, tuple(wanted)), for_s=5.0)


def wanted_replication(admin: AdminClient, replication_factor: int | None) -> int:
    """Return how many replicas the two topics should have: as configured, or 3, or one per broker where there are fewer."""
    with translated("read the list of brokers"):
        brokers = len(admin.list_topics(timeout=5.0).brokers)
    return replication_factor or min(_MAX_REPLICATION, max(1, brokers))


def wanted_in_sync(replicas: int) -> int:
    """Return how many replicas must have a record before it counts as written: one broker may be away, and one may be lost."""
    return 2 if replicas >= _MAX_REPLICATION else 1


def _see(admin: AdminClient, names: Sequence[str]) -> None:
    """Described too early, a new topic is unknown to the broker that is asked."""
    if len(describe(admin, names)) < len(names):
        msg = "the topics of the control log were created and are not visible yet"
        raise TransientError(msg)


def configurations(admin: AdminClient) -> dict[str, dict[str, str]]:
    """Return the configuration of the two topics.

    Raises:
        SettingsError: The cluster refuses.
        TransientError: It does not answer.
    """
    resources = [ConfigResource(ConfigResource.Type.TOPIC, t) for t in (CONTROL_TOPIC, HEARTBEAT_TOPIC)]
    config: dict[str, dict[str, str]] = {}
    with translated("read the configuration of the control log's topics"):
        for resource, future in admin.describe_configs(resources, request_timeout=5.0).items():
            config[resource.name] = {k: str(v.value) for k, v in future.result(6.0).items()}
    return config


def check_control_topics(admin: AdminClient, lease_s: float, found: Mapping[str, TopicFacts]) -> None:
    """Check that the two topics are configured so that the protocol holds.

    Raises:
        SettingsError: They are not; says what to write.
        TransientError: The cluster does not answer.
    """
    config = configurations(admin)
    control, heartbeats = config[CONTROL_TOPIC], config[HEARTBEAT_TOPIC]
    needed_ms = int(1000 * _retention_s(lease_s))
    problems: list[str] = [
        *_must_be(CONTROL_TOPIC, control, "cleanup.policy", "compact"),
        *_must_be(CONTROL_TOPIC, control, "message.timestamp.type", "LogAppendTime"),
        *_must_be(HEARTBEAT_TOPIC, heartbeats, "cleanup.policy", "delete"),
        *_must_be(HEARTBEAT_TOPIC, heartbeats, "message.timestamp.type", "LogAppendTime"),
    ]
    problems += [
        f"topic {name}: it has {facts.partitions} partitions and must have {PARTITIONS} at least; if a broker made it by itself "
        f"(auto.create.topics.enable), delete it: it is made as it must be"
        for name, facts in found.items()
        if facts.partitions < PARTITIONS
    ]
    if 0 <= int(heartbeats.get("retention.ms", "-1")) < needed_ms:
        problems.append(alter(HEARTBEAT_TOPIC, "retention.ms", str(needed_ms), f"too short for a lease of {lease_s:g} s"))
    if problems:
        raise SettingsError(tuple(problems))


def _must_be(topic: str, config: Mapping[str, str], key: str, value: str) -> tuple[str, ...]:
    return () if config.get(key) == value else (alter(topic, key, value, f"it is {config.get(key)!r}"),)


def alter(topic: str, key: str, value: str, why: str) -> str:
    """Return what must be changed of a topic, why, and the command that changes it."""
    command = f"kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config {key}={value}"
    return f"topic {topic}: {key} must be {value} ({why}): {command}"
