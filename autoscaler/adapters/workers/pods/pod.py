"""One pod as the API tells of it, read into a value: which slot it fills, whether it runs, and why it does not.

Between ``followed`` (JSON of the API) and ``steps``. Pure: knows no client.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from autoscaler.model import Hindered, Hindrance

SLOT = "kafka-group-autoscaler/slot"  # annotation: the slot that a pod fills, so that a restarted controller finds it
COST = "controller.kubernetes.io/pod-deletion-cost"
DOOMED = "-2147483648"  # the lowest cost that there is
NAME_VARIABLE = "AUTOSCALER_WORKER_NAME"

_TERMINAL = frozenset({"Succeeded", "Failed"})
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}  # in the order in which a ReplicaSet gives pods up
_LONGEST_SLOT = 10  # digits
_WAITING = {
    "ErrImagePull": Hindrance.IMAGE,
    "ImagePullBackOff": Hindrance.IMAGE,
    "ErrImageNeverPull": Hindrance.IMAGE,
    "ImageInspectError": Hindrance.IMAGE,
    "InvalidImageName": Hindrance.IMAGE,
    "RegistryUnavailable": Hindrance.IMAGE,
    "CreateContainerConfigError": Hindrance.CONFIGURATION,
    "CreateContainerError": Hindrance.CONFIGURATION,
    "RunContainerError": Hindrance.CONFIGURATION,
    "CrashLoopBackOff": Hindrance.CRASH_LOOP,
}
_REASONS = {"Evicted": Hindrance.EVICTED, "OOMKilled": Hindrance.OUT_OF_MEMORY, "NodeLost": Hindrance.NODE_LOST}

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod of the Deployment.

    Attributes:
        name: What its worker calls itself.
        uid: The instance that its worker names in heartbeats.
        slot: The slot that its annotation says it fills; ``None`` without one.
        created: When it was made, as the API writes it: texts that sort by time.
        template: The hash of the template that it was made from; another one: a rollout is under way.
        rank: How early a ReplicaSet that becomes smaller gives it up; a lower one first, the deletion cost decides among equals.
        started: A container of it has been started, now or before.
        runs: Its worker's container runs now.
        ready: It says that it is ready.
        ending: It was told to end.
        over: It has ended, or will not be started any more.
        proven: All its containers were seen to have ended: nothing of it acts any more.
        doomed: It has the lowest deletion cost.
        restarts: How often its worker's container was started again.
        hindered: Why it does not run, or is not ready; ``None`` if it is fine.
    """

    name: str
    uid: str
    slot: int | None
    created: str
    template: str
    rank: tuple[int, int, int]
    started: bool
    runs: bool
    ready: bool
    ending: bool
    over: bool
    proven: bool
    doomed: bool
    restarts: int
    hindered: Hindered | None

    @property
    def lives(self) -> bool:
        """Say whether it is there to stay: neither over nor told to end."""
        return not self.over and not self.ending


def read_pod(found: Json) -> Pod:
    """Return what a pod's JSON says."""
    about, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
    notes, phase = about.get("annotations") or {}, status.get("phase") or "Pending"
    containers, initial = status.get("containerStatuses") or [], status.get("initContainerStatuses") or []
    worker = _worker(spec, containers)
    ready = _condition(status, "Ready").get("status") == "True"
    over, ending = phase in _TERMINAL, bool(about.get("deletionTimestamp"))
    return Pod(
        name=about["name"],
        uid=about["uid"],
        slot=slot_in(notes),
        created=about.get("creationTimestamp") or "",
        template=(about.get("labels") or {}).get("pod-template-hash", ""),
        rank=(int(bool(spec.get("nodeName"))), _PHASES.get(phase, 2), int(ready)),
        started=any(_has_started(c) for c in (*initial, *containers)),
        runs=not over and "running" in _state(worker),
        ready=ready and not over,
        ending=ending,
        over=over,
        proven=over and bool(containers) and all("terminated" in _state(c) for c in (*initial, *containers)),
        doomed=notes.get(COST) == DOOMED,
        restarts=int(worker.get("restartCount") or 0),
        hindered=_hindered(status, phase, (*initial, *containers), ready=ready, ending=ending),
    )


def slot_in(annotations: Mapping[str, str | None]) -> int | None:
    """Return the slot that a pod's annotations name; ``None`` if they name none."""
    note = annotations.get(SLOT)
    plain = note is not None and note.isascii() and note.isdecimal() and len(note) < _LONGEST_SLOT
    return int(note) if plain and note is not None else None


def belongs(found: Json, deployment: str) -> bool:
    """Say whether a pod is one of a Deployment's: of a ReplicaSet that is called as its Deployment names them."""
    about = found["metadata"]
    template = (about.get("labels") or {}).get("pod-template-hash")
    owners = (o for o in about.get("ownerReferences") or () if o.get("controller"))
    return any(o.get("kind") == "ReplicaSet" and o.get("name") == f"{deployment}-{template}" for o in owners)


def last_end(found: Json) -> str:
    """Return how a pod's worker ended the last time, such as ``OOMKilled (exit code 137)``; empty if that is not told."""
    containers = (found.get("status") or {}).get("containerStatuses") or []
    return _said_of_end(_ended(_worker(found.get("spec") or {}, containers)))


def _worker(spec: Json, containers: Iterable[Json]) -> Json:
    """Return the status of the container that the worker's name is given to, or of the first one."""
    listed, described = list(containers), spec.get("containers") or ()
    named = {c.get("name") for c in described if any(v.get("name") == NAME_VARIABLE for v in c.get("env") or ())}
    return next((c for c in listed if c.get("name") in named), listed[0] if listed else {})


def _state(container: Json) -> Json:
    return container.get("state") or {}


def _ended(container: Json) -> Json:
    """Return how a container ended, now or the last time; empty if it never did."""
    return _state(container).get("terminated") or (container.get("lastState") or {}).get("terminated") or {}


def _has_started(container: Json) -> bool:
    return "running" in _state(container) or bool(_ended(container)) or bool(container.get("restartCount"))


def _condition(status: Json, kind: str) -> Json:
    return next((c for c in status.get("conditions") or () if c.get("type") == kind), {})


def _said_of_end(ended: Json) -> str:
    if not ended:
        return ""
    code = f"exit code {ended.get('exitCode')}"
    return f"{ended['reason']} ({code})" if ended.get("reason") else code


def _hindered(status: Json, phase: str, containers: Iterable[Json], *, ready: bool, ending: bool) -> Hindered | None:
    listed, disrupted = list(containers), _condition(status, "DisruptionTarget")
    if phase in _TERMINAL:
        return _of_the_end(status, listed)
    if ending:
        lost = disrupted.get("reason") == "DeletionByTaintManager"
        return Hindered(why=Hindrance.NODE_LOST if lost else Hindrance.TERMINATING, said=disrupted.get("message") or "")
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("reason") == "Unschedulable":
        return Hindered(why=Hindrance.UNSCHEDULABLE, said=scheduled.get("message") or "")
    if found := next(_of_containers(listed), None):
        return found
    if phase == "Pending":
        return Hindered(why=Hindrance.PENDING, said=scheduled.get("message") or "")
    said = _condition(status, "Ready").get("message") or ""
    return None if ready else Hindered(why=Hindrance.UNREADY, said=said)


def _of_the_end(status: Json, containers: Iterable[Json]) -> Hindered:
    ended = [e for c in containers if (e := _ended(c))]
    reasons = (status.get("reason"), *(e.get("reason") for e in ended))
    why = next((_REASONS[r] for r in reasons if r in _REASONS), Hindrance.ENDED)
    said = status.get("message") or next((s for e in ended if (s := _said_of_end(e))), "")
    return Hindered(why=why, said=said)


def _of_containers(containers: Iterable[Json]) -> Iterator[Hindered]:
    for container in containers:
        waiting, ended = _state(container).get("waiting") or {}, _ended(container)
        why = _WAITING.get(waiting.get("reason", ""))
        if why is Hindrance.CRASH_LOOP:
            why = _REASONS.get(ended.get("reason", ""), Hindrance.CRASH_LOOP)
        if why is not None:
            parts = (waiting.get("message") or waiting["reason"], _said_of_end(ended))
            yield Hindered(why=why, said="; ".join(p for p in parts if p))
        elif "terminated" in _state(container) and ended.get("exitCode"):
            yield Hindered(why=_REASONS.get(ended.get("reason", ""), Hindrance.ENDED), said=_said_of_end(ended))
