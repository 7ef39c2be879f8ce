"""Has manifests checked by the API server as if they were applied, strictly: a field that it does not know is an error."""

from collections.abc import Mapping
from typing import Any

from kubernetes import client

_OF_THE_CLUSTER = {"CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"}


def tried(api: client.ApiClient, manifest: Mapping[str, Any], namespace: str) -> tuple[int, str]:
    """Return what is answered to a manifest; one that names no namespace is meant for this one.

    It is sent as it is: the client's own methods would leave fields out.
    """
    version, kind = manifest["apiVersion"], manifest["kind"]
    plural = "networkpolicies" if kind == "NetworkPolicy" else f"{kind.lower()}s"
    base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    within = "" if kind in _OF_THE_CLUSTER else f"/namespaces/{manifest['metadata'].get('namespace', namespace)}"
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
