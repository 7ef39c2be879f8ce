"""The kind ConsumerGroup on a real API server: what it takes, and that it refuses what makes no sense."""

from http import HTTPStatus

import pytest

from tests.config.consumer_group_cases import ACTING, CONTRADICTIONS, COUNTED, FULL, SPEC
from tests.kubernetes.consumer_groups import ConsumerGroups, Kind
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.namespace import Namespace


@pytest.fixture
def resources(control_plane: ControlPlane, namespace: Namespace) -> ConsumerGroups:
    Kind(control_plane.connect()).install()
    return ConsumerGroups(namespace)


def test_a_group_is_taken_with_few_settings_and_with_many(resources: ConsumerGroups) -> None:
    native = {**ACTING, "assignment": "native", "workers": COUNTED}
    for spec in (SPEC, ACTING, FULL, native, {**SPEC, "holds": None, "sizing": "LINEAR", "published": {"up_ratio": 0.5}}):
        status, said = resources.tried(spec)
        assert status == HTTPStatus.CREATED, said


def test_what_contradicts_itself_is_refused_with_what_is_wrong(resources: ConsumerGroups) -> None:
    taken = {}
    for case, (spec, word) in CONTRADICTIONS.items():
        status, said = resources.tried(spec)
        if status not in {HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.BAD_REQUEST} or word.split(".")[-1] not in said:
            taken[case] = f"{status} {said}"
    assert not taken


@pytest.mark.parametrize("setting", ["namespace", "kubeconfig", "context", "command", "environment", "set_count"])
def test_what_reaches_into_the_jobs_pod_is_no_setting(resources: ConsumerGroups, setting: str) -> None:
    status, said = resources.tried({**ACTING, "workers": {**ACTING["workers"], setting: "x"}})
    assert (status, f'unknown field \\"spec.workers.{setting}\\"' in said) == (HTTPStatus.BAD_REQUEST, True), said


def test_what_kubectl_explains_is_what_the_settings_say(resources: ConsumerGroups) -> None:
    spec = resources.explained()["properties"]["spec"]["properties"]
    step, cooldown = (spec["scale_down"]["properties"][x]["description"] for x in ("step", "cooldown"))
    assert step == "consumers to take away at a time, or a share such as 25%; the next after scale_down.cooldown; null: no limit"
    assert cooldown == "seconds after any change of the number before consumers are taken away (default: 60)"
