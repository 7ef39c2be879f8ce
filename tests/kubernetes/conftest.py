"""What a test of Kubernetes may ask for: a control plane, nodes, and a namespace of its own."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kubernetes import client

from tests.docs.manifests import BUILD as HELM
from tests.kubernetes.control_plane import BUILD, NO_GO, ControlPlane
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.namespace import IMAGES, Namespace
from tests.until import until


@pytest.fixture(scope="session")
def binary() -> Path:
    """The control plane's binary; takes minutes to build where it is not in the cache."""
    done = subprocess.run([BUILD], capture_output=True, text=True, check=False)
    if done.returncode == NO_GO:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture(scope="session")
def control_plane(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One control plane, shared by the whole run; who kills the API server starts it again."""
    with ControlPlane(binary, tmp_path_factory.mktemp("control-plane")) as running:
        yield running


@pytest.fixture(scope="session")
def helm() -> Path:
    """Helm's binary, with which docker/chart is rendered and installed; built where it is not in the cache."""
    done = subprocess.run([HELM], capture_output=True, text=True, check=False)
    if done.returncode == NO_GO:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture(scope="session")
def nodes(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Kubelet, ...]]:
    """Two nodes, shared by the whole run; who cuts one off heals it."""
    with ExitStack() as running:
        api = control_plane.connect()
        made = [Kubelet(api, n, tmp_path_factory.mktemp(f"node-{n}"), IMAGES) for n in range(2)]
        yield tuple(running.enter_context(node) for node in made)


@pytest.fixture
def namespace(control_plane: ControlPlane, nodes: tuple[Kubelet, ...]) -> Iterator[Namespace]:
    """An empty namespace, while all nodes are there."""
    core = client.CoreV1Api(control_plane.connect())
    until("all nodes are there", lambda: _untainted(core), lambda found: found == {node.node for node in nodes})
    made = Namespace(control_plane.connect())
    yield made
    made.delete()


def _untainted(core: client.CoreV1Api) -> set[str]:
    return {node.metadata.name for node in core.list_node().items if not node.spec.taints}
