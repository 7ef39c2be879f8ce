"""What the pool of pods reads of the API's JSON, and which steps it takes; on a real API server: ``tests/kubernetes``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.adapters.workers.pods.deployment import read_deployment
from autoscaler.adapters.workers.pods.pod import COST, DOOMED, SLOT, Pod, belongs, last_end, read_pod
from autoscaler.adapters.workers.pods.replicas import MANAGER, scalers
from autoscaler.adapters.workers.pods.steps import Steps, next_steps
from autoscaler.model import Hindrance

NONE: frozenset[int] = frozenset()


def pod(
    name: str, slot: int | None = None, *, runs: bool = True, ready: bool = True, doomed: bool = False, template: str = "a"
) -> Pod:
    rank = (1, 2, int(ready)) if runs else (0, 0, 0)
    return Pod(
        name=name, uid=f"uid-{name}", slot=slot, created="", template=template, rank=rank, started=runs, runs=runs,
        ready=ready and runs, ending=False, over=False, proven=False, doomed=doomed, restarts=0, hindered=None,
    )  # fmt: skip


def steps(*pods: Pod, replicas: int | None = None, requested: set[int], releasable: set[int] | frozenset[int] = NONE) -> Steps:
    count = len(pods) if replicas is None else replicas
    return next_steps(pods, replicas=count, requested=frozenset(requested), releasable=frozenset(releasable))


# --- which pod goes where ---


def test_what_is_as_it_should_be_is_left_alone() -> None:
    assert steps(pod("a", 0), pod("b", 1), requested={0, 1}) == Steps()


def test_more_slots_are_more_pods() -> None:
    assert steps(pod("a", 0), requested={0, 1, 7}) == Steps(replicas=3)


def test_new_pods_fill_the_missing_slots_by_their_age() -> None:
    assert steps(pod("a", 0), pod("b"), pod("c"), requested={0, 5, 3}) == Steps(slots={"uid-b": 3, "uid-c": 5})


def test_a_victim_is_marked_first_and_goes_once_the_mark_is_seen() -> None:
    marked = steps(pod("a", 0), pod("b", 1), requested={0}, releasable={1})
    assert ([p.name for p in marked.doom], marked.replicas) == (["b"], None)
    gone = steps(pod("a", 0), pod("b", 1, doomed=True), requested={0}, releasable={1})
    assert ([p.name for p in gone.leaving], gone.replicas) == (["b"], 1)


def test_what_holds_something_stays_although_it_is_not_requested() -> None:
    assert steps(pod("a", 0), pod("b", 1), requested={0}) == Steps()


def test_what_does_not_run_holds_nothing() -> None:
    assert [p.name for p in steps(pod("a", 0), pod("b", 1, runs=False), requested={0}).doom] == ["b"]


@pytest.mark.parametrize("slot", [0, 5])
def test_nothing_goes_while_one_that_stays_would_be_taken_first(slot: int) -> None:
    """Whether it is requested, or holds something still."""
    found = steps(pod("a", slot, ready=False), pod("b", 1, doomed=True), pod("c", 2), requested={slot, 2} - {5}, releasable={1})
    assert found.replicas is None
    assert found.kept == "pod a is not ready and would be taken first"


def test_nothing_goes_while_pods_of_two_templates_are_there() -> None:
    found = steps(pod("a", 0, template="b"), pod("b", 1, doomed=True), requested={0}, releasable={1})
    assert (found.replicas, found.kept) == (None, "its Deployment is being updated")


def test_one_that_would_go_fills_a_missing_slot_instead() -> None:
    found = steps(pod("a", 0), pod("b", 1, doomed=True), requested={0, 2}, releasable={1})
    assert (dict(found.slots), [p.name for p in found.spare], found.replicas) == ({"uid-b": 2}, ["b"], None)


def test_one_that_would_go_takes_over_from_one_that_does_not_run() -> None:
    found = steps(pod("a", 0), pod("b", 1), pod("c", 2, runs=False), requested={0, 2}, releasable={1})
    assert dict(found.slots) == {"uid-b": 2, "uid-c": None}
    assert [p.name for p in found.doom] == ["c"]


def test_of_two_pods_with_one_slot_the_older_one_keeps_it() -> None:
    young = replace(pod("a", 0), created="2")
    assert dict(steps(young, pod("b", 0), requested={0, 1}).slots) == {"uid-a": 1}


def test_a_number_that_is_too_large_is_lowered_at_once_where_no_pod_has_been_made() -> None:
    assert steps(pod("a", 0), replicas=3, requested={0}) == Steps(replicas=1)


# --- played against a Deployment ---


@dataclass
class Cluster:
    """A Deployment with its ReplicaSet: makes pods, which come up or do not, and gives them up in the order of Kubernetes."""

    broken: frozenset[int]  # pods, by the number of their making, that never run
    replicas: int = 0
    pods: dict[str, Pod] = field(default_factory=dict)
    made: int = 0
    wronged: list[str] = field(default_factory=list)  # went although others were to

    def cycle(self, requested: frozenset[int], releasable: frozenset[int]) -> None:
        found = next_steps(tuple(self.pods.values()), replicas=self.replicas, requested=requested, releasable=releasable)
        assert not {p.slot for p in found.leaving if p.runs} - releasable - {None}
        for uid, slot in found.slots.items():
            self.pods[uid] = replace(self.pods[uid], slot=slot)
        for marks, doomed in ((found.doom, True), (found.spare, False)):
            self.pods |= {p.uid: replace(self.pods[p.uid], doomed=doomed) for p in marks}
        self.replicas = self.replicas if found.replicas is None else found.replicas
        while len(self.pods) > self.replicas:
            first = min(self.pods.values(), key=lambda p: (p.rank, not p.doomed, p.name))
            if first.uid not in {p.uid for p in found.leaving}:
                self.wronged.append(first.name)
            del self.pods[first.uid]
        self.pods = {u: p if p.runs or self._broken(p) else pod(p.name, p.slot, doomed=p.doomed) for u, p in self.pods.items()}
        while len(self.pods) < self.replicas:
            new = pod(f"p{self.made:03}", runs=False)
            self.pods[new.uid], self.made = new, self.made + 1

    def _broken(self, found: Pod) -> bool:
        return int(found.name[1:]) in self.broken


@given(
    wishes=st.lists(st.tuples(st.frozensets(st.integers(0, 6)), st.frozensets(st.integers(0, 6))), min_size=1, max_size=6),
    broken=st.frozensets(st.integers(0, 20), max_size=4),
)
def test_whatever_is_asked_for_only_those_go_that_were_to_and_all_comes_to_rest(
    wishes: list[tuple[frozenset[int], frozenset[int]]], broken: frozenset[int]
) -> None:
    cluster = Cluster(broken)
    for requested, holding in wishes:
        for _ in range(12):
            cluster.cycle(requested, frozenset(range(7)) - holding - requested)
        there = {p.slot: p for p in cluster.pods.values()}
        assert requested <= there.keys(), "each has a pod"
        assert {s for s, p in there.items() if p.runs} <= requested | holding, "nobody else runs"
        assert cluster.replicas == len(cluster.pods) == len(there)
    assert not cluster.wronged


# --- what the API says ---


def status(container: Mapping[str, Any] | None = None, phase: str = "Running", **more: object) -> dict[str, Any]:
    named = {"name": "w", "restartCount": 0, **(container or {})}
    return {"phase": phase, "containerStatuses": [named] if container is not None else [], **more}


def found(status: Mapping[str, Any], **about: object) -> dict[str, Any]:
    environment = [{"name": "AUTOSCALER_WORKER_NAME", "value": "x"}]
    spec = {"nodeName": "n", "containers": [{"name": "side"}, {"name": "w", "env": environment}]}
    return {"metadata": {"name": "p", "uid": "u", **about}, "spec": spec, "status": status}


RUNNING: dict[str, Any] = {"state": {"running": {}}}
READY = [{"type": "Ready", "status": "True"}]
ENDED = {"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}


def waiting(reason: str, **more: str) -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason, **more}}}


@pytest.mark.parametrize(
    ("seen", "expected", "said"),
    [
        (status(RUNNING, conditions=READY), None, ""),
        (
            status(RUNNING, conditions=[{"type": "Ready", "status": "False", "message": "containers with unready status: [w]"}]),
            Hindrance.UNREADY,
            "containers with unready status: [w]",
        ),
        (status(phase="Pending"), Hindrance.PENDING, ""),
        (
            status(phase="Pending", conditions=[{"type": "PodScheduled", "reason": "Unschedulable", "message": "0/2 nodes"}]),
            Hindrance.UNSCHEDULABLE,
            "0/2 nodes",
        ),
        (
            status(waiting("CreateContainerConfigError", message='secret "s" not found'), "Pending"),
            Hindrance.CONFIGURATION,
            'secret "s" not found',
        ),
        (
            status({**waiting("CrashLoopBackOff", message="back-off 5m0s"), "lastState": ENDED["state"]}),
            Hindrance.CRASH_LOOP,
            "back-off 5m0s; Error (exit code 1)",
        ),
        (
            status({
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
            }),
            Hindrance.OUT_OF_MEMORY,
            "CrashLoopBackOff; OOMKilled (exit code 137)",
        ),
        (status(ENDED), Hindrance.ENDED, "Error (exit code 1)"),
        (status(ENDED, "Failed", reason="Evicted", message="low on memory"), Hindrance.EVICTED, "low on memory"),
        (status(ENDED, "Failed"), Hindrance.ENDED, "Error (exit code 1)"),
    ],
)  # fmt: skip
def test_what_keeps_a_pod_from_running_is_told_apart(seen: dict[str, Any], expected: Hindrance | None, said: str) -> None:
    hindered = read_pod(found(seen)).hindered
    assert (hindered.why if hindered else None) is expected
    assert (hindered.said if hindered else "") == said


@pytest.mark.parametrize(
    ("reason", "expected"), [("DeletionByTaintManager", Hindrance.NODE_LOST), ("EvictionByEvictionAPI", Hindrance.TERMINATING)]
)
def test_why_a_pod_is_told_to_end_is_told_apart(reason: str, expected: Hindrance) -> None:
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "why"}
    seen = read_pod(found(status(RUNNING, conditions=[*READY, disrupted]), deletionTimestamp="2026-01-01T00:00:00Z"))
    assert seen.hindered is not None
    assert (seen.hindered.why, seen.hindered.said, seen.lives) == (expected, "why", False)


@pytest.mark.parametrize(
    ("seen", "proven"),
    [
        (status(ENDED, "Failed"), True),
        (status(ENDED, "Succeeded"), True),
        (status(RUNNING, "Failed"), False),  # as the collector of pods leaves one whose node is gone
        (status(None, "Failed"), False),
        (status(ENDED, "Running"), False),  # it is started again
        (status(ENDED, "Failed", initContainerStatuses=[{"name": "i", "state": {"running": {}}}]), False),
    ],
)
def test_only_containers_that_were_seen_to_end_are_evidence(seen: dict[str, Any], proven: bool) -> None:  # noqa: FBT001
    assert read_pod(found(seen)).proven is proven


@pytest.mark.parametrize(
    ("note", "slot"), [("0", 0), ("12", 12), ("", None), ("-1", None), ("x", None), ("1" * 11, None), ("²", None)]
)
def test_a_slot_is_read_from_an_annotation_that_anybody_may_write(note: str, slot: int | None) -> None:
    assert read_pod(found(status(RUNNING), annotations={SLOT: note})).slot == slot


def test_the_container_with_the_workers_name_is_the_worker() -> None:
    statuses = [{"name": "side", "restartCount": 9, **RUNNING}, {"name": "w", "restartCount": 2, **ENDED}]
    seen = found({"phase": "Running", "containerStatuses": statuses}, annotations={COST: DOOMED})
    assert (read_pod(seen).restarts, read_pod(seen).runs, read_pod(seen).doomed) == (2, False, True)
    assert last_end(seen) == "Error (exit code 1)"
    assert not last_end(found(status(RUNNING)))


@pytest.mark.parametrize(
    ("owner", "ours"),
    [
        ({"kind": "ReplicaSet", "name": "d-77", "controller": True}, True),
        ({"kind": "ReplicaSet", "name": "d-x-77", "controller": True}, False),
        ({"kind": "StatefulSet", "name": "d-77", "controller": True}, False),
        ({"kind": "ReplicaSet", "name": "d-77"}, False),
    ],
)
def test_a_pod_belongs_to_the_deployment_whose_replica_set_made_it(owner: dict[str, Any], ours: bool) -> None:  # noqa: FBT001
    assert belongs(found(status(RUNNING), labels={"pod-template-hash": "77"}, ownerReferences=[owner]), "d") is ours


def deployment(
    *, env: list[dict[str, Any]] | None = None, status: dict[str, Any] | None = None, managed: Sequence[Mapping[str, object]] = ()
) -> dict[str, Any]:
    known = [
        {"name": "AUTOSCALER_WORKER_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "AUTOSCALER_INSTANCE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
    ]
    rules = [
        {"key": "tier", "operator": "In", "values": ["b", "a"]}, {"key": "old", "operator": "DoesNotExist"},
        {"key": "kind", "operator": "NotIn", "values": ["x"]}, {"key": "new", "operator": "Exists"},
    ]  # fmt: skip
    spec = {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "d"}, "matchExpressions": rules},
        "template": {"spec": {"containers": [{"name": "w", "env": known if env is None else env}]}},
    }
    return {"metadata": {"name": "d", "uid": "u", "managedFields": list(managed)}, "spec": spec, "status": status or {}}


def test_a_deployment_tells_its_pods_and_who_has_set_their_number() -> None:
    fields: dict[str, object] = {"fieldsV1": {"f:spec": {"f:replicas": {}}}}
    managed: list[dict[str, object]] = [
        {"manager": "helm", "time": "T1", **fields}, {"manager": MANAGER, "time": "T2", **fields},
        {"manager": "kubectl", "time": "T3", "fieldsV1": {"f:spec": {"f:template": {}}}},
    ]  # fmt: skip
    seen = read_deployment(deployment(managed=managed), "g")
    assert (seen.replicas, seen.ours, seen.writers, seen.wrong) == (3, True, ("helm at T1",), ())
    assert seen.selector == "app=d,tier in (a,b),!old,kind notin (x),new"


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ([], "AUTOSCALER_WORKER_NAME must be the pod's own metadata.name"),
        ([{"name": "AUTOSCALER_WORKER_NAME", "value": "x"}], "AUTOSCALER_WORKER_NAME must be the pod's own metadata.name"),
        ([{"name": "AUTOSCALER_GROUP", "value": "h"}], "AUTOSCALER_GROUP is 'h' and must be 'g'"),
    ],
)
def test_what_a_worker_would_lack_is_said(environment: list[dict[str, Any]], said: str) -> None:
    assert any(x.startswith(said) for x in read_deployment(deployment(env=environment), "g").wrong)


@pytest.mark.parametrize(
    ("message", "why"),
    [('pods "d-1" is forbidden: exceeded quota: few', Hindrance.QUOTA), ("denied by a webhook", Hindrance.REFUSED)],
)
def test_why_no_pod_could_be_made_is_told_apart(message: str, why: Hindrance) -> None:
    failed = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
    refused = read_deployment(deployment(status={"conditions": [failed]}), "g").refused
    assert refused is not None
    assert (refused.why, refused.said) == (why, message)


def test_autoscalers_of_other_deployments_do_not_matter() -> None:
    def scaler(name: str, kind: str, target: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"scaleTargetRef": {"kind": kind, "name": target}}}

    listed = [scaler("a", "Deployment", "e"), scaler("b", "StatefulSet", "d"), scaler("c", "Deployment", "d")]
    assert scalers(listed, "Deployment", "d") == ("HorizontalPodAutoscaler c",)
