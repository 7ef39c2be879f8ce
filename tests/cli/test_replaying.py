"""``autoscaler replay``: real processes over real Delta tables, no Spark."""

import json
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from tests.cli import commands
from tests.fakes import AuditEntry
from tests.replay.recorded import remade, tables
from tests.replay.test_redecide import eventful


def put(root: Path, entries: Sequence[AuditEntry]) -> Path:
    loads, decisions = tables(entries)
    for name, table in (("loads", loads), ("decisions", decisions)):
        write_deltalake(str(root / name), table, partition_by=["date"])
    return root


@pytest.fixture(scope="module")
def entries() -> list[AuditEntry]:
    return eventful().audit.entries


def run(place: Path, entries: Sequence[AuditEntry], *more: str) -> subprocess.CompletedProcess[str]:
    at = datetime.fromtimestamp(entries[0].decision.at, UTC)
    times = ("--since", at.isoformat(), "--until", (at + timedelta(hours=1)).isoformat())
    return commands.run("replay", "g", "--tables", place, *times, *more, TZ="UTC", COLUMNS="120")


def test_a_recorded_history_comes_out_the_same(tmp_path: Path, entries: list[AuditEntry]) -> None:
    done = run(put(tmp_path / "tables", entries), entries)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{len(entries)} cycles" in done.stdout
    assert "all came out the same" in done.stdout


def test_another_policy_is_told_by_the_first_cycle_that_differs_and_its_fields(tmp_path: Path, entries: list[AuditEntry]) -> None:
    place = put(tmp_path / "tables", remade(entries, target_utilisation=0.4))
    done = run(place, entries)
    assert done.returncode == 1
    first = entries[0].decision
    assert f"first: {first.decision_id}" in done.stdout
    told = json.loads(run(place, entries, "--json").stdout)
    assert told["differing"] > 1
    fields = {d["field"]: (d["recorded"], d["again"]) for d in told["differences"]}
    assert fields["usable_bytes_per_s"] == (80.0, 40.0)
    assert fields["consumers"][0] == first.consumers < fields["consumers"][1]


def test_rows_that_cannot_be_decided_again_are_no_success(tmp_path: Path, entries: list[AuditEntry]) -> None:
    done = run(put(tmp_path / "tables", entries[3:6]), entries)
    assert done.returncode == 1
    assert "none could be decided again; 3 behind a cycle that is missing" in done.stdout


def test_rows_of_a_release_that_did_not_keep_measurements_are_counted_and_not_decided(
    tmp_path: Path, entries: list[AuditEntry], other: Path
) -> None:
    place = put(tmp_path / "tables", entries)
    kept = DeltaTable(str(place / "loads")).to_pyarrow_table().drop_columns(["measured"])
    write_deltalake(str(place / "loads"), kept, partition_by=["date"], mode="overwrite", schema_mode="overwrite")
    done = run(place, entries)
    assert (done.returncode, done.stderr) == (1, "")
    assert f"{len(entries)} with nothing decided, or recorded by an earlier release" in done.stdout
    done = run(place, entries, "--policy", str(other))
    assert (done.returncode, done.stdout) == (1, "")
    assert "no decision of group g" in done.stderr


def test_a_group_that_is_not_there_is_told_with_those_that_are(tmp_path: Path, entries: list[AuditEntry]) -> None:
    place = put(tmp_path / "tables", entries)
    done = commands.run("replay", "h", "--tables", place)
    assert (done.returncode, done.stdout) == (1, "")
    assert "there are decisions of g" in done.stderr


CONFIG = """
clusters: [{connection: {bootstrap.servers: "localhost:9092"}}]
state_dir: STATE
groups: [{group: g, topics: [orders], capacity: {bytes_per_s: 100, target_utilisation: 0.4}}]
"""


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Give a file whose policy puts half as much on each consumer."""
    file = tmp_path / "other.yaml"
    file.write_text(CONFIG.replace("STATE", str(tmp_path)))
    return file


def test_another_policy_is_told_beside_the_recorded_one_and_what_happened(
    tmp_path: Path, entries: list[AuditEntry], other: Path
) -> None:
    place = put(tmp_path / "tables", entries)
    done = run(place, entries, "--policy", str(other), "--price", "2", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    was, recorded, changed = json.loads(done.stdout)["outcomes"].values()
    assert was["hours"] == recorded["hours"] == changed["hours"]
    asked = [e.decision.consumers for e in entries]
    assert was["most"] == max(asked)
    assert was["consumer_hours"] == pytest.approx(sum(asked[:-1]) / 3600, rel=0.05)
    assert changed["consumer_hours"] > recorded["consumer_hours"]
    assert changed["money"] == 2 * changed["consumer_hours"]
    table = run(place, entries, "--policy", str(other), "--price", "2").stdout
    assert "money" in table
    assert f"{changed['moves']}" in table


def test_the_share_that_is_read_in_time_is_told_of_what_is_simulated(
    tmp_path: Path, entries: list[AuditEntry], other: Path
) -> None:
    place = put(tmp_path / "tables", entries)
    shares = [
        [
            x["in_time"]
            for x in json.loads(run(place, entries, "--policy", str(other), "--json", *within).stdout)["outcomes"].values()
        ]
        for within in ((), ("--within", "1ms"), ("--within", "1h"))
    ]
    assert [x[0] for x in shares] == [None] * 3, "of what happened it is not recorded"
    assert shares[0][1:] == [None, None]
    assert all(0 <= soon < late == 1 for soon, late in zip(shares[1][1:], shares[2][1:], strict=True))
    line = next(x for x in run(place, entries, "--policy", str(other), "--within", "5s").stdout.splitlines() if "within 5 s" in x)
    assert "not known" in line
    assert line.count("%") == 2


@pytest.mark.parametrize(
    ("option", "value"), [("--price", "-1"), ("--price", "nan"), ("--start", "-5"), ("--within", "0"), ("--within", "soon")]
)
def test_a_number_that_makes_no_sense_is_refused(option: str, value: str) -> None:
    done = commands.run("replay", "g", "--tables", "somewhere", "--policy", "x", option, value)
    assert done.returncode == 2
    assert option in done.stderr
    assert value in done.stderr


def test_a_policy_that_is_wrong_or_of_another_group_is_refused(tmp_path: Path, entries: list[AuditEntry], other: Path) -> None:
    place = put(tmp_path / "tables", entries)
    text = other.read_text()
    other.write_text(text.replace("group: g,", "group: h,"))
    done = run(place, entries, "--policy", str(other))
    assert (done.returncode, done.stderr) == (78, f"{other}: groups: no group 'g'; there are h\n")
    other.write_text(text.replace("0.4", "4"))
    done = run(place, entries, "--policy", str(other))
    assert done.returncode == 78
    assert done.stderr.startswith(f"{other}: groups.g.capacity.target_utilisation")
