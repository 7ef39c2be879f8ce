"""What a worker is told: by its arguments, and where those are silent by the environment that started it."""

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autoscaler.errors import SettingsError
from autoscaler.references import resolve_secrets

Setting = str | int | float | bool
Connection = Mapping[str, Setting]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """One worker's settings; names of environment variables in parentheses.

    Attributes:
        connection: librdkafka settings of the cluster (AUTOSCALER_CONNECTION as JSON, or AUTOSCALER_BOOTSTRAP).
        group: The group whose offsets are committed (AUTOSCALER_GROUP).
        topics: Topics that the group consumes, to warm up (AUTOSCALER_TOPICS, separated by commas).
        name: Stable name of this worker (AUTOSCALER_WORKER_NAME); the host's name and process id if nobody says.
        instance: Identity of the process or container as the platform names it (AUTOSCALER_INSTANCE).
        lease_s: How long it may act without having been heard (AUTOSCALER_LEASE_S).
        batch_size_bytes: Payload after which a batch is handed over. wait_time_s: time after which it is, however small.
        commit_interval_s: Longest time between the end of a batch and its commit.
        max_batch_s: An application that has not returned for this long counts as stuck.
    """

    connection: Connection
    group: str
    topics: tuple[str, ...] = ()
    name: str
    instance: str | None = None
    lease_s: float = 30.0
    batch_size_bytes: int = 256_000
    wait_time_s: float = 0.05
    commit_interval_s: float = 1.0
    max_batch_s: float = 300.0


def worker_settings(
    connection: Connection | None,
    *,
    group: str | None,
    topics: Sequence[str] | None,
    name: str | None,
    instance: str | None,
    lease_s: float | None,
    limits: Mapping[str, float],
    environment: Mapping[str, str] | None = None,
) -> WorkerSettings:
    """Join arguments and environment; an argument wins.

    Raises:
        SettingsError: With everything that is missing or cannot be read, at once.
    """
    env = os.environ if environment is None else environment
    problems: list[str] = []
    lease = _lease(env.get("AUTOSCALER_LEASE_S", "30") if lease_s is None else lease_s, problems)
    try:
        where = resolve_secrets(_connection(env, problems) if connection is None else connection)
    except SettingsError as e:
        where = {}
        problems.extend(e.problems)
    group = group or env.get("AUTOSCALER_GROUP", "")
    named = topics if topics is not None else [t.strip() for t in env.get("AUTOSCALER_TOPICS", "").split(",")]
    if not group:
        problems.append("group: give it, or set AUTOSCALER_GROUP")
    if not str(where.get("bootstrap.servers", "")) and not problems:
        problems.append("bootstrap.servers: name at least one broker, or set AUTOSCALER_BOOTSTRAP")
    for key, value in limits.items():
        if not value > 0:
            problems.append(f"{key}: must be above 0, not {value!r}")
    if problems:
        raise SettingsError(tuple(problems))
    default = WorkerSettings(connection=where, group=group, name=name or env.get("AUTOSCALER_WORKER_NAME") or _anonymous())
    return WorkerSettings(
        connection=where,
        group=group,
        topics=tuple(t for t in named if t),
        name=default.name,
        instance=instance or env.get("AUTOSCALER_INSTANCE") or None,
        lease_s=lease,
        batch_size_bytes=int(limits.get("batch_size_bytes", default.batch_size_bytes)),
        wait_time_s=limits.get("wait_time_s", default.wait_time_s),
        commit_interval_s=limits.get("commit_interval_s", default.commit_interval_s),
        max_batch_s=limits.get("max_batch_s", default.max_batch_s),
    )


def _lease(given: str | float, problems: list[str]) -> float:
    try:
        lease = float(given)
    except ValueError:
        lease = 0.0
    if not 0 < lease < float("inf"):
        problems.append(f"lease_s: must be seconds above 0, not {given!r} (AUTOSCALER_LEASE_S)")
    return lease


def _connection(env: Mapping[str, str], problems: list[str]) -> Connection:
    if text := env.get("AUTOSCALER_CONNECTION"):
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if isinstance(found, dict):
            return found
        problems.append("connection: AUTOSCALER_CONNECTION must be a JSON object of librdkafka settings")
    if servers := env.get("AUTOSCALER_BOOTSTRAP"):
        return {"bootstrap.servers": servers}
    if not problems:
        problems.append("bootstrap.servers: give a connection, or set AUTOSCALER_CONNECTION or AUTOSCALER_BOOTSTRAP")
    return {}


def _anonymous() -> str:
    return f"{os.uname().nodename}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
