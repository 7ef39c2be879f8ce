"""Workers as pods of a Deployment, on a real API server with real controllers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.pool_contract import PoolContract
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.namespace import Namespace
from tests.kubernetes.pool_world import PodWorld


@pytest.fixture
def bare(control_plane: ControlPlane, nodes: tuple[Kubelet, ...], namespace: Namespace, tmp_path: Path) -> Iterator[PodWorld]:
    """Without a Deployment."""
    made = PodWorld(control_plane, nodes, namespace, tmp_path)
    yield made
    made.close()


@pytest.fixture
def world(bare: PodWorld) -> PodWorld:
    """With a Deployment of no pods."""
    bare.deployment()
    return bare


class TestContract(PoolContract):
    """As for processes."""
