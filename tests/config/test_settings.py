"""The configuration file: all of it is documented, for people and for editors, and grouped."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from pydantic import TypeAdapter

from autoscaler.config.balance import Balance
from autoscaler.config.json_schema import schema, text
from autoscaler.config.notify import Notify
from autoscaler.config.policy import Window
from autoscaler.config.setting_paths import PATHS, SECTIONS
from autoscaler.config.settings import Audit, Group, Handover, Http, Measure, Workers, load
from autoscaler.config.yaml_file import read
from tests.config.files import BEGINNING, EVERY_SETTING, MINIMAL, ROOT, SETTINGS, models_in, problems, window, write

SCHEMA = ROOT / "conf" / "autoscaler.schema.json"
FILES = sorted([*(ROOT / "conf").glob("*.yaml"), *(ROOT / "docs" / "examples").glob("*.yaml")])


def written(data: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Return every setting of a file with its path; lists of blocks count as their first one."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield path + str(key), value
            yield from written(value, f"{path}{key}.")
    elif isinstance(data, list) and data and isinstance(data[0], Mapping):
        yield from written(data[0], path)


BLOCKS = {f"groups.{name}": said for name, said in SECTIONS.items()}
DOCUMENTED = dict(written(yaml.safe_load(EVERY_SETTING.read_text(encoding="utf-8"))))


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
            assert said[path].get("default") == (list(default) if isinstance(default, tuple) else default), path


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
    "Http": "http: {NAME: 1}", "Notify": "notify: {NAME: 1}",
    "Balance": "clusters: [{connection: {}, balance: {NAME: 1}}]",
}  # fmt: skip


@pytest.mark.parametrize(("model", "name", "path"), [(m, n, p) for m, table in PATHS.items() for n, p in table.items()])
def test_a_name_of_before_is_refused_with_the_one_of_now(tmp_path: Path, model: str, name: str, path: str) -> None:
    found = problems(write(tmp_path / "c.yaml", OLD[model].replace("NAME", name)))
    assert any(f"{name}: is written {path} now; conf/autoscaler.yaml shows where (line 1)" in x for x in found), found


def test_every_name_of_the_table_is_a_setting() -> None:
    models = {m.__name__: m for m in (Group, Window, Workers, Measure, Handover, Audit, Http, Notify, Balance)}
    for model, table in PATHS.items():
        assert set(table) <= set(models[model].model_fields)
        assert len(set(table.values())) == len(table)
    assert {path.partition(".")[0] for path in PATHS["Group"].values() if "." in path} == set(SECTIONS)


def test_a_group_may_take_settings_from_another(tmp_path: Path) -> None:
    first = "- &usual {group: a, topics: [t], max_consumers: 9, scale_down: {cooldown: 2m}}\n"
    file = tmp_path / "c.yaml"
    file.write_text(f"{BEGINNING}groups:\n{first}- {{<<: *usual, group: b, max_consumers: 4}}\n")
    (_, second) = load(file).groups
    assert (second.group, second.max_consumers, second.shrink_cooldown_s) == ("b", 4, 120)


def test_five_lines_make_a_group(tmp_path: Path) -> None:
    lines = BEGINNING + "groups:\n- group: g\n  topics: [t]\n  mode: act\n  workers:\n    command: [run]\n"
    (group,) = load(write(tmp_path / "c.yaml", lines)).groups
    assert (group.mode, group.min_consumers, group.max_consumers, group.capacity_bytes_per_s) == ("act", 1, 64, None)


def test_two_groups_do_not_share_a_deployment(tmp_path: Path) -> None:
    def group(name: str, namespace: str) -> dict[str, object]:
        return {"group": name, "topics": ["t"], "workers": {"kind": "deployment", "deployment": "d", "namespace": namespace}}

    shared = {**MINIMAL, "groups": [group("a", "n"), group("b", "n"), group("c", "other")]}
    assert "groups: a and b name one Deployment, d: give each group its own" in problems(write(tmp_path / "c.yaml", shared))
    load(write(tmp_path / "c.yaml", {**MINIMAL, "groups": [group("a", "n"), group("c", "other")]}))


def test_two_groups_do_not_set_one_number_of_replicas(tmp_path: Path) -> None:
    scale = {"kind": "scale", "target": "argoproj.io/v1alpha1/Rollout/d"}
    groups = [{"group": x, "topics": ["t"], "assignment": "native", "workers": scale} for x in "ab"]
    said = problems(write(tmp_path / "c.yaml", {**MINIMAL, "groups": groups}))
    assert "groups: a and b name one Rollout, d: give each group its own" in said


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
