"""The configuration file: all of it is documented, and all that is wrong with it is said at once."""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from autoscaler.config.grouping import in_file
from autoscaler.config.json_schema import schema, text
from autoscaler.config.policy import PRICED, Algorithm, Policy, Preset, Window, step_of
from autoscaler.config.setting_paths import PATHS, SECTIONS
from autoscaler.config.settings import Audit, Group, Handover, Measure, Settings, Workers, load
from autoscaler.config.yaml_file import read
from autoscaler.errors import SettingsError
from autoscaler.packing import ALGORITHMS, PRESETS, TAKES
from tests.builders import policy

ROOT = Path(__file__).resolve().parents[2]
EVERY_SETTING = ROOT / "conf" / "autoscaler.yaml"
SCHEMA = ROOT / "conf" / "autoscaler.schema.json"
FILES = sorted([*(ROOT / "conf").glob("*.yaml"), *(ROOT / "docs" / "examples").glob("*.yaml")])
MINIMAL: dict[str, object] = {
    "clusters": [{"connection": {"bootstrap.servers": "localhost:9092"}}],
    "state_dir": "/tmp/state",  # noqa: S108 -- never written to
    "groups": [{"group": "g", "topics": ["t"]}],
}

BEGINNING = "state_dir: /tmp/x\nclusters:\n- name: kafka\n  connection:\n    bootstrap.servers: broker:9092\n"


def models_in(annotation: object) -> list[type[BaseModel]]:
    """Return the settings models that a type mentions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [m for part in get_args(annotation) for m in models_in(part)]


def fields(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Return every setting of a model and of the models inside, with its path in the file."""
    for written_as, name in in_file(model).items():
        info = model.model_fields[name]
        yield path + written_as, info
        for inner in models_in(info.annotation):
            yield from fields(inner, f"{path}{written_as}.")


def written(data: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Return every setting of a file with its path; lists of blocks count as their first one."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield path + str(key), value
            yield from written(value, f"{path}{key}.")
    elif isinstance(data, list) and data and isinstance(data[0], Mapping):
        yield from written(data[0], path)


SETTINGS = dict(fields(Settings))
BLOCKS = {f"groups.{name}": said for name, said in SECTIONS.items()}
DOCUMENTED = dict(written(yaml.safe_load(EVERY_SETTING.read_text(encoding="utf-8"))))


def write(path: Path, data: object) -> Path:
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data), encoding="utf-8")
    return path


def problems(path: Path) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load(path)
    return caught.value.problems


def window(**changes: object) -> dict[str, object]:
    return {"cron": "0 8 * * *", "duration": 60, "paused": "all", **changes}


# --- the documented file ---------------------------------------------------------------------------------------------


def test_the_file_documents_every_setting_and_nothing_else() -> None:
    free = {"clusters.connection.bootstrap.servers"}  # librdkafka's names, not ours
    assert set(DOCUMENTED) - free == set(SETTINGS) | set(BLOCKS)


# What is refused with defaults alone: a window that changes nothing, workers without a command. So others are shown.
EXAMPLE = ("groups.windows.", "groups.workers.command")


@pytest.mark.parametrize(
    "path",
    [
        p
        for p, info in SETTINGS.items()
        if not info.is_required() and not models_in(info.annotation) and not p.startswith(EXAMPLE)
    ],
)
def test_the_file_shows_the_default(path: str) -> None:
    assert value_of(path, DOCUMENTED[path]) == SETTINGS[path].get_default(call_default_factory=True)


def value_of(path: str, value: object) -> object:
    """Return what a setting of this value is to the code."""
    metadata = SETTINGS[path].metadata
    said: Any = Annotated[SETTINGS[path].annotation, *metadata] if metadata else SETTINGS[path].annotation
    return TypeAdapter(said).validate_python(value)


LINES = read(EVERY_SETTING).lines


@pytest.mark.parametrize("path", sorted({*SETTINGS, *BLOCKS}))
def test_the_file_says_of_each_setting_what_the_schema_says(path: str) -> None:
    place = path.replace("groups.", "groups.0.").replace("windows.", "windows.0.").replace("clusters.", "clusters.0.")
    comment = EVERY_SETTING.read_text(encoding="utf-8").splitlines()[LINES[place] - 1].partition("  # ")[2]
    if path in BLOCKS:
        assert comment == BLOCKS[path]
        return
    said = SETTINGS[path].description
    assert said is not None
    assert len(said) > 10
    assert comment == ("required; " if SETTINGS[path].is_required() else "") + said


# --- the schema for editors ------------------------------------------------------------------------------------------


def test_the_schema_is_what_the_command_writes() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == text(), "autoscaler schema > conf/autoscaler.schema.json"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_each_configuration_names_the_schema_and_has_only_what_stands_in_it(file: Path) -> None:
    first, *_ = file.read_text(encoding="utf-8").splitlines()
    assert (file.parent / first.removeprefix("# yaml-language-server: $schema=")).resolve() == SCHEMA
    assert strangers(yaml.safe_load(file.read_text(encoding="utf-8")), schema()) == []


def strangers(data: object, part: dict[str, Any], at: str = "") -> list[str]:
    """Return what a block has that its schema does not know."""
    for choice in (part, *part.get("anyOf", ())):
        if "$ref" in choice:
            part = schema()["$defs"][choice["$ref"].rpartition("/")[2]]
    if isinstance(data, list):
        return [x for i, item in enumerate(data) for x in strangers(item, part.get("items", {}), f"{at}.{i}")]
    known = part.get("properties")
    if not isinstance(data, Mapping) or known is None:
        return []
    return [f"{at}.{k}" for k in data if k not in known] + [
        x for k, v in data.items() for x in strangers(v, known.get(k, {}), f"{at}.{k}")
    ]


def test_the_schema_knows_every_setting_with_its_default() -> None:
    said = dict(in_schema(schema()))
    blocks = [schema(), *schema()["$defs"].values()]
    assert [name for block in blocks for name in block["required"] if name not in block["properties"]] == []
    assert set(said) == set(SETTINGS) | set(BLOCKS)
    for path, info in SETTINGS.items():
        default = info.get_default(call_default_factory=True)
        if not info.is_required() and not models_in(info.annotation) and default:
            assert said[path].get("default") == default, path


def in_schema(part: dict[str, Any], at: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every setting of a schema, with its path."""
    for name, below in part.get("properties", {}).items():
        yield at + name, below
        refs = [c["$ref"] for c in (below, below.get("items", {}), *below.get("anyOf", ())) if "$ref" in c]
        yield from in_schema(schema()["$defs"][refs[0].rpartition("/")[2]] if refs else below, f"{at}{name}.")


# --- the file is grouped, with units ---------------------------------------------------------------------------------

OLD = {
    "Group": "groups: [{group: g, topics: [t], NAME: 1}]", "Window": "groups: [{group: g, topics: [t], windows: [{NAME: 1}]}]",
    "Workers": "groups: [{group: g, topics: [t], workers: {NAME: 1}}]", "Measure": "measure: {NAME: 1}",
    "Handover": "handover: {NAME: 1}", "Audit": "audit: {NAME: 1}",
}  # fmt: skip


@pytest.mark.parametrize(("model", "name", "path"), [(m, n, p) for m, table in PATHS.items() for n, p in table.items()])
def test_a_name_of_before_is_refused_with_the_one_of_now(tmp_path: Path, model: str, name: str, path: str) -> None:
    found = problems(write(tmp_path / "c.yaml", OLD[model].replace("NAME", name)))
    assert any(f"{name}: is written {path} now; conf/autoscaler.yaml shows where (line 1)" in x for x in found), found


def test_every_name_of_the_table_is_a_setting() -> None:
    models = {m.__name__: m for m in (Group, Window, Workers, Measure, Handover, Audit)}
    for model, table in PATHS.items():
        assert set(table) <= set(models[model].model_fields)
        assert len(set(table.values())) == len(table)
    assert {path.partition(".")[0] for path in PATHS["Group"].values() if "." in path} == set(SECTIONS)


def test_five_lines_make_a_group(tmp_path: Path) -> None:
    lines = BEGINNING + "groups:\n- group: g\n  topics: [t]\n  mode: act\n  workers:\n    command: [run]\n"
    (group,) = load(write(tmp_path / "c.yaml", lines)).groups
    assert (group.mode, group.min_consumers, group.max_consumers, group.capacity_bytes_per_s) == ("act", 1, 64, None)


def test_settings_stand_in_blocks(tmp_path: Path) -> None:
    data = {
        "scale_up": {"step": 2, "stabilisation": "30s"}, "scale_down": None, "moves": {"cooldown": 7},
        "capacity": {"bytes_per_s": "2MiB", "assumed_bytes_per_s": "1.5 MB", "target_utilisation": 0.7},
        "retention": {"at_risk_within": "2h"}, "fallback": {"after": "500ms"}, "holds": {"stuck_after": "1d"},
        "windows": [window(duration="10h"), window(duration=90)],
    }  # fmt: skip
    (group,) = load(write(tmp_path / "c.yaml", {**MINIMAL, "groups": [{"group": "g", "topics": ["t"], **data}]})).groups
    assert (group.grow_step, group.grow_stabilisation_s, group.shrink_cooldown_s, group.cooldown_s) == ("2", 30, 60, 7)
    assert (group.capacity_bytes_per_s, group.capacity_prior_bytes_per_s, group.target_utilisation) == (2_097_152, 1.5e6, 0.7)
    assert (group.retention_risk_s, group.fallback_after_s, group.stuck_after_s) == (7200, 0.5, 86_400)
    assert [w.duration_min for w in group.windows] == [600, 90]


def test_the_file_can_be_loaded() -> None:
    settings = load(EVERY_SETTING)
    assert settings.groups[0].group == "payments"


SASL = {"bootstrap.servers": "b:9092", "security.protocol": "SASL_SSL"}


@pytest.mark.parametrize(
    "connection",
    [
        {"bootstrap.servers": "SASL_SSL://a:9092, [::1]:9092,c.example.org:1"},
        {**SASL, "sasl.mechanism": "GSSAPI"},
        {**SASL, "sasl.kerberos.service.name": "kafka"},
        {**SASL, "sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": "file:/etc/hostname"},
        {**SASL, "sasl.mechanism": "env:HOME"},
    ],
)
def test_connections_that_may_work(tmp_path: Path, connection: dict[str, str]) -> None:
    load(write(tmp_path / "c.yaml", {**MINIMAL, "clusters": [{"connection": connection}]}))


def test_what_a_connection_refers_to_need_not_be_there_where_nothing_connects(tmp_path: Path) -> None:
    connection = {
        "bootstrap.servers": "env:NOT_SET_ANYWHERE", "security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN",
        "sasl.username": "me", "sasl.password": "file:/not/there", "ssl.ca.location": "/no.pem",
    }  # fmt: skip
    file = write(tmp_path / "c.yaml", {**MINIMAL, "clusters": [{"connection": connection}]})
    assert len(problems(file)) == 3
    assert load(file, connects=False).root == Path("/tmp/state")  # noqa: S108


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (["a:9092", "b:9092"], "clusters.0.connection.bootstrap.servers: must be one text with commas in between, such as a,b"),
        (None, "clusters.0.connection.bootstrap.servers: must be text, a number, true or false"),
    ],
)
def test_one_wrong_value_of_a_connection_is_one_line(tmp_path: Path, value: object, said: str) -> None:
    (found,) = problems(write(tmp_path / "c.yaml", {**MINIMAL, "clusters": [{"connection": {"bootstrap.servers": value}}]}))
    assert found.startswith(said)


def test_what_a_connection_lacks_is_said_beside_a_value_of_a_wrong_type(tmp_path: Path) -> None:
    connection = {**SASL, "sasl.mechanism": "PLAIN", "sasl.password": "file:/etc/hostname", "bootstrap.servers": ["a:1"]}
    found = problems(write(tmp_path / "c.yaml", {**MINIMAL, "clusters": [{"connection": connection}]}))
    assert len(found) == 2
    assert any("sasl.username is missing" in x for x in found)


def test_what_is_wrong_is_said_with_its_line(tmp_path: Path) -> None:
    text = BEGINNING + "groups:\n- group: a\n  topics: [t]\n- topics: [t]\n  group: b\n  moves:\n    cooldown: soon\n"
    (said,) = problems(write(tmp_path / "c.yaml", text))
    assert said.startswith("groups.b.moves.cooldown: must be seconds or a duration")
    assert said.endswith("(line 12)")


# --- what is wrong is said, all at once ------------------------------------------------------------------------------


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
    ("connection", "said"),
    [
        ({}, "bootstrap.servers is missing"),
        ({"bootstrap.servers": "b:9092", "sasl.password": "hunter2"}, "must be a reference"),
        ({"bootstrap.servers": "b:9092", "sasl.password": "env:NOT_SET_ANYWHERE"}, "NOT_SET_ANYWHERE"),
        ({"bootstrap.servers": "b:9092", "sasl.password": "file:/not/there"}, "/not/there"),
        ({"bootstrap.servers": "b:9092", "ssl.ca.location": "/not/there.pem"}, "/not/there.pem does not exist"),
        ({"bootstrap.servers": "http://broker:9092"}, "'http://broker:9092' is not host:port"),
        ({"bootstrap.servers": "broker:0"}, "'broker:0' is not host:port"),
        ({"bootstrap.servers": "broker:99999"}, "'broker:99999' is not host:port"),
        (SASL, "sasl.mechanism is missing: name one, such as PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.password": "file:/etc/hostname"}, "sasl.username is missing: PLAIN logs in"),
        ({**SASL, "sasl.mechanisms": "scram-sha-512", "sasl.username": "me"}, "sasl.password is missing: scram-sha-512 logs in"),
        ({**SASL, "sasl.mechanisms": "scram-sha-512"}, "'scram-sha-512' is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI"),
        ({**SASL, "sasl.mechanism": "FOO"}, "sasl.mechanism: 'FOO' is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI"),
        ({**SASL, "sasl.mechanism": "OAUTHBEARER"}, "sasl.mechanism: OAUTHBEARER is not supported here"),
        (
            {"bootstrap.servers": "b:1", "sasl.username": "me", "sasl.mechanism": "PLAIN"},
            "sasl.mechanism, sasl.username: security.protocol must be sasl_ssl or sasl_plaintext; by plaintext the clients",
        ),
        ({**SASL, "security.protocol": "SSL", "sasl.mechanism": "PLAIN"}, "by ssl the clients would connect without logging in"),
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
        ({"workers": {"kind": "processes"}}, "kind processes needs workers.command"),
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
        ({"group": "g" * 201}, "group: must be at most 200 characters"),
        ({"topics": ["__consumer_offsets"]}, "'__consumer_offsets' is a topic of Kafka's or of the autoscaler's own"),
        ({"topics": ["__autoscaler_control"]}, "'__autoscaler_control' is a topic of Kafka's or of the autoscaler's own"),
        ({"topics": [".."]}, "'..' is no topic's name"),
        ({"topics": []}, "topics: must name at least one, such as [a]"),
        (
            {"topics": [True]},
            "topics.0: must be text, not true (as YAML reads on, yes and true): to mean the word, put it in quotes",
        ),
        ({"group": 7}, "groups.0.group: must be text, not 7: put it in quotes"),
        ({"max_consumers": 10**20}, "max_consumers: must be at most 100000"),
        ({"holds": {"pinned": 1e20}}, "holds.pinned: must be"),
        ({"moves": {"cooldown": 1e308}}, "moves.cooldown: must be at most 3.16224e+07, not 1e+308"),
        ({"moves": {"cooldown": "10 s"}, "min_consumers": 0}, "min_consumers: must be at least 1, not 0"),
        ({"moves": {"cooldown": "soon"}}, "must be seconds or a duration such as 500ms, 30s, 5m, 2h or 1d, not 'soon'"),
        ({"moves": {"cooldown": "-5s"}}, "must be seconds or a duration"),
        ({"moves": 5}, "moves: must be a block of settings, such as {consumer_price: ...}, not 5"),
        ({"moves.cooldown": 5}, "moves.cooldown: is written moves: {cooldown: ...}; conf"),
        ({"capacity": {"bytes_per_s": 1e308}}, "capacity.bytes_per_s: must be at most 1e+15, not 1e+308"),
        ({"capacity": {"bytes_per_s": "1e6"}}, "not '1e6': YAML takes that for text, write 1000000 or 1.0e+6"),
        ({"capacity": {"bytes_per_s": "1Mbit"}}, "must be bytes or a size such as 500kB, 1MB or 1MiB, not '1Mbit'"),
        ({"capacity": {"cooldown": 1}}, "capacity.cooldown: is written moves.cooldown or scale_down.cooldown; conf"),
        ({"max_consumers": "1e20"}, "write 100000000000000000000 or 1.0e+20"),
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
        ([cluster("a"), cluster("b")], on("a", None), "groups.g1.cluster: is required where there are several clusters"),
        ([cluster("a"), cluster("b")], on("a", "c"), "groups.g1.cluster: there is no cluster 'c'; there are a, b"),
        ([cluster("a")], on("b"), "groups.g0.cluster: there is no cluster 'b'; there are a"),
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
    shown = path.replace("groups.", "groups.payments.").replace("windows.", "windows.0.")
    assert any(x.startswith(f"{shown}: must be a number, not {str(flag).lower()} (line ") for x in said), said


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
    group = {"group": "g", "topics": ["t"], "algorithm": "EXACT"}
    assert load(write(tmp_path / "c.yaml", {**MINIMAL, "groups": [group]})).groups[0].planner == "EXACT"


def test_a_solver_that_is_not_installed_is_named_with_what_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoscaler.config.settings.find_spec", lambda _: None)
    group = {"group": "g", "topics": ["t"], "algorithm": "EXACT"}
    (said,) = problems(write(tmp_path / "c.yaml", {**MINIMAL, "groups": [group]}))
    assert "groups.g.algorithm: EXACT needs the extra 'exact'" in said


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
