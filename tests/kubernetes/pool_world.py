"""A Deployment of workers and the pool that runs it, on the real control plane: what the tests of that pool stand on."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kubernetes.client import V1Pod as Pod

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.workers.pods.deployment_pool import DeploymentPool
from autoscaler.adapters.workers.pods.pod import SLOT
from autoscaler.config.settings import DeploymentWorkers
from tests.contracts.pool_contract import look
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.namespace import Namespace, field
from tests.until import let_pass, until

NAME = "orders"
WORKER = [field("AUTOSCALER_WORKER_NAME", "metadata.name"), field("AUTOSCALER_INSTANCE", "metadata.uid")]


class PodWorld:
    """Pools of one Deployment; ``pool`` is the one that runs it now."""

    def __init__(self, control_plane: ControlPlane, nodes: Sequence[Kubelet], namespace: Namespace, directory: Path) -> None:
        self.control_plane, self.nodes, self.namespace, self.directory = control_plane, nodes, namespace, directory
        self._pools: list[DeploymentPool] = []
        self.pool = self.made()

    def deployment(self, replicas: int = 0, **more: Any) -> None:
        """Make the Deployment; ``more`` as for a namespace's."""
        self.namespace.deployment(NAME, replicas, environment=WORKER, **more)

    def made(self, token: str | None = None, deployment: str = NAME) -> DeploymentPool:
        """Return a pool that connects with a token; as an administrator without one."""
        file = self.directory / f"kubeconfig-{len(self._pools)}"
        file.write_text(json.dumps(self.control_plane.kubeconfig(token)), encoding="utf-8")
        settings = DeploymentWorkers(deployment=deployment, namespace=self.namespace.name, kubeconfig=str(file))
        self._pools.append(DeploymentPool(group="g", settings=settings, clock=SystemClock()))
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
