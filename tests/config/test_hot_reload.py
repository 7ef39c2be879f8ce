"""A configuration file that is changed while the job runs."""

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from autoscaler.config.consumer_groups import AT_ONCE, WITHIN_S, Beside, Declaration, Merged, read
from autoscaler.config.hot_reload import MADE_WITH, FollowedFile
from autoscaler.config.kubernetes import Kubernetes
from autoscaler.config.setting_paths import path_of
from autoscaler.config.settings import Group, load
from autoscaler.errors import SettingsError
from tests.fakes import FakeClock

GROUP: dict[str, object] = {"group": "g", "topics": ["t"], "capacity": {"bytes_per_s": 1000}}
OTHER: dict[str, object] = {"group": "h", "topics": ["u"], "capacity": {"bytes_per_s": 1000}}
PAUSED: dict[str, object] = {"holds": {"paused": "all"}}


class File:
    """A file and who follows it; each change is a second later, as the clock of a file system may be that coarse."""

    def __init__(self, path: Path, *groups: Mapping[str, object]) -> None:
        self.path, self._at = path, 1_700_000_000
        self.write(*groups)
        self.followed = FollowedFile(path, load(path))

    def write(self, *groups: Mapping[str, object], **top: object) -> None:
        connection = {"connection": {"bootstrap.servers": "localhost:9092"}}
        self.text(yaml.safe_dump({"clusters": [connection], "state_dir": "/var/none", "groups": [*groups], **top}))

    def text(self, text: str) -> None:
        self.path.write_text(text, encoding="utf-8")
        self._at += 1
        os.utime(self.path, (self._at, self._at))

    def looks(self, times: int = 3) -> dict[str, Group]:
        found: dict[str, Group] = {}
        for _ in range(times):
            found |= self.followed.look()
        return found


@pytest.fixture
def file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> File:
    caplog.set_level(logging.INFO)
    return File(tmp_path / "c.yaml", GROUP, OTHER)


def test_a_file_that_stays_says_nothing(file: File, caplog: pytest.LogCaptureFixture) -> None:
    assert file.looks() == {}
    assert caplog.text == ""


def test_a_changed_group_is_told_once_and_by_itself(file: File, caplog: pytest.LogCaptureFixture) -> None:
    file.write({**GROUP, **PAUSED, "moves": {"cooldown": "99s"}}, OTHER)
    changed = file.looks()
    assert list(changed) == ["g"]
    assert (changed["g"].paused, changed["g"].cooldown_s) == ("all", 99)
    assert file.looks() == {}
    assert "group g goes on with moves.cooldown, holds.paused" in caplog.text


def test_what_is_taken_out_is_the_default_again(file: File) -> None:
    file.write({**GROUP, "max_consumers": 3}, OTHER)
    assert file.looks()["g"].max_consumers == 3
    file.write(GROUP, OTHER)
    assert file.looks()["g"].max_consumers == 64


def test_a_file_that_is_still_being_written_is_waited_for(file: File) -> None:
    """Cut off here, it would read as a whole one without the pause."""
    for settings in ({"moves": {"cooldown": 1}}, {"moves": {"cooldown": 12}}, {"moves": {"cooldown": 12}, **PAUSED}):
        file.write({**GROUP, **settings}, OTHER)
        assert file.looks(1) == {}
    assert file.looks(1)["g"].paused == "all"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("groups: [", "is not YAML"),
        ("", "holds no settings"),
        ("state_dir: x\ncolour: red\ngroups: []\n", "colour: unknown setting"),
    ],
)
def test_a_faulty_file_is_named_once_and_the_settings_stay(
    file: File, caplog: pytest.LogCaptureFixture, text: str, said: str
) -> None:
    file.write({**GROUP, "max_consumers": 3}, OTHER)
    file.looks()
    caplog.clear()
    file.text(text)
    assert file.looks() == {}
    assert said in caplog.text
    assert "the settings stay as they were" in caplog.text
    told = len(caplog.records)
    assert file.looks() == {}
    assert len(caplog.records) == told
    file.write({**GROUP, "max_consumers": 4}, OTHER)
    assert file.looks()["g"].max_consumers == 4, "mended, it holds"


def test_a_file_that_refers_to_what_is_not_there_yet_holds_once_it_is(
    file: File, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """As while a mounted secret is replaced: the configuration itself does not change again."""
    secret = tmp_path / "password"
    connection = {"bootstrap.servers": "localhost:9092", "security.protocol": "ssl", "ssl.key.password": f"file:{secret}"}
    file.write({**GROUP, **PAUSED}, OTHER, clusters=[{"connection": connection}])
    assert file.looks(40) == {}
    assert caplog.text.count("cannot be read") == 1
    secret.write_text("s", encoding="utf-8")
    assert file.looks(20)["g"].paused == "all"
    assert file.looks(40) == {}


def test_a_file_that_is_replaced_is_followed_and_one_that_is_gone_changes_nothing(
    file: File, caplog: pytest.LogCaptureFixture
) -> None:
    file.path.unlink()
    assert file.looks() == {}
    assert "cannot be read" in caplog.text
    file.write({**GROUP, **PAUSED}, OTHER)
    assert file.looks()["g"].paused == "all"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"topics": ["t", "v"]}, "groups.g.topics"),
        ({"auto_offset_reset": "latest"}, "groups.g.auto_offset_reset"),
        ({"read_committed": True}, "groups.g.read_committed"),
        ({"assignment": "native"}, "groups.g.assignment"),
        ({"mode": "act", "workers": {"command": ["x"]}}, "groups.g.mode"),
    ],
)
def test_what_a_group_is_made_with_is_named_and_has_the_job_made_anew(
    file: File, caplog: pytest.LogCaptureFixture, change: dict[str, object], named: str
) -> None:
    before = load(file.path).groups[0]
    file.write({**GROUP, **change, **PAUSED}, OTHER)
    after = file.looks()["g"]
    assert after.paused == "all"
    assert all(getattr(after, name) == getattr(before, name) for name in MADE_WITH)
    assert f"{named}: the job makes its query anew" in caplog.text
    assert file.followed.anew == load(file.path)


def test_groups_that_come_or_go_have_the_job_made_anew_and_what_is_outside_them_needs_a_restart(
    file: File, caplog: pytest.LogCaptureFixture
) -> None:
    file.write({**GROUP, **PAUSED}, {**OTHER, "group": "i"}, measure={"trigger": 1.5})
    assert list(file.looks()) == ["g"]
    for what in ("groups: 'i' is new", "groups: 'h' is gone"):
        assert f"{what}: the job makes its query anew" in caplog.text
    assert "measure needs a restart of the job to hold" in caplog.text
    made = file.followed.made_anew()
    assert [g.group for g in made.groups] == ["g", "i"]
    assert made.measure.trigger_s == 1, "as it was started with"
    assert file.followed.anew is None
    file.write({**GROUP, "max_consumers": 3}, {**OTHER, "group": "i", "max_consumers": 4}, measure={"trigger": 1.5})
    assert {name: g.max_consumers for name, g in file.looks().items()} == {"g": 3, "i": 4}
    assert file.followed.anew is None


def test_groups_that_are_taken_back_before_the_job_is_made_anew_change_nothing(file: File) -> None:
    file.write(GROUP)
    file.looks()
    file.write(GROUP, OTHER)
    file.looks()
    assert file.followed.anew is None


def test_a_group_on_a_cluster_that_is_new_needs_a_restart(file: File, caplog: pytest.LogCaptureFixture) -> None:
    clusters = [{"name": name, "connection": {"bootstrap.servers": "localhost:9092"}} for name in ("kafka", "other")]
    on = {"cluster": "other"}
    file.write({**GROUP, "cluster": "kafka"}, {**OTHER, **on}, clusters=clusters)
    file.looks()
    assert file.followed.anew is None
    assert "groups.h.cluster needs a restart of the job to hold" in caplog.text


def test_settings_that_make_sense_only_once_the_job_is_made_anew_wait_for_it_together(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    acting = {**GROUP, "mode": "act", "workers": {"command": ["x"]}}
    file = File(tmp_path / "c.yaml", acting)
    file.write({**GROUP, "sizing": "LINEAR", "mode": "advise"})
    assert file.looks()["g"].sizing == "LINEAR"
    file.write({**GROUP, "algorithm": "EXACT", "mode": "advise"})
    assert file.looks() == {}, "EXACT only advises, and the running group acts"
    assert "groups.g.algorithm: the job makes its query anew" in caplog.text


def test_a_preset_that_is_taken_out_with_its_algorithm_is_no_contradiction(tmp_path: Path) -> None:
    file = File(tmp_path / "c.yaml", {**GROUP, "preset": "lean"})
    file.write({**GROUP, "algorithm": "MWF"})
    assert file.looks()["g"].planner == "MWF"


def test_what_a_group_is_made_with_are_settings_and_the_page_names_them() -> None:
    assert set(Group.model_fields) > MADE_WITH
    page = (Path(__file__).resolve().parents[2] / "docs" / "tasks" / "upgrade.md").read_text(encoding="utf-8")
    said = page[page.index("Groups that come or go") : page.index("A restart of the job is needed")]
    assert all(f"`{path_of(name)}`" in said for name in MADE_WITH - {"group"})


# --- groups that are declared elsewhere, beside those of the file ---


class Resources:
    """What is declared now, and what was judged of it."""

    own = None

    def __init__(self) -> None:
        self.now: Sequence[Declaration] = ()
        self.refused: dict[str, str] = {}
        self.clock = FakeClock()

    def declare(self, *groups: Mapping[str, object]) -> None:
        about = {"namespace": "n", "uid": "1"}
        self.now = tuple(
            read({"metadata": {**about, "name": g["group"]}, "spec": g}, Kubernetes(consumer_groups="n")) for g in groups
        )

    def judged(self, _: Sequence[Declaration], merged: Merged) -> None:
        self.refused = dict(merged.refused)


@pytest.fixture
def resources(file: File) -> Resources:
    made = Resources()
    file.followed.beside(Beside(made, made.clock.monotonic))
    return made


def groups_made(file: File) -> list[str]:
    assert file.followed.anew is not None
    return [g.group for g in file.followed.made_anew().groups]


def test_what_is_declared_stands_beside_the_file_comes_and_goes(file: File, resources: Resources) -> None:
    assert file.looks() == {}
    assert file.followed.anew is None
    resources.declare({"group": "i", "topics": ["v"]})
    assert file.looks() == {}
    assert groups_made(file) == ["g", "h", "i"]
    resources.declare({"group": "i", "topics": ["v"], "max_consumers": 3})
    assert file.looks()["i"].max_consumers == 3
    assert file.followed.anew is None, "a setting that needs no other query"
    file.write({**GROUP, **PAUSED}, OTHER)
    assert list(file.looks()) == ["g"]
    assert file.followed.anew is None
    resources.declare()
    file.looks()
    assert groups_made(file) == ["g", "h"]


def test_a_faulty_file_keeps_no_resource_from_holding(file: File, resources: Resources) -> None:
    file.text("groups: [")
    resources.declare({"group": "i", "topics": ["v"]})
    file.looks()
    assert groups_made(file) == ["g", "h", "i"]


def test_a_resource_of_a_group_of_the_file_is_refused_until_the_file_lets_it_go(
    file: File, resources: Resources, caplog: pytest.LogCaptureFixture
) -> None:
    resources.declare({**OTHER, "max_consumers": 3})
    assert file.looks() == {}
    assert file.followed.anew is None
    assert resources.refused.keys() == {"n/h"}
    file.write({**GROUP, **PAUSED}, OTHER)
    file.looks()
    assert caplog.text.count("ConsumerGroup n/h: the configuration file has the group h already") == 1
    file.write(GROUP)
    assert file.looks()["h"].max_consumers == 3, "handed over without a break"
    assert not resources.refused
    assert file.followed.anew is None


def test_a_resource_that_changes_again_and_again_holds_up_the_others_for_a_part_of_the_time_only(
    file: File, resources: Resources
) -> None:
    made_anew = 0
    for second in range(3600):
        resources.declare({"group": "i", "topics": [f"t{second}"]})
        file.followed.look()
        if file.followed.anew is not None:
            file.followed.made_anew()
            made_anew += 1
        resources.clock.advance(1.0)
    assert 3600 / (WITHIN_S / AT_ONCE) <= made_anew <= 3600 / (WITHIN_S / AT_ONCE) + AT_ONCE


def test_a_file_without_groups_needs_resources(tmp_path: Path) -> None:
    file = File(tmp_path / "c.yaml", GROUP)
    file.write(kubernetes={"consumer_groups": "shop"})
    assert load(file.path).groups == ()
    file.write()
    with pytest.raises(SettingsError, match="groups: must hold at least one block of settings"):
        load(file.path)
