"""ConsumerGroups in a namespace: how tests make, change and read them, as ``kubectl`` would."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client
from kubernetes.client import exceptions

from autoscaler.config.consumer_groups import API, API_GROUP, KIND, PLURAL, VERSION
from tests.kubernetes.namespace import Namespace
from tests.until import until

MANIFESTS = Path(__file__).resolve().parents[2] / "conf" / "kubernetes" / "consumer-groups"
CRD = yaml.safe_load((MANIFESTS / "crd.yaml").read_text(encoding="utf-8"))
NAME = f"{PLURAL}.{API_GROUP}"


class Kind:
    """The kind itself, in the whole control plane: who removes it installs it again."""

    def __init__(self, api: client.ApiClient) -> None:
        self._definitions, self._objects = client.ApiextensionsV1Api(api), client.CustomObjectsApi(api)

    def install(self) -> None:
        """Install it where it is not there, and wait until the API serves it."""
        until("no other of that name is ending", self._state, lambda state: state != "ending")
        if self._state() is None:
            self._definitions.create_custom_resource_definition(CRD)
        until(
            "it is served",
            lambda: self._objects.list_cluster_custom_object(API_GROUP, VERSION, PLURAL),
            passing=exceptions.ApiException,
        )

    def remove(self) -> None:
        """Remove it with all of its resources, and wait until the API serves it no more, which is a moment after it is gone."""
        self._definitions.delete_custom_resource_definition(NAME)
        until("it is gone", lambda: self._state() is None)
        until("it is served no more", lambda: not self._served())

    def _served(self) -> bool:
        try:
            self._objects.list_cluster_custom_object(API_GROUP, VERSION, PLURAL)
        except exceptions.NotFoundException:
            return False
        return True

    def _state(self) -> str | None:
        try:
            found = self._definitions.read_custom_resource_definition(NAME)
        except exceptions.NotFoundException:
            return None
        return "ending" if found.metadata.deletion_timestamp else "there"


class ConsumerGroups:
    """Those of one namespace, as an administrator."""

    def __init__(self, namespace: Namespace) -> None:
        self._api, self._namespace = namespace.core.api_client, namespace.name
        self._objects = client.CustomObjectsApi(self._api)

    def tried(self, spec: Mapping[str, Any], name: str = "orders", *, dry: bool = True) -> tuple[int, str]:
        """Apply one, by default only as if, and return what is answered; a field that the API does not know is an error."""
        manifest = {"apiVersion": API, "kind": KIND, "metadata": {"name": name}, "spec": dict(spec)}
        asked = self._api.param_serialize(
            "POST",
            f"/apis/{API}/namespaces/{self._namespace}/{PLURAL}",
            query_params=[("fieldValidation", "Strict"), *([("dryRun", "All")] if dry else [])],
            header_params={"Accept": "application/json", "Content-Type": "application/json"},
            body=manifest,
            auth_settings=["BearerToken"],
        )
        answer = self._api.call_api(*asked)
        return int(answer.status), answer.read().decode()

    def make(self, spec: Mapping[str, Any], name: str = "orders") -> None:
        status, said = self.tried(spec, name, dry=False)
        assert status == HTTPStatus.CREATED, said

    def change(self, change: Mapping[str, Any], name: str = "orders") -> None:
        """Merge a change into one."""
        self._objects.patch_namespaced_custom_object(
            API_GROUP, VERSION, self._namespace, PLURAL, name, dict(change), _content_type="application/merge-patch+json"
        )

    def delete(self, name: str = "orders") -> None:
        self._objects.delete_namespaced_custom_object(API_GROUP, VERSION, self._namespace, PLURAL, name)

    def status(self, name: str = "orders") -> dict[str, Any]:
        """Return what the controller has written, nothing before it has."""
        found: Any = self._objects.get_namespaced_custom_object(API_GROUP, VERSION, self._namespace, PLURAL, name)
        return dict(found.get("status") or {})

    def condition(self, kind: str, name: str = "orders") -> dict[str, Any]:
        """Return a condition of one, nothing before it is there."""
        return next((c for c in self.status(name).get("conditions") or () if c["type"] == kind), {})

    def events(self, name: str = "orders") -> list[Any]:
        """Return the events of one, as ``kubectl describe`` looks for them."""
        about = f"involvedObject.kind={KIND},involvedObject.name={name}"
        return list(client.CoreV1Api(self._api).list_namespaced_event(self._namespace, field_selector=about).items)

    def row(self, name: str = "orders") -> list[Any]:
        """Return one as ``kubectl get`` shows it, without its age."""
        accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
        table = json.loads(self._got(f"/{name}", accept)[1])
        cells = dict(zip([c["name"] for c in table["columnDefinitions"]], table["rows"][0]["cells"], strict=True))
        return [cells[name] for name in ("Name", "MODE", "CONSUMERS", "WANTED", "LAG", "REASON")]

    def explained(self) -> dict[str, Any]:
        """Return the schema that the API server publishes, which ``kubectl explain`` reads, once it does."""
        asked = self._api.param_serialize(
            "GET", f"/openapi/v3/apis/{API}", header_params={"Accept": "application/json"}, auth_settings=["BearerToken"]
        )

        def published() -> dict[str, Any] | None:
            answer = self._api.call_api(*asked)
            return json.loads(answer.read()) if answer.status == HTTPStatus.OK else None

        schemas: dict[str, Any] = until("it is published", published)["components"]["schemas"]
        return dict(next(schema for name, schema in schemas.items() if name.endswith(f".{KIND}")))

    def forgets(self, version: str | None) -> bool:
        """Say whether the API server does not know any more what has changed since then."""
        _, said = self._got("", "application/json", watch="true", resourceVersion=version or "", timeoutSeconds=1)
        return '"code":410' in said.replace(" ", "")

    def _got(self, path: str, accept: str, **query: str | int) -> tuple[int, str]:
        asked = self._api.param_serialize(
            "GET",
            f"/apis/{API}/namespaces/{self._namespace}/{PLURAL}{path}",
            query_params=list(query.items()),
            header_params={"Accept": accept},
            auth_settings=["BearerToken"],
        )
        answer = self._api.call_api(*asked)
        return int(answer.status), answer.read().decode()
