"""The configuration file: what a user may write, checked all at once.

``load`` reads YAML, resolves nothing that is secret (references ``env:NAME`` and ``file:PATH`` stay references until
``resolve_secrets`` is called where a client is made), and raises one ``SettingsError`` that lists every problem.
"""

import os
from collections.abc import Hashable, Iterator, Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from autoscaler.config.clusters import NOT_A_LIST, Cluster, by_name, is_secret, misplaced, unreadable
from autoscaler.config.policy import ContradictionsError, Count, Number, Policy, Window, contradictions
from autoscaler.errors import SettingsError
from autoscaler.handover.records import LEASE_S, LEAST_LEASE_S, MOST_LEASE_S

_PRIVATE = frozenset({"connection", "environment"})  # what stands below may be a secret, whatever it is called
_STRICT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Measure(BaseModel):
    """How load is measured."""

    model_config = _STRICT

    trigger_s: Annotated[Number, Field(ge=0.2, le=3600)] = 1.0
    window_s: Annotated[Number, Field(ge=1, le=3600)] = 30.0
    read_timeout_s: Annotated[Number, Field(gt=0, le=60)] = 2.0
    known_for_s: Annotated[Number, Field(gt=0)] = 3.0
    metadata_every_s: Annotated[Number, Field(gt=0)] = 5.0
    buckets: Annotated[Count, Field(ge=1, le=1024)] = 1
    default_record_bytes: Annotated[Number, Field(gt=0)] = 1000.0
    watchdog_s: Annotated[Number, Field(ge=5)] = 60.0


class ProcessWorkers(BaseModel):
    """Consumers as local processes."""

    model_config = _STRICT

    kind: Literal["processes"] = "processes"
    command: Annotated[tuple[str, ...], Field(min_length=1)]
    environment: dict[str, str] = Field(default_factory=dict)
    drain_timeout_s: Annotated[Number, Field(gt=0)] = 30.0
    restart_backoff_s: Annotated[Number, Field(gt=0)] = 0.5
    restart_backoff_max_s: Annotated[Number, Field(gt=0)] = 30.0


class Handover(BaseModel):
    """Timing of the protocol between controller and workers."""

    model_config = _STRICT

    lease_s: Annotated[Number, Field(ge=LEAST_LEASE_S, le=MOST_LEASE_S)] = LEASE_S
    replication_factor: Annotated[Count, Field(ge=1)] | None = None  # None: 3, or the number of brokers if fewer
    park_after: Annotated[Count, Field(ge=1)] | None = 3  # None: never


class Audit(BaseModel):
    """Where and how often decisions are written."""

    model_config = _STRICT

    flush_s: Annotated[Number, Field(gt=0)] = 5.0


_NO_WORKERS = "mode act needs workers: say what runs the consumers (workers.kind, workers.command)"


class Group(Policy):
    """One group: its policy, where it is, and, in a managed group that acts, what runs its workers."""

    cluster: str | None = None  # None: on the only one
    workers: ProcessWorkers | None = None

    @model_validator(mode="after")
    def _acts_on_something(self) -> Self:
        if self.mode == "act" and self.workers is None:
            raise ValueError(_NO_WORKERS)
        return self


class Settings(BaseModel):
    """The whole file."""

    model_config = _STRICT

    clusters: Annotated[tuple[Cluster, ...], Field(min_length=1)]
    state_dir: Annotated[str, Field(min_length=1)]  # checkpoint/, tables/, workers/, logs/ are made below it
    groups: Annotated[tuple[Group, ...], Field(min_length=1)]
    measure: Measure = Measure()
    handover: Handover = Handover()
    audit: Audit = Audit()

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if found := _across(self.model_dump()):
            raise ContradictionsError(found)
        return self

    @property
    def root(self) -> Path:
        """Return the state directory as an absolute path, with ``~`` and environment variables expanded."""
        return expanded(self.state_dir)

    def cluster_of(self, group: Group) -> Cluster:
        """Return the cluster that a group of these settings is on."""
        return next(c for c in self.clusters if group.cluster in {None, c.name})

    @property
    def served(self) -> tuple[tuple[Cluster, tuple[Group, ...]], ...]:
        """Return the clusters that have groups, in the file's order, each with its groups."""
        on = [(c, tuple(g for g in self.groups if self.cluster_of(g) is c)) for c in self.clusters]
        return tuple((c, groups) for c, groups in on if groups)


def expanded(state_dir: str) -> Path:
    """Return a state directory as it is written as an absolute path."""
    return Path(os.path.expandvars(state_dir)).expanduser().absolute()


def _across(data: Mapping[str, object]) -> list[str]:
    """Return what is wrong between settings that are each fine by themselves; wrong types are passed over."""
    found = misplaced(data)
    measure = data.get("measure")
    if isinstance(measure, Mapping):
        shown = {
            k: measure.get(k, Measure.model_fields[k].default) for k in ("trigger_s", "window_s", "known_for_s", "watchdog_s")
        }
        if all(isinstance(v, int | float) for v in shown.values()):
            trigger = shown["trigger_s"]
            if shown["watchdog_s"] < 3 * trigger:
                found.append(
                    f"measure.watchdog_s: {shown['watchdog_s']:g} is less than three triggers of {trigger:g} s: it would bark"
                )
            if shown["window_s"] < trigger:
                found.append(f"measure.window_s: {shown['window_s']:g} is shorter than measure.trigger_s {trigger:g}")
            if (known := shown["known_for_s"]) < 2 * trigger:
                found.append(f"measure.known_for_s: {known:g} is less than two triggers of {trigger:g} s: nothing would be known")
    return found


def _also_wrong(data: Mapping[str, object]) -> Iterator[str]:
    """Yield what the fields' own checks keep from being looked at when one of them fails."""
    groups = data.get("groups")
    for number, group in enumerate(groups if isinstance(groups, list) else ()):
        if isinstance(group, dict):
            yield from (f"groups.{number}: {x}" for x in contradictions(group))
            if group.get("mode") == "act" and not group.get("workers"):
                yield f"groups.{number}: {_NO_WORKERS}"
    yield from _across(data)


def _missing_references(data: Mapping[str, object]) -> list[str]:
    problems = []
    state = str(data.get("state_dir", ""))
    if "$" in (left := os.path.expandvars(state)):
        problems.append(f"state_dir: {left} names an environment variable that is not set")
    return [*problems, *unreadable(data)]


def _missing_solver(data: Mapping[str, object]) -> list[str]:
    groups = data.get("groups")
    wanted = (
        [i for i, g in enumerate(groups) if isinstance(g, dict) and g.get("algorithm") == "EXACT"]
        if isinstance(groups, list)
        else []
    )
    if not wanted or find_spec("ortools") is not None:
        return []
    return [f"groups.{i}.algorithm: EXACT needs the extra 'exact' (pip install 'kafka-group-autoscaler[exact]')" for i in wanted]


def load(path: str | Path) -> Settings:
    """Read and check a configuration file.

    Raises:
        SettingsError: With every problem found, each with the path of the setting.
    """
    data = read(path)
    problems: list[str] = []
    settings = None
    if "cluster" in data:
        problems.append(NOT_A_LIST)
        data = {"clusters": [data["cluster"]], **{k: v for k, v in data.items() if k != "cluster"}}  # and what else is wrong
    try:
        settings = Settings.model_validate(data)
    except ValidationError as e:
        for x in _own(e.errors()):
            problems += _problem(x)
        problems += _also_wrong(data)
    problems += [*_missing_references(data), *_missing_solver(data)]
    if problems or settings is None:
        raise SettingsError(tuple(dict.fromkeys(by_name(p, data) for p in problems)))
    return settings


def read(path: str | Path) -> dict[str, object]:
    """Return what a configuration file says, not yet checked.

    Raises:
        SettingsError: It cannot be read, or says nothing.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as e:
        raise SettingsError((f"cannot be read ({e.strerror}); give an existing file with --config",)) from e
    except UnicodeDecodeError as e:
        raise SettingsError(("is not UTF-8 text",)) from e
    try:
        data = yaml.load(text, _OnceLoader)  # noqa: S506  a safe loader
    except yaml.YAMLError as e:
        said = _said(e)
        hint = "; what begins with ! stands in quotes" if " tag " in said else ""
        raise SettingsError((f"is not YAML: {said}{hint}",)) from e
    if not isinstance(data, dict):
        raise SettingsError(("holds no settings; conf/autoscaler.yaml lists all of them",))
    return data


def _said(error: yaml.YAMLError) -> str:
    """Return what is wrong and where, without the line itself: it may hold a secret that stands where none should."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())
    told = ((error.context, error.context_mark), (error.problem, error.problem_mark))
    parts = [f"{what} line {mark.line + 1}, column {mark.column + 1}" if mark else what for what, mark in told if what]
    return " ".join(" ".join(parts).split())


class _OnceLoader(yaml.SafeLoader):
    """Refuses a key that stands twice in one block: YAML would quietly take the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002  as yaml calls it
        """Return the block as a dict."""
        keys = [self.construct_object(k, deep=deep) for k, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} is set twice", node.start_mark)
        return super().construct_mapping(node, deep=deep)


def _own(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """Return the errors without "too few items" of a list whose items are refused one by one."""
    deeper = {e["loc"][:depth] for e in errors for depth in range(len(e["loc"]))}
    return [e for e in errors if e["type"] != "too_short" or e["loc"] not in deeper]


def _problem(found: ErrorDetails) -> list[str]:
    loc, msg, kind, given = found["loc"], found["msg"], found["type"], found.get("input")
    path = ".".join(str(x) for x in loc)
    before = f"{path}: " if path else ""
    if kind == "extra_forbidden":
        if places := [place for model, place in _PLACES.items() if loc[-1] in model.model_fields]:
            return [f"{before}belongs {' or '.join(places)}; conf/autoscaler.yaml shows where"]
        near = get_close_matches(str(loc[-1]), _NAMES, 1)
        meant = f" (is {near[0]} meant?)" if near else ""
        return [f"{before}unknown setting{meant}; conf/autoscaler.yaml lists all of them"]
    if kind == "missing":
        return [f"{before}is required"]
    if kind == "value_error":  # one of ours
        error = found.get("ctx", {}).get("error")
        return [before + said for said in (error.problems if isinstance(error, ContradictionsError) else (str(error),))]
    private = is_secret(path) or not _PRIVATE.isdisjoint(map(str, loc))
    shown = "" if isinstance(given, dict) or private else f", not {given!r}"
    if kind == "tuple_type":
        msg = "Input should be a list, such as [a, b]"
    return [f"{before}{msg}{shown}"]


_PLACES: Mapping[type[BaseModel], str] = {
    Settings: "to the top level",
    Cluster: "to a cluster, under clusters",
    Group: "to a group, under groups",
    Window: "under windows of a group",
    Measure: "under measure",
    Handover: "under handover",
    Audit: "under audit",
    ProcessWorkers: "under workers of a group",
}
_NAMES = sorted({name for model in _PLACES for name in model.model_fields})
