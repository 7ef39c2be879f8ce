"""A kubelet for tests: runs the pods that the real scheduler binds to its node as local processes.

Its behaviour is this project's, not Kubernetes': a test of it shows nothing about a real node. It knows an environment with
``fieldRef``, readiness by ``httpGet``, restarts with back-off, SIGTERM, grace period and SIGKILL, and a pod's final deletion by
its UID. It knows no container images (a name stands for a command), volumes, limits, service addresses or names.
"""

import http.client
import itertools
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kubernetes import client, watch
from kubernetes.client import exceptions
from urllib3.exceptions import HTTPError

AWAY = (client.ApiException, HTTPError, OSError)  # the API server does not answer, or not yet as it should
ROOM = {"cpu": "32", "memory": "64Gi", "pods": "250"}
_TICK_S = 0.05
_BEAT_S = 1.0
_LEASES = "kube-node-lease"
_OVERTAKEN = (404, 409, 422)  # the pod is gone, or another one has its name
_MOST_BACKOFF_S = 10.0

Status = dict[str, Any]


class Kubelet:
    """One node, from ``with`` on until the end of it; its processes end with it.

    Attributes:
        node: Its name.
    """

    def __init__(self, api: client.ApiClient, number: int, directory: Path, images: Mapping[str, tuple[str, ...]]) -> None:
        """Remember what to run.

        Args:
            api: Connects to the API server, as one who may do everything.
            number: Of the node among those of one machine, from 0 on; its pods' addresses follow from it.
            directory: For the pods' working directories and their output (``UID/log``).
            images: The command that a container's ``command``, ``args`` or nothing is added to, by the name of its image.
        """
        self.node, self.directory, self.images = f"node-{number}", directory, images
        self.core = client.CoreV1Api(api)
        self._leases = client.CoordinationV1Api(api)
        self._addresses = (f"127.{20 + number}.{n // 250 % 250}.{n % 250 + 2}" for n in itertools.count(os.getpid() * 250))
        self._pods: dict[str, _Pod] = {}
        self._over, self._cut = threading.Event(), threading.Event()
        self._watch = watch.Watch()
        self._threads = [threading.Thread(target=x, name=self.node, daemon=True) for x in (self._see, self._tell)]

    def __enter__(self) -> Self:
        """Register the node and begin to look after its pods."""
        with suppress(exceptions.ConflictException):
            self.core.create_node({"metadata": {"name": self.node, "labels": {"kubernetes.io/hostname": self.node}}})
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._watch.stop()
        for pod in tuple(self._pods.values()):
            pod.end(0)
        for pod in tuple(self._pods.values()):
            pod.thread.join(10)
        for thread in self._threads:
            thread.join(10)

    def cut(self) -> None:
        """Cut the node off from the API server: it says and hears nothing, and its processes go on."""
        self._cut.set()
        self._watch.stop()

    def heal(self) -> None:
        """Connect the node again: processes of pods that have been deleted meanwhile are told to end."""
        self._cut.clear()

    def process_of(self, uid: str) -> int | None:
        """Return the process id of a pod's container; ``None`` if it does not run here and now."""
        pod = self._pods.get(uid)
        return None if pod is None else pod.pid

    def output_of(self, uid: str) -> str:
        """Return what a pod's container has written."""
        return (self.directory / uid / "log").read_text(encoding="utf-8")

    def kill_for_memory(self, uid: str) -> None:
        """Kill a pod's container as the kernel does that runs out of memory."""
        self._pods[uid].kill("OOMKilled")

    def evict_for(self, uid: str, message: str) -> None:
        """End a pod as a node does that runs short of something; the pod stays as one that has failed."""
        self._pods[uid].evict(message)

    # --- what the node sees ---

    def _see(self) -> None:
        mine = f"spec.nodeName={self.node}"
        while not self._over.is_set():
            if self._cut.is_set():
                self._over.wait(_TICK_S)
                continue
            with suppress(*AWAY):
                found = self.core.list_pod_for_all_namespaces(field_selector=mine)
                for uid in set(self._pods) - {pod.metadata.uid for pod in found.items}:
                    self._pods[uid].end(0)
                for pod in found.items:
                    self._seen(pod)
                self._follow(mine, found.metadata.resource_version)
            self._over.wait(_TICK_S)

    def _follow(self, mine: str, version: str) -> None:
        listing = self.core.list_pod_for_all_namespaces
        for event in self._watch.stream(listing, field_selector=mine, resource_version=version, timeout_seconds=30):
            if self._cut.is_set() or self._over.is_set():
                return
            if event["type"] == "DELETED":
                if gone := self._pods.get(event["object"].metadata.uid):
                    gone.end(0)
            elif event["type"] in {"ADDED", "MODIFIED"}:
                self._seen(event["object"])

    def _seen(self, pod: client.V1Pod) -> None:
        known = self._pods.get(pod.metadata.uid)
        if pod.metadata.deletion_timestamp:
            grace_s = pod.metadata.deletion_grace_period_seconds
            if known is None:
                self._forget(pod)
            else:
                known.end(30 if grace_s is None else grace_s)
        elif known is None and pod.status.phase == "Pending":
            self._pods[pod.metadata.uid] = _Pod(self, pod, next(self._addresses))

    # --- what the node says ---

    def _tell(self) -> None:
        beaten = -_BEAT_S
        while not self._over.wait(_TICK_S):
            if self._cut.is_set():
                continue
            with suppress(*AWAY):
                if time.monotonic() - beaten >= _BEAT_S:
                    self._beat()
                    beaten = time.monotonic()
            for uid, pod in tuple(self._pods.items()):
                with suppress(*AWAY):
                    self._report(uid, pod)

    def _beat(self) -> None:
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": _now()}
        status = {"capacity": ROOM, "allocatable": ROOM, "conditions": [ready]}
        self.core.patch_node_status(self.node, {"status": status})
        renewed = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": self.node, "leaseDurationSeconds": 4, "renewTime": renewed}
        try:
            self._leases.patch_namespaced_lease(self.node, _LEASES, {"spec": spec})
        except exceptions.NotFoundException:
            self._leases.create_namespaced_lease(_LEASES, {"metadata": {"name": self.node}, "spec": spec})

    def _report(self, uid: str, pod: "_Pod") -> None:
        over, status = pod.over, pod.status  # in this order: what it ended with is said before it is forgotten
        if status is not None and status is not pod.reported:
            body = {"metadata": {"uid": uid}, "status": status}
            _unless_overtaken(lambda: self.core.patch_namespaced_pod_status(pod.name, pod.namespace, body))
            pod.reported = status
        if over:
            self._forget(pod.pod)
            del self._pods[uid]

    def _forget(self, pod: client.V1Pod) -> None:
        """Let the API server drop a pod whose containers have ended."""
        now = client.V1DeleteOptions(grace_period_seconds=0, preconditions=client.V1Preconditions(uid=pod.metadata.uid))
        _unless_overtaken(lambda: self.core.delete_namespaced_pod(pod.metadata.name, pod.metadata.namespace, body=now))


class _Pod:
    """One pod's container, looked after by a thread of its own; ``status`` is what the node is to say of it."""

    def __init__(self, kubelet: Kubelet, pod: client.V1Pod, address: str) -> None:
        self.pod, self.name, self.namespace = pod, pod.metadata.name, pod.metadata.namespace
        self.status: Status | None = None
        self.reported: Status | None = None
        self.over = False  # its container has ended and the pod is to be deleted
        self._container = pod.spec.containers[0]
        self._image = kubelet.images.get(self._container.image)
        self._directory, self._address, self._node = kubelet.directory / pod.metadata.uid, address, kubelet.node
        self._process: subprocess.Popen[bytes] | None = None
        self._restarts, self._last = 0, dict[str, Any]()
        self._began = _now()
        self._told = threading.Event()
        self._grace_s: float | None = None
        self._killed_for, self._evicted_for = "", ""
        self.thread = threading.Thread(target=self._live, name=self.name, daemon=True)
        self.thread.start()

    @property
    def pid(self) -> int | None:
        """The container's process; ``None`` while none runs."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def end(self, grace_s: float) -> None:
        """Have it ended, and killed after so many seconds; a shorter time than one said before holds."""
        self._grace_s = grace_s if self._grace_s is None else min(grace_s, self._grace_s)
        self._told.set()

    def kill(self, reason: str) -> None:
        """Kill the container for a reason that its status then has."""
        self._killed_for = reason
        self._signal(signal.SIGKILL)

    def evict(self, message: str) -> None:
        """End the pod for good, as the node itself does."""
        self._evicted_for = message
        self._signal(signal.SIGKILL)

    def _live(self) -> None:
        self._directory.mkdir(parents=True)
        pause_s = 0.2
        while self._grace_s is None:
            if self._image is None:
                said = f'Back-off pulling image "{self._container.image}": not found'
                self._show("Pending", waiting=("ImagePullBackOff", said))
                self._told.wait()
                break
            ended = self._run(self._image)
            if self._finished(ended):
                break
            self._restarts, self._last = self._restarts + 1, ended
            said = f"back-off {pause_s:.1f}s restarting failed container={self._container.name} pod={self.name}"
            self._show("Running", waiting=("CrashLoopBackOff", said))
            self._told.wait(pause_s)
            pause_s = min(2 * pause_s, _MOST_BACKOFF_S)
        else:
            if self._last:  # it was told to end between two tries
                self._show("Failed", terminated=self._last)
        self._told.wait()
        self.over = True

    def _run(self, image: tuple[str, ...]) -> Status:
        """Run the container once, and return how it ended."""
        asked = self._container
        command = [*(asked.command or image), *(asked.args or ())]
        with (self._directory / "log").open("ab") as out:
            self._process = process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *command],
                env=self._environment(),
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        began = _now()
        ready = _Readiness(asked.readiness_probe, self._address)
        said: bool | None = None
        while process.poll() is None and self._grace_s is None:
            if said != ready.look():
                said = ready.now
                self._show("Running", running=began, ready=said)
            self._told.wait(_TICK_S)
        if process.poll() is None:
            self._stop(process)
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        reason, self._killed_for = self._killed_for or ("Completed" if code == 0 else "Error"), ""
        return {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": _now()}

    def _stop(self, process: "subprocess.Popen[bytes]") -> None:
        process.terminate()
        began = time.monotonic()
        while process.poll() is None and time.monotonic() - began < (self._grace_s or 0.0):  # a shorter one may come meanwhile
            with suppress(subprocess.TimeoutExpired):
                process.wait(_TICK_S)
        self._signal(signal.SIGKILL)  # whatever it has started goes with it
        process.wait()

    def _finished(self, ended: Status) -> bool:
        """Show that the pod has ended, if it has: its containers are not started again."""
        policy, well = self.pod.spec.restart_policy or "Always", ended["exitCode"] == 0
        if self._evicted_for:
            self._show("Failed", terminated=ended, reason="Evicted", message=self._evicted_for)
        elif self._grace_s is not None or policy == "Never" or (policy == "OnFailure" and well):
            self._show("Succeeded" if well else "Failed", terminated=ended)
        else:
            return False
        return True

    def _environment(self) -> dict[str, str]:
        out = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
        for variable in self._container.env or ():
            source = variable.value_from
            out[variable.name] = (variable.value or "") if source is None else self._field(source.field_ref.field_path)
        return out

    def _field(self, path: str) -> str:
        known = {
            "metadata.name": self.name,
            "metadata.namespace": self.namespace,
            "metadata.uid": self.pod.metadata.uid,
            "spec.nodeName": self._node,
            "status.podIP": self._address,
        }
        return str(known[path])

    def _show(
        self,
        phase: str,
        *,
        ready: bool = False,
        running: str = "",
        waiting: tuple[str, str] | None = None,
        terminated: Status | None = None,
        **more: str,
    ) -> None:
        state: Status = {"running": {"startedAt": running}} if running else {"terminated": terminated} if terminated else {}
        if waiting is not None:
            state = {"waiting": {"reason": waiting[0], "message": waiting[1]}}
        container = {
            "name": self._container.name,
            "image": self._container.image,
            "imageID": f"local://{self._container.image}",
            "ready": ready,
            "started": bool(running),
            "restartCount": self._restarts,
            "state": state,
            **({"lastState": {"terminated": self._last}} if self._last else {}),
        }
        met = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
        self.status = {
            "phase": phase,
            "hostIP": "127.0.0.1",
            "podIP": self._address,
            "podIPs": [{"ip": self._address}],
            "startTime": self._began,
            "conditions": [{"type": x, "status": str(yes), "lastTransitionTime": _now()} for x, yes in met.items()],
            "containerStatuses": [container],
            **more,
        }

    def _signal(self, number: signal.Signals) -> None:
        process = self._process
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)


class _Readiness:
    """Whether a container is ready, by its probe; at once without one."""

    def __init__(self, probe: client.V1Probe | None, address: str) -> None:
        self._http = None if probe is None else probe.http_get
        self._address = address
        self._every_s = 1.0 if probe is None else float(probe.period_seconds or 10)
        self.now, self._next = self._http is None, time.monotonic()

    def look(self) -> bool:
        """Probe if it is time to, and return whether the container is ready."""
        if self._http is not None and time.monotonic() >= self._next:
            self._next = time.monotonic() + self._every_s
            self.now = self._asked(int(self._http.port), self._http.path or "/")
        return self.now

    def _asked(self, port: int, path: str) -> bool:
        connection = http.client.HTTPConnection(self._address, port, timeout=1)
        try:
            connection.request("GET", path)
            return connection.getresponse().status < http.HTTPStatus.BAD_REQUEST
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def _unless_overtaken(call: Callable[[], object]) -> None:
    try:
        call()
    except client.ApiException as e:
        if e.status not in _OVERTAKEN:
            raise


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
