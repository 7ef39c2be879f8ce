"""From an empty cluster to a scaled group: what the chart installs is enough for the whole job, and for no second one beside it.

The job runs as a process, since no kubelet here mounts volumes: with the configuration that the chart has put into the cluster,
as the account that it has made there.
"""

import json
import socket
import time
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from autoscaler.devtools.broker import Broker
from tests.conftest import create_topic
from tests.docs import manifests
from tests.kafka.shop import PARTITIONS, ROOT, TOPIC
from tests.kubernetes.consumer_groups import ConsumerGroups, Kind
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.namespace import Namespace
from tests.kubernetes.pod_shop import NAME, SPEC, PodShop, ready
from tests.until import until

RELEASE = "autoscaler"


class Installed(PodShop):
    """Jobs that go by what was installed, each with a directory of state and a port of its own."""

    def install(self, helm: Path, control_plane: ControlPlane, namespace: Namespace) -> None:
        admin = self.directory / "admin"
        admin.write_text(json.dumps(control_plane.kubeconfig()), encoding="utf-8")
        settings = yaml.safe_load(self.config.read_text())
        given = {name: settings[name] for name in ("clusters", "measure", "audit")}
        values = {"image": {"repository": "idle"}, "configuration": given}
        there = ("-n", namespace.name, "--kubeconfig", str(admin))
        done = manifests.helm("install", RELEASE, manifests.CHART, *there, binary=helm, values=values)
        assert done.returncode == 0, done.stderr
        own = control_plane.kubeconfig(control_plane.token_of(namespace.name, RELEASE))
        own["contexts"][0]["context"]["namespace"] = namespace.name
        (self.directory / "job").write_text(json.dumps(own), encoding="utf-8")
        self.given = yaml.safe_load(namespace.core.read_namespaced_config_map(RELEASE, namespace.name).data["autoscaler.yaml"])

    def start(self, name: str) -> int:
        """Start a job of this name, and return the port that it answers on."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        config = self.directory / f"{name}.yaml"
        kubernetes = {**self.given["kubernetes"], "kubeconfig": str(self.directory / "job")}
        own = {"state_dir": str(self.directory / name), "http": {"listen": f"127.0.0.1:{port}"}, "kubernetes": kubernetes}
        config.write_text(yaml.safe_dump({**self.given, **own}), encoding="utf-8")
        self.spawn(f"{name}-job", str(ROOT / "spark-submit.sh"), "--config", str(config))
        return port


def asked(port: int, path: str) -> tuple[int, Mapping[str, Any]]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def consumers(namespace: Namespace) -> int:
    return sum(name.startswith("orders-consumer-") for name in namespace.ready())


@pytest.fixture
def shop(
    own_broker: Broker, control_plane: ControlPlane, namespace: Namespace, tmp_path: Path, helm: Path
) -> Iterator[Installed]:
    create_topic(own_broker, TOPIC, PARTITIONS)
    Kind(control_plane.connect()).install()  # and wait until it is served
    it = Installed(own_broker, tmp_path)
    it.install(helm, control_plane, namespace)
    yield it
    it.close()


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_what_is_installed_scales_a_group_and_lets_one_job_act(
    shop: Installed, nodes: tuple[Kubelet, ...], namespace: Namespace, control_plane: ControlPlane, helm: Path
) -> None:
    began, resources = time.time(), ConsumerGroups(namespace)
    shop.produce("steady", 150_000)
    first = shop.start("first")
    until(
        "it is ready for a group",
        lambda: asked(first, "/readyz")[0] == 200,
        passing=OSError,
        explain=lambda: shop.logged("first"),
    )
    namespace.deployment("orders-consumer", 0, image="consumer", environment=shop.variables())
    resources.make(SPEC, NAME)
    shop.wait("one consumer, all well", lambda: ready(resources) and resources.status().get("consumers") == 1)
    print(f"all is well {time.time() - began:.1f} s after the job was started")
    second = shop.start("second")
    shop.produce("rise", 400_000)
    until("three consumers", lambda: resources.status().get("consumers"), lambda found: found == 3, within_s=300)
    until("three pods run", lambda: consumers(namespace), lambda found: found == 3)

    holder = (
        client.CoordinationV1Api(namespace.core.api_client).read_namespaced_lease(RELEASE, namespace.name).spec.holder_identity
    )
    status, said = until(
        "the second one waits", lambda: asked(second, "/readyz"), passing=OSError, explain=lambda: shop.logged("second")
    )
    assert status == 503
    assert said["waits_for"].startswith(f"{holder}, which has Lease {RELEASE} in namespace {namespace.name} since ")
    assert asked(second, "/healthz")[0] == 200
    assert "this job does nothing yet" in shop.logged("second")

    shop.children[1].terminate()
    assert shop.children[1].wait(60) == 0
    until(
        "the second one acts", lambda: asked(second, "/readyz")[0] == 200, passing=OSError, explain=lambda: shop.logged("second")
    )
    assert consumers(namespace) == 3, "they have gone on"

    chart = [m for m in yaml.safe_load_all(manifests.rendered(manifests.DECLARED, binary=helm, namespace=namespace.name)) if m]
    rules = [rule for m in chart if m["kind"] == "Role" for rule in m["rules"]]
    granted = {(rule["apiGroups"][0], rule["resources"][0], verb) for rule in rules for verb in rule["verbs"]}
    of_native_groups = {("apps", "deployments/scale", "get")}
    assert control_plane.rights_used(namespace.name, account=RELEASE) == granted - of_native_groups
