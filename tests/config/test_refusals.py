"""All that is wrong with a configuration file is said at once, in its own words."""

from importlib.util import find_spec
from pathlib import Path
from typing import get_args, get_origin

import pytest
import yaml

from autoscaler.config.settings import load
from autoscaler.errors import SettingsError
from tests.config.files import BEGINNING, EVERY_SETTING, MINIMAL, SETTINGS, problems, window, write


def test_what_is_wrong_is_said_with_its_line(tmp_path: Path) -> None:
    text = BEGINNING + "groups:\n- group: a\n  topics: [t]\n- topics: [t]\n  group: b\n  moves:\n    cooldown: soon\n"
    (said,) = problems(write(tmp_path / "c.yaml", text))
    assert said.startswith("groups.b.moves.cooldown: must be seconds or a duration")
    assert said.endswith("(line 12)")


def test_the_least_one_must_write(tmp_path: Path) -> None:
    settings = load(write(tmp_path / "c.yaml", MINIMAL))
    assert settings.groups[0].mode == "advise", "a new group is only watched"
    assert settings.measure.window_s == 30


def test_everything_wrong_is_said_at_once_with_its_path(tmp_path: Path) -> None:
    group = {"group": "g", "topics": ["t"], "capacity": {"bytes_per_s": -5, "target_utilisation": 1.5}, "algoritm": "MWF"}
    found = problems(write(tmp_path / "c.yaml", {**MINIMAL, "groups": [group], "measure": {"window": "long"}, "state_dir": ""}))
    said = "\n".join(found)
    for path in (
        "groups.g.capacity.bytes_per_s",
        "groups.g.capacity.target_utilisation",
        "groups.g.algoritm: unknown setting",
        "measure.window",
        "state_dir",
    ):
        assert path in said
    assert len(found) == 5


@pytest.mark.parametrize(
    ("text", "said"), [("", "holds no settings"), ("- a list", "holds no settings"), ("groups: [", "is not YAML")]
)
def test_a_file_that_holds_no_settings(tmp_path: Path, text: str, said: str) -> None:
    assert said in problems(write(tmp_path / "c.yaml", text))[0]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "cannot be read (No such file or directory)" in problems(tmp_path / "none.yaml")[0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"min_consumers": 5, "max_consumers": 4}, "min_consumers 5 is above max_consumers 4"),
        ({"mode": "act"}, "mode act needs workers"),
        ({"mode": "act", "assignment": "native"}, "mode act needs workers"),
        ({"workers": {"kind": "processes"}}, "kind processes needs workers.command"),
        ({"workers": {"kind": "scale"}}, "kind scale needs workers.target"),
        ({"workers": {"kind": "scale", "target": "Deployment/orders"}}, "workers.target: must be API/KIND/NAME, such as"),
        ({"workers": {"kind": "command", "set_count": ["x"]}}, "kind command needs workers.read_count"),
        (
            {"workers": {"kind": "command", "set_count": ["x"], "read_count": ["y"], "command": ["z"]}},
            "kind command has no command",
        ),
        (
            {"workers": {"kind": "scale", "target": "apps/v1/Deployment/orders"}, "assignment": "managed"},
            "workers.kind scale needs assignment native",
        ),
        ({"workers": {"kind": "deployment"}}, "kind deployment needs workers.deployment"),
        ({"workers": {"command": ["x"], "namespace": "n"}}, "kind processes has no namespace"),
        ({"workers": {"kind": "deployment", "deployment": "d", "drain_timeout": "5s"}}, "kind deployment has no drain_timeout"),
        (
            {"assignment": "native", "workers": {"kind": "deployment", "deployment": "d"}},
            "workers.kind deployment needs assignment managed",
        ),
        ({"topics": ["t", "t"]}, "names a topic twice"),
        ({"topics": []}, "topics"),
        ({"algorithm": "KMEANS"}, "'PACE' or 'EXACT', not 'KMEANS'"),
        ({"algorithm": "MWF", "preset": "lean"}, "preset is for algorithm PACE: MWF knows no price of a consumer"),
        (
            {"algorithm": "HFD", "moves": {"consumer_price": 2}},
            "moves.consumer_price is for algorithm PACE: HFD knows no price of a consumer",
        ),
        ({"algorithm": "EXACT", "preset": "lean"}, "preset is for algorithm PACE: EXACT knows no price of a consumer"),
        (
            {"algorithm": "EXACT", "moves": {"consumer_price": 2}},
            "moves.consumer_price is for algorithm PACE: EXACT knows no price",
        ),
        ({"algorithm": "EXACT", "mode": "act"}, "algorithm EXACT is for mode advise"),
        ({"preset": "cheap"}, "'balanced' or 'quiet', not 'cheap'"),
        ({"moves": {"consumer_price": -1}}, "moves.consumer_price: must be at least 0, not -1"),
        ({"capacity": {"bytes_per_s": float("inf")}}, "capacity.bytes_per_s: must be a finite number"),
        ({"capacity": {"tolerance_ratio": 1.0}}, "capacity.tolerance_ratio: must be below 1, not 1.0"),
        ({"holds": {"paused": "in"}}, "holds.paused: must be 'all', 'scale_up' or 'scale_down', not 'in'"),
        ({"holds": {"paused": "growing"}}, "holds.paused: growing is written scale_up now"),
        (
            {"windows": [{"cron": "0 9 * * *", "duration": "8h", "paused": "shrinking"}]},
            "windows.0.paused: shrinking is written scale_down now",
        ),
        ({"holds": {"pinned": 0}}, "holds.pinned: must be at least 1, not 0"),
        ({"holds": {"pinned": 9}, "max_consumers": 4}, "holds.pinned 9 is not between min_consumers 1 and max_consumers 4"),
        ({"holds": {"pinned": 2}, "min_consumers": 3}, "holds.pinned 2 is not between min_consumers 3 and max_consumers 64"),
        ({"holds": {"pinned": 2}, "sizing": "LINEAR"}, "holds.pinned is for sizing rates"),
        ({"scale_up": {"step": 0}}, "scale_up.step: must be a number of consumers or a share of them, such as 2 or 50%, not 0"),
        ({"scale_up": {"step": "half"}}, "such as 2 or 50%, not 'half'"),
        ({"scale_up": {"step": True}}, "scale_up.step: must be a number, not true"),
        ({"scale_down": {"step": "-5%"}}, "scale_down.step: must be a number of consumers or a share"),
        ({"scale_down": {"reversals_per_hour": 0}}, "scale_down.reversals_per_hour: must be at least 1, not 0"),
        ({"scale_up": {"give_up_after": 0}}, "scale_up.give_up_after: must be at least 1, not 0"),
        ({"scale_up": {"give_up_after": None, "give_back": True}}, "scale_up.give_back needs scale_up.give_up_after"),
        ({"sizing": "TAIL_LATENCY_1", "scale_up": {"give_back": True}}, "scale_up.give_back is for sizing rates"),
        ({"windows": [{"cron": "0 8 * * *"}]}, "windows.0.duration: is required"),
        ({"windows": [window(cron="0 8 * *")]}, "windows.0: cron '0 8 * *' must have five fields"),
        ({"windows": [window(cron="0 0 8 * * *")]}, "must have five fields"),
        ({"windows": [window(cron="0 25 * * *")]}, "windows.0: cron '0 25 * * *' cannot be read: Bad hour"),
        ({"windows": [window(cron="0 0 30 2 *")]}, "windows.0: cron '0 0 30 2 *'"),
        ({"windows": [window(time_zone="Mars/Olympus")]}, "windows.0: time_zone 'Mars/Olympus' is not known here"),
        ({"windows": [window(paused=None)]}, "windows.0: changes nothing: say paused, min_consumers or max_consumers"),
        ({"windows": [window(min_consumers=9)], "max_consumers": 4}, "windows.0: min_consumers 9 is above max_consumers 4"),
        ({"windows": [window(max_consumers=2)], "min_consumers": 3}, "windows.0: min_consumers 3 is above max_consumers 2"),
        ({"windows": [window(duration=0)]}, "windows.0.duration"),
        ({"windows": [window(colour=1)]}, "windows.0.colour: unknown setting"),
        ({"windows": [window(duration="90s")]}, "windows.0.duration: must be whole minutes, such as 90m or 10h, not '90s'"),
        ({"group": ".."}, "'..' names a directory below state_dir/workers too"),
        ({"group": "."}, "must not be . or .."),
        ({"group": "a/b"}, "must hold no /"),
        ({"group": "a\nb"}, "groups.0.group: 'a\\nb' holds a character that cannot be seen"),
        ({"group": "g" * 201}, "group: must be at most 200 characters"),
        ({"topics": ["__consumer_offsets"]}, "'__consumer_offsets' is a topic of Kafka's or of the autoscaler's own"),
        ({"topics": ["__autoscaler_control"]}, "'__autoscaler_control' is a topic of Kafka's or of the autoscaler's own"),
        ({"topics": [".."]}, "'..' is no topic's name"),
        ({"topics": ["^__consumer_.*"]}, "topics.0: '^__consumer_.*' means no topic: one that begins with __ has to be named"),
        ({"topics": []}, "topics: must name at least one, such as [a]"),
        (
            {"topics": [True]},
            "topics.0: must be text, not true (as YAML reads on, yes and true): to mean the word, put it in quotes",
        ),
        ({"group": 7}, "groups.0.group: must be text, not 7: put it in quotes"),
        ({"max_consumers": 10**20}, "max_consumers: must be at most 100000"),
        ({"holds": {"pinned": 1e20}}, "holds.pinned: must be"),
        ({"moves": {"cooldown": 1e308}}, "moves.cooldown: must be at most 31622400, not 1e+308"),
        ({"moves": {"cooldown": "10 s"}, "min_consumers": 0}, "min_consumers: must be at least 1, not 0"),
        ({"moves": {"cooldown": "soon"}}, "must be seconds or a duration such as 500ms, 30s, 5m, 2h or 1d, not 'soon'"),
        ({"moves": {"cooldown": "-5s"}}, "must be seconds or a duration"),
        ({"moves": 5}, "moves: must be a block of settings, such as {consumer_price: ...}, not 5"),
        ({"moves.cooldown": 5}, "moves.cooldown: is written moves: {cooldown: ...}; conf"),
        ({"capacity": {"bytes_per_s": 1e308}}, "capacity.bytes_per_s: must be at most 1000000000000000, not 1e+308"),
        ({"capacity": {"bytes_per_s": "1e6"}}, "not '1e6': YAML takes that for text, write 1000000 or 1.0e+6"),
        ({"capacity": {"bytes_per_s": "1Mbit"}}, "must be bytes or a size such as 500kB, 1MB or 1MiB, not '1Mbit'"),
        ({"capacity": {"cooldown": 1}}, "capacity.cooldown: is written moves.cooldown or scale_down.cooldown; conf"),
        ({"max_consumers": "1e20"}, "write 100000000000000000000 or 1.0e+20"),
        ({"capacity": {"bytes_per_s": "1e308"}}, "not '1e308': YAML takes that for text, write 1.0e+308"),
        ({"max_consumers": "1e999"}, "max_consumers: must be a number, not '1e999'"),
        ({"max_consumers": "1e3"}, "max_consumers: must be a number, not '1e3': YAML takes that for text, write 1000 or 1.0e+3"),
        ({"scale_down": {"step": "150%"}}, "scale_down.step: must be a share of the consumers of at most 100%, not '150%'"),
        ({"holds": {"paused": False}}, "not false (as YAML reads off, no and false): to mean the word, put it in quotes"),
        ({"fallback": "static"}, "fallback: is written fallback.behaviour now; conf"),
        ({"mode": None}, "mode: must be 'advise' or 'act', and nothing is written there"),
        ({"topics": {"a": 1}}, "topics: must be a list, such as [a, b]"),
        ({"workers": {"command": "run"}}, "workers.command: must be a list, such as [a, b], not 'run'"),
        ({"workers": ["run"]}, "workers: must be a block of settings"),
    ],
)
def test_groups_that_make_no_sense(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    group = {"group": "g", "topics": ["t"], **changes}
    assert said in "\n".join(problems(write(tmp_path / "c.yaml", {**MINIMAL, "groups": [group]})))


def test_what_is_wrong_is_said_once_and_whole(tmp_path: Path) -> None:
    group = {
        "group": "g", "topics": ["t"], "algorithm": "EXACT", "mode": "act",
        "workers": {"command": ["x"]},
    }  # fmt: skip
    (said,) = problems(write(tmp_path / "c.yaml", {**MINIMAL, "groups": [group]}))
    assert said.startswith("groups.g: algorithm EXACT is for mode advise")
    assert said.endswith("; use PACE (line 5)")


def test_a_group_named_twice(tmp_path: Path) -> None:
    group = {"group": "g", "topics": ["t"]}
    assert "'g' is named twice" in problems(write(tmp_path / "c.yaml", {**MINIMAL, "groups": [group, group]}))[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("stat_dir: /x", "stat_dir: unknown setting (is state_dir meant?)"),
        ("quux: 1", "quux: unknown setting; conf/autoscaler.yaml lists all of them"),
        (
            "min_consumers: 3",
            "min_consumers: is written groups.min_consumers or groups.windows.min_consumers; conf/autoscaler.yaml shows where",
        ),
        ("duration: 3", "duration: is written groups.windows.duration; conf/autoscaler.yaml shows where"),
        ("drain_timeout: 3", "drain_timeout: is written groups.workers.drain_timeout; conf/autoscaler.yaml shows where"),
        ("grow_step: 3", "grow_step: is written groups.scale_up.step; conf/autoscaler.yaml shows where"),
        ("groups: [{group: g, topics: [t], trigger: 2}]", "groups.g.trigger: is written measure.trigger; conf"),
        ("measure: {state_dir: x}", "measure.state_dir: is written state_dir; conf/autoscaler.yaml shows where"),
        ("groups: [{group: g, topics: t}]", "groups.g.topics: must be a list, such as [a, b], not 't' (line 1)"),
        ("groups: [null]", "groups.0: must be a block of settings, and nothing is written there"),
        ("groups:", "groups: must be a list, such as [a, b], and nothing is written there"),
        ("groups: []", "groups: must hold at least one block of settings"),
        ("state_dir: ~not-a-user/x", "state_dir: ~not-a-user/x names a home directory that is not there"),
        (
            "state_dir: s3://bucket/x",
            "state_dir: must be a directory of the job's machine, such as /var/lib/autoscaler, not 's3://",
        ),
        (
            "state_dir: on",
            "state_dir: must be text, not true (as YAML reads on, yes and true): to mean the word, put it in quotes",
        ),
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
    first = {
        "group": "a",
        "topics": ["t", "t"],
        "capacity": {"bytes_per_s": 0},
        "min_consumers": 9,
        "max_consumers": 2,
        "color": 1,
    }
    second = {"group": "a", "topics": ["t"], "mode": "act", "assignment": "native"}
    connection = {
        "bootstrap.servers": "localhost, b:abc", "nonsense.key": 1, "security.protocol": "FOO", "ssl.key.password": "tiger7",
        "ssl.ca.location": str(tmp_path / "no.pem"), "sasl.username": "env:NOT_SET_ANYWHERE",
    }  # fmt: skip
    said = "\n".join(problems(write(tmp_path / "c.yaml", {
        "clusters": [{"connection": connection}], "state_dir": "${NOT_SET_EITHER}/x", "groups": [first, second],
        "measure": {"trigger": "30s", "watchdog": 40},
    })))  # fmt: skip
    for part in (
        "'localhost' is not host:port", "'b:abc' is not host:port", "nonsense.key is not", "security.protocol: 'foo'",
        "ssl.key.password must be a reference", "no.pem does not exist", "NOT_SET_ANYWHERE is not set", "NOT_SET_EITHER",
        "groups.0.capacity.bytes_per_s", "groups.0.color", "groups.0: min_consumers 9", "groups.0: topics names a topic twice",
        "groups.1: mode act needs workers", "'a' is named twice", "measure.watchdog: 40 s",
        "measure.known_for: 3 s",
    ):  # fmt: skip
        assert part in said, part
    assert "tiger7" not in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("state_dir: x\nstate_dir: y\n", "'state_dir' is set twice"),
        (
            "groups: [{group: g, capacity: {bytes_per_s: yes}, topics: [t]}]",
            "groups.g.capacity.bytes_per_s: must be a number, not true",
        ),
        ("groups: [{group: ../../x, topics: [t]}]", "groups.../../x.group: '../../x' names a directory"),
        ("audit: {flush: .inf}", "audit.flush: must be a finite number"),
    ],
)
def test_values_that_are_no_values(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    assert said in "\n".join(problems(file))


def holds_number(annotation: object) -> bool:
    """Say whether a setting is a number, or one if it is given."""
    inner = () if get_origin(annotation) in {dict, tuple} else get_args(annotation)
    return annotation in {int, float} or any(map(holds_number, inner))


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
    shown = path.replace("groups.", "groups.payments.").replace("windows.", "windows.0.")
    shown = shown.replace("clusters.", "clusters.kafka.")
    assert any(x.startswith(f"{shown}: must be a number, not {str(flag).lower()} (line ") for x in said), said


@pytest.mark.parametrize("text", ["groups: &a [*a]", "[" * 3000], ids=["holds itself", "deep"])
def test_a_file_without_an_end(tmp_path: Path, text: str) -> None:
    (said,) = problems(write(tmp_path / "c.yaml", text))
    assert said == "is not YAML: blocks lie in blocks without an end"


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(b"state_dir: \xff\xfe")
    assert "is not UTF-8" in problems(file)[0]


@pytest.mark.skipif(find_spec("ortools") is None, reason="the extra 'exact' is not installed")
def test_the_exact_solver_may_advise(tmp_path: Path) -> None:
    group = {"group": "g", "topics": ["t"], "algorithm": "EXACT"}
    assert load(write(tmp_path / "c.yaml", {**MINIMAL, "groups": [group]})).groups[0].planner == "EXACT"


def test_a_solver_that_is_not_installed_is_named_with_what_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoscaler.config.settings.find_spec", lambda _: None)
    group = {"group": "g", "topics": ["t"], "algorithm": "EXACT"}
    (said,) = problems(write(tmp_path / "c.yaml", {**MINIMAL, "groups": [group]}))
    assert "groups.g.algorithm: EXACT needs the extra 'exact'" in said


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
