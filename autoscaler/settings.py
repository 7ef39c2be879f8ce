"""The configuration file: what a user may write, checked all at once.

``load`` reads YAML, resolves nothing that is secret (references ``env:NAME`` and ``file:PATH`` stay references until
``resolve_secrets`` is called where a client is made), and raises one ``SettingsError`` that lists every problem.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from autoscaler.errors import SettingsError
from autoscaler.policy import Policy
from autoscaler.references import resolve_secrets

_STRICT = ConfigDict(frozen=True, extra="forbid")
_SECRETS = ("sasl.password", "ssl.key.password", "sasl.oauthbearer.client.secret")


class Cluster(BaseModel):
    """One Kafka cluster and how to reach it; connection keys carry librdkafka's names."""

    model_config = _STRICT

    name: Annotated[str, Field(min_length=1)] = "kafka"
    connection: dict[str, str | int | float | bool]

    @field_validator("connection")
    @classmethod
    def _reachable(cls, value: dict[str, str | int | float | bool]) -> dict[str, str | int | float | bool]:
        if not str(value.get("bootstrap.servers", "")).strip():
            msg = "bootstrap.servers is missing: name at least one broker, such as localhost:9092"
            raise ValueError(msg)
        for key in _SECRETS:
            if key in value and not str(value[key]).startswith(("env:", "file:")):
                msg = f"{key} must be a reference, env:NAME or file:PATH, not the secret itself"
                raise ValueError(msg)
        return value


class Measure(BaseModel):
    """How load is measured."""

    model_config = _STRICT

    trigger_s: Annotated[float, Field(ge=0.2, le=3600)] = 1.0
    window_s: Annotated[float, Field(ge=1, le=3600)] = 30.0
    read_timeout_s: Annotated[float, Field(gt=0, le=60)] = 2.0
    known_for_s: Annotated[float, Field(gt=0)] = 3.0
    metadata_every_s: Annotated[float, Field(gt=0)] = 5.0
    buckets: Annotated[int, Field(ge=1, le=1024)] = 1
    default_record_bytes: Annotated[float, Field(gt=0)] = 1000.0
    watchdog_s: Annotated[float, Field(ge=5)] = 60.0


class ProcessWorkers(BaseModel):
    """Consumers as local processes."""

    model_config = _STRICT

    kind: Literal["processes"] = "processes"
    command: Annotated[tuple[str, ...], Field(min_length=1)]
    environment: dict[str, str] = Field(default_factory=dict)
    drain_timeout_s: Annotated[float, Field(gt=0)] = 30.0
    restart_backoff_s: Annotated[float, Field(gt=0)] = 0.5
    restart_backoff_max_s: Annotated[float, Field(gt=0)] = 30.0


class Handover(BaseModel):
    """Timing of the protocol between controller and workers."""

    model_config = _STRICT

    lease_s: Annotated[float, Field(ge=1)] = 30.0
    replication_factor: Annotated[int, Field(ge=1)] | None = None  # None: 3, or the number of brokers if fewer


class Audit(BaseModel):
    """Where and how often decisions are written."""

    model_config = _STRICT

    flush_s: Annotated[float, Field(gt=0)] = 5.0


class Group(Policy):
    """One group: its policy and, in a managed group that acts, what runs its workers."""

    workers: ProcessWorkers | None = None

    @model_validator(mode="after")
    def _acts_on_something(self) -> Self:
        if self.mode == "act" and self.workers is None:
            msg = "mode act needs workers: say what runs the consumers (workers.kind, workers.command)"
            raise ValueError(msg)
        return self


class Settings(BaseModel):
    """The whole file."""

    model_config = _STRICT

    cluster: Cluster
    state_dir: Annotated[str, Field(min_length=1)]  # checkpoint/, tables/, workers/, logs/ are made below it
    groups: Annotated[tuple[Group, ...], Field(min_length=1)]
    measure: Measure = Measure()
    handover: Handover = Handover()
    audit: Audit = Audit()

    @model_validator(mode="after")
    def _groups_once(self) -> Self:
        names = [g.group for g in self.groups]
        for name in sorted({n for n in names if names.count(n) > 1}):
            msg = f"groups names {name!r} twice"
            raise ValueError(msg)
        return self

    @property
    def root(self) -> Path:
        """Return the state directory as an absolute path, with ``~`` and environment variables expanded."""
        return Path(os.path.expandvars(self.state_dir)).expanduser().absolute()

    @property
    def measure_fingerprint(self) -> str:
        """Return what a checkpoint belongs to: another cluster or another bucket count cannot continue it."""
        what = [self.cluster.name, self.measure.buckets]
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:12]


def _missing_references(settings: Settings) -> list[str]:
    problems = []
    connection = settings.cluster.connection
    for key, value in connection.items():
        if key.endswith(".location") and not Path(str(value)).exists():
            problems.append(f"cluster.connection.{key}: file {value} does not exist")
    try:
        resolve_secrets(connection)
    except SettingsError as e:
        problems.extend(e.problems)
    return problems


def load(path: str | Path) -> Settings:
    """Read and check a configuration file.

    Raises:
        SettingsError: With every problem found, each with the path of the setting.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as e:
        raise SettingsError((f"{file}: cannot be read ({e.strerror}); give an existing file with --config",)) from e
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as e:
        raise SettingsError((f"{file}: is not YAML: {e}",)) from e
    if not isinstance(data, dict):
        raise SettingsError((f"{file}: holds no settings; see conf/autoscaler.yaml for all of them",))
    try:
        settings = Settings.model_validate(data)
    except ValidationError as e:
        raise SettingsError(tuple(_problem(x["loc"], x["msg"], x["type"], x.get("input")) for x in _own(e.errors()))) from e
    if problems := _missing_references(settings):
        raise SettingsError(tuple(problems))
    return settings


def _own(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """Return the errors without "too few items" of a list whose items are refused one by one."""
    deeper = {e["loc"][:depth] for e in errors for depth in range(len(e["loc"]))}
    return [e for e in errors if e["type"] != "too_short" or e["loc"] not in deeper]


def _problem(loc: tuple[int | str, ...], msg: str, kind: str, given: object) -> str:
    path = ".".join(str(x) for x in loc) or "file"
    if kind == "extra_forbidden":
        return f"{path}: unknown setting; conf/autoscaler.yaml lists all of them"
    if kind == "missing":
        return f"{path}: is required"
    shown = "" if isinstance(given, dict) or any(s in path for s in _SECRETS) else f", not {given!r}"
    return f"{path}: {msg.removeprefix('Value error, ')}{shown}"
