"""Workers as pods of a Deployment: implements ``ports.WorkerPool`` for managed groups.

The Deployment makes and ends the pods; this pool says how many there should be (its ``scale`` subresource), which slot each fills
(an annotation) and which ones go (their deletion cost). What runs is heard in the background, so that a look never waits; each
call has a deadline. It writes only while it hears, and only while no other writer sets the number.
"""

import logging
import threading
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from autoscaler.adapters.kubernetes.api import Api, MissingError, OvertakenError, connection, own_namespace
from autoscaler.adapters.kubernetes.followed import Followed
from autoscaler.adapters.workers.pods.deployment import Deployment
from autoscaler.adapters.workers.pods.pod import COST, DOOMED, SLOT, Pod
from autoscaler.adapters.workers.pods.replicas import MANAGER, Scalers, scaled
from autoscaler.adapters.workers.pods.seen import SeenDeployment, SeenPods, running
from autoscaler.adapters.workers.pods.steps import Steps, filled, next_steps
from autoscaler.config.settings import DeploymentWorkers
from autoscaler.errors import AnotherWriterError, AutoscalerError, PermanentError, TransientError
from autoscaler.model import Hindered, Hindrance
from autoscaler.ports import Clock, MayAct, PoolState, unlimited

log = logging.getLogger(__name__)
_APPLY_S = 5.0  # after which the rest of the steps is left to the next call


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lowered:
    """A number of pods that was lowered: who is to go by it, and who is to stay."""

    replicas: int
    leaving: tuple[Pod, ...]
    staying: tuple[Pod, ...]


class DeploymentPool:
    """Sees and changes the pods of one Deployment, which fill the slots of one managed group.

    Who runs it again finds each pod's slot in its annotation; a pod without one, also of a Deployment that was there before,
    fills the first requested slot that has none.
    """

    def __init__(self, *, group: str, settings: DeploymentWorkers, clock: Clock, may_act: MayAct = unlimited) -> None:
        self._group, self._settings, self._clock, self._may_act = group, settings, clock, may_act
        self._api = Api(connection(settings.kubeconfig, settings.context))
        self._lock = threading.RLock()
        self._deployment = SeenDeployment(self._lock, group, self._told)
        self._acting = threading.Lock()  # held from a choice until it is carried out; ``_lock`` while something is read or noted
        self._pods = SeenPods(self._lock, group, settings.deployment, self._fill)
        self._follows: Followed | None = None
        self._follows_pods: Followed | None = None
        self._selector = ""
        self._namespace = ""
        self._requested: frozenset[int] = frozenset()
        self._looked: frozenset[int] = frozenset()  # ran at the last look
        self._kept: dict[int, str] = {}  # slots that are to end, and why they do not yet
        self._lowered: _Lowered | None = None
        self._uid = ""  # of the Deployment that what follows is about
        self._wrote: int | None = None  # the number that this controller has written last; None: none that it knows of
        self._scalers = Scalers(self._api, clock, group, kind="Deployment", name=settings.deployment)

    # --- ports.WorkerPool ---

    def slot_of(self, worker_name: str) -> int | None:
        """Return the slot of the pod of this name, also if it is gone; ``None`` if it has none, or was not heard of yet."""
        with self._lock:
            with suppress(AutoscalerError):  # which ``observe`` tells
                self._begin()
            return self._pods.slots.get(worker_name)

    def observe(self) -> PoolState:
        """Return what was heard of the pods; during an outage what was heard last.

        Raises:
            TransientError: Nothing has been heard yet.
            PermanentError: There is no such Deployment, or this user may not see it; says what to do.
        """
        with self._lock:
            self._begin()
            self._must_be_known()
            self._verify()
            there = running(self._pods.now)
            self._looked = frozenset(there)
            return PoolState(
                running={slot: pod.uid for slot, pod in there.items()},
                ended=frozenset(self._pods.ended),
                restarting={s: 0.0 for s in sorted(self._pods.lost) if s not in there and s in self._requested},
                draining=frozenset(slot for slot, pod in there.items() if pod.ending),
                hindered=self._hindered(),
            )

    def apply(self, requested: frozenset[int], *, expected: frozenset[int], releasable: frozenset[int]) -> None:
        """Take the next steps towards ``requested``; what they wait for is seen by the following calls.

        Raises:
            TransientError: Slots run that are not expected, or the API does not answer; observe again.
            PermanentError: Another one sets the number of pods, a right is missing, or a pod would not know who it is; says what.
        """
        with self._acting:
            self._apply(requested, expected, releasable)

    def _apply(self, requested: frozenset[int], expected: frozenset[int], releasable: frozenset[int]) -> None:
        with self._lock:
            self._begin()
            deployment = self._heard()
            there = frozenset(running(self._pods.now))
            if others := (there & self._looked) - expected:
                raise TransientError(f"slots {sorted(others)} of group {self._group} run and were not expected to")
            self._verify()
            self._requested = requested
            self._pods.lost = {s: why for s, why in self._pods.lost.items() if s in requested}
            alive = self._alive()
            steps = next_steps(
                tuple(alive.values()),
                replicas=deployment.replicas,
                requested=requested,
                releasable=releasable,
                updating=deployment.updating,
            )
            to_end = filled(alive.values()).keys() - requested
            self._kept = {s: steps.kept for s in sorted(to_end & releasable) if steps.kept}
        try:
            self._refuse(deployment)
        except PermanentError:  # pods that are there are consumers all the same
            self._take(Steps(slots=steps.slots), alive, deployment)
            raise
        self._take(steps, alive, deployment)

    def _fill(self) -> None:
        """Give a pod that has come up its slot at once, by what was asked for last: till then its worker is a stranger.

        In the thread that has heard of it; the next call of ``apply`` does what fails here, and says whether a slot whose pod was
        lost is wanted still.
        """
        with self._acting, suppress(AutoscalerError):
            with self._lock:
                deployment = self._heard()
                alive = self._alive()
                taken, pods = filled(alive.values()).keys() | self._pods.lost, tuple(alive.values())
                steps = next_steps(pods, replicas=deployment.replicas, requested=self._requested, releasable=frozenset())
            slots = {u: s for u, s in steps.slots.items() if alive[u].slot is None and s not in taken}
            self._take(Steps(slots=slots), alive, deployment)

    def _alive(self) -> dict[str, Pod]:
        return {u: p for u, p in self._pods.now.items() if p.lives and u not in self._pods.leaving}

    def close(self) -> None:
        """Hear no more; the pods go on."""
        for follows in (self._follows, self._follows_pods):
            if follows is not None:
                follows.close()
        self._follows = self._follows_pods = None
        self._api.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close."""
        self.close()

    # --- hearing ---

    def _begin(self) -> None:
        if self._follows is not None:
            return
        self._namespace = self._settings.namespace or own_namespace(self._settings.kubeconfig, self._settings.context)
        only = {"fieldSelector": f"metadata.name={self._settings.deployment}"}
        self._follows = Followed(self._api, self._path("deployments"), only, self._deployment)
        self._follows.start()

    def _told(self, deployment: Deployment) -> None:
        """Follow the pods that the Deployment selects, once that is known; those of another selector when it was made anew."""
        if self._follows_pods is None or deployment.selector != self._selector:
            if self._follows_pods is not None:
                self._follows_pods.stop()
            self._selector = deployment.selector
            path = f"/api/v1/namespaces/{self._namespace}/pods"
            self._follows_pods = Followed(self._api, path, {"labelSelector": deployment.selector}, self._pods)
            self._follows_pods.start()

    def _must_be_known(self) -> None:
        """Raise what keeps this pool from knowing anything at all."""
        if self._follows is None or not self._follows.known:
            error = None if self._follows is None else self._follows.error
            raise _anew(error, f"{self._name()} has not been heard of yet")
        if self._follows_pods is None:
            raise PermanentError(self._missing())
        if not self._follows_pods.known:
            raise _anew(self._follows_pods.error, f"the pods of {self._name()} have not been heard of yet")

    def _heard(self) -> Deployment:
        """Return the Deployment as it is now.

        Raises:
            AutoscalerError: What is known may be old, or it is not there, or not as workers need it.
        """
        self._must_be_known()
        for follows in (self._follows, self._follows_pods):
            if follows is not None and follows.error is not None:
                raise _anew(follows.error)
        if self._deployment.now is None:
            raise PermanentError(self._missing())
        if wrong := self._deployment.now.wrong:
            said = "; ".join(wrong)
            raise PermanentError(f"the pod template of {self._name()}: {said}; docs/tasks/kubernetes.md shows it")
        return self._deployment.now

    def _missing(self) -> str:
        return f"there is no {self._name()}: create it, or correct workers.deployment and workers.namespace of the group"

    def _name(self) -> str:
        return f"Deployment {self._settings.deployment} in namespace {self._namespace}"

    def _path(self, resource: str) -> str:
        return f"/apis/apps/v1/namespaces/{self._namespace}/{resource}"

    def _verify(self) -> None:
        """See whether those went that were to: who went in their place is said, and is a loss like any other."""
        lowered, now = self._lowered, self._pods.now
        if lowered is None:
            return
        left = [p for p in lowered.leaving if p.uid in now and now[p.uid].lives]
        raised = self._deployment.now is not None and self._deployment.now.replicas > lowered.replicas  # so they may stay
        taken = [p for p in lowered.staying if p.uid not in now or not now[p.uid].lives]
        alive = sum(p.lives for p in now.values())
        if left and not raised and not (taken and alive <= lowered.replicas):
            return
        self._lowered = None
        for pod, kept in zip(taken, () if raised else left, strict=False):
            said = f"pod {pod.name} went, and pod {kept.name} stayed"
            log.warning("group %s: the platform ended another pod than it was to: %s", self._group, said)
            if pod.slot is not None:
                self._pods.lost[pod.slot] = Hindered(why=Hindrance.TAKEN, said=said)
        for pod in left:
            self._pods.leaving.pop(pod.uid, None)

    def _hindered(self) -> dict[int, Hindered]:
        there, found = filled(p for p in self._pods.now.values() if p.lives), dict[int, Hindered]()
        ending = {p.slot: p for p in self._pods.now.values() if p.ending and not p.over}
        refused = self._deployment.now.refused if self._deployment.now is not None else None
        for slot in sorted(self._requested):
            pod = there.get(slot) or ending.get(slot)
            why = refused or Hindered(why=Hindrance.PENDING) if pod is None else pod.hindered
            if slot in self._pods.lost and (pod is None or self._pods.lost[slot].why is Hindrance.TAKEN):
                why = self._pods.lost[slot]
            if why is not None:
                found[slot] = why
        return found | {s: Hindered(why=Hindrance.KEPT, said=why) for s, why in self._kept.items() if s in there}

    # --- acting ---

    def _refuse(self, deployment: Deployment) -> None:
        """Raise ``PermanentError`` where another one sets the number of pods: two that do undo each other's decisions."""
        if deployment.uid != self._uid:  # made anew, with a number of its maker
            self._uid, self._wrote = deployment.uid, None
            self._scalers.forget()
        if deployment.ours:  # also one of which it was not known whether it was written
            self._wrote = deployment.replicas
        foreign = self._wrote is not None and deployment.replicas != self._wrote and bool(deployment.writers)
        self._scalers.refuse(self._namespace, self._name(), again=foreign)
        if foreign and self._wrote is not None:
            raise AnotherWriterError(deployment.writers, f"pods of {self._name()}", now=deployment.replicas, wrote=self._wrote)

    def _take(self, steps: Steps, alive: dict[str, Pod], deployment: Deployment) -> None:
        notes: dict[str, dict[str, str | None]] = {}
        for uid, slot in steps.slots.items():
            notes.setdefault(uid, {})[SLOT] = None if slot is None else str(slot)
        for pod in steps.doom:
            notes.setdefault(pod.uid, {})[COST] = DOOMED
        for pod in steps.spare:
            notes.setdefault(pod.uid, {})[COST] = None
        limit = self._clock.monotonic() + _APPLY_S
        for uid, annotations in notes.items():
            self._annotate(alive[uid], annotations)
            if self._clock.monotonic() > limit:
                raise TransientError(f"the Kubernetes API takes its time: of {self._name()} the rest follows")
        if steps.replicas is not None:
            leaving = {p.uid for p in steps.leaving}
            self._scale(deployment.replicas, steps.replicas)
            with self._lock:
                self._pods.leaving |= {p.uid: p for p in steps.leaving}
                if leaving:
                    staying = tuple(p for p in alive.values() if p.uid not in leaving)
                    self._lowered = _Lowered(replicas=steps.replicas, leaving=steps.leaving, staying=staying)

    def _annotate(self, pod: Pod, annotations: dict[str, str | None]) -> None:
        path = f"/api/v1/namespaces/{self._namespace}/pods/{pod.name}"
        change = {"metadata": {"uid": pod.uid, "annotations": annotations}}
        self._may_act()
        try:
            self._api.patch(path, change, kind="merge-patch", manager=MANAGER)
        except (MissingError, OvertakenError) as e:  # it has gone meanwhile, which is heard
            log.info("group %s: pod %s was not changed: %s", self._group, pod.name, e)
            return
        self._pods.wrote(pod.uid, annotations)

    def _scale(self, known: int, replicas: int) -> None:
        """Set the number of pods, unless it is not the known one any more."""
        self._may_act()
        path = self._path(f"deployments/{self._settings.deployment}/scale")
        try:
            scaled(self._api, path, known=known, replicas=replicas)
        except MissingError as e:
            raise PermanentError(self._missing()) from e
        except OvertakenError as e:
            self._scalers.forget()  # look who has written it
            raise TransientError(
                f"the number of pods of {self._name()} is not {known} any more, so it was not set to {replicas}"
            ) from e
        self._wrote = replicas
        self._deployment.wrote(replicas)
        log.info("group %s: %s has %d pods, had %d", self._group, self._name(), replicas, known)


def _anew(error: AutoscalerError | None, otherwise: str = "") -> AutoscalerError:
    """Return an error that another thread has met as one to raise here: the same one would grow with each time."""
    kind = PermanentError if isinstance(error, PermanentError) else TransientError
    return kind(otherwise if error is None else str(error))
