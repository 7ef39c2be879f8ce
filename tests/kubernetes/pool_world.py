"""A Deployment of workers and the pool that runs it, on the real control plane: what the tests of that pool stand on."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client
from kubernetes.client import V1Pod as Pod

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.kubernetes.api import USER_AGENT
from autoscaler.adapters.kubernetes.followed import Followed
from autoscaler.adapters.workers.pods.deployment_pool import DeploymentPool
from autoscaler.adapters.workers.pods.pod import COST, SLOT
from autoscaler.config.settings import DeploymentWorkers
from autoscaler.ports import MayAct, unlimited
from tests.contracts.pool_contract import look
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.namespace import Namespace, field
from tests.until import let_pass, until

ROOT = Path(__file__).resolve().parents[2]
NAME = "orders"
WORKER = [field("AUTOSCALER_WORKER_NAME", "metadata.name"), field("AUTOSCALER_INSTANCE", "metadata.uid")]


class PodWorld:
    """Pools of one Deployment; ``pool`` is the one that runs it now."""

    def __init__(self, control_plane: ControlPlane, nodes: Sequence[Kubelet], namespace: Namespace, directory: Path) -> None:
        self.control_plane, self.nodes, self.namespace, self.directory = control_plane, nodes, namespace, directory
        self._pools: list[DeploymentPool] = []
        self.pool = self.made()

    def deployment(self, replicas: int = 0, *, environment: Sequence[Mapping[str, Any]] = (), **more: Any) -> None:
        """Make the Deployment; ``more`` as for a namespace's."""
        self.namespace.deployment(NAME, replicas, environment=[*WORKER, *environment], **more)

    def autoscaler(self, name: str, owner: str | None) -> None:
        """Make an autoscaler of the Deployment; with an ``owner`` one that an object of this kind, called queue, has made."""
        made = {"apiVersion": "keda.sh/v1alpha1", "kind": owner, "name": "queue", "uid": "1"}
        body = {
            "metadata": {"name": name, "ownerReferences": [made] if owner else []},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME}, "maxReplicas": 9},
        }
        client.AutoscalingV2Api(self.namespace.apps.api_client).create_namespaced_horizontal_pod_autoscaler(
            self.namespace.name, body
        )

    def grant(self, role: Mapping[str, Any]) -> None:
        """Let the namespace's service account do what a role says."""
        self.namespace.grant(role)

    def cost(self, slot: int, cost: str) -> None:
        """Set a pod's deletion cost."""
        change = {"metadata": {"annotations": {COST: cost}}}
        self.namespace.core.patch_namespaced_pod(self.name_of(slot), self.namespace.name, change)

    def roll_out(self) -> None:
        """Change the template of the Deployment."""
        change = {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}
        self.namespace.apps.patch_namespaced_deployment(NAME, self.namespace.name, change)

    def deaf(self) -> str:
        """Let the pool hear no more of its pods, as if events were on their way, and return the version that it has heard."""
        follows = self.pool._follows_pods
        assert follows is not None
        assert follows._version is not None
        follows.close()
        return follows._version

    def hears(self, version: str) -> None:
        """Let it hear again, from a version on."""
        path = f"/api/v1/namespaces/{self.namespace.name}/pods"
        self.pool._follows_pods = again = Followed(self.pool._api, path, {"labelSelector": f"app={NAME}"}, self.pool._pods)
        again._version, again.known = version, True
        again.start()

    def asked(self) -> list[Mapping[str, Any]]:
        """Return what pools have asked for in the namespace, as the audit log has it."""
        here = [e for e in self.control_plane.audit_log() if e.get("objectRef", {}).get("namespace") == self.namespace.name]
        return [e for e in here if e["userAgent"] == USER_AGENT]

    def rights_used(self) -> set[tuple[str, str, str]]:
        """Return what the namespace's service account has asked for and was answered well."""
        return self.control_plane.rights_used(self.namespace.name)

    def new_token(self, token: str) -> None:
        """Replace the token in the file of the latest pool."""
        file = self.directory / f"kubeconfig-{len(self._pools) - 1}"
        file.write_text(json.dumps(self.control_plane.kubeconfig(token)), encoding="utf-8")

    def directory_of(self, uid: str) -> Path:
        """Return the working directory of a pod's container."""
        return next(n.directory / uid for n in self.nodes if n.process_of(uid))

    def made(self, token: str | None = None, deployment: str = NAME, may_act: MayAct = unlimited) -> DeploymentPool:
        """Return a pool that connects with a token; as an administrator without one."""
        file = self.directory / f"kubeconfig-{len(self._pools)}"
        file.write_text(json.dumps(self.control_plane.kubeconfig(token)), encoding="utf-8")
        settings = DeploymentWorkers(deployment=deployment, namespace=self.namespace.name, kubeconfig=str(file))
        self._pools.append(DeploymentPool(group="g", settings=settings, clock=SystemClock(), may_act=may_act))
        return self._pools[-1]

    def restart(self) -> None:
        """Let another controller take over, as after a restart."""
        self.pool.close()
        self.pool = self.made()

    def pods(self) -> Mapping[int, Pod]:
        """Return the pods by the slot that their annotation says, those that are ending too."""
        pods = self.namespace.pods().values()
        return {int((p.metadata.annotations or {})[SLOT]): p for p in pods if SLOT in (p.metadata.annotations or {})}

    def replicas(self) -> int:
        return int(self.namespace.apps.read_namespaced_deployment(NAME, self.namespace.name).spec.replicas)

    def name_of(self, slot: int) -> str:
        return str(self.pods()[slot].metadata.name)

    def kill(self, slot: int) -> None:
        uid = look(self).running[slot]
        node = until("it is on a node", lambda: next((n for n in self.nodes if n.process_of(uid)), None))
        node.evict_for(uid, "The node was low on resource: memory.")
        until(f"{slot} has ended", lambda: slot not in self.pool.observe().running and uid in self.pool.observe().ended)

    def passes(self) -> None:
        let_pass(0.05)

    def close(self) -> None:
        for pool in self._pools:
            pool.close()


def roles_of_the_page() -> dict[str, dict[str, Any]]:
    """Return the roles that docs/tasks/kubernetes.md tells an operator to grant, by name."""
    page = (ROOT / "docs" / "tasks" / "kubernetes.md").read_text(encoding="utf-8")
    made = [yaml.safe_load(text) for text in re.findall(r"^```\n(apiVersion.*?)^```", page, re.MULTILINE | re.DOTALL)]
    return {x["metadata"]["name"]: dict(x) for x in made if x["kind"] == "Role"}


def role_of_the_page() -> dict[str, Any]:
    """Return the role of a managed group's Deployment."""
    return roles_of_the_page()["orders-scaler"]
