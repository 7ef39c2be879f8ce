"""What was heard of a Deployment and its pods, kept as values: sinks of ``followed``, read by the pool.

Also what outlives a pod: which slot its name means, that it has ended and that this was seen. Asks for nothing.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from autoscaler.adapters.kubernetes.followed import Json
from autoscaler.adapters.workers.pods.deployment import Deployment, read_deployment
from autoscaler.adapters.workers.pods.pod import SLOT, Pod, belongs, last_end, read_pod, slot_in
from autoscaler.model import Hindered, Hindrance

log = logging.getLogger(__name__)
_KEPT = 2000  # names and instances that are remembered after their pods have gone


class SeenDeployment:
    """The Deployment as last heard; ``None`` if there is none. ``told`` is called with each one."""

    def __init__(self, lock: threading.RLock, group: str, told: Callable[[Deployment], None]) -> None:
        self._lock, self._group, self._told = lock, group, told
        self.now: Deployment | None = None

    def listed(self, objects: Sequence[Json]) -> None:
        """Take the list, of one or none."""
        with self._lock:
            if not objects:
                self.now = None
        for found in objects:
            self.changed("ADDED", found)

    def changed(self, kind: str, found: Json) -> None:
        """Take one that has changed."""
        with self._lock:
            self.now = None if kind == "DELETED" else read_deployment(found, self._group)
            if self.now is not None:
                self._told(self.now)

    def wrote(self, replicas: int) -> None:
        """Take a number that was just written: the next look must not take the one before for another writer's."""
        with self._lock:
            if self.now is not None:
                self.now = replace(self.now, replicas=replicas, ours=True, writers=())


class SeenPods:
    """The Deployment's pods as last heard, by uid.

    Attributes:
        ended: Instances all of whose containers were seen to have ended: the platform's evidence. A pod that vanishes without
            that, as one that is deleted by force, may still run somewhere; its lease tells.
        slots: The slot of each pod by its name, also of those that are gone.
        lost: Why a slot's pod is gone, of those whose end this pool did not ask for, until the slot runs again.
        leaving: Pods whose end was asked for, by uid.
    """

    def __init__(self, lock: threading.RLock, group: str, deployment: str, appeared: Callable[[], None]) -> None:
        """Begin empty; ``appeared`` is called, without the lock, when there is a pod that fills no slot."""
        self._lock, self._group, self._deployment, self._appeared = lock, group, deployment, appeared
        self.now: dict[str, Pod] = {}
        self.ended: OrderedDict[str, None] = OrderedDict()
        self.slots: OrderedDict[str, int] = OrderedDict()
        self.lost: dict[int, Hindered] = {}
        self.leaving: dict[str, Pod] = {}

    def listed(self, objects: Sequence[Json]) -> None:
        """Take all pods that there are; how one has ended that is not among them is not known."""
        with self._lock:
            here = {found["metadata"]["uid"] for found in objects}
            for uid in [u for u in self.now if u not in here]:
                self._gone(self.now.pop(uid))
            new = [self._taken("ADDED", found) for found in objects]
        if any(new):
            self._appeared()

    def changed(self, kind: str, found: Json) -> None:
        """Take one pod that has changed."""
        if self._taken(kind, found):
            self._appeared()

    def _taken(self, kind: str, found: Json) -> bool:
        """Take one pod, and say whether it is there to stay and fills no slot."""
        if not belongs(found, self._deployment):
            return False
        with self._lock:
            pod = read_pod(found)
            before = self.now.get(pod.uid)
            if before is not None and pod.restarts > before.restarts:
                said = last_end(found) or "without a word"
                log.warning("group %s: the worker in pod %s ended: %s; it is started again", self._group, pod.name, said)
            self._remember(pod)
            if pod.proven:
                self.ended[pod.uid] = None
                _bound(self.ended)
            known = before is not None and not before.over
            if (pod.over and before is None) or (known and (pod.over or kind == "DELETED")):
                self._gone(pod)
            if kind == "DELETED":
                self.now.pop(pod.uid, None)
            else:
                self.now[pod.uid] = pod
            return kind != "DELETED" and pod.lives and pod.slot is None

    def wrote(self, uid: str, annotations: Mapping[str, str | None]) -> None:
        """Take the slot that was just written to a pod, and nothing else: what was heard meanwhile may be newer.

        A deletion cost is taken once it is heard: by then the ReplicaSet is likely to know it too.
        """
        with self._lock:
            if SLOT in annotations and (pod := self.now.get(uid)) is not None:
                self.now[uid] = replace(pod, slot=slot_in(annotations))
                self._remember(self.now[uid])

    def _remember(self, pod: Pod) -> None:
        if pod.slot is not None:
            self.slots[pod.name] = pod.slot
            self.slots.move_to_end(pod.name)
            _bound(self.slots)
            if pod.lives and pod.runs:
                self.lost.pop(pod.slot, None)
        elif pod.lives:
            self.slots.pop(pod.name, None)

    def _gone(self, pod: Pod) -> None:
        asked = self.leaving.pop(pod.uid, None) is not None
        others = (p for p in self.now.values() if p.uid != pod.uid and p.slot == pod.slot and p.lives)
        if pod.slot is not None and not asked and not any(others):
            self.lost[pod.slot] = pod.hindered or Hindered(why=Hindrance.ENDED)


def _bound(kept: OrderedDict[str, None] | OrderedDict[str, int]) -> None:
    while len(kept) > _KEPT:
        kept.popitem(last=False)


def running(pods: Mapping[str, Pod]) -> dict[int, Pod]:
    """Return the pod that runs in each slot; of one that is ending as long as no other one runs there."""
    found: dict[int, Pod] = {}
    for pod in sorted(pods.values(), key=lambda p: (p.lives, p.created, p.name)):
        if pod.slot is not None and not pod.over and (pod.runs or (pod.ending and pod.started)):
            found[pod.slot] = pod
    return dict(sorted(found.items()))
