"""What the control plane and the fake kubelet of the other tests here promise them."""

import os
import signal
from collections.abc import Iterator

import psutil
import pytest
from kubernetes import client, watch
from kubernetes.client import V1Pod as Pod
from kubernetes.client import exceptions

from tests.kubernetes.control_plane import FORGETFUL, ControlPlane
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.namespace import Namespace, field, is_ready
from tests.until import throughout, until

COST = "controller.kubernetes.io/pod-deletion-cost"
DRAINS = "trap 'sleep 1; exit 0' TERM; while :; do sleep 0.1; done"
IGNORES = "trap '' TERM; while :; do sleep 0.1; done"


def process_of(pod: Pod, nodes: tuple[Kubelet, ...]) -> int:
    """Wait for a pod's process and return its number."""
    here = [node.process_of for node in nodes]
    return until("its process", lambda: next(filter(None, (find(pod.metadata.uid) for find in here)), None))


def running_on(pod: Pod, nodes: tuple[Kubelet, ...]) -> Kubelet:
    return next(node for node in nodes if node.node == pod.spec.node_name)


def cost(namespace: Namespace, pod: str, value: int) -> None:
    namespace.core.patch_namespaced_pod(pod, namespace.name, {"metadata": {"annotations": {COST: str(value)}}})


def test_a_deployment_has_as_many_pods_as_it_is_scaled_to(namespace: Namespace) -> None:
    namespace.deployment("w", 2)
    namespace.until_ready(2)
    namespace.scale("w", 5)
    namespace.until_ready(5)
    namespace.scale("w", 1)
    namespace.until_ready(1)


@pytest.mark.parametrize("turn", range(3))
def test_the_pod_with_the_lowest_deletion_cost_goes(namespace: Namespace, turn: int) -> None:
    namespace.deployment("w", 4)
    before = sorted(namespace.until_ready(4))
    victim = before[turn]
    cost(namespace, victim, -1)
    namespace.scale("w", 3)
    assert set(namespace.until_ready(3)) == set(before) - {victim}


def test_a_stateful_set_loses_its_highest_ordinals_whatever_they_cost(namespace: Namespace) -> None:
    namespace.stateful_set("w", 4)
    assert set(namespace.until_ready(4)) == {"w-0", "w-1", "w-2", "w-3"}
    cost(namespace, "w-0", -100)
    namespace.apps.patch_namespaced_stateful_set_scale("w", namespace.name, {"spec": {"replicas": 2}})
    assert set(namespace.until_ready(2)) == {"w-0", "w-1"}


def test_a_pod_is_told_to_end_and_stays_until_it_has(namespace: Namespace, nodes: tuple[Kubelet, ...]) -> None:
    namespace.pod("w", image="shell", args=[DRAINS])
    pid = process_of(namespace.until_ready(1)["w"], nodes)
    namespace.core.delete_namespaced_pod("w", namespace.name)
    throughout("it drains", lambda: "w" in namespace.pods() and psutil.pid_exists(pid), lambda there: there, for_s=0.5)
    until("it has gone", lambda: "w" not in namespace.pods())
    assert not psutil.pid_exists(pid)


def test_a_pod_that_does_not_end_is_killed_after_its_grace_period(namespace: Namespace, nodes: tuple[Kubelet, ...]) -> None:
    namespace.pod("w", image="shell", args=[IGNORES], terminationGracePeriodSeconds=1)
    pid = process_of(namespace.until_ready(1)["w"], nodes)
    namespace.core.delete_namespaced_pod("w", namespace.name)
    until("it has gone", lambda: "w" not in namespace.pods())
    assert not psutil.pid_exists(pid)


def test_a_killed_process_is_started_again_in_the_same_pod(namespace: Namespace, nodes: tuple[Kubelet, ...]) -> None:
    namespace.pod("w")
    pod = namespace.until_ready(1)["w"]
    os.kill(process_of(pod, nodes), signal.SIGKILL)
    again = until("it is ready again", lambda: namespace.ready().get("w"), lambda p: p and restarts(p) == 1)
    assert again is not None
    assert again.metadata.uid == pod.metadata.uid
    assert last_end(again).exit_code == 137


def restarts(pod: Pod) -> int:
    return int(pod.status.container_statuses[0].restart_count)


def last_end(pod: Pod) -> client.V1ContainerStateTerminated:
    return pod.status.container_statuses[0].last_state.terminated


def test_each_pod_has_an_address_and_is_ready_when_it_answers_there(namespace: Namespace) -> None:
    serve = 'exec python3 -m http.server --bind "$ADDRESS" 8080'
    probe = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}
    address = [field("ADDRESS", "status.podIP")]
    for name in ("a", "b"):
        namespace.pod(name, image="shell", args=[serve], environment=address, readiness=probe)
    addresses = {pod.status.pod_ip for pod in namespace.until_ready(2).values()}
    assert len(addresses) == 2


def test_a_pod_that_does_not_answer_runs_and_is_not_ready(namespace: Namespace) -> None:
    namespace.pod("w", readiness={"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1})
    pod = until("it runs", lambda: namespace.pods()["w"], lambda p: p.status.phase == "Running")
    assert not is_ready(pod)


def test_a_pod_knows_its_name_and_uid(namespace: Namespace, nodes: tuple[Kubelet, ...]) -> None:
    asked = [field("NAME", "metadata.name"), field("UID", "metadata.uid"), {"name": "PLAIN", "value": "p"}]
    namespace.pod("w", image="shell", args=['echo "$NAME $UID $PLAIN"; exec sleep 3600'], environment=asked)
    pod = namespace.until_ready(1)["w"]
    said = until("it says so", lambda: running_on(pod, nodes).output_of(pod.metadata.uid), lambda text: text.endswith("\n"))
    assert said == f"w {pod.metadata.uid} p\n"


def test_a_program_that_ends_again_and_again_is_in_a_crash_loop(namespace: Namespace) -> None:
    namespace.pod("w", image="shell", args=["exit 3"])
    pod = namespace.waiting_for("CrashLoopBackOff")
    assert last_end(pod).exit_code == 3
    until("it is tried again", lambda: restarts(namespace.pods()["w"]) >= 2)


def test_an_image_that_is_not_there_cannot_be_pulled(namespace: Namespace) -> None:
    namespace.pod("w", image="missing:1")
    pod = namespace.waiting_for("ImagePullBackOff")
    assert pod.status.phase == "Pending"
    assert "missing:1" in pod.status.container_statuses[0].state.waiting.message
    namespace.core.delete_namespaced_pod("w", namespace.name)
    until("it has gone", lambda: not namespace.pods())


def test_a_container_out_of_memory_is_killed_and_started_again(namespace: Namespace, nodes: tuple[Kubelet, ...]) -> None:
    namespace.pod("w")
    pod = namespace.until_ready(1)["w"]
    process_of(pod, nodes)
    running_on(pod, nodes).kill_for_memory(pod.metadata.uid)
    again = until("it runs again", lambda: namespace.pods()["w"], lambda p: restarts(p) == 1)
    assert (last_end(again).reason, last_end(again).exit_code) == ("OOMKilled", 137)


def test_a_node_short_of_something_evicts_a_pod_that_stays_as_failed(namespace: Namespace, nodes: tuple[Kubelet, ...]) -> None:
    namespace.deployment("w", 1)
    ((name, pod),) = namespace.until_ready(1).items()
    process_of(pod, nodes)
    running_on(pod, nodes).evict_for(pod.metadata.uid, "The node was low on resource: memory.")
    failed = until("it has failed", lambda: namespace.pods()[name], lambda p: p.status.phase == "Failed")
    assert (failed.status.reason, failed.status.message) == ("Evicted", "The node was low on resource: memory.")
    until("another one is ready", lambda: set(namespace.ready()) - {name})


def test_a_pod_without_room_is_not_scheduled_and_the_scheduler_says_why(namespace: Namespace) -> None:
    namespace.pod("w", resources={"requests": {"cpu": "1000"}})

    def refused() -> str | None:
        conditions = namespace.pods()["w"].status.conditions or ()
        return next((c.message for c in conditions if c.type == "PodScheduled" and c.reason == "Unschedulable"), None)

    assert "Insufficient cpu" in until("it is refused", refused)


def test_a_node_cut_off_leaves_two_owners_until_it_is_back(namespace: Namespace, nodes: tuple[Kubelet, ...]) -> None:
    namespace.deployment("w", 1)
    ((name, pod),) = namespace.until_ready(1).items()
    old, node = process_of(pod, nodes), running_on(pod, nodes)
    node.cut()
    try:
        another = until("another one is ready", lambda: next((p for n, p in namespace.ready().items() if n != name), None))
        assert another.spec.node_name != node.node
        assert psutil.pid_exists(old), "the first one goes on"
        assert psutil.pid_exists(process_of(another, nodes))
    finally:
        node.heal()
    until("the first one has ended", lambda: not psutil.pid_exists(old))
    assert set(namespace.until_ready(1)) == {another.metadata.name}


def test_the_api_server_comes_back_and_all_go_on(control_plane: ControlPlane, namespace: Namespace) -> None:
    namespace.deployment("w", 1)
    namespace.until_ready(1)
    control_plane.kill_api_server()
    control_plane.start_api_server()
    namespace.scale("w", 3)
    namespace.until_ready(3)


@pytest.fixture
def forgetful(control_plane: ControlPlane) -> Iterator[None]:
    control_plane.kill_api_server()
    control_plane.start_api_server(*FORGETFUL)
    yield
    control_plane.kill_api_server()
    control_plane.start_api_server()


def test_a_watch_from_a_version_that_is_forgotten_ends_with_410(forgetful: None, namespace: Namespace) -> None:
    version = namespace.core.list_namespaced_pod(namespace.name).metadata.resource_version

    def forgotten() -> bool:
        asked = namespace.core.list_namespaced_pod
        try:
            for _ in watch.Watch().stream(asked, namespace.name, resource_version=version, timeout_seconds=1):
                pass
        except client.ApiException as e:
            assert e.status == 410  # noqa: PT017  the very question
            return True
        return False

    until("it is forgotten", forgotten)


def test_a_service_account_may_do_what_its_role_says_and_the_audit_log_has_it(
    control_plane: ControlPlane, namespace: Namespace
) -> None:
    namespace.deployment("w", 1)
    namespace.deployment("other", 1)
    namespace.until_ready(2)
    may(namespace, {"apiGroups": ["apps"], "resources": ["deployments/scale"], "resourceNames": ["w"], "verbs": ["patch"]})
    apps = client.AppsV1Api(control_plane.connect(control_plane.token_of(namespace.name, "default")))

    def scale(name: str) -> object:
        return apps.patch_namespaced_deployment_scale(name, namespace.name, {"spec": {"replicas": 2}})

    until("the role holds", lambda: scale("w"), passing=exceptions.ForbiddenException)
    with pytest.raises(exceptions.ForbiddenException, match=r"other.+ is forbidden"):
        scale("other")
    with pytest.raises(exceptions.ForbiddenException):
        apps.list_namespaced_deployment(namespace.name)
    user = f"system:serviceaccount:{namespace.name}:default"
    asked = [line for line in control_plane.audit_log() if line["user"].get("username") == user]
    used = {(x["verb"], *map(x["objectRef"].get, ("name", "subresource"))) for x in asked if x["responseStatus"]["code"] == 200}
    assert used == {("patch", "w", "scale")}


def may(namespace: Namespace, rule: dict[str, list[str]]) -> None:
    """Give the namespace's account a right."""
    namespace.rbac.create_namespaced_role(namespace.name, {"metadata": {"name": "r"}, "rules": [rule]})
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": namespace.name}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    namespace.rbac.create_namespaced_role_binding(
        namespace.name, {"metadata": {"name": "r"}, "subjects": [subject], "roleRef": role}
    )


def test_an_eviction_that_a_disruption_budget_forbids_is_answered_429(namespace: Namespace) -> None:
    namespace.deployment("w", 2)
    name = min(namespace.until_ready(2))
    budget = {"metadata": {"name": "w"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "w"}}}}
    namespace.policy.create_namespaced_pod_disruption_budget(namespace.name, budget)

    def known() -> bool:
        status = namespace.policy.read_namespaced_pod_disruption_budget("w", namespace.name).status
        return bool(status and status.expected_pods == 2)

    until("the budget is known", known)
    with pytest.raises(client.ApiException) as refused:
        namespace.core.create_namespaced_pod_eviction(name, namespace.name, {"metadata": {"name": name}})
    assert refused.value.status == 429
    assert set(namespace.ready()) >= {name}
