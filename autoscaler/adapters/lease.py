"""A Lease of Kubernetes: which of several jobs in a cluster acts. Taken before a job does anything, given back at its end.

Beside the path. A job that has it renews it; one that waits takes it once it is free, or has not changed for as long as it lasts.
Before that the one that has it stops (``may_act``): both count by a clock that errs to the safe side, and compare no machine's
time with another's. Knows nothing of what is done under it.
"""

import logging
import socket
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import uuid4

from autoscaler.adapters.clock import never_slow
from autoscaler.adapters.kubernetes.api import Api, MissingError, OvertakenError, connection, own_namespace
from autoscaler.config.kubernetes import Kubernetes
from autoscaler.errors import AutoscalerError, PermanentError, SettingsError, TransientError
from autoscaler.ports import Clock

_LASTS_S = 30.0
_RENEWED = 6  # times within that
# Of that: what was begun by then is over before another job may take it (a call takes 8 s, a program of a pool 10 s)
_ACTS = 2 / 3
_END_S = 20.0
_MANAGER = "kafka-group-autoscaler"

log = logging.getLogger(__name__)
Elapsed = Callable[[], float]


class Asked(Protocol):
    """What is asked of the API."""

    def get(self, path: str) -> dict[str, Any]:
        """Return an object."""
        ...

    def patch(self, path: str, body: object, *, kind: str, manager: str) -> dict[str, Any]:
        """Change an object, and return it."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...


def of_job(settings: Kubernetes, name: str, clock: Clock) -> "Lease":
    """Return the Lease of this name in the job's own namespace; nothing is asked for yet.

    Raises:
        SettingsError: How to connect cannot be read.
    """
    try:
        namespace = own_namespace(settings.kubeconfig, settings.context)
    except PermanentError as e:
        raise SettingsError((f"kubernetes.lease: {e}",)) from e
    return Lease(Api(connection(settings.kubeconfig, settings.context)), namespace, name, clock)


class Lease:
    """One Lease, as one process sees it.

    Attributes:
        me: What this process is called in it.
        waits_for: Who has it, in words, while this process waits for it; empty while it does not.
        lapsed: Who had it before let it expire: it may live still, cut off from the API.
        lost: Another one has it although this process had not given it back.
    """

    def __init__(
        self, api: Asked, namespace: str, name: str, clock: Clock, *, elapsed: Elapsed | None = None, lasts_s: float = _LASTS_S
    ) -> None:
        """Ask for nothing yet; ``elapsed`` is never slow, ``lasts_s`` a whole number of seconds from a renewal on."""
        self._api, self._clock, self._elapsed = api, clock, elapsed or never_slow()
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
        self._named = f"Lease {name} in namespace {namespace}"
        self._lasts_s, self._acts_s, self._every_s = lasts_s, _ACTS * lasts_s, lasts_s / _RENEWED
        self.me = f"{socket.gethostname()}_{uuid4().hex[:8]}"
        self.waits_for = ""
        self.lapsed = self.lost = False
        self._heard: tuple[Mapping[str, Any], float] = ({}, 0.0)  # what another one last wrote, and since when that is known
        self._asked_at: float | None = None  # when its latest renewal was asked for; ``None``: this process has it not
        self._failed = ""  # why it could not be renewed
        self._over = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)

    def take(self, stop: threading.Event) -> bool:
        """Wait until this process has it, and say for whom; return ``False`` if the process is to end before.

        Args:
            stop: The process is to end. Set from here when another one has taken the lease.
        """
        self._stop, said = stop, ""
        while not stop.is_set():
            try:
                self.waits_for = self.tried()
            except AutoscalerError as e:
                self.waits_for = f"{self._named}, which cannot be taken: {e}"
            if not self.waits_for:
                self._thread.start()
                log.info("this job has %s%s", self._named, ", which the one before did not renew any more" if self.lapsed else "")
                return True
            if self.waits_for != said:
                log.warning("this job does nothing yet: it waits for %s", self.waits_for)
            said = self.waits_for
            stop.wait(self._every_s)
        return False

    def may_act(self) -> None:
        """Return if nothing that is begun now can meet another one that has taken it.

        Raises:
            TransientError: It was not renewed for long, or is not this process' any more; says what to do.
        """
        asked_at, why = self._asked_at, self._failed or "no answer yet"
        if asked_at is None:
            raise TransientError(f"{self._named} is not this job's ({why}): it changes no consumers")
        if (age_s := self._elapsed() - asked_at) >= self._acts_s:
            raise TransientError(
                f"{self._named} was not renewed for {age_s:.0f} s ({why}): another job may take it, so that this one changes no "
                "consumers until it is renewed; look whether the Kubernetes API can be reached from here"
            )

    def close(self) -> None:
        """Give it back, if this process has it: the next one need not wait until it is over."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(_END_S)
        if self._asked_at is not None:
            self._asked_at = None
            try:
                self._write({"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._now()})
            except AutoscalerError as e:
                log.info("%s was not given back, and is over by itself in %.0f s: %s", self._named, self._lasts_s, e)
        self._api.close()

    # --- taking it ---

    def tried(self) -> str:
        """Take it unless another one has it, and return what this process waits for; nothing once it has it.

        Raises:
            AutoscalerError: It cannot be taken, or it is not known whether it was; says why.
        """
        asked_at = self._elapsed()
        try:
            found = self._api.get(self._path)
        except MissingError as e:
            raise TransientError(f"{e}; apply the manifest that has it (docs/tasks/job-in-kubernetes.md)") from e
        spec, now = found.get("spec") or {}, self._clock.monotonic()
        holder = spec.get("holderIdentity") or ""
        if holder not in {"", self.me}:
            if spec != self._heard[0]:
                self._heard = (spec, now)
            lasts_s = float(spec.get("leaseDurationSeconds") or self._lasts_s)
            if now - self._heard[1] < lasts_s:
                since = spec.get("acquireTime") or "an unknown time"
                return (
                    f"{holder}, which has {self._named} since {since}; this job goes on once that one has ended, or has not "
                    f"renewed it for {lasts_s:.0f} s"
                )
        if holder != self.me:  # which it is where the answer to its taking was lost
            self.lapsed = bool(holder)
        mine = {
            "holderIdentity": self.me,
            "leaseDurationSeconds": round(self._lasts_s),
            "acquireTime": self._now(),
            "renewTime": self._now(),
            "leaseTransitions": int(spec.get("leaseTransitions") or 0) + 1,
        }
        as_seen = {"op": "test", "path": "/metadata/resourceVersion", "value": found["metadata"]["resourceVersion"]}
        try:
            self._patched([as_seen, {"op": "add", "path": "/spec", "value": mine}])
        except OvertakenError:
            return f"another job that has just taken {self._named}"
        self._asked_at = asked_at
        return ""

    # --- having it ---

    def _keep(self) -> None:
        while not self._over.wait(self._every_s):
            try:
                self.renew()
            except AutoscalerError as e:
                if not self._failed:
                    log.warning("%s was not renewed: %s", self._named, e)
                self._failed = str(e)
            except Exception:  # what is not understood must not end the thread: the next try may be answered
                log.exception("%s was not renewed", self._named)
            if self.lost:
                self._stop.set()
                return

    def renew(self) -> None:
        """Renew it once, or learn that another one has it.

        Raises:
            AutoscalerError: It could not be renewed; says why.
        """
        asked_at = self._elapsed()
        try:
            self._write({"renewTime": self._now()})
        except MissingError:  # one that is made anew is free at once
            self._asked_at = None
            raise
        except OvertakenError:
            holder = (self._api.get(self._path).get("spec") or {}).get("holderIdentity") or ""
            if holder == self.me:
                raise
            self._asked_at, self.lost = None, True
            self._failed = f"{holder} has taken it" if holder else "it was taken away"
            log.error("%s is not this job's any more: %s; this job ends", self._named, self._failed)  # noqa: TRY400  no stack
            return
        if self._failed:
            log.info("%s is renewed again", self._named)
        self._asked_at, self._failed = asked_at, ""

    def _write(self, fields: Mapping[str, object]) -> None:
        """Change fields, as long as this process has it."""
        self._patched([self._ours(), *({"op": "add", "path": f"/spec/{name}", "value": value} for name, value in fields.items())])

    def _ours(self) -> dict[str, object]:
        return {"op": "test", "path": "/spec/holderIdentity", "value": self.me}

    def _patched(self, change: list[dict[str, object]]) -> None:
        self._api.patch(self._path, change, kind="json-patch", manager=_MANAGER)

    def _now(self) -> str:
        """Return the time as the API writes it; for people, since nothing goes by it."""
        return datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
