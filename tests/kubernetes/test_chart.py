"""The Helm chart: a strict API server takes what it renders, it grants what its values name, and installs with one command."""

import json
import re
import shlex
import subprocess
import threading
from collections.abc import Mapping
from copy import deepcopy
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.lease import of_job
from autoscaler.config.kubernetes import Kubernetes
from autoscaler.config.settings import load
from tests.docs import manifests
from tests.docs.manifests import CHART, CLUSTERS, DECLARED, PLAIN
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.dry_run import tried
from tests.kubernetes.namespace import Namespace
from tests.kubernetes.pool_world import ROOT, roles_of_the_page
from tests.until import until

RELEASE = "autoscaler"
PAGE = (ROOT / "docs" / "tasks" / "job-in-kubernetes.md").read_text(encoding="utf-8")
ROLLOUT = {"kind": "scale", "target": "argoproj.io/v1alpha1/Rollout/bills", "namespace": "elsewhere"}
GROUPS = [
    *PLAIN["configuration"]["groups"],
    {"group": "bills", "topics": ["bills"], "assignment": "native", "mode": "act", "workers": ROLLOUT},
    {"group": "logs", "topics": ["logs"], "assignment": "native"},
]
ALL = {
    "image": {"repository": "registry.example.org/autoscaler", "tag": "1", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "registry"}],
    "configuration": {"clusters": CLUSTERS, "groups": GROUPS, "http": {"page": True}},
    "consumerGroups": "all",
    "consumerGroupRules": [{"apiGroups": ["argoproj.io"], "resources": ["rollouts"], "verbs": ["list", "watch"]}],
    "env": [{"name": "KAFKA_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "kafka", "key": "password"}}}],
    "secrets": [{"name": "kafka-tls", "mountPath": "/etc/kafka"}],
    "state": {"size": "1Gi", "storageClassName": "fast"},
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x"}},
    "podAnnotations": {"a": "b"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "networkPolicy": {"from": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]},
    "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
}
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "declared": DECLARED,
    "plain": PLAIN,
    "all": ALL,
    "another namespace": {
        **DECLARED,
        "consumerGroups": "shop",
        "state": {"existingClaim": "mine"},
        "networkPolicy": {"enabled": False},
    },
}


def made(helm: Path, values: Mapping[str, Any], namespace: str = "shop") -> dict[str, dict[str, Any]]:
    """Return what is rendered, by kind and name."""
    text = manifests.rendered(values, binary=helm, namespace=namespace)
    return {f"{m['kind']} {m['metadata']['name']}": m for m in yaml.safe_load_all(text) if m}


def test_the_plain_manifests_are_what_the_chart_renders(helm: Path) -> None:
    for file, text in manifests.plain(helm).items():
        assert file.read_text(encoding="utf-8") == text, f"{file}: python -m tests.docs.manifests"


@pytest.mark.parametrize("name", VARIANTS)
def test_the_chart_is_clean(helm: Path, name: str) -> None:
    done = manifests.helm("lint", "--strict", CHART, binary=helm, values=VARIANTS[name])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", VARIANTS)
def test_all_that_is_rendered_is_taken(helm: Path, namespace: Namespace, name: str) -> None:
    found = made(helm, VARIANTS[name], namespace.name)
    monitor = found.pop(f"PodMonitor {RELEASE}", None)  # of a kind that only its operator installs
    assert (monitor is not None) is (name == "all")
    for what, manifest in found.items():
        manifest["metadata"].pop("namespace", None)  # such as elsewhere, which is not there
        status, said = tried(namespace.core.api_client, manifest, namespace.name)
        assert status == HTTPStatus.CREATED, f"{what}: {said}"


def test_a_value_that_is_given_comes_to_where_it_is_meant_for(helm: Path) -> None:
    found = made(helm, ALL)
    pod = found[f"Deployment {RELEASE}"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (container["image"], container["imagePullPolicy"]) == ("registry.example.org/autoscaler:1", "Always")
    for key in ("imagePullSecrets", "nodeSelector", "tolerations", "affinity"):
        assert pod[key] == ALL[key]
    assert container["env"] == ALL["env"]
    assert {"name": "secret-kafka-tls", "mountPath": "/etc/kafka", "readOnly": True} in container["volumeMounts"]
    assert {"name": "secret-kafka-tls", "secret": {"secretName": "kafka-tls"}} in pod["volumes"]
    claim = found[f"PersistentVolumeClaim {RELEASE}"]["spec"]
    assert (claim["storageClassName"], claim["resources"]["requests"]["storage"]) == ("fast", "1Gi")
    (port,) = container["ports"]
    monitor = found[f"PodMonitor {RELEASE}"]
    assert (
        monitor["spec"]["selector"]["matchLabels"].items()
        <= found[f"Deployment {RELEASE}"]["spec"]["template"]["metadata"]["labels"].items()
    )
    assert monitor["spec"]["podMetricsEndpoints"] == [{"port": port["name"], "path": "/metrics", "interval": "15s"}]
    assert monitor["metadata"]["labels"] == {"release": "prometheus"}
    assert found[f"NetworkPolicy {RELEASE}"]["spec"]["ingress"][0]["from"] == ALL["networkPolicy"]["from"]  # type: ignore[index]


def test_rights_follow_from_what_groups_scale(helm: Path) -> None:
    text = manifests.rendered(ALL, binary=helm)
    roles = [m for m in yaml.safe_load_all(text) if m and m["kind"] == "Role" and m["metadata"]["name"] == RELEASE]
    own, elsewhere = sorted(roles, key=lambda m: m["metadata"].get("namespace", ""))
    page = roles_of_the_page()
    assert own["rules"] == page["orders-scaler"]["rules"]
    assert elsewhere["metadata"]["namespace"] == "elsewhere"
    as_told = deepcopy(page["orders-counter"]["rules"])
    for rule, resource in zip(as_told[:2], ("rollouts", "rollouts/scale"), strict=True):
        rule.update(apiGroups=["argoproj.io"], resources=[resource], resourceNames=["bills"])
    assert elsewhere["rules"] == as_told
    bindings = [m for m in yaml.safe_load_all(text) if m and m["kind"].endswith("Binding")]
    apart = [m for m in bindings if m["kind"] == "ClusterRoleBinding" or "namespace" in m["metadata"]]
    assert len(apart) == 2
    assert all(m["subjects"][0]["namespace"] == "shop" for m in apart), "the account is the release's"


def test_the_values_of_the_page_are_taken(helm: Path) -> None:
    (text,) = re.findall(r"^```\n(image: .*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    values = yaml.safe_load(text)
    (container,) = made(helm, values)[f"Deployment {RELEASE}"]["spec"]["template"]["spec"]["containers"]
    assert container["env"] == values["env"]


@pytest.mark.parametrize("name", VARIANTS)
def test_the_job_takes_the_configuration_that_is_rendered(helm: Path, tmp_path: Path, name: str) -> None:
    found = made(helm, VARIANTS[name])
    file = tmp_path / "autoscaler.yaml"
    file.write_text(found[f"ConfigMap {RELEASE}"]["data"]["autoscaler.yaml"], encoding="utf-8")
    settings = load(file)
    looked_after = {"declared": "shop", "plain": None, "all": "all", "another namespace": "shop"}
    assert settings.kubernetes.consumer_groups == looked_after[name]
    assert settings.kubernetes.lease == found[f"Lease {RELEASE}"]["metadata"]["name"]
    assert len(settings.groups) == len(VARIANTS[name]["configuration"].get("groups", ()))


def test_an_upgrade_starts_the_job_anew_where_its_configuration_needs_it(helm: Path) -> None:
    def noted(**changed: object) -> str:
        values = {"configuration": {**DECLARED["configuration"], **changed}}
        return str(made(helm, values)[f"Deployment {RELEASE}"]["spec"]["template"]["metadata"]["annotations"])

    assert noted() == noted(groups=GROUPS[:1]), "groups are followed"
    assert noted() != noted(measure={"window": "1m"})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"configuration": {"clusters": []}}, "clusters"),
        ({"configuration": {"clusters": CLUSTERS, "groups": [{"group": "a", "topic": ["x"]}]}}, "topic"),
        ({"configuration": {"clusters": CLUSTERS, "state_dir": "/x"}}, "state_dir"),
        ({"consumerGroups": "none"}, "groups"),
        ({"replicas": 2}, "replicas"),
    ],
)
def test_values_that_make_no_sense_are_refused(helm: Path, changed: Mapping[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        manifests.rendered({**DECLARED, **changed}, binary=helm)


@pytest.mark.timeout(300)
def test_it_is_installed_upgraded_and_removed_with_one_command_each(
    helm: Path, namespace: Namespace, control_plane: ControlPlane, tmp_path: Path
) -> None:
    access = tmp_path / "admin"
    access.write_text(json.dumps(control_plane.kubeconfig()), encoding="utf-8")
    there = ("-n", namespace.name, "--kubeconfig", str(access))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([helm, *arguments, *there], capture_output=True, text=True, check=False)

    (told,) = (line for line in PAGE.splitlines() if line.startswith("helm install "))
    install = [str(CHART) if x == "docker/chart" else x for x in shlex.split(told)[1:]]
    done = run(*install)
    assert done.returncode == 0, done.stderr
    assert f"kubectl -n {namespace.name} get cg" in done.stdout
    kinds = client.ApiextensionsV1Api(namespace.core.api_client)
    assert kinds.read_custom_resource_definition("consumergroups.kafka-group.autoscaler")
    (group,) = (yaml.safe_load(text) for text in re.findall(r"^```yaml\n(apiVersion.*?)^```", PAGE, re.MULTILINE | re.DOTALL))

    def taken() -> bool:
        return (
            tried(namespace.core.api_client, {**group, "metadata": {"name": "orders"}}, namespace.name)[0] == HTTPStatus.CREATED
        )

    until("a group may be declared", taken)

    token = control_plane.token_of(namespace.name, RELEASE)
    own = control_plane.kubeconfig(token)
    own["contexts"][0]["context"]["namespace"] = namespace.name
    file = tmp_path / "job"
    file.write_text(json.dumps(own), encoding="utf-8")
    stop = threading.Event()
    lease = of_job(Kubernetes(kubeconfig=str(file)), RELEASE, SystemClock())
    assert lease.take(stop), "the account may have the Lease"

    done = run(*["second" if x == RELEASE else x for x in install])
    assert done.returncode
    assert "Lease" in done.stderr, "a second job of this namespace is refused where it names the same one"

    done = run("upgrade", RELEASE, str(CHART), "--reuse-values", "--set", "podAnnotations.a=b")
    assert done.returncode == 0, done.stderr
    lease.renew()
    assert not lease.lost, "an upgrade takes the Lease from no job"
    lease.close()

    done = run("uninstall", RELEASE)
    assert done.returncode == 0, done.stderr
    until("the Deployment is gone", lambda: not namespace.apps.list_namespaced_deployment(namespace.name).items)
    assert kinds.read_custom_resource_definition("consumergroups.kafka-group.autoscaler"), "declared groups stay"
