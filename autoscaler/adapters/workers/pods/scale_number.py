"""The number of replicas of any resource that has a ``scale`` subresource: implements ``ports.ConsumerNumber``.

The resource and the pods that it selects are followed; each change of the resource has its ``Scale`` read, which is the same for
every kind. Why a pod does not run is told in the API's own words.
"""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace

from autoscaler.adapters.kubernetes.api import Api, MissingError, OvertakenError, connection, own_namespace
from autoscaler.adapters.kubernetes.followed import Followed
from autoscaler.adapters.workers.pods.pod import Json, Pod, read_pod
from autoscaler.adapters.workers.pods.replicas import MANAGER, Scalers, scaled, writers
from autoscaler.concurrency import started
from autoscaler.config.settings import ScaleWorkers
from autoscaler.errors import AutoscalerError, PermanentError, TransientError
from autoscaler.model import Hindered, Hindrance
from autoscaler.ports import Clock, MayAct, NumberRead, unlimited

_AGAIN_S = 5.0  # between two tries to find out where the resource is
_GOOD = frozenset({"Available", "Ready", "Progressing", "Healthy"})  # conditions that are bad news when they are False


class _Pods:
    """The pods of a selector as last heard, by uid: a sink of ``followed``."""

    def __init__(self) -> None:
        self.now: Mapping[str, Pod] = {}

    def listed(self, objects: Sequence[Json]) -> None:
        """Take all that there are."""
        self.now = {found["metadata"]["uid"]: read_pod(found) for found in objects}

    def changed(self, kind: str, found: Json) -> None:
        """Take one that has changed."""
        uid = found["metadata"]["uid"]
        rest = {u: p for u, p in self.now.items() if u != uid}
        self.now = rest if kind == "DELETED" else {**rest, uid: read_pod(found)}


class ScaleNumber:
    """Follows one resource, and is a sink of what is heard of it."""

    def __init__(self, *, group: str, settings: ScaleWorkers, clock: Clock, may_act: MayAct = unlimited) -> None:
        self._settings, self._clock, self._may_act = settings, clock, may_act
        self._api = Api(connection(settings.kubeconfig, settings.context))
        self._version, self._kind, self._named = settings.target.rsplit("/", 2)
        self._scalers = Scalers(self._api, clock, group, kind=self._kind, name=self._named)
        self._asking = threading.Lock()  # held while the Scale is asked for or changed: an older one must not replace a newer one
        self._begun: Future[None] | None = None
        self._begun_at = 0.0
        self._namespace = self._path = self._uid = self._selector = ""
        self._follows: Followed | None = None
        self._follows_pods: Followed | None = None
        self._pods = _Pods()
        self._seen: NumberRead | None = None
        self._over = False

    @property
    def name(self) -> str:
        """Return what has the number."""
        return f"replicas of {self._kind} {self._named}" + (f" in namespace {self._namespace}" if self._namespace else "")

    def read(self) -> NumberRead:
        """Return the number as heard last, and how many pods of it run; where it selects none, how many it says that run.

        Raises:
            TransientError: It has not been heard of yet, or the API does not answer.
            PermanentError: There is no such resource, it has no scale, or this user may not; says what to do.
        """
        self._begin()
        if self._follows is None or not self._follows.known:
            raise _anew(None if self._follows is None else self._follows.error, f"{self.name} have not been heard of yet")
        for follows in (self._follows, self._follows_pods):
            if follows is not None and follows.error is not None:
                raise _anew(follows.error, "")
        now, pods = self._seen, self._pods.now.values()
        if now is None:
            raise PermanentError(self._missing())
        if self._follows_pods is not None and not self._follows_pods.known:
            raise TransientError(f"the pods of {self.name} have not been heard of yet")
        if not pods:
            return now
        why = tuple(p.hindered for p in pods if p.lives and not p.runs and p.hindered is not None)
        return replace(now, running=sum(p.runs for p in pods), hindered=(*why, *now.hindered))

    def check(self, now: NumberRead) -> None:
        """Look whether an autoscaler sets it too.

        Raises:
            PermanentError: One does; says which.
        """
        foreign = bool(now.ours) and now.wanted not in now.ours
        self._scalers.refuse(self._namespace, f"{self._kind} {self._named}", again=foreign)

    def write(self, wanted: int, *, known: int) -> None:
        """Set it, and see that the API has taken it.

        Raises:
            TransientError: It was another one already, it is not known whether it was set, or another job may set it.
            PermanentError: There is no such resource any more, or this user may not; says what to do.
        """
        with self._asking:
            self._may_act()
            try:
                scale = scaled(self._api, f"{self._path}/scale", known=known, replicas=wanted)
            except MissingError as e:
                raise PermanentError(self._missing()) from e
            except OvertakenError as e:
                self._scalers.forget()  # look who has set it
                raise TransientError(f"the number of {self.name} was not set from {known} to {wanted}: {e}") from e
            except TransientError:
                self._ours(frozenset({known, wanted}))
                raise
            got = int(scale["spec"].get("replicas") or 0)
            if self._seen is not None:
                self._seen = replace(self._seen, wanted=got)
            self._ours(frozenset({got}))
        if got != wanted:
            raise TransientError(f"the number of {self.name} was set to {wanted} and reads {got}: an admission rule may limit it")

    def close(self) -> None:
        """Hear no more; the number stays."""
        self._over = True
        for follows in (self._follows, self._follows_pods):
            if follows is not None:
                follows.close()
        self._api.close()

    # --- a sink of what is heard of the resource ---

    def listed(self, objects: Sequence[Json]) -> None:
        """Take the list, of one or none."""
        if not objects:
            self._seen = None
        for found in objects:
            self.changed("ADDED", found)

    def changed(self, kind: str, found: Json) -> None:
        """Take the resource as it has changed, with its ``Scale`` of now."""
        with self._asking:
            try:
                scale = None if kind == "DELETED" else self._api.get(f"{self._path}/scale")
            except MissingError:
                scale = None
            self._seen = None if scale is None else self._taken(found, scale)

    def _taken(self, found: Json, scale: Json) -> NumberRead:
        spec, status, uid = scale.get("spec") or {}, scale.get("status") or {}, found["metadata"]["uid"]
        if self._uid != uid:  # made anew, with a number of its maker
            self._uid, self._seen = uid, None
            self._scalers.forget()
        self._follow(status.get("selector") or "")
        wanted, listed = int(spec.get("replicas") or 0), list(writers(found))
        ours = frozenset({wanted}) if any(m == MANAGER for m, _ in listed) and self._seen is None else frozenset()
        return NumberRead(
            wanted=wanted,
            running=int(status.get("replicas") or 0),
            ours=self._seen.ours if self._seen is not None else ours,
            writers=tuple(f"{m} at {at}" for m, at in listed if m != MANAGER),
            hindered=_bad_news((found.get("status") or {}).get("conditions") or ()),
        )

    def _ours(self, numbers: frozenset[int]) -> None:
        if self._seen is not None:
            self._seen = replace(self._seen, ours=numbers)

    # --- beginning ---

    def _begin(self) -> None:
        """Find out where the resource is, in a thread of its own, and follow it."""
        now = self._clock.monotonic()
        if self._begun is None or (_failed(self._begun) and now >= self._begun_at + _AGAIN_S):
            self._begun, self._begun_at = started(self._find, f"finds {self._named}"), now
        if self._begun.done() and isinstance(error := self._begun.exception(), AutoscalerError):
            raise _anew(error, "")

    def _find(self) -> None:
        settings = self._settings
        self._namespace = settings.namespace or own_namespace(settings.kubeconfig, settings.context)
        root = f"/{'apis' if '/' in self._version else 'api'}/{self._version}"
        correct = "correct workers.target of the group"
        try:
            known = {r["name"]: r["kind"] for r in self._api.get(root).get("resources") or ()}
        except MissingError as e:
            raise PermanentError(f"Kubernetes has no API {self._version}: {correct}, or install it") from e
        plural = next((name for name, kind in known.items() if kind == self._kind and "/" not in name), None)
        if plural is None:
            raise PermanentError(f"{self._version} has no kind {self._kind}: {correct}")
        if f"{plural}/scale" not in known:
            raise PermanentError(f"kind {self._kind} of {self._version} has no scale subresource: {correct}")
        base = f"{root}/namespaces/{self._namespace}/{plural}"
        self._path = f"{base}/{self._named}"
        self._follows = Followed(self._api, base, {"fieldSelector": f"metadata.name={self._named}"}, self)
        if not self._over:
            self._follows.start()

    def _follow(self, selector: str) -> None:
        if selector == self._selector:
            return
        if self._follows_pods is not None:
            self._follows_pods.stop()
        self._selector, self._pods, self._follows_pods = selector, _Pods(), None
        if selector and not self._over:
            path = f"/api/v1/namespaces/{self._namespace}/pods"
            self._follows_pods = Followed(self._api, path, {"labelSelector": selector}, self._pods)
            self._follows_pods.start()

    def _missing(self) -> str:
        said = f"there is no {self._kind} {self._named} in namespace {self._namespace}"
        return f"{said}: create it, or correct workers.target and workers.namespace of the group"


def _bad_news(conditions: Sequence[Json]) -> tuple[Hindered, ...]:
    """Return what conditions say against a resource, failures first: the others follow from them."""
    found = []
    for condition in conditions:
        kind, status, said = condition.get("type") or "", condition.get("status"), condition.get("message") or ""
        failure = kind.endswith("Failure") and status == "True"
        if said and (failure or (kind in _GOOD and status == "False")):
            why = Hindrance.QUOTA if "quota" in said else Hindrance.REFUSED if failure else Hindrance.PENDING
            found.append(Hindered(why=why, said=said))
    return tuple(sorted(found, key=lambda h: h.why is Hindrance.PENDING))


def _failed(future: Future[None]) -> bool:
    return future.done() and future.exception() is not None


def _anew(error: AutoscalerError | None, otherwise: str) -> AutoscalerError:
    """Return an error that another thread has met as one to raise here."""
    kind = PermanentError if isinstance(error, PermanentError) else TransientError
    return kind(otherwise if error is None else str(error))
