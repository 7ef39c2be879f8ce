"""Workers as pods of a Deployment, on a real API server with real controllers."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from autoscaler.adapters.workers.pods.pod import COST, DOOMED
from autoscaler.errors import PermanentError, TransientError
from autoscaler.model import Hindrance
from autoscaler.ports import PoolState
from tests.contracts.pool_contract import NOBODY, PoolContract, call, end, look, run, slots
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.namespace import Namespace, field
from tests.kubernetes.pool_world import NAME, PodWorld, role_of_the_page
from tests.until import throughout, until

SERVES = 'touch ok; exec python3 -m http.server --bind "$ADDRESS" 8080'


def why(state: PoolState, slot: int) -> Hindrance | None:
    """Return what keeps a slot from running."""
    return state.hindered[slot].why if slot in state.hindered else None


def refused(ask: Callable[[], object]) -> str | None:
    """Return what the pool says that keeps it from doing what it is asked; ``None`` if nothing does, or it has not heard yet."""
    try:
        ask()
    except (TransientError, PermanentError) as e:
        return None if "not been heard of" in str(e) else str(e)
    return None


def called(world: PodWorld, *numbers: int) -> PoolState:
    """Ask for these slots although it is refused, and look."""
    state = look(world)
    with suppress(TransientError, PermanentError):
        world.pool.apply(slots(*numbers), expected=frozenset(state.running), releasable=NOBODY)
    return world.pool.observe()


def run_if_known(world: PodWorld) -> PoolState | None:
    """Ask for one consumer; ``None`` while the pool knows of no Deployment."""
    try:
        return call(world, 0)
    except PermanentError:
        return None


@pytest.fixture
def bare(control_plane: ControlPlane, nodes: tuple[Kubelet, ...], namespace: Namespace, tmp_path: Path) -> Iterator[PodWorld]:
    """Without a Deployment."""
    made = PodWorld(control_plane, nodes, namespace, tmp_path)
    yield made
    made.close()


@pytest.fixture
def world(bare: PodWorld) -> PodWorld:
    """With a Deployment of no pods."""
    bare.deployment()
    return bare


class TestContract(PoolContract):
    """As for processes."""


# --- who goes, and who stays ---


@pytest.mark.parametrize("victim", [0, 2, 4])
def test_the_chosen_one_goes_whichever_it_is(world: PodWorld, victim: int) -> None:
    before = run(world, *range(5))
    state = end(world, *({*range(5)} - {victim}), releasable=slots(victim))
    assert state.running == {s: uid for s, uid in before.running.items() if s != victim}
    assert state.ended == {before.running[victim]}
    assert not state.hindered
    assert world.replicas() == 4


def test_several_go_at_once_and_a_part_of_them_is_not_waited_for(world: PodWorld) -> None:
    before = run(world, *range(6))
    state = end(world, 1, 4, releasable=slots(0, 2, 3, 5))
    assert state.running == {s: before.running[s] for s in (1, 4)}
    assert world.replicas() == 2


def test_the_number_is_lowered_only_after_the_mark_was_seen(world: PodWorld) -> None:
    run(world, 0, 1)
    call(world, 0, releasable=slots(1))
    assert world.replicas() == 2
    assert world.pods()[1].metadata.annotations[COST] == DOOMED


def test_one_that_is_wanted_again_before_it_goes_stays(world: PodWorld) -> None:
    before = run(world, 0, 1)
    call(world, 0, releasable=slots(1))
    assert run(world, 0, 1) == before
    until("the mark is gone", lambda: (call(world, 0, 1), COST in world.pods()[1].metadata.annotations), lambda seen: not seen[1])
    assert world.replicas() == 2


def test_one_that_is_wanted_again_after_the_number_was_lowered_runs_whether_it_went_or_not(world: PodWorld) -> None:
    run(world, 0, 1)
    with world.control_plane.frozen("kube-controller-manager"):
        until("it is lowered", lambda: (call(world, 0, releasable=slots(1)), world.replicas()), lambda seen: seen[1] == 1)
        until("it is raised", lambda: (call(world, 0, 1), world.replicas()), lambda seen: seen[1] == 2)
    run(world, 0, 1)


def test_while_one_that_stays_is_not_ready_nothing_goes_and_it_is_said(bare: PodWorld) -> None:
    """A ReplicaSet takes pods that are not ready first, whatever they cost."""
    address, probe = [field("ADDRESS", "status.podIP")], {"httpGet": {"path": "/ok", "port": 8080}, "periodSeconds": 1}
    bare.deployment(image="shell", args=[SERVES], readiness=probe, environment=address)
    before = run(bare, 0, 1, 2)
    ready = bare.directory_of(before.running[1]) / "ok"
    ready.unlink()
    until("1 is not ready", lambda: why(bare.pool.observe(), 1), lambda w: w is Hindrance.UNREADY)
    state = call(bare, 0, 1, releasable=slots(2))
    assert why(state, 2) is Hindrance.KEPT
    assert bare.name_of(1) in state.hindered[2].said
    throughout("nothing goes", lambda: call(bare, 0, 1, releasable=slots(2)), lambda s: s.running == before.running, for_s=1)
    ready.touch()
    assert end(bare, 0, 1, releasable=slots(2)).ended == {before.running[2]}


def test_one_that_would_go_takes_the_place_of_one_that_does_not_run(bare: PodWorld) -> None:
    bare.deployment(resources={"requests": {"cpu": "20"}})  # two nodes of 32 take one each
    before = run(bare, 0, 1)
    until("2 has no node", lambda: why(call(bare, 0, 1, 2), 2), lambda w: w is Hindrance.UNSCHEDULABLE)
    state = until(
        "1 is 2 now",
        lambda: call(bare, 0, 2, releasable=slots(1)),
        lambda s: s.running == {0: before.running[0], 2: before.running[1]} and not s.hindered,
    )
    assert not state.ended
    until("the other one has gone", lambda: (call(bare, 0, 2), len(bare.namespace.pods())), lambda seen: seen[1] == 2)
    assert bare.replicas() == 2


def test_another_one_that_went_is_said_and_is_a_loss(world: PodWorld, caplog: pytest.LogCaptureFixture) -> None:
    """Another writer changes the costs between what the pool has heard and what the ReplicaSet does."""
    before = run(world, 0, 1, 2)
    call(world, 0, 1, releasable=slots(2))
    until("the mark is heard", lambda: [p.slot for p in world.pool._pods.now.values() if p.doomed], lambda found: found == [2])
    heard = world.deaf()
    world.cost(1, "-5")
    world.cost(2, "5")
    world.pool.apply(slots(0, 1), expected=slots(0, 1, 2), releasable=slots(2))
    until("1 has gone", lambda: sorted(world.pods()), lambda found: found == [0, 2])
    world.hears(heard)
    taken = until("it is heard", world.pool.observe, lambda s: before.running[1] in s.ended)
    assert why(taken, 1) is Hindrance.TAKEN
    assert "the platform ended another pod than it was to" in caplog.text
    state = until(
        "2 is 1 now",
        lambda: call(world, 0, 1, releasable=slots(2)),
        lambda s: s.running == {0: before.running[0], 1: before.running[2]},
    )
    assert state.ended == {before.running[1]}


def test_in_a_rollout_every_slot_gets_a_new_pod_and_the_number_is_not_lowered(world: PodWorld) -> None:
    before = run(world, 0, 1, 2)
    world.roll_out()
    seen = until(
        "all are new",
        lambda: call(world, 0, 1, releasable=slots(2)),
        lambda s: set(s.running) == {0, 1} and not set(s.running.values()) & set(before.running.values()) and not s.hindered,
    )
    assert seen.running
    until("the old ones have ended", world.pool.observe, lambda s: set(before.running.values()) <= s.ended)
    until("two pods are left", lambda: (call(world, 0, 1), len(world.namespace.pods())), lambda found: found[1] == 2)
    assert world.replicas() == 2


# --- who finds what ---


def test_a_restarted_controller_finds_every_slot(world: PodWorld) -> None:
    before = run(world, 0, 3, 7)
    world.restart()
    state = look(world)
    assert state.running == before.running
    assert [world.pool.slot_of(world.name_of(s)) for s in (0, 3, 7)] == [0, 3, 7]
    assert run(world, 0, 3, 7).running == before.running


def test_who_only_asks_for_names_hears_of_them(world: PodWorld) -> None:
    """As of a group that is set back to advise."""
    run(world, 0, 3)
    name, other = world.name_of(3), world.made()
    until("it is heard", lambda: other.slot_of(name) == 3)


def test_a_new_pod_has_its_slot_without_another_call(world: PodWorld) -> None:
    look(world)
    world.pool.apply(slots(0, 1, 4), expected=NOBODY, releasable=NOBODY)
    until("they run", world.pool.observe, lambda s: set(s.running) == {0, 1, 4})
    assert len(world.pods()) == 3


def test_pods_that_were_there_before_are_taken_over(bare: PodWorld) -> None:
    bare.deployment(3)
    there = {p.metadata.uid for p in bare.namespace.until_ready(3).values()}
    assert look(bare).running == {}, "no plan has asked for any"
    state = run(bare, 0, 1)
    assert set(state.running.values()) < there
    state = end(bare, 0, 1, releasable=NOBODY)
    until("two pods are left", lambda: (call(bare, 0, 1), len(bare.namespace.pods())), lambda seen: seen[1] == 2)
    assert bare.replicas() == 2


def test_a_pod_of_the_same_labels_that_is_none_of_the_deployments_is_left_alone(world: PodWorld) -> None:
    run(world, 0)
    world.namespace.stateful_set("other", 1)
    until("it is there", lambda: "other-0" in world.namespace.pods())
    world.namespace.core.patch_namespaced_pod("other-0", world.namespace.name, {"metadata": {"labels": {"app": NAME}}})
    throughout("it has no slot", lambda: call(world, 0), lambda s: set(s.running) == {0}, for_s=0.5)
    assert world.pool.slot_of("other-0") is None


# --- what is not evidence ---


def test_a_pod_deleted_by_force_is_replaced_and_is_no_evidence(world: PodWorld) -> None:
    before = run(world, 0, 1)
    now = client.V1DeleteOptions(grace_period_seconds=0)
    world.namespace.core.delete_namespaced_pod(world.name_of(1), world.namespace.name, body=now)
    again = until("another one runs", lambda: call(world, 0, 1), lambda s: s.running.get(1) not in {None, before.running[1]})
    assert again.ended == frozenset(), "its process may live on"


def test_a_lost_node_is_told_and_is_no_evidence_until_it_is_back(world: PodWorld) -> None:
    before = run(world, 0, 1, 2, 3)
    node = world.nodes[0]
    lost = sorted(s for s, uid in before.running.items() if node.process_of(uid))
    node.cut()
    try:
        moved = until(
            "others run",
            lambda: call(world, 0, 1, 2, 3),
            lambda s: all(s.running.get(x) not in {None, before.running[x]} for x in lost) and len(s.running) == 4,
        )
        assert not moved.ended
        assert lost
    finally:
        node.heal()
    gone = {before.running[s] for s in lost}
    until("they are seen to end", lambda: world.pool.observe().ended, lambda ended: ended == gone)


# --- why one does not run ---


@pytest.mark.parametrize(
    ("made", "expected", "said"),
    [
        ({"image": "missing:1"}, Hindrance.IMAGE, "missing:1"),
        ({"image": "shell", "args": ["exit 3"]}, Hindrance.CRASH_LOOP, "exit code 3"),
        ({"resources": {"requests": {"cpu": "1000"}}}, Hindrance.UNSCHEDULABLE, "Insufficient cpu"),
        ({"readiness": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}}, Hindrance.UNREADY, ""),
        ({"serviceAccountName": "nobody"}, Hindrance.REFUSED, "nobody"),
    ],
)
def test_why_one_does_not_come_is_told_apart(bare: PodWorld, made: dict[str, Any], expected: Hindrance, said: str) -> None:
    bare.deployment(**made)
    state = until(str(expected), lambda: call(bare, 0), lambda s: why(s, 0) is expected)
    assert said in state.hindered[0].said


def test_a_quota_that_is_used_up_is_told_with_what_it_is(world: PodWorld) -> None:
    few = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}}
    world.namespace.core.create_namespaced_resource_quota(world.namespace.name, few)
    counted = {"status": {"hard": {"pods": "2"}, "used": {"pods": "0"}}}  # as the controller does that is not among these
    world.namespace.core.patch_namespaced_resource_quota_status("few", world.namespace.name, counted)
    until("two run", lambda: call(world, 0, 1, 2), lambda s: set(s.running) == {0, 1})
    state = until("the third is told", lambda: call(world, 0, 1, 2), lambda s: why(s, 2) is Hindrance.QUOTA)
    assert "pods=2" in state.hindered[2].said


def test_a_container_out_of_memory_is_told_while_it_is_tried_again(world: PodWorld, caplog: pytest.LogCaptureFixture) -> None:
    uid = run(world, 0).running[0]
    node = next(n for n in world.nodes if n.process_of(uid))
    node.kill_for_memory(uid)
    until("it is said", lambda: "OOMKilled (exit code 137)" in caplog.text)
    assert run(world, 0).running == {0: uid}


# --- who else writes, and who may not ---


@pytest.mark.parametrize("owner", [None, "ScaledObject"])
def test_an_autoscaler_of_the_same_deployment_is_refused_by_its_name(bare: PodWorld, owner: str | None) -> None:
    bare.autoscaler("busy", owner)
    bare.deployment(1)
    until("seen", lambda: look(bare))
    with pytest.raises(PermanentError, match="HorizontalPodAutoscaler busy" + (" of ScaledObject queue" if owner else "")):
        bare.pool.apply(slots(0, 1), expected=NOBODY, releasable=NOBODY)
    assert bare.replicas() == 1


def test_beside_an_autoscaler_a_pod_that_takes_the_place_of_another_one_is_a_consumer(world: PodWorld) -> None:
    before = run(world, 0, 1)
    world.autoscaler("busy", None)
    world.restart()
    world.kill(1)
    state = until("it is replaced", lambda: called(world, 0, 1), lambda s: s.running.get(1) not in {None, before.running[1]})
    assert state.running[0] == before.running[0]


def test_another_writer_of_the_number_is_refused_by_its_name_until_the_number_is_as_it_was(world: PodWorld) -> None:
    run(world, 0, 1)
    body = {"spec": {"replicas": 5}}
    world.namespace.apps.patch_namespaced_deployment_scale(NAME, world.namespace.name, body, field_manager="gitops")
    said = until("it is refused", lambda: refused(lambda: call(world, 0, 1)))
    assert said.startswith("gitops at ")
    assert "to 5, where this controller had set 2" in said
    assert world.replicas() == 5
    world.namespace.scale(NAME, 2)
    until("it goes on", lambda: call(world, 0, 1, 2), lambda s: {0, 1, 2} <= set(s.running), passing=PermanentError)


def test_a_number_that_changes_in_between_is_not_overwritten(world: PodWorld) -> None:
    run(world, 0)
    world.pool._deployment.wrote(7)  # as if another one had written since the last look
    with pytest.raises(TransientError, match="is not 7 any more"):
        world.pool.apply(frozenset(range(9)), expected=slots(0), releasable=NOBODY)
    assert world.replicas() == 1


def test_a_deployment_that_is_not_there_is_named_and_found_when_it_comes(bare: PodWorld) -> None:
    said = until("it is missed", lambda: refused(bare.pool.observe))
    assert said.startswith(f"there is no Deployment {NAME} in namespace {bare.namespace.name}: create it")
    bare.deployment(1)
    until("it is found", lambda: run_if_known(bare), lambda s: s is not None and set(s.running) == {0})


def test_a_deployment_that_is_deleted_and_made_anew_is_scaled_again(world: PodWorld) -> None:
    before = run(world, 0, 1)
    world.namespace.apps.delete_namespaced_deployment(NAME, world.namespace.name)
    assert "there is no Deployment" in until("it is missed", lambda: refused(lambda: call(world, 0, 1)))
    assert "there is no Deployment" not in str(world.pool.observe()), "what was known is shown"
    world.deployment()
    after = until("it goes on", lambda: call(world, 0, 1), lambda s: set(s.running) == {0, 1}, passing=PermanentError)
    until("all are new", lambda: call(world, 0, 1), lambda s: not set(s.running.values()) & set(before.running.values()))
    assert after


def test_a_template_that_does_not_tell_pods_their_names_is_refused(world: PodWorld) -> None:
    world.namespace.deployment("plain", 1)
    pool = world.made(deployment="plain")
    until("seen", pool.observe, passing=TransientError)
    with pytest.raises(PermanentError, match=r"AUTOSCALER_WORKER_NAME must be the pod's own metadata\.name"):
        pool.apply(slots(0), expected=NOBODY, releasable=NOBODY)


def test_without_a_right_it_is_said_which_one_and_granting_it_is_enough(world: PodWorld) -> None:
    pool = world.made(world.control_plane.token_of(world.namespace.name, "default"))
    said = until("it is refused", lambda: refused(pool.observe))
    assert 'cannot list resource "deployments"' in said
    assert "docs/tasks/kubernetes.md" in said
    world.grant(role_of_the_page())
    until("it goes on", pool.observe, passing=(TransientError, PermanentError))


def test_the_rights_that_are_used_are_those_that_the_page_grants(world: PodWorld) -> None:
    role = role_of_the_page()
    world.grant(role)
    world.pool.close()
    world.pool = world.made(world.control_plane.token_of(world.namespace.name, "default"))
    run(world, 0, 1, 2)
    end(world, 0, releasable=slots(1, 2))
    granted = {(g, r, v) for x in role["rules"] for g in x["apiGroups"] for r in x["resources"] for v in x["verbs"]}
    assert until("all are in the log", world.rights_used, lambda used: used == granted)


def test_without_the_right_to_see_autoscalers_it_goes_on_and_says_so_once(
    world: PodWorld, caplog: pytest.LogCaptureFixture
) -> None:
    role = role_of_the_page()
    world.grant({"rules": [rule for rule in role["rules"] if "autoscaling" not in rule["apiGroups"]]})
    world.pool = world.made(world.control_plane.token_of(world.namespace.name, "default"))
    run(world, 0, 1)
    said = [r.getMessage() for r in caplog.records if "autoscaler sets its number" in r.getMessage()]
    assert len(said) == 1
    assert 'cannot list resource "horizontalpodautoscalers"' in said[0]


# --- outages ---


def test_while_the_api_server_is_away_what_was_known_stays_and_nothing_is_written(world: PodWorld) -> None:
    before = run(world, 0, 1)
    world.control_plane.kill_api_server()
    try:
        with pytest.raises(TransientError, match="Kubernetes API"):
            until(
                "it is noticed", lambda: world.pool.apply(slots(0, 1, 2), expected=frozenset(before.running), releasable=NOBODY)
            )
        assert world.pool.observe().running == before.running
    finally:
        world.control_plane.start_api_server()
    after = run(world, 0, 1, 2)
    assert {s: after.running[s] for s in (0, 1)} == before.running


def test_what_the_api_server_has_forgotten_is_listed_anew(world: PodWorld, caplog: pytest.LogCaptureFixture) -> None:
    run(world, 0)
    world.deaf()
    world.hears("1")
    assert set(run(world, 0, 1).running) == {0, 1}
    assert not [r for r in caplog.records if r.levelname == "ERROR"]


def test_in_a_quiet_loop_nothing_is_asked(world: PodWorld) -> None:
    run(world, 0, 1)
    before = len(world.asked())
    throughout("it is quiet", lambda: call(world, 0, 1), for_s=3)
    assert len(world.asked()) == before, "both watches go on, and nothing is polled"


def test_a_token_that_is_over_is_read_again(world: PodWorld) -> None:
    world.grant(role_of_the_page())
    pool = world.made("no-token-of-anybody")
    assert "401" in until("it is refused", lambda: refused(pool.observe))
    world.new_token(world.control_plane.token_of(world.namespace.name, "default"))
    until("it goes on", pool.observe, passing=TransientError)
