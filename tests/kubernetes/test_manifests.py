"""The manifests of conf/kubernetes are what a strict API server takes, and they fit together."""

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.config.settings import load
from tests.kubernetes.dry_run import tried
from tests.kubernetes.namespace import Namespace
from tests.kubernetes.pool_world import ROOT, roles_of_the_page


def suffix(manifest: Mapping[str, Any]) -> str:
    """Return what its name adds to that of the job."""
    return str(manifest["metadata"]["name"]).removeprefix("autoscaler")


FILES = sorted((ROOT / "conf" / "kubernetes").rglob("*.yaml"))
MANIFESTS: Mapping[str, dict[str, Any]] = {
    f"{'' if file.parent.name == 'kubernetes' else f'{file.parent.name}/'}{file.stem}-{m['kind']}{suffix(m)}": m
    for file in FILES
    for m in yaml.safe_load_all(file.read_text(encoding="utf-8"))
}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "job"}}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_is_taken(namespace: Namespace, name: str) -> None:
    status, said = tried(namespace.core.api_client, MANIFESTS[name], namespace.name)
    there = name.startswith("consumer-groups/crd") and status == HTTPStatus.CONFLICT  # installed by other tests
    assert status == HTTPStatus.CREATED or there, said


def test_a_field_that_is_misspelt_would_be_refused(namespace: Namespace) -> None:
    deployment = yaml.safe_load(yaml.safe_dump(MANIFESTS["job-Deployment"]))
    deployment["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    status, said = tried(namespace.core.api_client, deployment, namespace.name)
    assert (status, "readynessProbe" in said) == (HTTPStatus.BAD_REQUEST, True), said


def test_the_pod_may_run_where_the_restricted_standard_is_enforced(namespace: Namespace) -> None:
    enforce = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    namespace.core.patch_namespace(namespace.name, enforce)
    template = MANIFESTS["job-Deployment"]["spec"]["template"]
    spec = {**template["spec"], "serviceAccountName": "default"}  # its own is not there in a dry run
    status, said = tried(namespace.core.api_client, {**POD, "spec": spec}, namespace.name)
    assert status == HTTPStatus.CREATED, said
    status, said = tried(namespace.core.api_client, {**POD, "spec": {**spec, "securityContext": {}}}, namespace.name)
    assert (status, "restricted" in said) == (HTTPStatus.FORBIDDEN, True), said


def test_they_fit_together(tmp_path: Path) -> None:
    pod = MANIFESTS["job-Deployment"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
    sources = {v["name"]: v for v in pod["spec"]["volumes"]}
    assert mounts.keys() == sources.keys()

    (name, text), *others = MANIFESTS["configuration-ConfigMap"]["data"].items()
    assert not others
    assert container["args"] == ["--config", f"{mounts['configuration']}/{name}"]
    assert sources["configuration"]["configMap"]["name"] == MANIFESTS["configuration-ConfigMap"]["metadata"]["name"]
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    settings = load(file)
    assert settings.state_dir == mounts["state"]
    assert sources["state"]["persistentVolumeClaim"]["claimName"] == MANIFESTS["job-PersistentVolumeClaim"]["metadata"]["name"]

    (port,) = container["ports"]
    assert settings.http.address == ("0.0.0.0", port["containerPort"])  # noqa: S104
    service, policy = MANIFESTS["job-Service"]["spec"], MANIFESTS["job-NetworkPolicy"]["spec"]
    assert service["selector"].items() <= pod["metadata"]["labels"].items()
    assert policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert pod["spec"]["terminationGracePeriodSeconds"] > 45, "longer than the script gives the job to stop"


def test_the_rights_are_those_of_the_page() -> None:
    (group,) = yaml.safe_load(MANIFESTS["configuration-ConfigMap"]["data"]["autoscaler.yaml"])["groups"]
    assert group["workers"] == {"kind": "deployment", "deployment": "orders"}
    account = MANIFESTS["job-Deployment"]["spec"]["template"]["spec"]["serviceAccountName"]
    assert account == MANIFESTS["rights-ServiceAccount"]["metadata"]["name"]
    binding, role = MANIFESTS["rights-RoleBinding"], MANIFESTS["rights-Role"]
    lease, granted = MANIFESTS["job-Lease"]["metadata"]["name"], MANIFESTS["rights-Role-lease"]["rules"][0]
    assert yaml.safe_load(MANIFESTS["configuration-ConfigMap"]["data"]["autoscaler.yaml"])["kubernetes"] == {"lease": lease}
    assert granted["resourceNames"] == [lease]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert role["rules"] in [r["rules"] for r in roles_of_the_page().values()]
