"""A Deployment as the API tells of it, read into a value: how many pods it should have, who said so, and what is wrong with it.

Between ``followed`` (JSON of the API) and the pool. Pure: knows no client.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from autoscaler.adapters.workers.pods.pod import NAME_VARIABLE, Json
from autoscaler.adapters.workers.pods.replicas import MANAGER, writers
from autoscaler.model import Hindered, Hindrance

INSTANCE_VARIABLE = "AUTOSCALER_INSTANCE"
_FIELDS = {NAME_VARIABLE: "metadata.name", INSTANCE_VARIABLE: "metadata.uid"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What the pool needs to know of its Deployment.

    Attributes:
        uid: Another one of the same name has another.
        replicas: How many pods it should have.
        selector: Its label selector, as a query has it.
        writers: Who has written ``replicas`` last, as ``manager at time``, without this controller.
        ours: This controller is among those who have.
        updating: Not all of its pods are of its latest template.
        refused: Why it could not make a pod; ``None`` if it could.
        wrong: What a worker in its pods would lack, in words.
    """

    uid: str
    replicas: int
    selector: str
    writers: tuple[str, ...]
    ours: bool
    updating: bool
    refused: Hindered | None
    wrong: tuple[str, ...]


def read_deployment(found: Json, group: str) -> Deployment:
    """Return what a Deployment's JSON says, as one whose pods are the workers of ``group``."""
    spec, status = found["spec"], found.get("status") or {}
    managed = list(writers(found))
    pods = int(status.get("replicas") or 0)
    return Deployment(
        uid=found["metadata"]["uid"],
        replicas=int(spec.get("replicas", 1)),
        selector=_selector(spec["selector"]),
        writers=tuple(f"{m} at {at}" for m, at in managed if m != MANAGER),
        ours=any(m == MANAGER for m, _ in managed),
        updating=int(status.get("updatedReplicas") or 0) < pods,
        refused=_refused(status),
        wrong=tuple(_wrong(((spec.get("template") or {}).get("spec") or {}).get("containers") or (), group)),
    )


def _selector(selector: Json) -> str:
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for rule in selector.get("matchExpressions") or ():
        key, operator, values = rule["key"], rule["operator"], ",".join(sorted(rule.get("values") or ()))
        words = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key, "DoesNotExist": f"!{key}"}
        parts.append(words[operator])
    return ",".join(parts)


def _refused(status: Json) -> Hindered | None:
    for condition in status.get("conditions") or ():
        if (condition.get("type"), condition.get("status")) == ("ReplicaFailure", "True"):
            said = condition.get("message") or ""
            return Hindered(why=Hindrance.QUOTA if "quota" in said else Hindrance.REFUSED, said=said)
    return None


def _wrong(containers: Iterable[Json], group: str) -> Iterator[str]:
    given: dict[str, Mapping[str, object]] = {v["name"]: v for c in containers for v in c.get("env") or ()}
    for name, path in _FIELDS.items():
        source = given.get(name, {}).get("valueFrom")
        field = source.get("fieldRef") if isinstance(source, Mapping) else None
        if not isinstance(field, Mapping) or field.get("fieldPath") != path:
            yield f"{name} must be the pod's own {path} (valueFrom.fieldRef)"
    named = given.get("AUTOSCALER_GROUP", {}).get("value")
    if named is not None and named != group:
        yield f"AUTOSCALER_GROUP is {named!r} and must be {group!r}"
