"""The configuration file: all of it is documented, and all that is wrong with it is said at once."""

import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from autoscaler.config.policy import PRICED, Algorithm, Policy, Preset, step_of
from autoscaler.config.settings import Settings, load
from autoscaler.errors import SettingsError
from autoscaler.packing import ALGORITHMS, PRESETS, TAKES
from tests.builders import policy

EVERY_SETTING = Path(__file__).resolve().parents[2] / "conf" / "autoscaler.yaml"
MINIMAL: dict[str, object] = {
    "clusters": [{"connection": {"bootstrap.servers": "localhost:9092"}}],
    "state_dir": "/tmp/state",  # noqa: S108 -- never written to
    "groups": [{"group": "g", "topics": ["t"], "capacity_bytes_per_s": 1000}],
}


def models_in(annotation: object) -> list[type[BaseModel]]:
    """Return the settings models that a type mentions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [m for part in get_args(annotation) for m in models_in(part)]


def fields(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Return every setting of a model and of the models inside, with its path."""
    for name, info in model.model_fields.items():
        yield path + name, info
        for inner in models_in(info.annotation):
            yield from fields(inner, f"{path}{name}.")


def written(data: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Return every setting of a file with its path; lists of blocks count as their first one."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield path + str(key), value
            yield from written(value, f"{path}{key}.")
    elif isinstance(data, list) and data and isinstance(data[0], Mapping):
        yield from written(data[0], path)


SETTINGS = dict(fields(Settings))
DOCUMENTED = dict(written(yaml.safe_load(EVERY_SETTING.read_text(encoding="utf-8"))))


def write(path: Path, data: object) -> Path:
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data), encoding="utf-8")
    return path


def problems(path: Path) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load(path)
    return caught.value.problems


def window(**changes: object) -> dict[str, object]:
    return {"cron": "0 8 * * *", "duration_min": 60, "paused": "all", **changes}


# --- the documented file ---------------------------------------------------------------------------------------------


def test_the_file_documents_every_setting_and_nothing_else() -> None:
    free = {"clusters.connection.bootstrap.servers"}  # librdkafka's names, not ours
    assert set(DOCUMENTED) - free == set(SETTINGS)


EXAMPLE = "groups.windows."  # a window of defaults alone would change nothing and is refused, so one that does is shown


@pytest.mark.parametrize(
    "path",
    [
        p
        for p, info in SETTINGS.items()
        if not info.is_required() and not models_in(info.annotation) and not p.startswith(EXAMPLE)
    ],
)
def test_the_file_shows_the_default(path: str) -> None:
    default = SETTINGS[path].get_default(call_default_factory=True)
    assert DOCUMENTED[path] == (list(default) if isinstance(default, tuple) else default)


@pytest.mark.parametrize("path", sorted(SETTINGS))
def test_the_file_says_why_and_what_is_required(path: str) -> None:
    name = path.rsplit(".", 1)[-1]
    lines = [x for x in EVERY_SETTING.read_text(encoding="utf-8").splitlines() if re.match(rf"^[ -]*{re.escape(name)}:", x)]
    assert lines, name
    section = SETTINGS[path]
    if models_in(section.annotation) and path != "groups.workers":
        return  # a heading
    assert all(re.search(r"  # \S.{10,}", x) for x in lines), name
    assert any("# required" in x for x in lines) == section.is_required(), name


def test_the_file_can_be_loaded() -> None:
    settings = load(EVERY_SETTING)
    assert settings.groups[0].group == "payments"


# --- what is wrong is said, all at once ------------------------------------------------------------------------------


def test_the_least_one_must_write(tmp_path: Path) -> None:
    settings = load(write(tmp_path / "c.yaml", MINIMAL))
    assert settings.groups[0].mode == "advise", "a new group is only watched"
    assert settings.measure.window_s == 30


def test_everything_wrong_is_said_at_once_with_its_path(tmp_path: Path) -> None:
    group = {"group": "g", "topics": ["t"], "capacity_bytes_per_s": -5, "target_utilisation": 1.5, "algoritm": "MWF"}
    found = problems(write(tmp_path / "c.yaml", {**MINIMAL, "groups": [group], "measure": {"window_s": "long"}, "state_dir": ""}))
    said = "\n".join(found)
    for path in (
        "groups.0.capacity_bytes_per_s",
        "groups.0.target_utilisation",
        "groups.0.algoritm: unknown setting",
        "measure.window_s",
        "state_dir",
    ):
        assert path in said
    assert len(found) == 5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no settings"),
        ("- a list", "holds no settings"),
        ("groups: [", "is not YAML"),
    ],
)
def test_a_file_that_holds_no_settings(tmp_path: Path, text: str, said: str) -> None:
    assert said in problems(write(tmp_path / "c.yaml", text))[0]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "cannot be read (No such file or directory)" in problems(tmp_path / "none.yaml")[0]


@pytest.mark.parametrize(
    ("connection", "said"),
    [
        ({}, "bootstrap.servers is missing"),
        ({"bootstrap.servers": "b:9092", "sasl.password": "hunter2"}, "must be a reference"),
        ({"bootstrap.servers": "b:9092", "sasl.password": "env:NOT_SET_ANYWHERE"}, "NOT_SET_ANYWHERE"),
        ({"bootstrap.servers": "b:9092", "sasl.password": "file:/not/there"}, "/not/there"),
        ({"bootstrap.servers": "b:9092", "ssl.ca.location": "/not/there.pem"}, "/not/there.pem does not exist"),
    ],
)
def test_connections_that_cannot_work(tmp_path: Path, connection: dict[str, str], said: str) -> None:
    found = problems(write(tmp_path / "c.yaml", {**MINIMAL, "clusters": [{"connection": connection}]}))
    assert said in "\n".join(found)
    assert "hunter2" not in "\n".join(found), "a secret is never repeated"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"min_consumers": 5, "max_consumers": 4}, "min_consumers 5 is above max_consumers 4"),
        ({"mode": "act"}, "mode act needs workers"),
        ({"mode": "act", "assignment": "native"}, "mode act needs workers"),
        ({"topics": ["t", "t"]}, "names a topic twice"),
        ({"topics": []}, "topics"),
        ({"algorithm": "KMEANS"}, "'PACE' or 'EXACT', not 'KMEANS'"),
        ({"algorithm": "MWF", "preset": "lean"}, "preset is for algorithm PACE: MWF knows no price of a consumer"),
        ({"algorithm": "HFD", "consumer_price": 2}, "consumer_price is for algorithm PACE: HFD knows no price of a consumer"),
        ({"algorithm": "EXACT", "preset": "lean"}, "preset is for algorithm PACE: EXACT knows no price of a consumer"),
        ({"algorithm": "EXACT", "consumer_price": 2}, "consumer_price is for algorithm PACE: EXACT knows no price"),
        ({"algorithm": "EXACT", "mode": "act"}, "algorithm EXACT is for mode advise"),
        ({"preset": "cheap"}, "'balanced' or 'quiet', not 'cheap'"),
        ({"consumer_price": -1}, "consumer_price"),
        ({"capacity_bytes_per_s": float("inf")}, "capacity_bytes_per_s"),
        ({"tolerance_ratio": 1.0}, "tolerance_ratio"),
        ({"paused": "in"}, "paused: Input should be 'all', 'growing' or 'shrinking', not 'in'"),
        ({"pinned": 0}, "pinned"),
        ({"pinned": 9, "max_consumers": 4}, "pinned 9 is not between min_consumers 1 and max_consumers 4"),
        ({"pinned": 2, "min_consumers": 3}, "pinned 2 is not between min_consumers 3 and max_consumers 64"),
        ({"pinned": 2, "sizing": "LINEAR"}, "pinned is for sizing rates"),
        ({"grow_step": 0}, "grow_step: Input should be a number of consumers or a share of them, such as 2 or 50%, not 0"),
        ({"grow_step": "half"}, "such as 2 or 50%, not 'half'"),
        ({"grow_step": True}, "grow_step: Input should be a number, not true"),
        ({"shrink_step": "-5%"}, "shrink_step: Input should be a number of consumers or a share"),
        ({"turns_per_hour": 0}, "turns_per_hour"),
        ({"give_up_after": 0}, "give_up_after"),
        ({"give_up_after": None, "give_back": True}, "give_back needs give_up_after"),
        ({"sizing": "TAIL_LATENCY_1", "give_back": True}, "give_back is for sizing rates"),
        ({"windows": [{"cron": "0 8 * * *"}]}, "windows.0.duration_min: is required"),
        ({"windows": [window(cron="0 8 * *")]}, "windows.0: cron '0 8 * *' must have five fields"),
        ({"windows": [window(cron="0 0 8 * * *")]}, "must have five fields"),
        ({"windows": [window(cron="0 25 * * *")]}, "windows.0: cron '0 25 * * *' cannot be read: Bad hour"),
        ({"windows": [window(cron="0 0 30 2 *")]}, "windows.0: cron '0 0 30 2 *'"),
        ({"windows": [window(time_zone="Mars/Olympus")]}, "windows.0: time_zone 'Mars/Olympus' is not known here"),
        ({"windows": [window(paused=None)]}, "windows.0: changes nothing: say paused, min_consumers or max_consumers"),
        ({"windows": [window(min_consumers=9)], "max_consumers": 4}, "windows.0: min_consumers 9 is above max_consumers 4"),
        ({"windows": [window(max_consumers=2)], "min_consumers": 3}, "windows.0: min_consumers 3 is above max_consumers 2"),
        ({"windows": [window(duration_min=0)]}, "windows.0.duration_min"),
        ({"windows": [window(colour=1)]}, "windows.0.colour: unknown setting"),
    ],
)
def test_groups_that_make_no_sense(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    group = {"group": "g", "topics": ["t"], "capacity_bytes_per_s": 1000, **changes}
    assert said in "\n".join(problems(write(tmp_path / "c.yaml", {**MINIMAL, "groups": [group]})))


def test_what_is_wrong_is_said_once_and_whole(tmp_path: Path) -> None:
    group = {
        "group": "g", "topics": ["t"], "capacity_bytes_per_s": 1000, "algorithm": "EXACT", "mode": "act",
        "workers": {"command": ["x"]},
    }  # fmt: skip
    (said,) = problems(write(tmp_path / "c.yaml", {**MINIMAL, "groups": [group]}))
    assert said.startswith("groups.0: algorithm EXACT is for mode advise")
    assert said.endswith("; use PACE")


def test_a_group_named_twice(tmp_path: Path) -> None:
    group = {"group": "g", "topics": ["t"], "capacity_bytes_per_s": 1000}
    assert "'g' is named twice" in problems(write(tmp_path / "c.yaml", {**MINIMAL, "groups": [group, group]}))[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("stat_dir: /x", "stat_dir: unknown setting (is state_dir meant?)"),
        ("quux: 1", "quux: unknown setting; conf/autoscaler.yaml lists all of them"),
        (
            "min_consumers: 3",
            "min_consumers: belongs to a group, under groups or under windows of a group; conf/autoscaler.yaml shows where",
        ),
        ("duration_min: 3", "duration_min: belongs under windows of a group; conf/autoscaler.yaml shows where"),
        ("drain_timeout_s: 3", "drain_timeout_s: belongs under workers of a group; conf/autoscaler.yaml shows where"),
        (
            "groups: [{group: g, capacity_bytes_per_s: 1, topics: [t], trigger_s: 2}]",
            "groups.0.trigger_s: belongs under measure; conf",
        ),
        ("measure: {state_dir: x}", "measure.state_dir: belongs to the top level; conf/autoscaler.yaml shows where"),
        ("groups: [{group: g, capacity_bytes_per_s: 1, topics: t}]", "groups.0.topics: Input should be a list, such as [a, b]"),
        ("a: [1\nb: }", "is not YAML: while parsing a flow sequence line 1, column 4"),
    ],
)
def test_a_message_names_what_was_probably_meant(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError) as e:
        load(file)
    assert any(p.startswith(says) for p in e.value.problems), e.value.problems


def test_everything_is_said_at_once_whatever_kind_it_is_of(tmp_path: Path) -> None:
    first = {"group": "a", "topics": ["t", "t"], "capacity_bytes_per_s": 0, "min_consumers": 9, "max_consumers": 2, "color": 1}
    second = {"group": "a", "topics": ["t"], "capacity_bytes_per_s": 5, "mode": "act", "assignment": "native"}
    connection = {
        "bootstrap.servers": "localhost, b:abc", "nonsense.key": 1, "security.protocol": "FOO", "ssl.key.password": "tiger7",
        "ssl.ca.location": str(tmp_path / "no.pem"), "sasl.username": "env:NOT_SET_ANYWHERE",
    }  # fmt: skip
    said = "\n".join(problems(write(tmp_path / "c.yaml", {
        "clusters": [{"connection": connection}], "state_dir": "${NOT_SET_EITHER}/x", "groups": [first, second],
        "measure": {"trigger_s": 30, "watchdog_s": 40},
    })))  # fmt: skip
    for part in (
        "'localhost' is not host:port", "'b:abc' is not host:port", "nonsense.key is not", "security.protocol: 'foo'",
        "ssl.key.password must be a reference", "no.pem does not exist", "NOT_SET_ANYWHERE is not set", "NOT_SET_EITHER",
        "groups.0.capacity_bytes_per_s", "groups.0.color", "groups.0: min_consumers 9", "groups.0: topics names a topic twice",
        "groups.1: mode act needs workers", "'a' is named twice", "measure.watchdog_s",
        "measure.known_for_s",
    ):  # fmt: skip
        assert part in said, part
    assert "tiger7" not in said


# --- several clusters ------------------------------------------------------------------------------------------------


def cluster(name: str | None, **connection: object) -> dict[str, object]:
    named = {} if name is None else {"name": name}
    return {**named, "connection": {"bootstrap.servers": f"{name or 'kafka'}:9092", **connection}}


def on(*places: str | None, group: str = "g{}") -> list[dict[str, object]]:
    """Return a group for each place: the name of its cluster, or nothing."""
    named = [{} if c is None else {"cluster": c} for c in places]
    return [{"group": group.format(i), "topics": ["t"], **x} for i, x in enumerate(named)]


def test_each_group_is_on_its_own_cluster(tmp_path: Path) -> None:
    several = {**MINIMAL, "clusters": [cluster("east"), cluster("west"), cluster("idle")], "groups": on("west", "east", "west")}
    settings = load(write(tmp_path / "c.yaml", several))
    assert [settings.cluster_of(g).name for g in settings.groups] == ["west", "east", "west"]
    served = [(c.name, [g.group for g in groups]) for c, groups in settings.served]
    assert served == [("east", ["g1"]), ("west", ["g0", "g2"])], "in the file's order, and only those that have groups"


@pytest.mark.parametrize("group", [None, "kafka"])
def test_where_there_is_one_cluster_a_group_need_not_name_it(tmp_path: Path, group: str | None) -> None:
    settings = load(write(tmp_path / "c.yaml", {**MINIMAL, "groups": on(group)}))
    assert settings.cluster_of(settings.groups[0]) is settings.clusters[0]


@pytest.mark.parametrize(
    ("clusters", "groups", "said"),
    [
        ([], on(None), "clusters: "),
        (
            [cluster("a"), cluster("b")],
            on("a", None),
            "groups.1.cluster: is required where there are several clusters",
        ),
        ([cluster("a"), cluster("b")], on("a", "c"), "groups.1.cluster: there is no cluster 'c'; there are a, b"),
        ([cluster("a")], on("b"), "groups.0.cluster: there is no cluster 'b'; there are a"),
        ([cluster("a"), cluster("a")], on("a"), "clusters: 'a' is named twice: give each a name of its own"),
        ([cluster(None), cluster(None)], on("kafka"), "clusters: 'kafka' is named twice"),
        (
            [cluster("a"), cluster("b")],
            on("a", "b", group="same"),
            "groups: 'same' is named twice: ids are unique within a job; let a second one, with a state_dir of its own, look",
        ),
        ([cluster("a"), cluster("b", color=1)], on("a"), "clusters.b.connection: color is not a connection setting"),
        ([cluster("a"), {"name": "b"}], on("a"), "clusters.b.connection: is required"),
        ([cluster("a"), {"name": 7, "connection": {}}], on("a"), "clusters.1.name: "),
        ([cluster("a"), cluster("b", **{"sasl.password": "env:NOT_SET"})], on("a"), "clusters.b.connection.sasl.password: env"),
        ([cluster("a"), cluster("b", **{"ssl.ca.location": "/no.pem"})], on("a"), "clusters.b.connection.ssl.ca.location: file"),
    ],
)
def test_what_is_wrong_with_clusters_is_said_by_their_names(
    tmp_path: Path, clusters: list[object], groups: list[object], said: str
) -> None:
    found = problems(write(tmp_path / "c.yaml", {**MINIMAL, "clusters": clusters, "groups": groups}))
    assert any(p.startswith(said) for p in found), found


def test_a_group_named_twice_on_one_cluster_is_no_matter_for_a_second_job(tmp_path: Path) -> None:
    assert problems(write(tmp_path / "c.yaml", {**MINIMAL, "groups": on(None, None, group="same")})) == (
        "groups: 'same' is named twice",
    )


def test_the_block_of_one_cluster_is_told_how_it_is_written_now_and_what_else_is_wrong(tmp_path: Path) -> None:
    old: dict[str, object] = {k: v for k, v in MINIMAL.items() if k != "clusters"}
    (said,) = problems(write(tmp_path / "c.yaml", {**old, "cluster": cluster("prod")}))
    assert said.startswith("cluster: is a list now, also of one: write clusters: [{name: ..., connection: {...}}]")
    both = problems(write(tmp_path / "c.yaml", {**old, "cluster": cluster("prod", color=1)}))
    assert said in both
    assert any(p.startswith("clusters.prod.connection: color is not") for p in both), both


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("state_dir: x\nstate_dir: y\n", "'state_dir' is set twice"),
        ("groups: [{group: g, capacity_bytes_per_s: yes, topics: [t]}]", "groups.0.capacity_bytes_per_s"),
        ("groups: [{group: ../../x, capacity_bytes_per_s: 1, topics: [t]}]", "groups.0.group"),
        ("audit: {flush_s: .inf}", "audit.flush_s"),
    ],
)
def test_values_that_are_no_values(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    assert said in "\n".join(problems(file))


def holds_number(annotation: object) -> bool:
    """Say whether a setting is a number, or one if it is given."""
    return annotation in {int, float} or (get_origin(annotation) is not dict and any(map(holds_number, get_args(annotation))))


@pytest.mark.parametrize("path", [p for p, info in SETTINGS.items() if holds_number(info.annotation)])
@pytest.mark.parametrize("flag", [True, False])
def test_true_is_no_number(tmp_path: Path, path: str, flag: bool) -> None:  # noqa: FBT001  it is the case
    data = yaml.safe_load(EVERY_SETTING.read_text(encoding="utf-8"))
    *above, name = path.split(".")
    block = data
    for key in above:
        block = block[key][0] if isinstance(block[key], list) else block[key]
    block[name] = flag
    said = problems(write(tmp_path / "c.yaml", data))
    shown = path.replace("groups.", "groups.0.").replace("windows.", "windows.0.")
    assert f"{shown}: Input should be a number, not {str(flag).lower()}" in said


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(b"state_dir: \xff\xfe")
    assert "is not UTF-8" in problems(file)[0]


# --- the policy ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("utilisation", "tolerance", "carried", "why"),
    [
        (0.8, 0.1, (80, 88, 72), "a tenth either side of what is planned"),
        (0.95, 0.1, (95, 100, 85.5), "overload is never above the capacity itself"),
        (1.0, 0.0, (100, 100, 100), "no tolerance: noise at the edge is the user's choice"),
    ],
)
def test_what_a_consumer_may_carry(utilisation: float, tolerance: float, carried: tuple[float, float, float], why: str) -> None:
    rules = policy(target_utilisation=utilisation, tolerance_ratio=tolerance)
    assert (rules.usable_bytes_per_s, rules.overload_bytes_per_s, rules.calm_bytes_per_s) == pytest.approx(carried), why


def test_the_fingerprint_follows_every_setting() -> None:
    assert policy().fingerprint == policy().fingerprint
    changed = {
        policy(**{name: value}).fingerprint for name, value in (("cooldown_s", 11), ("max_consumers", 3), ("mode", "advise"))
    }
    assert len({policy().fingerprint, *changed}) == 4


def test_every_algorithm_and_preset_of_the_planner_can_be_chosen() -> None:
    assert get_args(Algorithm) == ALGORITHMS
    assert set(get_args(Preset)) == set(PRESETS)
    assert set(PRICED) == {a for a, takes in TAKES.items() if "consumer_price" in takes}


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({}, "PACE balanced"),
        ({"preset": "lean"}, "PACE lean"),
        ({"preset": "even", "consumer_price": 1.5}, "PACE even at 1.5 per consumer"),
        ({"algorithm": "MWF"}, "MWF"),
    ],
)
def test_what_places_is_named_with_what_it_weighs(changes: dict[str, object], shown: str) -> None:
    assert policy(**changes).planner == shown


@pytest.mark.skipif(find_spec("ortools") is None, reason="the extra 'exact' is not installed")
def test_the_exact_solver_may_advise(tmp_path: Path) -> None:
    group = {"group": "g", "topics": ["t"], "capacity_bytes_per_s": 1000, "algorithm": "EXACT"}
    assert load(write(tmp_path / "c.yaml", {**MINIMAL, "groups": [group]})).groups[0].planner == "EXACT"


def test_a_solver_that_is_not_installed_is_named_with_what_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoscaler.config.settings.find_spec", lambda _: None)
    group = {"group": "g", "topics": ["t"], "capacity_bytes_per_s": 1000, "algorithm": "EXACT"}
    (said,) = problems(write(tmp_path / "c.yaml", {**MINIMAL, "groups": [group]}))
    assert "groups.0.algorithm: EXACT needs the extra 'exact'" in said


@pytest.mark.parametrize(
    ("size", "consumers", "step"),
    [(2, 10, 2), ("2", 1, 2), ("50%", 4, 2), ("50%", 5, 3), ("10%", 1, 1), ("1%", 0, 1), ("200%", 3, 6)],
)
def test_a_step_is_a_number_or_a_share(size: object, consumers: int, step: int) -> None:
    asked = policy(grow_step=size).grow_step
    assert asked is not None
    assert step_of(asked, consumers) == step


def test_a_policy_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        policy().max_consumers = 3  # type: ignore[misc]
    assert isinstance(policy(), Policy)


BEGINNING = "state_dir: /tmp/x\nclusters:\n- name: kafka\n  connection:\n    bootstrap.servers: broker:9092\n"
WORKERS = "groups:\n- group: g\n  topics: [t]\n  workers:\n    command: [run]\n    environment"


@pytest.mark.parametrize(
    "text",
    [
        BEGINNING + WORKERS + ": {DB_PASSWORD: 13371337}\n",
        BEGINNING + WORKERS + ": {API_TOKEN: 13371337}\n",
        BEGINNING + WORKERS + ": [DB_PASSWORD=13371337]\n",
        BEGINNING + WORKERS + ":\n      DB_PASSWORD: @13371337\n",
        BEGINNING + "    sasl.password: @13371337\n",
        BEGINNING.replace("\n    bootstrap.servers: broker:9092", " bootstrap.servers=h:1,sasl.password=13371337"),
        BEGINNING.replace("broker:9092", "me:13371337@broker"),
    ],
)
def test_a_faulty_file_is_complained_of_without_its_secrets(tmp_path: Path, text: str) -> None:
    """The same words go into the job's log when the file changes while it runs."""
    file = tmp_path / "a.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as found:
        load(file)
    assert "13371337" not in "\n".join(found.value.problems)
