"""Groups that are declared as resources of Kubernetes: what one means, and which hold beside those of the file."""

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.config import crd
from autoscaler.config.clusters import Cluster
from autoscaler.config.consumer_groups import API, KIND, Declaration, merged, read
from autoscaler.config.grouping import in_file
from autoscaler.config.kubernetes import Kubernetes
from autoscaler.config.settings import Group
from tests.config.consumer_group_cases import ACTING, CONTRADICTIONS, COUNTED, FULL, SPEC

ROOT = Path(__file__).resolve().parents[2]
CRD = ROOT / "conf" / "kubernetes" / "consumer-groups" / "crd.yaml"
KUBERNETES = Kubernetes(consumer_groups="shop", kubeconfig="/k", context="c")
CLUSTER = Cluster(name="kafka", connection={"bootstrap.servers": "b:9092"})


def resource(spec: Mapping[str, Any], name: str = "orders", **about: object) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop", "uid": "1", "generation": 3, **about}, "spec": dict(spec)}


def declared(spec: Mapping[str, Any] = SPEC, name: str = "orders", **about: object) -> Declaration:
    return read(resource(spec, name, **about), KUBERNETES)


def group_of(one: Declaration) -> Group:
    assert one.group is not None, one.problems
    return one.group


# --- what a resource means ---


def test_a_resource_is_a_group_of_its_own_name() -> None:
    one = declared()
    assert (one.key, one.generation, one.problems) == ("shop/orders", 3, ())
    assert group_of(one) == Group(group="orders", topics=("t",))


def test_a_spec_means_what_a_block_of_the_file_means_in_its_own_namespace_by_the_jobs_connection() -> None:
    found = group_of(declared(FULL))
    assert (found.group, found.capacity_bytes_per_s, found.grow_step, found.give_up_after) == ("Orders_1", 1e6, "50%", None)
    assert (found.shrink_stabilisation_s, found.windows[0].duration_min) == (300, 600)
    assert found.workers is not None
    assert (found.workers.deployment, found.workers.namespace) == ("orders", "shop")
    assert (found.workers.kubeconfig, found.workers.context) == ("/k", "c")
    assert group_of(declared({**ACTING, "assignment": "native", "workers": COUNTED})).workers is not None


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_a_spec_that_makes_no_sense_is_no_group_and_says_why(case: str) -> None:
    spec, word = CONTRADICTIONS[case]
    one = declared(spec)
    assert one.group is None
    assert word in "; ".join(one.problems)


@pytest.mark.parametrize("setting", ["namespace", "kubeconfig", "context", "command", "environment", "set_count"])
def test_a_resource_reaches_for_nothing_of_the_jobs(setting: str) -> None:
    value = {"environment": {"A": "env:B"}, "command": ["sh"], "set_count": ["sh"]}.get(setting, "other")
    (problem, *_) = declared({**ACTING, "workers": {**ACTING["workers"], setting: value}}).problems
    assert problem.startswith(f"spec.workers.{setting}: is not for a resource")


def test_a_setting_that_is_not_known_is_named_with_the_one_that_is_meant() -> None:
    assert declared({**SPEC, "max_consumer": 3}).problems == (
        "spec.max_consumer: unknown setting (is max_consumers meant?); conf/autoscaler.yaml lists all of them",
    )


def test_what_a_resource_declared_before_stays_while_it_is_faulty_and_ends_with_it() -> None:
    before = declared()
    faulty = resource({"topics": []})
    assert read(faulty, KUBERNETES, before).group == before.group
    assert merged([CLUSTER], [], [read(faulty, KUBERNETES, before)]).refused["shop/orders"].endswith("the settings before")
    another = resource({"topics": []}, uid="2")
    assert read(another, KUBERNETES, before).group is None


def test_the_example_of_the_page_is_a_group() -> None:
    page = (ROOT / "docs" / "tasks" / "declare.md").read_text(encoding="utf-8")
    example = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])
    assert (example["apiVersion"], example["kind"]) == (API, KIND)
    found = group_of(read({**example, "metadata": {**example["metadata"], "uid": "1"}}, KUBERNETES))
    assert (found.group, found.mode, found.max_consumers) == ("orders", "act", 12)


# --- annotations that hold a group ---


@pytest.mark.parametrize("prefixed", [("kafka-group-autoscaler/{}", "pause"), ("autoscaling.keda.sh/{}", "paused")])
@pytest.mark.parametrize(
    ("given", "paused"),
    [
        (("pause",), "all"),
        (("pause-in",), "scale_down"),
        (("pause-out",), "scale_up"),
        (("pause-in", "pause-out"), "all"),
        ((), None),
    ],
)
def test_annotations_hold_a_group_under_kedas_names_too(prefixed: tuple[str, str], given: tuple[str, ...], paused: str) -> None:
    form, word = prefixed
    keda = {"pause": word, "pause-in": f"{word}-scale-in", "pause-out": f"{word}-scale-out"}
    names = [form.format(keda[x] if word == "paused" else x) for x in given]
    assert group_of(declared(annotations=dict.fromkeys(names, "true"))).paused == paused
    assert group_of(declared(annotations=dict.fromkeys(names, "false"))).paused is None


@pytest.mark.parametrize("name", ["kafka-group-autoscaler/paused-replicas", "autoscaling.keda.sh/paused-replicas"])
def test_a_number_to_pause_at_is_one_that_is_kept(name: str) -> None:
    assert group_of(declared({**SPEC, "holds": {"stuck_after": "1h"}}, annotations={name: "7"})).pinned == 7
    assert "at least 1, not '0'" in declared(annotations={name: "0"}).problems[0]
    assert "holds.pinned 9" in declared({**SPEC, "max_consumers": 8}, annotations={name: "9"}).problems[0]


def test_an_annotation_that_is_neither_true_nor_false_is_named() -> None:
    name = "kafka-group-autoscaler/pause"
    assert declared(annotations={name: "yes"}).problems == (f"annotation {name}: must be true or false, not 'yes'",)


# --- which of them hold ---


def test_the_file_wins_then_the_oldest_resource_and_the_others_hold() -> None:
    file = [Group(group="a", topics=("t",))]
    made = [
        declared(name="a", creationTimestamp="2026-01-01T00:00:00Z"),
        declared({**SPEC, "group": "b"}, "younger", creationTimestamp="2026-01-03T00:00:00Z"),
        declared({**SPEC, "group": "b"}, "older", creationTimestamp="2026-01-02T00:00:00Z"),
        declared(name="c", creationTimestamp="2026-01-04T00:00:00Z"),
        declared({}, "faulty"),
    ]
    found = merged([CLUSTER], file, made)
    assert [g.group for g in found.groups] == ["a", "b", "c"]
    assert found.owners == {"b": "shop/older", "c": "shop/c"}
    assert found.refused.keys() == {"shop/a", "shop/younger", "shop/faulty"}
    assert found.refused["shop/a"].startswith("the configuration file has the group a already")
    assert found.refused["shop/younger"].startswith("ConsumerGroup shop/older has the group b already")


def test_two_groups_do_not_set_one_number() -> None:
    workers = {"kind": "deployment", "deployment": "orders", "kubeconfig": "/k", "context": "c"}
    file = [Group.model_validate({"group": "a", "topics": ["t"], "mode": "act", "workers": workers})]
    assert merged([CLUSTER], file, [declared(ACTING)], own="shop").refused == {
        "shop/orders": "group a of the configuration file scales the Deployment orders already: give each group its own"
    }
    assert not merged([CLUSTER], file, [declared(ACTING)], own="elsewhere").refused
    counted = {**ACTING, "group": "n", "assignment": "native", "workers": COUNTED}
    assert merged([CLUSTER], [], [declared(ACTING, "a"), declared(counted, "b")]).refused.keys() == {"shop/b"}


def test_a_cluster_that_is_not_there_is_named() -> None:
    other = Cluster(name="other", connection={"bootstrap.servers": "o:9092"})
    assert "required where there are several" in merged([CLUSTER, other], [], [declared()]).refused["shop/orders"]
    assert "no cluster 'x'; there are kafka" in merged([CLUSTER], [], [declared({**SPEC, "cluster": "x"})]).refused["shop/orders"]
    assert not merged([CLUSTER, other], [], [declared({**SPEC, "cluster": "other"})]).refused


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(0, 3)), unique_by=lambda x: x[0]), st.randoms()
)
def test_which_hold_does_not_depend_on_the_order_in_which_they_are_heard_of(
    rows: list[tuple[str, str, int]], random: Random
) -> None:
    made = [declared({**SPEC, "group": of}, name, creationTimestamp=str(at)) for name, of, at in rows]
    first = merged([CLUSTER], [], made)
    random.shuffle(made)
    assert merged([CLUSTER], [], made) == first
    assert len(first.owners) == len({of for _, of, _ in rows})
    assert len(first.owners) + len(first.refused) == len(rows)


# --- the definition ---


def test_the_definition_is_what_the_command_writes() -> None:
    wrong = "autoscaler schema --crd > conf/kubernetes/consumer-groups/crd.yaml"
    assert CRD.read_text(encoding="utf-8") == crd.text(), wrong


def test_each_setting_of_a_group_is_in_the_definition_but_those_that_reach_into_the_jobs_pod() -> None:
    assert set(crd.spec()["properties"]) == {x.partition(".")[0] for x in in_file(Group)}
    assert set(crd.spec()["properties"]["workers"]["properties"]) == {"kind", "deployment", "target"}
