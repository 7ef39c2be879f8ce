"""The configuration file: what a user may write, checked all at once.

``load`` reads YAML, resolves nothing that is secret (references ``env:NAME`` and ``file:PATH`` stay references until
``resolve_secrets`` is called where a client is made), and raises one ``SettingsError`` that lists every problem. The file is
grouped, the models here are flat: ``config/grouping.py`` stands in between. The string below a setting is its description in the
file's JSON Schema.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from autoscaler.config import places
from autoscaler.config.clusters import NOT_A_LIST, Cluster, blocks, connection_problems, misplaced, unreadable
from autoscaler.config.grouping import flattened
from autoscaler.config.kubernetes import Kubernetes
from autoscaler.config.notify import Notify
from autoscaler.config.policy import ContradictionsError, Policy, contradictions
from autoscaler.config.refusals import refusals
from autoscaler.config.setting_paths import path_of
from autoscaler.config.units import DAY_S, Age, Bytes, Count, Seconds, seconds
from autoscaler.config.yaml_file import read
from autoscaler.errors import SettingsError
from autoscaler.handover.records import LEASE_S, LEAST_LEASE_S, MOST_LEASE_S

_STRICT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)
_URL = re.compile(r"^\w+:/")
_LISTEN = re.compile(r"^([\w.-]+|\[[0-9a-fA-F:.]+\]):\d{1,5}$", re.ASCII)
TARGET = re.compile(r"^([a-z0-9.-]+/)?v\d[a-z0-9]*/[A-Z][A-Za-z0-9]*/[a-z0-9][a-z0-9.-]*$")
_MOST_PORT = 65_535
_REFERENCES = ("env:NAME", "file:PATH")
_PLACES = ("state_dir", "checkpoint", "tables")


class Measure(BaseModel):
    """How load is measured."""

    model_config = _STRICT

    trigger_s: Annotated[Seconds, Field(ge=0.2, le=3600)] = 1.0
    """seconds between measurements; longer for more than about 1,000 partitions on two cores"""
    window_s: Annotated[Seconds, Field(ge=1, le=3600)] = 30.0
    """seconds that a rate is taken over; shorter reacts faster to load and to noise"""
    read_timeout_s: Annotated[Seconds, Field(gt=0, le=60)] = 2.0
    """seconds a broker may take to answer; a silent one costs each cycle this long and its own partitions only"""
    known_for_s: Annotated[Seconds, Field(gt=0)] = 3.0
    """seconds a measurement counts as fresh; while any is older, no consumer is taken away"""
    metadata_every_s: Annotated[Seconds, Field(gt=0)] = 5.0
    """seconds between looks for new partitions and leaders"""
    buckets: Annotated[Count, Field(ge=1, le=1024)] = 1
    """parts that the state is split into; more only when one core cannot keep up; with another number rates start anew"""
    default_record_bytes: Annotated[Bytes, Field(gt=0)] = 1000.0
    """bytes a record counts for where the broker does not tell log sizes and none was learned yet"""
    watchdog_s: Annotated[Seconds, Field(ge=5)] = 60.0
    """seconds without a cycle after which the job dumps its stacks and ends, to be started again"""


class ProcessWorkers(BaseModel):
    """Consumers as local processes; the settings of ``Workers`` that this kind has."""

    model_config = _STRICT

    command: Annotated[tuple[str, ...], Field(min_length=1)]
    environment: dict[str, str] = Field(default_factory=dict)
    drain_timeout_s: Annotated[Seconds, Field(gt=0)] = 30.0
    restart_backoff_s: Annotated[Seconds, Field(gt=0)] = 0.5
    restart_backoff_max_s: Annotated[Seconds, Field(gt=0)] = 30.0


class DeploymentWorkers(BaseModel):
    """Consumers as pods of a Kubernetes Deployment, of a managed group; the settings of ``Workers`` that this kind has."""

    model_config = _STRICT

    deployment: Annotated[str, Field(min_length=1)]
    namespace: Annotated[str, Field(min_length=1)] | None = None
    kubeconfig: Annotated[str, Field(min_length=1)] | None = None
    context: Annotated[str, Field(min_length=1)] | None = None


def _target(value: str) -> str:
    if not TARGET.match(value):
        raise ValueError(f"must be API/KIND/NAME, such as apps/v1/Deployment/orders, not {value!r}")
    return value


class ScaleWorkers(BaseModel):
    """Consumers whose number a resource of Kubernetes has, of a native group; the settings of ``Workers`` that this kind has."""

    model_config = _STRICT

    target: Annotated[str, AfterValidator(_target)]
    namespace: Annotated[str, Field(min_length=1)] | None = None
    kubeconfig: Annotated[str, Field(min_length=1)] | None = None
    context: Annotated[str, Field(min_length=1)] | None = None


class CommandWorkers(BaseModel):
    """Consumers whose number programs of the user set and read; the settings of ``Workers`` that this kind has."""

    model_config = _STRICT

    set_count: Annotated[tuple[str, ...], Field(min_length=1)]
    read_count: Annotated[tuple[str, ...], Field(min_length=1)]
    read_every_s: Annotated[Seconds, Field(gt=0)] = 5.0
    count_timeout_s: Annotated[Seconds, Field(gt=0)] = 10.0
    environment: dict[str, str] = Field(default_factory=dict)


AnyWorkers = ProcessWorkers | DeploymentWorkers | ScaleWorkers | CommandWorkers


class Workers(BaseModel):
    """What runs a group's consumers; its kind says which of the other settings it has."""

    model_config = _STRICT

    kind: Literal["processes", "deployment", "scale", "command"] = "processes"
    """processes of the job's machine; deployment: pods; native only: scale, command; see docs/tasks/kubernetes.md"""
    command: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """of processes: starts one consumer, from the directory the job was started in; {python} is the job's interpreter"""
    environment: dict[str, str] = Field(default_factory=dict)
    """of processes and command: variables added to the environment of each consumer, or program"""
    drain_timeout_s: Annotated[Seconds, Field(gt=0)] = 30.0
    """of processes: seconds a consumer may take to end after it was told to; longer than its longest batch"""
    restart_backoff_s: Annotated[Seconds, Field(gt=0)] = 0.5
    """of processes: seconds before a dead consumer is started again; doubles each time it dies soon after"""
    restart_backoff_max_s: Annotated[Seconds, Field(gt=0)] = 30.0
    """of processes: seconds that this wait grows to"""
    deployment: Annotated[str, Field(min_length=1)] | None = None
    """name of the Deployment, whose number of pods is set from here; of a managed group"""
    namespace: Annotated[str, Field(min_length=1)] | None = None
    """of deployment and scale: its namespace; null: that of the job's own pod, or of the context"""
    kubeconfig: Annotated[str, Field(min_length=1)] | None = None
    """of deployment and scale: file that says how to connect; null: as the job's own pod does, elsewhere ~/.kube/config"""
    context: Annotated[str, Field(min_length=1)] | None = None
    """of deployment and scale: context of that file; null: its current one"""
    target: Annotated[str, AfterValidator(_target)] | None = None
    """of scale: what has the number of replicas, as API/KIND/NAME: apps/v1/Deployment/orders; of a native group"""
    set_count: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """of command: program that sets the number, which it finds as {count}; of a native group, see docs/tasks/native.md"""
    read_count: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """of command: program that prints how many consumers should run, and behind it how many do, if that may differ"""
    read_every_s: Annotated[Seconds, Field(gt=0)] = 5.0
    """of command: seconds between two calls of read_count"""
    count_timeout_s: Annotated[Seconds, Field(gt=0)] = 10.0
    """of command: seconds that one of these programs may take"""

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if missing := [name for name in _NEEDED[self.kind] if getattr(self, name) is None]:
            raise ValueError(f"kind {self.kind} needs workers.{missing[0]}")
        known = {"kind", *_KINDS[self.kind].model_fields}
        fields = type(self).model_fields
        given = {x for x in self.model_fields_set if getattr(self, x) != fields[x].get_default(call_default_factory=True)}
        if other := sorted(path_of(name, "Workers") for name in given - known):
            raise ValueError(f"kind {self.kind} has no {', '.join(other)}")
        return self

    @property
    def chosen(self) -> AnyWorkers:
        """Return the settings of the kind that it is."""
        kind = _KINDS[self.kind]
        return kind.model_validate({name: getattr(self, name) for name in kind.model_fields})


_KINDS: Mapping[str, type[AnyWorkers]] = {
    "processes": ProcessWorkers, "deployment": DeploymentWorkers, "scale": ScaleWorkers, "command": CommandWorkers,
}  # fmt: skip
_NEEDED = {
    "processes": ("command",), "deployment": ("deployment",), "scale": ("target",), "command": ("set_count", "read_count"),
}  # fmt: skip


class Handover(BaseModel):
    """Timing of the protocol between controller and workers."""

    model_config = _STRICT

    lease_s: Annotated[Seconds, Field(ge=LEAST_LEASE_S, le=MOST_LEASE_S)] = LEASE_S
    """seconds a worker may act without having been heard; longer than brokers are away, or all lapse at once"""
    replication_factor: Annotated[Count, Field(ge=1, le=100)] | None = None
    """copies of the control topics; null: three, or as many as there are brokers"""
    park_after: Annotated[Count, Field(ge=1, le=1000)] | None = 3
    """consumers in a row lost on a partition at one offset before it is parked; null: never; see autoscaler release"""


class Audit(BaseModel):
    """How often decisions are written, and how long they are kept."""

    model_config = _STRICT

    flush_s: Annotated[Seconds, Field(gt=0)] = 60.0
    """seconds between commits to each table, at most; what acted is written in a few cycles; the cost: docs/tasks/upkeep.md"""
    keep_s: Age | None = None
    """seconds that rows are kept in the tables, in whole days, such as 90d; null: for ever"""

    @property
    def keep_days(self) -> int | None:
        """Return the whole days that rows are kept; ``None``: for ever."""
        return None if self.keep_s is None else int(self.keep_s // DAY_S)


def _host_and_port(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _address(listen: str) -> str:
    if not _LISTEN.match(listen) or not 0 < _host_and_port(listen)[1] <= _MOST_PORT:
        raise ValueError(f"must be host:port, such as 127.0.0.1:9301 or [::1]:9301, not {listen!r}")
    return listen


def _reference(value: str) -> str:
    if not value.startswith(("env:", "file:")):  # the value is not repeated: it may be the secret
        raise ValueError(f"must be a reference, {' or '.join(_REFERENCES)}, not the token itself")
    return value


class Log(BaseModel):
    """The job's log."""

    model_config = _STRICT

    format: Literal["text", "json"] = "text"
    """text: lines for people; json: each line an object, with the figures of each decision that changes something"""


class Http(BaseModel):
    """What the job answers over HTTP: the page, /metrics, /advice/GROUP, /healthz and /readyz."""

    model_config = _STRICT

    listen: Annotated[str, AfterValidator(_address)] | None = None
    """host:port, such as 127.0.0.1:9301 or 0.0.0.0:9301; null: no port is opened"""
    token: Annotated[str, AfterValidator(_reference)] | None = None
    """what asks for a login before the page and /api: env:NAME or file:PATH; null: no login; see docs/tasks/page.md"""
    page: bool = False
    """the page and /api without a token where listen is no loopback address: all who reach the port read them"""
    partitions: bool = False
    """metrics of each partition too, of which a large group has thousands"""
    advice_max_age_s: Annotated[Seconds, Field(gt=0)] = 60.0
    """seconds after which advice is too old to be given: the answer is then a 503, and a scaler holds its number"""

    @property
    def address(self) -> tuple[str, int] | None:
        """Return host and port; ``None`` if nothing is answered."""
        return None if self.listen is None else _host_and_port(self.listen)


_NO_WORKERS = "mode act needs workers: say what runs the consumers (workers.kind, workers.command or workers.deployment)"
_NOT_MANAGED = "workers.kind deployment needs assignment managed: consumers that subscribe are scaled by kind scale"
_NOT_NATIVE = (
    "workers.kind {} needs assignment native: a managed group must know which consumer is which (kind deployment or processes)"
)


class Group(Policy):
    """One group: its policy, where it is, and, in a managed group that acts, what runs its workers."""

    cluster: str | None = None
    """the cluster that it is on, by its name; null: the only one"""
    workers: Workers | None = None
    """needed when mode is act, where they are started and ended from here; null otherwise"""

    @model_validator(mode="after")
    def _acts_on_something(self) -> Self:
        if self.mode == "act" and self.workers is None:
            raise ValueError(_NO_WORKERS)
        if self.assignment != "managed" and self.workers is not None and self.workers.kind == "deployment":
            raise ValueError(_NOT_MANAGED)
        if self.assignment == "managed" and self.workers is not None and self.workers.kind in {"scale", "command"}:
            raise ValueError(_NOT_NATIVE.format(self.workers.kind))
        return self


def is_address(state_dir: str) -> bool:
    """Say whether this is an address where a directory belongs: it would be taken for a relative path."""
    return _URL.match(state_dir) is not None


def _local(value: str) -> str:
    if is_address(value):
        raise ValueError(
            f"must be a directory of the job's machine, such as /var/lib/autoscaler, not {value!r}; "
            "checkpoint and tables may be addresses"
        )
    return value


def _anywhere(value: str, *, catalog: bool = False) -> str:
    if found := places.problem(value, catalog=catalog):
        raise ValueError(found)
    return value


class Settings(BaseModel):
    """The whole file."""

    model_config = _STRICT

    clusters: Annotated[tuple[Cluster, ...], Field(min_length=1)]
    """one or several; groups on one of them go on whatever becomes of the others"""
    state_dir: Annotated[str, Field(min_length=1), AfterValidator(_local)]
    """a local directory: journal/, workers/, logs/ and locks lie there; ~ and $NAME expand"""
    checkpoint: Annotated[str, Field(min_length=1), AfterValidator(_anywhere)] | None = None
    """Spark's state of one window: a path, or an address such as s3a://bucket/x; null: checkpoint/ below state_dir"""
    tables: Annotated[str, Field(min_length=1), AfterValidator(partial(_anywhere, catalog=True))] | None = None
    """the audit: a path, an address, or catalog.schema of Spark's catalog; null: tables/ below state_dir"""
    groups: tuple[Group, ...]
    """the consumer groups to look after; may be [] where kubernetes.consumer_groups names a namespace"""
    measure: Measure = Measure()
    """how load is measured"""
    handover: Handover = Handover()
    """timing of the protocol between controller and workers"""
    audit: Audit = Audit()
    """how often decisions are written, and how long they are kept"""
    http: Http = Http()
    """what the job answers over HTTP, to Prometheus, scalers and probes; off by default"""
    notify: Notify = Notify()
    """what the job tells elsewhere when it happens: a webhook, Slack, CloudEvents; off by default"""
    kubernetes: Kubernetes = Kubernetes()
    """groups that are declared as resources of Kubernetes, besides those of this file; the job's Lease there; off by default"""
    log: Log = Log()
    """how the job's log is written"""

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if found := _across(self.model_dump()):
            raise ContradictionsError(found)
        return self

    @property
    def root(self) -> Path:
        """Return the state directory as an absolute path, with ``~`` and environment variables expanded."""
        return places.directory(self.state_dir)

    @property
    def checkpoint_place(self) -> str:
        """Return where the checkpoint lies, as a path or an address (``config.places``)."""
        return place_of("checkpoint", self.checkpoint, self.root)

    @property
    def tables_place(self) -> str:
        """Return where the audit lies, as a path, an address or ``catalog.schema`` (``config.places``)."""
        return place_of("tables", self.tables, self.root)

    def cluster_of(self, group: Group) -> Cluster:
        """Return the cluster that a group of these settings is on."""
        return next(c for c in self.clusters if group.cluster in {None, c.name})

    @property
    def served(self) -> tuple[tuple[Cluster, tuple[Group, ...]], ...]:
        """Return the clusters that have groups, in the file's order, each with its groups."""
        on = [(c, tuple(g for g in self.groups if self.cluster_of(g) is c)) for c in self.clusters]
        return tuple((c, groups) for c, groups in on if groups)


def place_of(setting: str, value: str | None, root: Path) -> str:
    """Return where what a setting names lies: below the state directory ``root`` where it names nothing."""
    return str(root / setting) if value is None else places.resolved(value, catalog=setting == "tables")


def _across(data: Mapping[str, object]) -> list[str]:
    """Return what is wrong between settings that are each fine by themselves; wrong values are passed over."""
    found, measure = [*_without_groups(data), *misplaced(data), *_shared(data), *_one_place(data)], data.get("measure")
    if not isinstance(measure, Mapping):
        return found
    names = ("trigger_s", "window_s", "known_for_s", "watchdog_s")
    given = [s for name in names if (s := _seconds(measure.get(name, Measure.model_fields[name].default))) is not None]
    if len(given) < len(names):
        return found
    trigger, window, known, watchdog = given
    if watchdog < 3 * trigger:
        found.append(f"measure.watchdog: {watchdog:g} s is less than three triggers of {trigger:g} s: a job that works would end")
    if window < trigger:
        found.append(f"measure.window: {window:g} s is shorter than measure.trigger, {trigger:g} s")
    if known < 2 * trigger:
        found.append(f"measure.known_for: {known:g} s is less than two triggers of {trigger:g} s: nothing would be known")
    return found


def _without_groups(data: Mapping[str, object]) -> list[str]:
    """Return that there is no group, where none can come from elsewhere either."""
    kubernetes = data.get("kubernetes")
    declared = isinstance(kubernetes, Mapping) and kubernetes.get("consumer_groups") is not None
    none = isinstance(groups := data.get("groups"), list | tuple) and not groups
    return ["groups: must hold at least one block of settings"] * (none and not declared)


def _shared(data: Mapping[str, object]) -> list[str]:
    """Return which groups would set one number of pods."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for group in blocks(data, "groups"):
        workers = group.get("workers")
        if isinstance(workers, Mapping) and (scaled := scaled_by(workers)) is not None:
            place = tuple(str(workers.get(name)) for name in ("kubeconfig", "context", "namespace"))
            groups.setdefault((*place, *scaled), []).append(str(group.get("group")))
    return [
        f"groups: {' and '.join(names)} name one {place[-2]}, {place[-1]}: give each group its own"
        for place, names in groups.items()
        if len(names) > 1
    ]


def scaled_by(workers: Mapping[str, object]) -> tuple[str, str] | None:
    """Return kind and name of what has the number of a group's pods; ``None`` if nothing does."""
    if (target := workers.get("target")) and isinstance(target, str):
        _, _, named = target.rpartition("/v")
        kind, _, name = named.partition("/")[2].partition("/")
        return kind, name
    return ("Deployment", str(workers["deployment"])) if workers.get("deployment") else None


def _seconds(value: object) -> float | None:
    """Return a duration as it was written in seconds; ``None`` of what is none."""
    try:
        found = seconds(value)
    except ValueError:
        return None
    return float(found) if isinstance(found, int | float) else None


def _also_wrong(data: Mapping[str, object]) -> Iterator[str]:
    """Yield what the fields' own checks keep from being looked at when one of them fails."""
    groups = data.get("groups")
    for number, group in enumerate(groups if isinstance(groups, list) else ()):
        if isinstance(group, dict):
            yield from (f"groups.{number}: {x}" for x in contradictions(group))
            if group.get("mode") == "act" and not group.get("workers"):
                yield f"groups.{number}: {_NO_WORKERS}"
    for number, cluster in enumerate(blocks(data, "clusters")):
        if isinstance(connection := cluster.get("connection"), Mapping):
            yield from (f"clusters.{number}.connection: {x}" for x in connection_problems(connection))
    yield from _across(data)


def _lacking(data: Mapping[str, object]) -> list[str]:
    return [said for name in _PLACES if isinstance(value := data.get(name), str) for said in places.lacking(name, value)]


def _one_place(data: Mapping[str, object]) -> list[str]:
    """Return that checkpoint and tables lie in each other, where they do: what cleans up the one would clean up the other."""
    root = data.get("state_dir")
    given = {name: data.get(name) for name in ("checkpoint", "tables")}
    if not isinstance(root, str) or not all(isinstance(x, str | None) for x in given.values()):
        return []
    first, second = (f"{place_of(name, x, places.directory(root))}/" for name, x in given.items() if isinstance(x, str | None))
    within = first.startswith(second) or second.startswith(first)
    return ["checkpoint: lies in tables, or tables in it: give each a place of its own"] * within


def missing_solver(data: Mapping[str, object]) -> list[str]:
    """Return which groups of a configuration ask for an algorithm whose solver is not installed."""
    groups = data.get("groups")
    listed = groups if isinstance(groups, list) else []
    wanted = [i for i, g in enumerate(listed) if isinstance(g, dict) and g.get("algorithm") == "EXACT"]
    if not wanted or find_spec("ortools") is not None:
        return []
    return [f"groups.{i}.algorithm: EXACT needs the extra 'exact' (pip install 'kafka-group-autoscaler[exact]')" for i in wanted]


def load(path: str | Path, *, connects: bool = True) -> Settings:
    """Read and check a configuration file; with ``connects``, what its clusters' connections refer to must be there.

    Raises:
        SettingsError: With every problem found, each with the path of the setting.
    """
    file = read(path)
    written, problems, settings = dict(file.data), [], None
    if "cluster" in written:
        problems.append(NOT_A_LIST)
        written["clusters"] = [written.pop("cluster")]  # and what else is wrong
    data, strangers = flattened(written, Settings)
    problems += strangers
    try:
        settings = Settings.model_validate(data)
    except ValidationError as e:
        problems += [*refusals(e.errors()), *_also_wrong(data)]
    problems += [*_lacking(data), *(unreadable(data) if connects else ()), *missing_solver(data)]
    if problems or settings is None:
        raise SettingsError(tuple(dict.fromkeys(map(replace(file, data=written).placed, problems))))
    return settings
