"""ConsumerGroups on a real API server: they are followed, hold beside the file's groups, and are told what becomes of them."""

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.consumer_groups import writer
from autoscaler.adapters.consumer_groups.watch import ConsumerGroups as Watched
from autoscaler.adapters.kubernetes.api import USER_AGENT
from autoscaler.config.consumer_groups import Beside
from autoscaler.config.hot_reload import FollowedFile
from autoscaler.config.settings import Group, load
from autoscaler.model import AddWorkers
from tests.adapters.audit.audit_cases import calm
from tests.kubernetes.consumer_groups import MANIFESTS, ConsumerGroups, Kind
from tests.kubernetes.control_plane import FORGETFUL, ControlPlane
from tests.kubernetes.namespace import Namespace
from tests.until import throughout, until

SPEC = {"topics": ["orders"], "max_consumers": 8}
ROLE = next(m for m in yaml.safe_load_all((MANIFESTS / "rights.yaml").read_text(encoding="utf-8")) if m["kind"] == "Role")


class World:
    """A job's file with one group, what is declared beside it, and cycles that only look."""

    def __init__(self, control_plane: ControlPlane, namespace: Namespace, directory: Path, token: str | None = None) -> None:
        self.kind, self.resources = Kind(control_plane.connect()), ConsumerGroups(namespace)
        access, path = directory / "kubeconfig", directory / "c.yaml"
        access.write_text(json.dumps(control_plane.kubeconfig(token)), encoding="utf-8")
        kubernetes = {"consumer_groups": namespace.name, "kubeconfig": str(access)}
        settings = {
            "clusters": [{"connection": {"bootstrap.servers": "localhost:9092"}}],
            "state_dir": str(directory / "state"),
            "groups": [{"group": "file", "topics": ["t"]}],
            "kubernetes": kubernetes,
        }
        path.write_text(yaml.safe_dump(settings), encoding="utf-8")
        self.settings = load(path)
        self.file = FollowedFile(path, self.settings)
        self.declared = Watched(self.settings.kubernetes, SystemClock(), refused_s=0.3)
        self.file.beside(Beside(self.declared, SystemClock().monotonic))
        self._groups: Mapping[str, Group] = {"file": self.settings.groups[0]}

    def start(self) -> None:
        self.declared.start()

    def groups(self) -> Mapping[str, Group]:
        """Look as each cycle does, have the job made anew where that is asked for, and return the groups that it looks after."""
        self._groups = {**self._groups, **self.file.look()}
        if self.file.anew is not None:
            self._groups = {g.group: g for g in self.file.made_anew().groups}
        return self._groups

    def until(self, *names: str) -> Mapping[str, Group]:
        return until("the groups as wanted", self.groups, lambda found: set(found) == {"file", *names})

    def decide(self, group: str, **changes: Any) -> None:
        self.declared.take(replace(calm()[0], group=group, **changes))

    def until_told(self, name: str = "orders", **expected: Any) -> Mapping[str, Any]:
        """Wait until a resource's status says so."""
        status = self.resources.status
        return until("its status", lambda: status(name), lambda s: {k: s.get(k) for k in expected} == expected)

    def until_condition(self, kind: str, status: str, reason: str, name: str = "orders") -> str:
        """Wait until a condition is this, and return its message."""

        def seen() -> tuple[Any, Any]:
            self.groups()
            found = self.resources.condition(kind, name)
            return found.get("status"), found.get("reason")

        until(f"{kind} of {name}", seen, lambda found: found == (status, reason))
        return str(self.resources.condition(kind, name)["message"])

    def close(self) -> None:
        self.declared.close()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Let statuses be told at once; how often they are is shown beside the writer."""
    monkeypatch.setattr(writer, "LEAST_S", 0.1)
    caplog.set_level(logging.INFO)


@pytest.fixture
def world(control_plane: ControlPlane, namespace: Namespace, tmp_path: Path) -> Iterator[World]:
    made = World(control_plane, namespace, tmp_path)
    made.kind.install()
    made.start()
    yield made
    made.close()


def test_a_group_is_declared_told_of_changed_and_let_go(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.resources.make(SPEC)
    assert world.until("orders")["orders"].max_consumers == 8
    world.until_condition("Accepted", "True", "Accepted")
    assert world.resources.condition("Ready")["reason"] == "NOT_MEASURED"

    world.decide("orders", consumers_now=3, consumers=4, total_lag_records=1234, mode="act")
    world.until_told(observedGeneration=1, mode="act", consumers=3, wanted=4, lag=1200)
    assert world.resources.row() == ["orders", "act", 3, 4, 1200, "WITHIN_TARGET"]
    world.decide("orders", consumers_now=3, consumers=4, mode="act", actions=(AddWorkers(slots=(3,)),), detail="why")
    (event,) = until("its event", world.resources.events, bool)
    assert (event.type, event.reason, event.message) == ("Normal", "WITHIN_TARGET", "consumers 3 → 4: why")

    world.resources.change({"spec": {"max_consumers": 5}})
    until("the new number holds", lambda: world.groups()["orders"].max_consumers, lambda most: most == 5)
    world.until_told(observedGeneration=2, consumers=3)
    world.resources.change({"metadata": {"annotations": {"autoscaling.keda.sh/paused": "true"}}})
    until("it is held", lambda: world.groups()["orders"].paused, lambda paused: paused == "all")

    world.resources.delete()
    world.until()
    assert "orders is gone: its group is not looked after from here any more, and its consumers stay" in caplog.text


def test_what_an_api_server_cannot_see_is_told_by_a_condition_and_the_others_hold(world: World) -> None:
    world.resources.make({**SPEC, "topics": ["^["]}, "faulty")
    world.resources.make({**SPEC, "group": "file"}, "twice")
    world.resources.make(SPEC)
    world.until("orders")
    assert "is no regular expression" in world.until_condition("Accepted", "False", "Refused", "faulty")
    assert "the configuration file has the group file already" in world.until_condition("Ready", "False", "Refused", "twice")
    world.resources.make({**SPEC, "group": "orders"}, "younger")
    said = world.until_condition("Accepted", "False", "Refused", "younger")
    assert "/orders has the group orders already: delete one of them" in said
    world.resources.delete()
    world.until_condition("Accepted", "True", "Accepted", "younger")
    world.until("orders")


def test_a_resource_that_becomes_faulty_keeps_its_group_as_it_was(world: World) -> None:
    world.resources.make(SPEC)
    world.until("orders")
    world.resources.change({"spec": {"topics": ["^["]}})
    assert "goes on with the settings before" in world.until_condition("Accepted", "False", "Refused")
    assert world.groups()["orders"].topics == ("orders",)
    world.resources.change({"spec": {"topics": ["other"]}})
    until("mended, it holds", lambda: world.groups()["orders"].topics, lambda topics: topics == ("other",))


def test_while_the_api_is_away_what_was_known_holds(world: World, control_plane: ControlPlane) -> None:
    world.resources.make(SPEC)
    world.until("orders")
    control_plane.kill_api_server()
    try:
        throughout("the group stays", world.groups, lambda found: set(found) == {"file", "orders"}, for_s=1.0)
        world.decide("orders", consumers_now=7)
    finally:
        control_plane.start_api_server()
    world.until_told(consumers=7)
    world.resources.make(SPEC, "payments")
    world.until("orders", "payments")


def test_resources_are_listed_anew_where_changes_were_forgotten(world: World, control_plane: ControlPlane) -> None:
    for name in ("orders", "payments"):
        world.resources.make(SPEC, name)
    world.until("orders", "payments")
    control_plane.kill_api_server()
    control_plane.start_api_server(*FORGETFUL)
    try:
        world.declared._follows.stop()
        world.declared._follows._thread.join()
        version = world.declared._follows._version
        world.resources.delete()

        def forgotten() -> bool:
            world.resources.change({"metadata": {"annotations": {"touched": "again"}}}, "payments")
            return world.resources.forgets(version)

        until("the version is forgotten", forgotten, every_s=0.5)
        world.declared.close()
        before, again = world.declared, Watched(world.settings.kubernetes, SystemClock(), refused_s=0.3)
        again._by_key, again.now, world.declared = before._by_key, before.now, again
        again._follows._version = version
        world.file.beside(Beside(again, SystemClock().monotonic))
        again.start()
        world.until("payments")
    finally:
        control_plane.kill_api_server()
        control_plane.start_api_server()


def test_a_kind_that_is_removed_lets_all_groups_go_and_one_that_is_installed_brings_them(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.resources.make(SPEC)
    world.until("orders")
    world.kind.remove()
    world.until()
    until("it is said", lambda: "install the kind from conf/kubernetes/consumer-groups/crd.yaml" in caplog.text)
    assert "its consumers stay" in caplog.text
    world.kind.install()
    world.resources.make(SPEC)
    world.until("orders")


def test_a_job_starts_without_the_kind_and_says_so(
    control_plane: ControlPlane, namespace: Namespace, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(control_plane, namespace, tmp_path)
    world.kind.install()
    world.kind.remove()
    world.start()
    try:
        until("it is said", lambda: "groups of the file are looked after meanwhile" in caplog.text)
        assert not world.declared.heard(0)
        world.until()
        world.kind.install()
        world.resources.make(SPEC)
        world.until("orders")
    finally:
        world.close()
        world.kind.install()


def test_the_rights_are_enough_and_without_them_the_file_holds(
    control_plane: ControlPlane, namespace: Namespace, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(control_plane, namespace, tmp_path, control_plane.token_of(namespace.name, "default"))
    world.kind.install()
    world.resources.make(SPEC)
    world.start()
    try:
        until("it is said", lambda: "is forbidden" in caplog.text and "grant it to the job's account" in caplog.text)
        world.until()
        namespace.grant({"rules": ROLE["rules"]})
        world.until("orders")
        world.until_condition("Accepted", "True", "Accepted")
        world.decide("orders", mode="act", actions=(AddWorkers(slots=(3,)),))
        until("its event", world.resources.events, bool)
    finally:
        world.close()
    ours = {(g, r, v) for x in ROLE["rules"][:3] for g in x["apiGroups"] for r in x["resources"] for v in x["verbs"]}
    assert control_plane.rights_used(namespace.name, refused_too=True) == ours


def test_a_quiet_group_costs_no_request(world: World, control_plane: ControlPlane) -> None:
    world.resources.make(SPEC)
    world.until("orders")
    world.decide("orders", consumers_now=3)
    world.until_told(consumers=3)
    before = len(control_plane.audit_log())

    def cycle() -> int:
        world.groups()
        world.decide("orders", consumers_now=3, total_lag_records=len(str(before)))
        return sum(e["userAgent"] == USER_AGENT for e in control_plane.audit_log()[before:])

    throughout("nothing is asked", cycle, lambda asked: asked == 0, for_s=2.0)
