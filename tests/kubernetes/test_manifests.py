"""The manifests of conf/kubernetes are what a strict API server takes, and they fit together."""

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.config.settings import load
from tests.kubernetes.namespace import Namespace
from tests.kubernetes.pool_world import ROOT, roles_of_the_page

FILES = sorted((ROOT / "conf" / "kubernetes").rglob("*.yaml"))
MANIFESTS: Mapping[str, dict[str, Any]] = {
    f"{'' if file.parent.name == 'kubernetes' else f'{file.parent.name}/'}{file.stem}-{m['kind']}": m
    for file in FILES
    for m in yaml.safe_load_all(file.read_text(encoding="utf-8"))
}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "job"}}


def tried(namespace: Namespace, manifest: Mapping[str, Any]) -> tuple[int, str]:
    """Have a manifest checked as if it were made, a field that the API does not know too, and return what is answered.

    It is sent as it is: the client's own methods would leave fields out.
    """
    api, version, kind = namespace.core.api_client, manifest["apiVersion"], manifest["kind"]
    plural = "networkpolicies" if kind == "NetworkPolicy" else f"{kind.lower()}s"
    base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    within = "" if kind == "CustomResourceDefinition" else f"/namespaces/{namespace.name}"
    asked = api.param_serialize(
        "POST",
        f"{base}{within}/{plural}",
        query_params=[("dryRun", "All"), ("fieldValidation", "Strict")],
        header_params={"Accept": "application/json", "Content-Type": "application/json"},
        body=dict(manifest),
        auth_settings=["BearerToken"],
    )
    answer = api.call_api(*asked)
    return int(answer.status), answer.read().decode()


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_is_taken(namespace: Namespace, name: str) -> None:
    status, said = tried(namespace, MANIFESTS[name])
    there = name == "consumer-groups/crd-CustomResourceDefinition" and status == HTTPStatus.CONFLICT  # installed by other tests
    assert status == HTTPStatus.CREATED or there, said


def test_a_field_that_is_misspelt_would_be_refused(namespace: Namespace) -> None:
    deployment = yaml.safe_load(yaml.safe_dump(MANIFESTS["job-Deployment"]))
    deployment["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    status, said = tried(namespace, deployment)
    assert (status, "readynessProbe" in said) == (HTTPStatus.BAD_REQUEST, True), said


def test_the_pod_may_run_where_the_restricted_standard_is_enforced(namespace: Namespace) -> None:
    enforce = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    namespace.core.patch_namespace(namespace.name, enforce)
    template = MANIFESTS["job-Deployment"]["spec"]["template"]
    spec = {**template["spec"], "serviceAccountName": "default"}  # its own is not there in a dry run
    status, said = tried(namespace, {**POD, "spec": spec})
    assert status == HTTPStatus.CREATED, said
    status, said = tried(namespace, {**POD, "spec": {**spec, "securityContext": {}}})
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
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert role["rules"] in [r["rules"] for r in roles_of_the_page().values()]
