"""Numbers of replicas through ``scale``, of resources of several kinds, on a real API server with real controllers."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.workers.counted_pool import CountedPool
from autoscaler.adapters.workers.pods.scale_number import ScaleNumber
from autoscaler.config.settings import ScaleWorkers
from autoscaler.errors import PermanentError, TransientError
from autoscaler.model import Hindered, Hindrance
from tests.contracts.number_contract import NumberContract, asked, look, refusal, run
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.namespace import Namespace
from tests.kubernetes.pool_world import roles_of_the_page
from tests.until import until

NAME = "orders"
CUSTOM = {  # a resource like Argo's Rollout: its number stands elsewhere than spec.replicas, and nothing makes pods of it here
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "fleets.test.example.org"},
    "spec": {
        "group": "test.example.org",
        "scope": "Namespaced",
        "names": {"plural": "fleets", "singular": "fleet", "kind": "Fleet"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"size": {"type": "integer", "maximum": 5}}},
                            "status": {"type": "object", "properties": {"size": {"type": "integer"}}},
                        },
                    }
                },
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
            }
        ],
    },
}
KINDS = {"Deployment": "apps/v1", "StatefulSet": "apps/v1", "Fleet": "test.example.org/v1"}
PLURALS = {"Deployment": "deployments", "StatefulSet": "statefulsets", "Fleet": "fleets"}


class ScaleWorld:
    """One resource and the pool that sets its number."""

    def __init__(self, control_plane: ControlPlane, namespace: Namespace, directory: Path, kind: str) -> None:
        self.control_plane, self.namespace, self.kind = control_plane, namespace, kind
        self._file, self._pools = directory / "kubeconfig", list[CountedPool]()
        self.pool = self.made()

    def make(self, **more: Any) -> None:
        """Make the resource, of no replicas."""
        match self.kind:
            case "Deployment":
                self.namespace.deployment(NAME, 0, **more)
            case "StatefulSet":
                self.namespace.stateful_set(NAME, 0, **more)
            case _:
                body = {"apiVersion": KINDS["Fleet"], "kind": "Fleet", "metadata": {"name": NAME}, "spec": {"size": 0}}
                self.asked("POST", self.path.removesuffix(f"/{NAME}"), body)

    @property
    def path(self) -> str:
        return f"/apis/{KINDS[self.kind]}/namespaces/{self.namespace.name}/{PLURALS[self.kind]}/{NAME}"

    def asked(
        self, method: str, path: str, body: Any = None, query: Any = (), content: str = "application/json"
    ) -> dict[str, Any]:
        """Ask the API as an administrator."""
        api = self.namespace.core.api_client
        headers = {"Content-Type": content, "Accept": "application/json"}
        login = ["BearerToken"]
        sent = api.param_serialize(method, path, query_params=list(query), header_params=headers, body=body, auth_settings=login)
        answer = api.call_api(*sent)
        said = dict(json.loads(answer.read()))
        assert answer.status < HTTPStatus.BAD_REQUEST, said
        return said

    def made(self, token: str | None = None, target: str = "") -> CountedPool:
        """Return a pool that connects with a token; as an administrator without one."""
        self._file.write_text(json.dumps(self.control_plane.kubeconfig(token)), encoding="utf-8")
        target = target or f"{KINDS[self.kind]}/{self.kind}/{NAME}"
        settings = ScaleWorkers(target=target, namespace=self.namespace.name, kubeconfig=str(self._file))
        clock = SystemClock()
        self._pools.append(CountedPool(group="g", number=ScaleNumber(group="g", settings=settings, clock=clock), clock=clock))
        return self._pools[-1]

    def number(self) -> int:
        found = int(self.asked("GET", f"{self.path}/scale")["spec"].get("replicas") or 0)
        if self.kind == "Fleet":  # what its controller would do
            self._reports(found)
        return found

    def sets(self, number: int) -> None:
        change = {"spec": {"replicas": number}}
        who = [("fieldManager", "argocd-controller")]
        self.asked("PATCH", f"{self.path}/scale", change, who, "application/merge-patch+json")
        self.number()

    def restart(self) -> None:
        self.pool.close()
        self.pool = self.made()

    def close(self) -> None:
        for pool in self._pools:
            pool.close()

    def _reports(self, size: int) -> None:
        self.asked("PATCH", f"{self.path}/status", {"status": {"size": size}}, content="application/merge-patch+json")


def said(ask: Callable[[], object]) -> str:
    try:
        ask()
    except (TransientError, PermanentError) as e:
        return str(e)
    return ""


@pytest.fixture(scope="session")
def fleets(control_plane: ControlPlane) -> None:
    """The kind of Fleet."""
    api = client.ApiextensionsV1Api(control_plane.connect())
    api.create_custom_resource_definition(CUSTOM)
    until(
        "it is served",
        lambda: api.read_custom_resource_definition("fleets.test.example.org").status.conditions or (),
        lambda found: any(c.type == "Established" and c.status == "True" for c in found),
    )


@pytest.fixture(params=["Deployment"])
def bare(
    request: pytest.FixtureRequest, control_plane: ControlPlane, fleets: None, namespace: Namespace, tmp_path: Path
) -> Iterator[ScaleWorld]:
    """Without the resource."""
    made = ScaleWorld(control_plane, namespace, tmp_path, request.param)
    yield made
    made.close()


@pytest.fixture
def world(bare: ScaleWorld) -> ScaleWorld:
    """With it."""
    bare.make()
    return bare


@pytest.mark.parametrize("bare", ["Deployment", "StatefulSet"], indirect=True)
class TestScale(NumberContract):
    """On kinds whose pods run here."""


@pytest.mark.parametrize("bare", ["Fleet"], indirect=True)
def test_a_custom_resource_is_set_by_its_scale_wherever_its_number_stands(world: ScaleWorld) -> None:
    def follows() -> tuple[object, int]:
        return asked(world, 3), world.number()

    until("3 run", follows, lambda seen: seen[1] == 3 and len(world.pool.observe().running) == 3)
    world.sets(2)
    until("it is said", lambda: refusal(world, 3) or "", lambda s: "to 2, where this controller had set 3" in s)


@pytest.mark.parametrize("bare", ["Fleet"], indirect=True)
def test_a_number_that_the_resource_does_not_take_is_told_in_its_words(world: ScaleWorld) -> None:
    look(world)
    assert "spec.size in body should be less than or equal to 5" in (refusal(world, 6) or "")
    assert "tried again in" in (refusal(world, 6) or "")


def test_another_writer_is_named(world: ScaleWorld) -> None:
    run(world, 1)
    world.sets(2)
    until("it is named", lambda: refusal(world, 1) or "", lambda s: s.startswith("argocd-controller at "))


def test_an_autoscaler_of_the_resource_is_named(world: ScaleWorld) -> None:
    made_by = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "queue", "uid": "1"}
    body = {
        "metadata": {"name": "keda-hpa", "ownerReferences": [made_by]},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME}, "maxReplicas": 9},
    }
    api = client.AutoscalingV2Api(world.namespace.core.api_client)
    api.create_namespaced_horizontal_pod_autoscaler(world.namespace.name, body)
    look(world)
    assert (refusal(world, 1) or "").startswith("HorizontalPodAutoscaler keda-hpa of ScaledObject queue sets the number")
    assert world.number() == 0


def hindered(world: ScaleWorld, number: int, slot: int) -> Hindered | None:
    """Ask for so many, and return what keeps one of them."""
    state = asked(world, number)
    return None if state is None else state.hindered.get(slot)


def test_a_quota_is_told_in_the_words_of_the_api(world: ScaleWorld) -> None:
    few = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
    world.namespace.core.create_namespaced_resource_quota(world.namespace.name, few)
    counted = {"status": {"hard": {"pods": "1"}, "used": {"pods": "0"}}}  # as the controller does that is not among these
    world.namespace.core.patch_namespaced_resource_quota_status("few", world.namespace.name, counted)
    until(
        "it is told",
        lambda: hindered(world, 2, 1),
        lambda h: h is not None and h.why is Hindrance.QUOTA and "exceeded quota: few" in h.said,
    )
    until("one runs", lambda: look(world), lambda s: (set(s.running), set(s.restarting)) == ({0}, {1}))


def test_a_pod_without_a_node_is_told_in_the_words_of_the_api(bare: ScaleWorld) -> None:
    bare.make(resources={"requests": {"cpu": "1000"}})
    told = until("it is told", lambda: hindered(bare, 1, 0), lambda h: h is not None and h.why is Hindrance.UNSCHEDULABLE)
    assert told is not None
    assert "Insufficient cpu" in told.said


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("", "there is no Deployment orders in namespace"),
        ("apps/v1/Widget/orders", "apps/v1 has no kind Widget: correct workers.target"),
        ("nowhere.org/v1/Deployment/orders", "Kubernetes has no API nowhere.org/v1: correct workers.target"),
        ("apps/v1/DaemonSet/orders", "kind DaemonSet of apps/v1 has no scale subresource"),
    ],
)
def test_a_resource_that_is_not_there_is_told(bare: ScaleWorld, target: str, words: str) -> None:
    bare.pool = bare.made(target=target)
    until("it is told", lambda: said(bare.pool.observe), lambda s: words in s)


def test_one_that_appears_later_is_found(bare: ScaleWorld) -> None:
    until("it is not there", lambda: said(bare.pool.observe), lambda s: "create it" in s)
    bare.make()
    until("it is there", lambda: said(bare.pool.observe), lambda s: not s)


def test_the_rights_of_the_page_are_enough_and_all_are_used(world: ScaleWorld) -> None:
    role = roles_of_the_page()["orders-counter"]
    world.namespace.grant(role)
    world.pool = world.made(world.control_plane.token_of(world.namespace.name, "default"))
    run(world, 2)
    granted = {(g, r, v) for x in role["rules"] for g in x["apiGroups"] for r in x["resources"] for v in x["verbs"]}
    used = partial(world.control_plane.rights_used, world.namespace.name)
    assert until("all are in the log", used, lambda found: found == granted)


def test_while_the_api_server_is_away_nothing_is_set_and_it_goes_on_then(world: ScaleWorld) -> None:
    run(world, 1)
    world.control_plane.kill_api_server()
    try:
        until("it is told", lambda: said(world.pool.observe), lambda s: "does not answer" in s)
    finally:
        world.control_plane.start_api_server()
    run(world, 2)
