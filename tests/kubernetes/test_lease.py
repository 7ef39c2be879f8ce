"""The job's Lease on a real API server: who acts, who waits, and what becomes of both when the API is away."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from kubernetes import client

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.kubernetes.api import Api, connection
from autoscaler.adapters.lease import Lease, of_job
from autoscaler.adapters.workers import registry
from autoscaler.config.kubernetes import Kubernetes
from autoscaler.config.settings import Workers
from autoscaler.errors import TransientError
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.namespace import Namespace
from tests.kubernetes.pool_world import ROOT, PodWorld
from tests.until import let_pass, until

NAME = "autoscaler"
LASTS_S = 3
MANIFESTS = [m for f in ("job", "rights") for m in yaml.safe_load_all((ROOT / "conf/kubernetes" / f"{f}.yaml").read_text())]
LEASE, ROLE = (next(m for m in MANIFESTS if m["kind"] == kind and NAME in m["metadata"]["name"]) for kind in ("Lease", "Role"))


class Jobs:
    """Jobs that want one Lease, each with a connection of its own."""

    def __init__(self, control_plane: ControlPlane, namespace: Namespace, directory: Path) -> None:
        self._control_plane, self._namespace, self._directory = control_plane, namespace, directory
        self._made: list[Lease] = []
        self.stop = threading.Event()
        self._leases = client.CoordinationV1Api(namespace.core.api_client)
        self._leases.create_namespaced_lease(namespace.name, LEASE)

    def access(self, token: str | None = None) -> Path:
        file = self._directory / f"kubeconfig-{len(self._made)}"
        file.write_text(json.dumps(self._control_plane.kubeconfig(token)), encoding="utf-8")
        return file

    def job(self, token: str | None = None, *, lasts_s: int = LASTS_S) -> Lease:
        api = Api(connection(str(self.access(token)), None))
        self._made.append(Lease(api, self._namespace.name, NAME, SystemClock(), lasts_s=lasts_s))
        return self._made[-1]

    def waiting(self, job: Lease) -> threading.Thread:
        """Let a job wait for its turn, and return once it does."""
        thread = threading.Thread(target=job.take, args=(self.stop,))
        thread.start()
        until("it waits", lambda: job.waits_for, bool)
        return thread

    def holder(self) -> str:
        return str(self._leases.read_namespaced_lease(NAME, self._namespace.name).spec.holder_identity or "")

    def delete(self) -> None:
        self._leases.delete_namespaced_lease(NAME, self._namespace.name)

    def close(self) -> None:
        self.stop.set()
        for job in self._made:
            job.close()


@pytest.fixture
def jobs(control_plane: ControlPlane, namespace: Namespace, tmp_path: Path) -> Iterator[Jobs]:
    made = Jobs(control_plane, namespace, tmp_path)
    yield made
    made.close()


def acts(job: Lease) -> bool:
    try:
        job.may_act()
    except TransientError:
        return False
    return True


def test_a_second_job_waits_for_the_first_one_and_is_there_at_once_when_that_one_ends(jobs: Jobs) -> None:
    first, second = jobs.job(), jobs.job()
    assert first.take(jobs.stop)
    waits = jobs.waiting(second)
    assert second.waits_for.startswith(f"{first.me}, which has Lease {NAME} in namespace ")
    let_pass(2 * LASTS_S)
    assert (acts(first), acts(second), jobs.holder()) == (True, False, first.me), "it is renewed all the while"
    first.close()
    waits.join(10)
    assert (acts(first), acts(second), second.lapsed, jobs.holder()) == (False, True, False, second.me)


def test_a_job_that_stood_still_has_stopped_before_another_one_acts_and_ends_when_it_learns_of_it(jobs: Jobs) -> None:
    first, second = jobs.job(), jobs.job()
    first.take(jobs.stop)
    waits = jobs.waiting(second)
    first._over.set()  # as if its process were stopped: it renews no more, and does not know
    until("the first one has stopped", lambda: not acts(first))
    assert not acts(second)
    waits.join(10)
    assert (acts(second), second.lapsed) == (True, True)
    first.renew()
    assert first.lost


def test_an_outage_of_the_api_ends_what_a_job_may_do_and_its_end_gives_it_back(jobs: Jobs, control_plane: ControlPlane) -> None:
    job = jobs.job()
    job.take(jobs.stop)
    control_plane.kill_api_server()
    try:
        until("it changes nothing any more", lambda: not acts(job), within_s=30)
        with pytest.raises(TransientError, match=r"was not renewed for .* s \(the Kubernetes API does not answer"):
            job.may_act()
    finally:
        control_plane.start_api_server()
    until("it may act again", lambda: acts(job), within_s=30)
    assert (job.lost, jobs.holder()) == (False, job.me)


def test_a_lease_that_is_taken_away_or_deleted_is_acted_under_no_more(jobs: Jobs, namespace: Namespace) -> None:
    job = jobs.job()
    job.take(jobs.stop)
    jobs.delete()
    until("it may not act", lambda: not acts(job))
    client.CoordinationV1Api(namespace.core.api_client).create_namespaced_lease(namespace.name, LEASE)
    assert until("it ends", jobs.stop.is_set)
    assert job.lost


def test_the_rights_that_are_used_are_those_that_the_manifest_grants(
    jobs: Jobs, namespace: Namespace, control_plane: ControlPlane
) -> None:
    namespace.grant(ROLE)
    token = control_plane.token_of(namespace.name, "default")
    job = jobs.job(token)
    assert job.take(jobs.stop)
    job.renew()
    job.close()
    assert jobs.holder() == "", "it was given back"
    (rule,) = ROLE["rules"]
    granted = {("coordination.k8s.io", "leases", verb) for verb in rule["verbs"]}
    assert rule["resourceNames"] == [LEASE["metadata"]["name"]] == [NAME]
    assert until("all are in the log", lambda: control_plane.rights_used(namespace.name), lambda used: used == granted)


def test_without_the_right_or_the_lease_a_job_waits_and_says_what_is_missing(
    jobs: Jobs, namespace: Namespace, control_plane: ControlPlane
) -> None:
    token = control_plane.token_of(namespace.name, "default")
    job = jobs.job(token)
    waits = jobs.waiting(job)
    assert "is forbidden" in job.waits_for
    jobs.delete()
    namespace.grant(ROLE)
    until("it says what to apply", lambda: "apply the manifest that has it" in job.waits_for, within_s=10)
    jobs.stop.set()
    waits.join(10)
    assert not acts(job)


def test_the_job_takes_the_one_in_its_own_namespace(jobs: Jobs, tmp_path: Path) -> None:
    found = json.loads(jobs.access().read_text(encoding="utf-8"))
    found["contexts"][0]["context"]["namespace"] = jobs._namespace.name
    file = tmp_path / "own"
    file.write_text(json.dumps(found), encoding="utf-8")
    job = of_job(Kubernetes(lease=NAME, kubeconfig=str(file)), NAME, SystemClock())
    try:
        assert job.take(jobs.stop)
        assert jobs.holder() == job.me
    finally:
        job.close()


def test_a_number_of_replicas_is_not_set_by_a_job_without_its_lease(jobs: Jobs, namespace: Namespace, tmp_path: Path) -> None:
    namespace.deployment("bills", 0)
    settings = {
        "kind": "scale",
        "target": "apps/v1/Deployment/bills",
        "namespace": namespace.name,
        "kubeconfig": str(jobs.access()),
    }
    job = jobs.job()
    place = registry.Place(group="g", directory=tmp_path, environment={}, clock=SystemClock(), may_act=job.may_act)
    pool = registry.pool_of(Workers.model_validate(settings), place)

    def said() -> str:
        try:
            pool.observe()
            pool.apply(frozenset({0}), expected=frozenset(), releasable=frozenset())
        except TransientError as e:
            return str(e)
        return ""

    until("it is refused", said, lambda text: "is not this job's" in text)
    assert not namespace.apps.read_namespaced_deployment("bills", namespace.name).spec.replicas
    job.take(jobs.stop)
    until(
        "it is set",
        lambda: said() or namespace.apps.read_namespaced_deployment("bills", namespace.name).spec.replicas,
        lambda n: n == 1,
    )
    pool.close()


def test_a_pool_of_a_job_without_its_lease_writes_nothing(
    jobs: Jobs, control_plane: ControlPlane, nodes: tuple[Kubelet, ...], namespace: Namespace, tmp_path: Path
) -> None:
    world = PodWorld(control_plane, nodes, namespace, tmp_path)
    world.deployment()
    job = jobs.job()
    pool = world.made(may_act=job.may_act)
    until("the Deployment was heard of", pool.observe, passing=TransientError)
    with pytest.raises(TransientError, match="is not this job's"):
        pool.apply(frozenset({0}), expected=frozenset(), releasable=frozenset())
    assert world.replicas() == 0
    namespace.scale("orders", 1)
    until("the pod was heard of", lambda: len(pool._pods.now) == 1)
    assert not world.pods(), "and it was given no slot"
    job.take(jobs.stop)
    pool.apply(frozenset({0}), expected=frozenset(), releasable=frozenset())
    assert until("the pod has its slot", world.pods).keys() == {0}
    world.close()
