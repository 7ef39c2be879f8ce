"""Every word that a command prints with ``--json`` stands on the page that says what it means."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from autoscaler.adapters.audit.tables import DECISIONS
from autoscaler.cli.checking import _values, judged
from autoscaler.config.permissions import Need
from autoscaler.replay.redecide import Difference
from tests.cli.commands import run
from tests.cli.recorded_groups import SPAN, T0, tables_of_groups
from tests.cli.test_checking import CLUSTER, ORDERS, seen
from tests.cli.test_cli import GOOD, cycle, cycles
from tests.cli.test_reading import iso
from tests.cli.test_replaying import CONFIG, put
from tests.cli.test_replaying import run as replayed
from tests.controller.test_controller import World

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "json.md"
ROWS = {"decision", "outcomes", "cycle"}  # rows of tables and lines of files, which have pages of their own
NAMED = {"numbers", "unreached"}  # by what was found: names are no words


def section(command: str) -> str:
    """Return what the page says of a command, with what holds for all of them."""
    page = PAGE.read_text(encoding="utf-8")
    first, *parts = re.split(r"^## ", page, flags=re.MULTILINE)
    return first + next(x for x in parts if x.startswith(f"`{command} --json`"))


def words(value: object, *, inside: str = "") -> Iterator[str]:
    """Yield the keys of a value, without those of rows, and of what is named by its reader."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            if inside not in NAMED:
                yield key
            if key not in ROWS:
                yield from words(below, inside=key)
    elif isinstance(value, list):
        for below in value:
            yield from words(below, inside=inside)


def unsaid(command: str, value: Any) -> set[str]:  # noqa: ANN401  whatever was printed
    said = set(re.findall(r"`([a-z_]+)`", section(command)))
    return set(words(value)) - said


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tables_of_groups(tmp_path_factory.mktemp("tables"))


def test_of_history_explain_and_audit(tables: Path) -> None:
    for command in (("history", "orders", *SPAN), ("explain", "orders", "--at", iso(T0 + 35)), ("audit",)):
        done = run(*command, "--tables", tables, "--json")
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert unsaid(command[0], told) == set()
        assert unsaid(command[0], {**told, "unheard_of": 1}) == {"unheard_of"}
        if command[0] == "explain":
            assert {"fewer", "more", "outcomes"} <= told.keys()
            assert told["decision"].keys() == {n for n in DECISIONS.schema.names if n != "date"}


def test_of_status(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(GOOD.replace("STATE", str(tmp_path / "state")))
    cycles(config, cycle(1))
    (tmp_path / "state" / "logs" / "supervisor.json").write_text(
        '{"t":1,"state":"ended","started_at":1,"restarts":0,"exit_code":0,"ended_at":2,"ran_s":1,"again_at":null}'
    )
    told = json.loads(run("status", "--config", config, "--json").stdout)
    assert told["job"]["supervisor"]["state"] == "ended"
    assert unsaid("status", told) == set()


def test_of_check() -> None:
    none = frozenset[str]()
    found = _values(judged(CLUSTER, ORDERS, seen(members=1, topic=none, group=none, cluster=none, ids=False)))
    assert unsaid("check", {"unreached": {"east": "why"}, "groups": [json.loads(json.dumps(found))]}) == set()
    assert {f.name for f in fields(Need)} <= set(re.findall(r"`([a-z_]+)`", section("check")))


def test_of_replay_and_tune(tmp_path: Path) -> None:
    world = World()
    world.settle(40, 40, 40, cycles=3)
    entries = world.audit.entries
    place, other = put(tmp_path / "tables", entries), tmp_path / "other.yaml"
    other.write_text(CONFIG.replace("STATE", str(tmp_path)))
    told = json.loads(replayed(place, entries, "--json").stdout)
    assert unsaid("replay", {**told, "differences": [{f.name: 1 for f in fields(Difference)}]}) == set()
    told = json.loads(replayed(place, entries, "--policy", str(other), "--price", "1", "--json").stdout)
    assert unsaid("replay", {**told, "outcomes": [*told["outcomes"].values()]}) == set()
    told = json.loads(run("tune", "g", "--tables", place, "--since", "2023-11-14", "--price", "1", "--json").stdout)
    shown = {**told, "simulated": [*told["simulated"].values()], "settings": {}}
    assert unsaid("tune", shown) - set(re.findall(r"`([a-z_]+)`", section("replay"))) == set()
