"""What a worker is told: by its arguments, and where those are silent by the environment that started it."""

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autoscaler.clients.secrets import resolve_secrets, stamp
from autoscaler.errors import SettingsError
from autoscaler.handover.records import LEASE_S, LEAST_LEASE_S, MOST_LEASE_S
from autoscaler.handover.worker_state import HEARTBEATS_PER_LEASE

Setting = str | int | float | bool
Connection = Mapping[str, Setting]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """One worker's settings; names of environment variables in parentheses."""

    connection: Connection  # librdkafka settings of the cluster (AUTOSCALER_CONNECTION as JSON, or AUTOSCALER_BOOTSTRAP)
    group: str  # the group whose offsets are committed (AUTOSCALER_GROUP)
    # Topics that the group consumes, by name or ``^`` pattern, to warm up (AUTOSCALER_TOPICS, separated by commas)
    topics: tuple[str, ...] = ()
    name: str  # stable name of this worker (AUTOSCALER_WORKER_NAME); the host's name and process id if it is not given
    instance: str | None = None  # identity of the process or container as the platform names it (AUTOSCALER_INSTANCE)
    lease_s: float = LEASE_S  # how long it may act without having been heard (AUTOSCALER_LEASE_S)
    batch_size_bytes: int = 256_000  # payload after which a batch is handed over
    wait_time_s: float = 0.05  # time after which it is, however small
    commit_interval_s: float = 1.0  # longest time between the end of a batch and its commit
    max_batch_s: float = 300.0  # an application that has not returned for this long counts as stuck
    exactly_once: bool = False  # outputs and offsets go into one transaction per batch (AUTOSCALER_EXACTLY_ONCE, true or false)
    given: Connection = field(default_factory=dict, repr=False)  # the connection as it was given, with references
    stamp: str = field(default="", repr=False)  # what they referred to when they were read

    def renewed(self) -> "WorkerSettings":
        """Return them with what the connection refers to now; themselves if that is the same, or cannot be read at the moment."""
        if not self.given or (now := stamp(self.given)) == self.stamp:
            return self
        try:
            return replace(self, connection=resolve_secrets(self.given), stamp=now)
        except SettingsError:
            return self

    @property
    def named(self) -> bool:
        """Return whether the name was given: one that was made up in this process begins as none else does."""
        return not self.name.startswith(_own_prefix())


def worker_settings(  # noqa: PLR0913  (what an application may say)
    connection: Connection | None,
    *,
    group: str | None,
    topics: Sequence[str] | None,
    name: str | None,
    instance: str | None,
    lease_s: float | None,
    limits: Mapping[str, float | None],
    exactly_once: bool | None = None,
    environment: Mapping[str, str] | None = None,
) -> WorkerSettings:
    """Join arguments and environment; an argument wins.

    Raises:
        SettingsError: With everything that is missing or cannot be read, at once.
    """
    env = os.environ if environment is None else environment
    problems: list[str] = []
    lease = _lease(env.get("AUTOSCALER_LEASE_S", LEASE_S) if lease_s is None else lease_s, problems)
    transactions = _switch(env.get("AUTOSCALER_EXACTLY_ONCE", ""), problems) if exactly_once is None else exactly_once
    references = _connection(env, problems) if connection is None else connection
    read = stamp(references)
    try:
        where = resolve_secrets(references)
    except SettingsError as e:
        where = {}
        problems.extend(e.problems)
    group = group or env.get("AUTOSCALER_GROUP", "")
    named = topics if topics is not None else [t.strip() for t in env.get("AUTOSCALER_TOPICS", "").split(",")]
    if not group:
        problems.append("group: give it, or set AUTOSCALER_GROUP")
    if not str(where.get("bootstrap.servers", "")) and not problems:
        problems.append("bootstrap.servers: name at least one broker, or set AUTOSCALER_BOOTSTRAP")
    if isinstance(topics, str):
        problems.append(f"topics: must be a list of names, not the text {topics!r}")
    if transactions not in {True, False}:
        problems.append(f"exactly_once: must be True or False, not {transactions!r}")
    given = {key: value for key, value in limits.items() if value is not None}
    problems += [f"{key}: must be a number above 0, not {value!r}" for key, value in given.items() if not _positive(value)]
    if _positive(size := given.get("batch_size_bytes", 1)) and size < 1:
        problems.append(f"batch_size_bytes: must be 1 or more, not {size!r}")
    said = {
        "name": name or env.get("AUTOSCALER_WORKER_NAME"), "instance": instance or env.get("AUTOSCALER_INSTANCE"), "group": group,
    }  # fmt: skip
    problems += [f"{key}: must be text in UTF-8, not {text!r}" for key, text in said.items() if text and not _is_utf8(text)]
    if problems:
        raise SettingsError(tuple(problems))
    chosen: dict[str, Any] = {key: int(value) if key == "batch_size_bytes" else value for key, value in given.items()}
    return WorkerSettings(
        connection=where,
        group=group,
        topics=tuple(t for t in named if t),
        name=said["name"] or _anonymous(),
        instance=said["instance"] or None,
        lease_s=lease,
        exactly_once=transactions,
        given=dict(references),
        stamp=read,
        **chosen,
    )


def deviations(settings: WorkerSettings) -> tuple[str, ...]:
    """Return what is allowed and yet works against the lease: to be said once, because nothing fails by it."""
    found, every_s = [], settings.lease_s / HEARTBEATS_PER_LEASE
    if settings.max_batch_s < every_s:
        found.append(
            f"max_batch_s {settings.max_batch_s:g} is less than the {every_s:g} s between two heartbeats: longer batches count "
            "as stuck and leave heartbeats out, although nothing is wrong"
        )
    if settings.commit_interval_s >= settings.lease_s:
        found.append(
            f"commit_interval_s {settings.commit_interval_s:g} is not less than lease_s {settings.lease_s:g}: a worker that "
            "loses its lease may leave a whole lease's work to be done again"
        )
    return tuple(found)


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


def _switch(given: str, problems: list[str]) -> bool:
    if given.lower() not in {"", "true", "false"}:
        problems.append(f"exactly_once: AUTOSCALER_EXACTLY_ONCE must be true or false, not {given!r}")
    return given.lower() == "true"


def _is_utf8(text: str) -> bool:
    """Say whether a text can be written down: what the environment has in another encoding cannot."""
    return text.encode(errors="ignore").decode() == text


def _lease(given: str | float, problems: list[str]) -> float:
    try:
        lease = float(given)
    except ValueError:
        lease = 0.0
    if not LEAST_LEASE_S <= lease <= MOST_LEASE_S:
        problems.append(f"lease_s: must be from {LEAST_LEASE_S:g} to {MOST_LEASE_S:g} s, not {given!r} (AUTOSCALER_LEASE_S)")
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
    return f"{_own_prefix()}{uuid.uuid4().hex[:6]}"


def _own_prefix() -> str:
    return f"{os.uname().nodename}-{os.getpid()}-"
