"""What a job that runs in Kubernetes, or looks after groups that are declared there, may be told."""

from pathlib import Path

import pytest

from autoscaler.cli import preflight
from autoscaler.config.settings import load
from autoscaler.errors import SettingsError
from tests.config.files import MINIMAL, write


@pytest.mark.parametrize("name", ["autoscaler", "a", "jobs.of-shop"])
def test_a_lease_is_called_as_objects_of_kubernetes_are(tmp_path: Path, name: str) -> None:
    assert load(write(tmp_path / "c.yaml", {**MINIMAL, "kubernetes": {"lease": name}})).kubernetes.lease == name


@pytest.mark.parametrize("name", ["", "Autoscaler", "a_b", "-a", "a/b", "x" * 254])
def test_another_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match=r"kubernetes\.lease: must be the name of a Lease"):
        load(write(tmp_path / "c.yaml", {**MINIMAL, "kubernetes": {"lease": name}}))


@pytest.mark.parametrize("setting", ["lease", "consumer_groups"])
def test_what_it_needs_is_said_before_the_job_starts(monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    monkeypatch.setattr(preflight, "find_spec", lambda _: None)
    (said,) = preflight._client({"kubernetes": {setting: "shop"}})
    assert said.startswith(f"kubernetes.{setting}: needs the extra 'kubernetes'")
