"""Groups that are declared as resources of Kubernetes: what a ConsumerGroup means, and which of them hold beside the file's.

A resource's ``spec`` is a group's block of the configuration file. It scales what is in its own namespace, by the job's own
connection, and starts no program: to be allowed to write such a resource must not mean to run something in the job's pod. Pure:
JSON in, values out.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import ValidationError

from autoscaler.config.clusters import Cluster
from autoscaler.config.grouping import flattened
from autoscaler.config.kubernetes import Kubernetes
from autoscaler.config.refusals import refusals
from autoscaler.config.settings import Group, missing_solver, scaled_by

API_GROUP, VERSION, KIND, PLURAL = "kafka-group.autoscaler", "v1alpha1", "ConsumerGroup", "consumergroups"
API = f"{API_GROUP}/{VERSION}"
OF_WORKERS = ("kind", "deployment", "target")  # the settings of workers that a resource may name
KINDS = ("deployment", "scale")  # of workers
AT_ONCE, WITHIN_S = 5, 150.0
_KEPT = "; the group goes on with the settings before"
_TRUE, _FALSE = "true", "false"
_HOLDS = {"pause": "all", "pause-in": "scale_down", "pause-out": "scale_up"}
_OURS, _KEDA = "kafka-group-autoscaler/", "autoscaling.keda.sh/"
_NAMES = {  # annotations of the same meaning, ours first
    "pause": (f"{_OURS}pause", f"{_KEDA}paused"),
    "pause-in": (f"{_OURS}pause-in", f"{_KEDA}paused-scale-in"),
    "pause-out": (f"{_OURS}pause-out", f"{_KEDA}paused-scale-out"),
    "paused-replicas": (f"{_OURS}paused-replicas", f"{_KEDA}paused-replicas"),
}

Json = Mapping[str, Any]
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One resource.

    Attributes:
        created: When it was made, as the API writes it.
        group: What it declares; where it is faulty, what it declared before; ``None`` if that is not known.
        problems: What is wrong with it.
        status: What the controller had written when it was read: no part of what it declares.
    """

    namespace: str
    name: str
    uid: str
    generation: int
    created: str
    group: Group | None
    problems: tuple[str, ...] = ()
    status: Json = field(default_factory=dict, compare=False)

    @property
    def key(self) -> str:
        """Return what no other resource is called."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The groups of the file and those of resources, side by side.

    Attributes:
        groups: All that hold, those of the file first.
        owners: The key of its resource, by the id of each group that one declares.
        refused: Why a resource does not hold as it is, by its key.
    """

    groups: tuple[Group, ...]
    owners: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


class Declared(Protocol):
    """All resources, as they are heard of."""

    @property
    def now(self) -> Sequence[Declaration]:
        """Return them; another object each time that something has changed."""
        ...

    @property
    def own(self) -> str | None:
        """Return the namespace that the file means where it names none; ``None`` if that is not known."""
        ...

    def judged(self, declared: Sequence[Declaration], merged: Merged) -> None:
        """Take which of them hold."""
        ...


class Beside:
    """Puts what is declared beside the groups of the file, and says what is refused.

    A change may have the job made anew, for which every group waits: so that a resource that changes again and again holds up the
    others for a part of the time only, ``AT_ONCE`` changes are taken within ``WITHIN_S`` seconds.
    """

    def __init__(self, declared: Declared, monotonic: Callable[[], float]) -> None:
        """Know nothing yet; ``monotonic`` returns seconds that only grow."""
        self._declared, self._monotonic = declared, monotonic
        self._told: deque[float] = deque(maxlen=AT_ONCE)  # when changes were taken
        self._heard: Sequence[Declaration] | None = None
        self._refused: Mapping[str, str] = {}

    def news(self) -> bool:
        """Say whether something has changed since the last call of ``groups``, and it is time to take it."""
        if self._declared.now is self._heard:
            return False
        return len(self._told) < AT_ONCE or self._monotonic() >= max(
            self._told[0] + WITHIN_S, self._told[-1] + WITHIN_S / AT_ONCE
        )

    def groups(self, clusters: Sequence[Cluster], file: Sequence[Group]) -> tuple[Group, ...]:
        """Return all groups that hold now."""
        if self._declared.now is not self._heard:
            self._told.append(self._monotonic())
        self._heard = self._declared.now
        found = merged(clusters, file, self._heard, self._declared.own)
        self._declared.judged(self._heard, found)
        for key, why in found.refused.items() - self._refused.items():
            log.warning("ConsumerGroup %s: %s", key, why)
        self._refused = found.refused
        return found.groups


def read(found: Json, kubernetes: Kubernetes, before: Declaration | None = None) -> Declaration:
    """Return what a resource declares; ``before`` is what it did, which stays in force where it is faulty now."""
    about, problems = found["metadata"], list[str]()
    spec = dict(found.get("spec") or {})
    spec.setdefault("group", about["name"])
    if spec.get("workers") is not None:
        problems += _not_allowed(spec["workers"])
        spec["workers"] = _connected(spec["workers"], about["namespace"], kubernetes)
    holds, wrong = _holds(about.get("annotations") or {})
    if holds and isinstance(spec.get("holds"), Mapping | None):
        spec["holds"] = {**(spec.get("holds") or {}), **holds}
    data, strangers = flattened(spec, Group)
    group = None
    try:
        group = Group.model_validate(data)
    except ValidationError as e:
        problems += refusals(e.errors())
    problems = [*strangers, *problems, *_no_solver(data)]
    problems = [*wrong, *(f"spec.{x}" if _is_path(x) else x for x in problems)]
    if problems:
        group = before.group if before is not None and before.uid == about["uid"] else None
    return Declaration(
        namespace=about["namespace"],
        name=about["name"],
        uid=about["uid"],
        generation=int(about.get("generation") or 0),
        created=about.get("creationTimestamp") or "",
        group=group,
        problems=tuple(dict.fromkeys(problems)),
        status=found.get("status") or {},
    )


def merged(clusters: Sequence[Cluster], file: Sequence[Group], declared: Sequence[Declaration], own: str | None = None) -> Merged:
    """Return which groups hold: those of the file, then the oldest resource of each; one that does not is told why.

    Args:
        clusters: Those that there are.
        file: The groups of the configuration file.
        declared: Every resource.
        own: The namespace that a group of the file means where it names none; ``None`` if that is not known.
    """
    groups, owners, refused = list(file), dict[str, str](), dict[str, str]()
    by = {g.group: "the configuration file" for g in file}
    scales = {place: f"group {g.group} of the configuration file" for g in file if (place := _place(g, own)) is not None}
    for one in sorted(declared, key=lambda d: (d.created, d.key)):
        if one.problems:
            refused[one.key] = "; ".join(one.problems) + (_KEPT if one.group is not None else "")
        if one.group is None:
            continue
        if why := next(_conflicts(one.group, clusters, by, scales), None):
            refused[one.key] = why
            continue
        groups.append(one.group)
        owners[one.group.group] = one.key
        by[one.group.group] = f"ConsumerGroup {one.key}"
        if (place := _place(one.group, own)) is not None:
            scales[place] = f"ConsumerGroup {one.key}"
    return Merged(groups=tuple(groups), owners=owners, refused=refused)


def _conflicts(
    group: Group, clusters: Sequence[Cluster], by: Mapping[str, str], scales: Mapping[tuple[str | None, ...], str]
) -> Iterator[str]:
    there = [c.name for c in clusters]
    if who := by.get(group.group):
        yield f"{who} has the group {group.group} already: delete one of them, or name another id in spec.group"
    if group.cluster is None and len(there) > 1:
        yield f"spec.cluster: is required where there are several clusters: one of {', '.join(there)}"
    if group.cluster is not None and group.cluster not in there:
        yield f"spec.cluster: there is no cluster {group.cluster!r}; there are {', '.join(there)}"
    place = _place(group, None)
    if place is not None and (who := scales.get(place)):
        yield f"{who} scales the {place[-2]} {place[-1]} already: give each group its own"


def _place(group: Group, own: str | None) -> tuple[str | None, ...] | None:
    """Return what has the number of a group's pods; ``None`` if nothing does, or it is not known where."""
    if group.workers is None or (found := scaled_by(group.workers.model_dump())) is None:
        return None
    workers = group.workers
    return (workers.kubeconfig, workers.context, workers.namespace or own, *found)


def _not_allowed(workers: object) -> list[str]:
    if not isinstance(workers, Mapping):
        return []  # its type is refused by itself
    found = [
        f"workers.{x}: is not for a resource, which names {', '.join(OF_WORKERS)} only" for x in workers if x not in OF_WORKERS
    ]
    if (kind := workers.get("kind")) not in KINDS:
        found.append(f"workers.kind: must be {' or '.join(KINDS)}: a resource starts no program in the job's pod, not {kind!r}")
    return found


def _connected(workers: object, namespace: str, kubernetes: Kubernetes) -> object:
    """Return workers as a resource means them: in its own namespace, by the job's own connection."""
    if not isinstance(workers, Mapping):
        return workers
    own = {"namespace": namespace, "kubeconfig": kubernetes.kubeconfig, "context": kubernetes.context}
    return {**{x: y for x, y in workers.items() if x in OF_WORKERS}, **own}


def _holds(annotations: Mapping[str, str]) -> tuple[dict[str, object], list[str]]:
    """Return what annotations hold, as settings of ``holds``, and what is wrong with them."""
    found, problems, on = dict[str, object](), list[str](), list[str]()
    for what, names in _NAMES.items():
        given = next((name for name in names if name in annotations), None)
        if given is None:
            continue
        value = annotations[given].strip()
        if what == "paused-replicas":
            found["pinned"] = int(value) if value.isdecimal() else value
            if not value.isdecimal() or int(value) < 1:
                problems.append(f"annotation {given}: must be a number of consumers, at least 1, not {value!r}")
        elif value == _TRUE:
            on.append(what)
        elif value != _FALSE:
            problems.append(f"annotation {given}: must be {_TRUE} or {_FALSE}, not {value!r}")
    if on:
        found["paused"] = "all" if "pause" in on or len(on) > 1 else _HOLDS[on[0]]
    return ({}, problems) if problems else (found, problems)


def _no_solver(data: Mapping[str, object]) -> list[str]:
    return [x.partition(": ")[2] for x in missing_solver({"groups": [data]})]


def _is_path(problem: str) -> bool:
    """Say whether a problem begins with the path of a setting."""
    return " " not in problem.partition(": ")[0]
