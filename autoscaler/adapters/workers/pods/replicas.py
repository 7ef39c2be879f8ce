"""How a number of replicas is set through a ``scale`` subresource, and which autoscalers set it too.

For every resource that has one, whatever its kind. Asks the API when it is asked, and follows nothing.
"""

import logging
from collections.abc import Iterable, Iterator
from typing import Any

from autoscaler.adapters.kubernetes.api import Api
from autoscaler.adapters.workers.pods.pod import Json
from autoscaler.errors import PermanentError
from autoscaler.ports import Clock

log = logging.getLogger(__name__)
MANAGER = "kafka-group-autoscaler"  # under this name the API keeps what this controller has written
_AGAIN_S = 30.0  # between two looks whether an autoscaler that is in the way has gone


def scaled(api: Api, path: str, *, known: int, replicas: int) -> dict[str, Any]:
    """Set the number of replicas, unless it is not the known one any more, and return the ``Scale``.

    Args:
        api: The connection.
        path: Of the subresource.
        known: The number that was read last.
        replicas: The number to be set.

    Raises:
        OvertakenError: It is not the known one, or the resource does not take it; nothing was set.
        MissingError: There is no such resource.
        PermanentError: This user may not; says what to do.
        TransientError: It is not known whether it was set.
    """
    change = [  # the API leaves a number of 0 out
        {"op": "test", "path": "/spec/replicas", "value": known or None},
        {"op": "add", "path": "/spec/replicas", "value": replicas},
    ]
    return api.patch(path, change, kind="json-patch", manager=MANAGER)


def writers(found: Json) -> Iterator[tuple[str, str]]:
    """Yield the field managers that have set ``spec.replicas`` of an object, each with the time."""
    for entry in found["metadata"].get("managedFields") or ():
        fields = (entry.get("fieldsV1") or {}).get("f:spec") or {}
        if "f:replicas" in fields:
            yield entry.get("manager") or "unknown", entry.get("time") or "an unknown time"


class Scalers:
    """HorizontalPodAutoscalers of one resource, looked for at the first call and while there is a reason to."""

    def __init__(self, api: Api, clock: Clock, group: str, *, kind: str, name: str) -> None:
        """Look for those of the resource ``name`` of ``kind``, for the log of ``group``."""
        self._api, self._clock, self._group, self._kind, self._name = api, clock, group, kind, name
        self._found: tuple[str, ...] | None = None
        self._at = 0.0

    def forget(self) -> None:
        """Look again at the next call."""
        self._found = None

    def refuse(self, namespace: str, what: str, *, again: bool) -> None:
        """Raise ``PermanentError`` where there is one: one that agrees today undoes tomorrow.

        Args:
            namespace: Where to look.
            what: The name of the resource, for people.
            again: There is a reason to look anew, such as a number of another writer.
        """
        now = self._clock.monotonic()
        if self._found is None or ((again or self._found) and now >= self._at + _AGAIN_S):
            self._found, self._at = self._listed(namespace), now
        if self._found:
            who = ", ".join(self._found)
            raise PermanentError(f"{who} sets the number of pods of {what}: delete it, or set the group's mode to advise")

    def _listed(self, namespace: str) -> tuple[str, ...]:
        path = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers"
        try:
            return scalers(self._api.get(path).get("items") or (), self._kind, self._name)
        except PermanentError as e:
            if self._found is None:
                log.warning("group %s: whether an autoscaler sets its number of pods cannot be seen: %s", self._group, e)
            return ()


def scalers(listed: Iterable[Json], kind: str, name: str) -> tuple[str, ...]:
    """Return the autoscalers that set the number of a resource's pods, each as an operator knows it."""
    found = []
    for scaler in listed:
        target = (scaler.get("spec") or {}).get("scaleTargetRef") or {}
        if (target.get("kind"), target.get("name")) == (kind, name):
            owners = scaler["metadata"].get("ownerReferences") or ()
            made_by = next((f" of {o['kind']} {o['name']}" for o in owners if o.get("kind") == "ScaledObject"), "")
            found.append(f"HorizontalPodAutoscaler {scaler['metadata']['name']}{made_by}")
    return tuple(sorted(found))
