"""A namespace of a test's own: what it makes there, and what it sees of it."""

import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kubernetes import client
from kubernetes.client import V1Pod as Pod
from kubernetes.client import exceptions

from tests.until import until

CONSUMER = Path(__file__).resolve().parents[2] / "docs" / "examples" / "consumer.py"
IMAGES = {  # what the fake kubelet runs
    "idle": ("sleep", "3600"),
    "shell": ("sh", "-c"),
    "consumer": (sys.executable, str(CONSUMER)),
}
AT_ONCE = [  # pods leave a node that is not heard at once, not after five minutes
    {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
    for why in ("unreachable", "not-ready")
]


class Namespace:
    """Made empty, with a name that no other has.

    Attributes:
        name: Its name.
        core: Reads and changes what is in it, as an administrator; so do ``apps`` and ``policy``.
    """

    def __init__(self, api: client.ApiClient) -> None:
        self.name = f"test-{uuid.uuid4().hex[:8]}"
        self.core, self.apps, self.policy = client.CoreV1Api(api), client.AppsV1Api(api), client.PolicyV1Api(api)
        self.rbac = client.RbacAuthorizationV1Api(api)
        self.core.create_namespace({"metadata": {"name": self.name}})
        no_account_yet = exceptions.NotFoundException
        until("its account", lambda: self.core.read_namespaced_service_account("default", self.name), passing=no_account_yet)

    def delete(self) -> None:
        """Have it deleted, and do not wait: that takes ten seconds."""
        self.core.delete_namespace(self.name)

    def deployment(self, name: str, replicas: int, *, image: str = "idle", **more: Any) -> None:
        """Make a Deployment; ``more`` as in ``template``."""
        self.apps.create_namespaced_deployment(self.name, _workload(name, replicas, template(name, image=image, **more)))

    def stateful_set(self, name: str, replicas: int, *, image: str = "idle", **more: Any) -> None:
        """Make a StatefulSet whose pods are started and ended side by side."""
        made = _workload(name, replicas, template(name, image=image, **more))
        made["spec"] |= {"serviceName": name, "podManagementPolicy": "Parallel"}
        self.apps.create_namespaced_stateful_set(self.name, made)

    def pod(self, name: str, *, image: str = "idle", **more: Any) -> None:
        """Make a bare pod."""
        made = template(name, image=image, **more)
        self.core.create_namespaced_pod(self.name, {"metadata": {"name": name, **made["metadata"]}, "spec": made["spec"]})

    def grant(self, role: Mapping[str, Any]) -> None:
        """Let the namespace's default service account do what a role says."""
        self.rbac.create_namespaced_role(self.name, {**role, "metadata": {"name": "scaler"}})
        binding = {
            "metadata": {"name": "scaler"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "scaler"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": self.name}],
        }
        self.rbac.create_namespaced_role_binding(self.name, binding)

    def scale(self, name: str, replicas: int) -> None:
        """Set the number of a Deployment's pods by its scale subresource."""
        self.apps.patch_namespaced_deployment_scale(name, self.name, {"spec": {"replicas": replicas}})

    def pods(self) -> dict[str, Pod]:
        """Return all pods by name, those that are ending too."""
        return {pod.metadata.name: pod for pod in self.core.list_namespaced_pod(self.name).items}

    def ready(self) -> dict[str, Pod]:
        """Return those that are ready and not ending."""
        return {name: pod for name, pod in self.pods().items() if is_ready(pod) and not pod.metadata.deletion_timestamp}

    def until_ready(self, count: int) -> dict[str, Pod]:
        """Wait until exactly so many pods are there, all of them ready, and return them."""
        until(f"{count} pods are ready", lambda: (len(self.ready()), len(self.pods())), lambda seen: seen == (count, count))
        return self.ready()

    def waiting_for(self, reason: str) -> Pod:
        """Wait until a pod's container waits for this reason, and return the pod."""
        return until(reason, lambda: next((p for p in self.pods().values() if waits_for(p) == reason), None), explain=self._seen)

    def _seen(self) -> str:
        return "\n".join(f"{name}: {pod.status}" for name, pod in self.pods().items())


def template(
    name: str, *, image: str = "idle", args: Sequence[str] = (), environment: Sequence[Mapping[str, Any]] = (), **spec: Any
) -> dict[str, Any]:
    """Return a pod template: one container, which the rest of a pod's ``spec`` goes around.

    ``readiness`` and ``resources`` in ``spec`` are the container's.
    """
    container: dict[str, Any] = {"name": "worker", "image": image, "args": list(args), "env": list(environment)}
    for key, field in {"readiness": "readinessProbe", "resources": "resources"}.items():
        if key in spec:
            container[field] = spec.pop(key)
    around = {"terminationGracePeriodSeconds": 10, "tolerations": AT_ONCE, **spec}
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], **around}}


def is_ready(pod: Pod) -> bool:
    """Say whether a pod is ready."""
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions or ())


def waits_for(pod: Pod) -> str | None:
    """Return why a pod's container does not run, ``None`` where it does."""
    containers = pod.status.container_statuses or ()
    return next((c.state.waiting.reason for c in containers if c.state and c.state.waiting), None)


def field(name: str, path: str) -> dict[str, Any]:
    """Return a variable that is one of the pod's own fields."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _workload(name: str, replicas: int, made: dict[str, Any]) -> dict[str, Any]:
    selector = {"matchLabels": made["metadata"]["labels"]}
    return {"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": selector, "template": made}}
