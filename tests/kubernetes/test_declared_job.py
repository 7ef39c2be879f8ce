"""The whole job, and a group that it only knows from a ConsumerGroup: real broker, real Spark, real control plane."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from autoscaler.devtools.broker import Broker
from tests.conftest import create_topic
from tests.kafka.shop import PARTITIONS, TOPIC
from tests.kubernetes.consumer_groups import ConsumerGroups, Kind
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.namespace import Namespace
from tests.kubernetes.pod_shop import NAME, SPEC, PodShop, ready
from tests.until import until


@pytest.fixture
def shop(own_broker: Broker, control_plane: ControlPlane, namespace: Namespace, tmp_path: Path) -> Iterator[PodShop]:
    create_topic(own_broker, TOPIC, PARTITIONS)
    access = tmp_path / "kubeconfig"
    access.write_text(json.dumps(control_plane.kubeconfig()), encoding="utf-8")
    Kind(control_plane.connect()).install()
    it = PodShop(own_broker, tmp_path)
    settings = yaml.safe_load(it.config.read_text())
    kubernetes = {"consumer_groups": namespace.name, "kubeconfig": str(access)}
    it.config.write_text(yaml.safe_dump({**settings, "groups": [], "kubernetes": kubernetes}))
    yield it
    it.close()


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_group_is_measured_scaled_told_of_and_let_go_by_its_resource(
    shop: PodShop, nodes: tuple[Kubelet, ...], namespace: Namespace
) -> None:
    resources = ConsumerGroups(namespace)
    shop.produce("steady", 150_000)
    supervisor = shop.start_job()
    until("the job waits for a group", shop.logged, lambda text: "there is no group yet" in text)
    namespace.deployment("orders-consumer", 0, image="consumer", environment=shop.variables())

    workers = SPEC["workers"]
    resources.make({**SPEC, "workers": {**workers, "deployment": "missing"}}, NAME)
    said = until("what is missing is told", lambda: resources.condition("Ready"), lambda c: "no Deployment missing" in str(c))
    assert said["status"] == "False"

    at = time.time()
    resources.change({"spec": {"workers": workers}}, NAME)
    shop.wait("one consumer, all well", lambda: ready(resources) and resources.status().get("consumers") == 1)
    print(f"all is well {time.time() - at:.1f} s after the resource was mended")
    status = resources.status()
    assert (status["mode"], status["wanted"], status["observedGeneration"]) == ("act", 1, 2)
    assert status["rate"] > 0
    assert len(namespace.until_ready(1)) == 1

    resources.change({"metadata": {"annotations": {"autoscaling.keda.sh/paused-replicas": "2"}}}, NAME)
    shop.wait("two consumers", lambda: resources.status().get("consumers") == 2)
    assert resources.status()["decision"]["limit"] == "PINNED"

    resources.delete()
    until("the job waits for a group again", shop.logged, lambda text: text.count("there is no group yet") == 2)
    assert len(namespace.until_ready(2)) == 2, "consumers stay"
    supervisor.terminate()
    assert supervisor.wait(60) == 0
