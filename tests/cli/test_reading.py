"""``autoscaler history`` and ``autoscaler explain``: real processes over real Delta tables, no Spark."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from autoscaler.adapters.audit import balance_table, rows
from autoscaler.adapters.audit.decision_reader import DecisionTables
from autoscaler.adapters.audit.rows import Cycle
from autoscaler.brokers.ports import Entry
from autoscaler.core.decide import History, decide
from autoscaler.core.messages import text_of
from autoscaler.errors import SettingsError
from autoscaler.model import Decision, Finding, GroupState, LoadSnapshot, Reason, What
from tests import builders as b
from tests.adapters.audit import audit_cases as cases
from tests.adapters.audit.test_audit_advised import timeline
from tests.cli import commands

ROOT = Path(__file__).resolve().parents[2]
OLD = ROOT / "tests" / "adapters" / "audit" / "tables_c3d1acc"
T0 = cases.T0  # 2023-11-14 22:13:20 UTC
CONFIG = """
clusters:
  - connection: {bootstrap.servers: "localhost:9092"}
state_dir: STATE
groups:
  - {group: orders, topics: [orders], capacity: {bytes_per_s: 100}}
"""
Case = Callable[[float], tuple[Decision, LoadSnapshot, GroupState]]


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return commands.run(*arguments, **({"TZ": "UTC", "COLUMNS": "80"} | environment))


def recorded(case: Case, at: float, *, acted: bool = False, recovered: bool = False, group: str = "orders") -> Cycle:
    decision, snapshot, state = case(at)
    decision = replace(decision, group=group, decision_id=f"{group}/{int(at * 1000)}")
    outcomes = cases.outcomes(decision) if acted else ()
    return Cycle(
        decision=decision, snapshot=None if recovered else snapshot, outcomes=outcomes, handovers=(),
        owner=state.owner, recovered=recovered, cluster="kafka",
    )  # fmt: skip


def write(root: Path, *cycles: Cycle) -> Path:
    tables = {"decisions": rows.decisions(cycles), "actions": rows.actions(cycles)}
    for name, table in tables.items():
        write_deltalake(str(root / name), table, mode="append", partition_by=["date"])
    return root


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A group at rest that grows after half a minute and moves a second later; another one; and the next day."""
    root = tmp_path_factory.mktemp("state") / "tables"
    return write(
        root,
        *(recorded(cases.calm, T0 + s) for s in (0, 10, 20)),
        recorded(cases.grown, T0 + 30, acted=True),
        recorded(cases.hot, T0 + 31, acted=True),
        recorded(cases.calm, T0 + 5, group="it's"),
        recorded(cases.blind, T0 + 40),
        recorded(cases.calm, T0 + 86_400),
        recorded(cases.grown, T0 + 90_000, recovered=True),
    )


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


def test_a_history_has_a_line_for_each_action_and_each_spell_of_rest(tables: Path) -> None:
    done = run("history", "orders", "--tables", tables, "--since", iso(T0), "--until", iso(T0 + 60), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    spells = json.loads(done.stdout)["decisions"]
    assert [(s["at"][11:19], s["until"][11:19], s["reason"], s["acted"]) for s in spells] == [
        ("22:13:20", "22:13:40", "WITHIN_TARGET", False),
        ("22:13:50", "22:13:50", "RATE_ABOVE_CAPACITY", True),
        ("22:13:51", "22:13:51", "RATE_ABOVE_CAPACITY", True),
        ("22:14:00", "22:14:00", "STALE_INPUT", False),
    ]
    assert [(s["observed_consumers"], s["requested_consumers"], s["added"], s["moved"]) for s in spells[1:3]] == [
        (1, 2, 1, 0),
        (2, 2, 0, 2),
    ]


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_a_history_fits_the_terminal_and_cuts_no_sentence(tables: Path, columns: int) -> None:
    done = run("history", "orders", "--tables", tables, "--since", iso(T0), "--until", iso(T0 + 60), COLUMNS=str(columns))
    assert done.returncode == 0
    assert max(len(line.rstrip()) for line in done.stdout.splitlines()) <= columns
    text = " ".join(done.stdout.split())
    for said in ("at (UTC)", "22:13:50", "1 → 2", "⇄2", "RATE_ABOVE_CAPACITY", "is above", "broker 3: timed out"):
        assert said in text, said


def test_times_are_read_and_shown_in_a_zone(tables: Path) -> None:
    written = ("--since", "2023-11-14 23:13:20", "--until", "2023-11-14 23:14:20", "--zone", "Europe/Berlin")
    done = run("history", "orders", "--tables", tables, *written)
    assert "at (CET)" in done.stdout
    assert "23:13:50" in done.stdout
    assert "23:13:50" in run("history", "orders", "--tables", tables, *written[:4], TZ="Europe/Berlin").stdout, "of the machine"


def test_the_newest_lines_are_printed_and_how_many_there_are_before(tables: Path) -> None:
    done = run("history", "orders", "--tables", tables, "--since", iso(T0), "--until", iso(T0 + 60), "--limit", 1)
    assert "STALE_INPUT" in done.stdout
    assert "RATE_ABOVE_CAPACITY" not in done.stdout
    assert "and 3 before these: --limit 4" in done.stdout


def test_a_group_whose_name_has_a_quote_is_asked_for_as_it_is(tables: Path) -> None:
    assert run("history", "it's", "--tables", tables, "--since", iso(T0)).returncode == 0
    assert "it's (act)" in run("explain", "it's", "--tables", tables).stdout


def test_a_step_is_explained_with_what_speaks_against_other_numbers(tables: Path) -> None:
    done = run("explain", "orders", "--tables", tables, "--at", iso(T0 + 31.5))
    assert (done.returncode, done.stderr) == (0, "")
    text = " ".join(done.stdout.split())
    for said in (
        "orders (act), decided at 2023-11-14 22:13:51 UTC",
        "measured 135 B/s on 3 partitions",
        "consumers 2 there, 2 asked for; the load takes 2, no placement fewer than 2",
        "hottest 0 with 135 B/s of 80 B/s usable (80% of 100 B/s, configured), 3 partitions",
        "decided RATE_ABOVE_CAPACITY consumer 0 with 135 B/s is above",
        "done move orders-1 0->1, move orders-2 0->1: done, plan 8",
        "reasons.md: #rate_above_capacity",
        "why not 1 no placement on 1 consumer keeps each within 80 B/s: 135 B/s in all for 80 B/s, it takes 2 consumers at least",
        "why not 3 3 consumers are not needed for it",
    ):
        assert said in text, said
    assert max(len(line.rstrip()) for line in done.stdout.splitlines()) <= 80


def test_an_explanation_as_json_has_the_record_and_both_other_numbers(tables: Path) -> None:
    said = json.loads(run("explain", "orders", "--tables", tables, "--at", iso(T0 + 31.5), "--json").stdout)
    assert said["decision"]["at"] == "2023-11-14T22:13:51.250000+00:00"
    assert len(said["decision"]["loads"]) == 3
    assert (said["compared_with"], said["fewer"]["consumers"], said["more"]["consumers"]) == (2, 1, 3)
    assert said["fewer"]["findings"][0]["what"] == "CANNOT_HOLD"
    assert [o["phase"] for o in said["outcomes"]] == ["intent", "outcome"]


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (T0 + 35.0, "4 s before the time asked for"),
        (T0 + 80_000.0, "22 h before the time asked for"),  # no decision for most of a day
        (T0 + 90_010.0, "not recorded: the job ended before it wrote this row"),
        (T0 + 90_010.0, "what each partition had then is not recorded: no other number can be judged"),
    ],
)
def test_what_is_not_there_is_said(tables: Path, at: float, said: str) -> None:
    assert said in " ".join(run("explain", "orders", "--tables", tables, "--at", iso(at)).stdout.split())


def test_the_settings_tell_how_much_fewer_must_leave_to_spare_unless_they_have_changed(tables: Path, tmp_path: Path) -> None:
    """Two consumers with 50 and 20 of 80: one would hold 70, and 72 is the most that fewer may be given."""
    root = tmp_path / "state" / "tables"
    state = b.state(b.owned([0], [1]))
    decision, snapshot = cases.decided(b.rates(50.0, 28.0), state, T0)
    write(root, Cycle(decision=decision, snapshot=snapshot, outcomes=(), handovers=(), owner=state.owner))
    bare = " ".join(run("explain", decision.group, "--tables", root).stdout.split())
    assert "1 consumer would hold it: the hottest would get 78 B/s of 80 B/s usable" in bare
    assert "how much must be left to spare is not judged: give the configuration (--config)" in bare
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG.replace("STATE", str(tmp_path / "state")).replace("orders", decision.group, 1))
    changed = " ".join(run("explain", decision.group, "--config", file).stdout.split())
    assert "the group's settings have changed since" in changed


def test_a_limit_that_keeps_what_would_hold_is_named(tmp_path: Path) -> None:
    """The load takes three, and two are the most there may be."""
    held = b.state(b.owned([0, 1], [2]))
    snapshot = b.snapshot(b.rates(60.0, 50.0, 50.0), at=T0)
    decision, _ = decide(b.observation(snapshot, held), History(), b.policy(max_consumers=2), b.moment(T0))
    assert decision.limited_by == Reason.AT_MAXIMUM
    write(tmp_path, Cycle(decision=decision, snapshot=snapshot, outcomes=(), handovers=(), owner=held.owner))
    text = " ".join(run("explain", decision.group, "--tables", tmp_path).stdout.split())
    assert "why not 1 no placement on 1 consumer keeps each within 80 B/s" in text
    assert "why not 3 3 consumers would hold it: the hottest would get 60 B/s of 80 B/s usable" in text
    assert "AT_MAXIMUM held it, see above" in text


def test_a_group_that_an_assignor_places_is_not_judged_by_placements_of_ours(tmp_path: Path) -> None:
    """Its decisions say beside it what a placement by load would give: that is another way of consuming."""
    entry = timeline("native").audit.entries[10]
    cycle = Cycle(
        decision=entry.decision, snapshot=entry.snapshot, outcomes=(), handovers=(), owner=entry.owner, inputs=entry.inputs
    )
    write(tmp_path, cycle)
    text = " ".join(run("explain", entry.decision.group, "--tables", tmp_path).stdout.split())
    assert "placed by load" in text
    assert "if the table loads has the members of then" in text
    assert "would hold it" not in text
    write_deltalake(str(tmp_path / "loads"), rows.loads([cycle], [0]), partition_by=["date"])
    text = " ".join(run("explain", entry.decision.group, "--tables", tmp_path).stdout.split())
    assert "the group's own assignor (range) gives the hottest" in text
    assert "the table loads" not in text


def test_a_table_of_an_older_release_is_read_without_the_columns_that_it_lacks() -> None:
    group = DeltaTable(OLD / "decisions").to_pyarrow_table()["group"][0].as_py()
    assert "RATE_ABOVE_CAPACITY" in run("history", group, "--tables", OLD, "--since", "2000-01-01").stdout
    done = run("explain", group, "--tables", OLD)
    assert (done.returncode, done.stderr) == (0, "")
    assert "why not" in done.stdout


def test_what_cannot_be_answered_is_said_with_an_exit_code(tables: Path, tmp_path: Path) -> None:
    file, empty, broken, other = tmp_path / "c.yaml", tmp_path / "empty", tmp_path / "broken", tmp_path / "other"
    file.write_text(CONFIG.replace("STATE", str(tmp_path / "state")))
    shutil.copytree(tables, broken)
    for parquet in (broken / "decisions").rglob("*.parquet"):
        parquet.unlink()
    write_deltalake(str(other / "decisions"), DeltaTable(OLD / "handovers").to_pyarrow_table().select(["at"]))
    for command in ("history", "explain"):
        asked = [
            (("payments", "--tables", tables), 1, "there are decisions of orders, it's"),
            (("orders", "--tables", empty), 78, f"no tables in {empty}; the job makes them with its first decision"),
            (("orders", "--config", file), 78, f"{file}: tables: no tables in {tmp_path / 'state' / 'tables'}"),
            (("orders", "--tables", broken), 78, "cannot be read"),
            (("orders", "--tables", other), 78, "is none that this release can read"),
            (("orders", "--config", tmp_path / "none.yaml"), 78, "cannot be read"),
            (("orders", "--tables", tables, "--zone", "Mars/Olympus"), 2, "there is no time zone 'Mars/Olympus'"),
            (("orders",), 2, "one of the arguments --config --tables is required"),
        ]
        for arguments, code, said in asked:
            done = run(command, *arguments)
            assert (done.returncode, said in done.stderr) == (code, True), (command, arguments, done.stderr)
            assert "Traceback" not in done.stderr
    for arguments, code, said in [
        (("history", "orders", "--tables", tables, "--since", "1h"), 1, "its latest is of 2023-11-15 23:13:20 UTC"),
        (("history", "orders", "--tables", tables, "--since", "soon"), 2, "'soon' is no time: write 2h"),
        (("history", "orders", "--tables", tables, "--since", iso(T0 + 9), "--until", iso(T0)), 2, "after --until"),
        (("history", "orders", "--tables", tables, "--limit", "0"), 2, "must be a whole number from 1 on"),
        (
            ("explain", "orders", "--tables", tables, "--at", iso(T0 - 1)),
            1,
            "no decision of group orders at or before 2023-11-14",
        ),
    ]:
        done = run(*arguments)
        assert (done.returncode, said in done.stderr) == (code, True), (arguments, done.stderr)


def test_a_damaged_file_is_named_and_not_taken_for_one_that_is_being_rewritten(tables: Path, tmp_path: Path) -> None:
    copy = tmp_path / "tables"
    shutil.copytree(tables, copy)
    (first, *_) = sorted((copy / "decisions").rglob("*.parquet"))
    first.write_bytes(first.read_bytes()[:100])
    for command in ("history", "explain"):
        done = run(command, "orders", "--tables", copy, *(("--since", iso(T0)) if command == "history" else ()))
        assert (done.returncode, done.stdout) == (78, "")
        assert f"{first} is missing or damaged" in done.stderr


def test_a_job_that_does_not_run_is_said_first(tables: Path) -> None:
    (tables.parent / "supervisor.lock").touch()
    try:
        for command in ("history", "explain"):
            since = ("--since", iso(T0)) if command == "history" else ()
            first = run(command, "orders", "--tables", tables, *since).stdout.splitlines()[0]
            assert first.lower().startswith("the job does not run; the last decision is")
    finally:
        (tables.parent / "supervisor.lock").unlink()


def test_no_spark_is_loaded(tables: Path) -> None:
    code = (
        "import sys; from autoscaler.cli.main import main; "
        f"assert main(['explain', 'orders', '--tables', {str(tables)!r}]) == 0; "
        "print(sorted({m.partition('.')[0] for m in sys.modules} & {'pyspark', 'confluent_kafka', 'kafka', 'numba'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    assert "pyspark" not in done.stdout.splitlines()[-1]
    assert "kafka" not in done.stdout.splitlines()[-1]


def test_why_a_leader_was_moved_is_explained_and_what_became_of_it(tmp_path: Path) -> None:
    moved = b.tp(3)
    found = Finding.of(What.LEADERSHIP_MOVED, partitions=[moved], numbers={"source": 1, "target": 2, "score": 0.6})
    entries = [
        Entry(kind="action", plan="p", at=T0, status="planned", partition=moved, findings=(found,)),
        Entry(kind="outcome", plan="p", at=T0 + 5, status="moved", partition=moved, replicas=(2, 1)),
        Entry(kind="outcome", plan="p", at=T0 + 5, status="moved", partition=b.tp(4), replicas=(2, 1)),
    ]
    rows_ = [balance_table.row(e, cluster="kafka", mode="act", detail=text_of(e.findings)) for e in entries]
    table = pa.Table.from_pylist(rows_, balance_table.BALANCE.schema)
    write_deltalake(balance_table.of_brokers(tmp_path).at("balance"), table, partition_by=["date"])
    asked = ("explain", "--partition", str(moved), "--tables", tmp_path)
    planned, ended = run(*asked).stdout.splitlines()
    assert f"planned: {moved}: broker 2 leads in place of broker 1" in planned
    assert ended.endswith("moved to brokers 2, 1")
    plan = DecisionTables(tmp_path).plans(AT)
    assert [(r["kind"], r["partition"]) for r in plan] == [("action", 3), ("outcome", 3), ("outcome", 4)]
    (first,) = json.loads(run(*asked, "--at", iso(T0 + 1), "--json").stdout)
    assert (first["source"], first["target"], first["status"]) == (1, 2, "planned")
    assert run("explain", "g", *asked[1:]).returncode == 2, "a group or a partition"


AT = datetime.fromtimestamp(T0, UTC)


def balanced(place: Path, *clusters: tuple[str, list[Entry]]) -> DeltaTable:
    """Write what jobs have recorded of clusters, a commit for each."""
    path = balance_table.of_brokers(place).at("balance")
    for cluster, entries in clusters:
        rows_ = [balance_table.row(e, cluster=cluster, mode="act", detail=text_of(e.findings)) for e in entries]
        table = pa.Table.from_pylist(rows_, balance_table.BALANCE.schema)
        write_deltalake(path, table, mode="append", partition_by=["date"])
    return DeltaTable(path)


def planned(plan: str, at: float, target: int) -> list[Entry]:
    """Return rows of a plan that moves a leader, and of a look that found it, a hundred seconds before its end."""
    found = Finding.of(What.LEADERSHIP_MOVED, partitions=[b.tp(3)], source=1, target=target, score=0.6)
    look = Finding.of(What.BALANCING, actions=1, before=50, after=100)
    return [
        Entry(kind="look", plan="", at=at, findings=(look,)),
        Entry(kind="action", plan=plan, at=at, status="planned", partition=b.tp(3), findings=(found,)),
        Entry(kind="outcome", plan=plan, at=at + 100, status="moved", partition=b.tp(3), replicas=(target, 1)),
    ]


def test_the_page_reads_the_latest_plan_of_each_cluster_and_opens_no_older_files(tmp_path: Path) -> None:
    day = 86_400
    there = balanced(
        tmp_path,
        ("east", planned("old", T0 - 60 * day, 2)),
        ("east", planned("e", T0 - 20 * day, 3)),
        ("east", [Entry(kind="look", plan="", at=T0 - day, findings=(Finding.of(What.BROKERS_BALANCED),))]),
        ("west", planned("w", T0 - 2 * day, 4)),
        ("gone", planned("g", T0 - 40 * day, 4)),
    )
    early = str((AT - timedelta(days=35)).date())
    for file in there.file_uris():
        if file.partition("date=")[2][:10] < early:
            Path(file).unlink()
    found = [(r["cluster"], r["kind"], r["plan"]) for r in DecisionTables(tmp_path).plans(AT)]
    assert sorted(found, key=str) == sorted(
        [
            ("east", "action", "e"),
            ("east", "look", None),
            ("east", "outcome", "e"),
            ("west", "action", "w"),
            ("west", "look", None),
            ("west", "outcome", "w"),
        ],
        key=str,
    )


def test_what_a_command_has_ended_is_recorded_without_spark_where_there_is_a_table(tmp_path: Path) -> None:
    ended_ = Entry(kind="outcome", plan="e", at=T0 + 9, status="cancelled", partition=b.tp(3), replicas=(3, 1))
    rows_ = [balance_table.row(ended_, cluster="east", mode="act", detail="")]
    with pytest.raises(SettingsError, match="there is no table"):
        balance_table.append(tmp_path, rows_)
    for place in ("catalog.schema", "s3a://bucket/x"):
        with pytest.raises(SettingsError, match="Spark alone"):
            balance_table.append(place, rows_)
    balanced(tmp_path, ("east", planned("e", T0, 3)[:2]))
    balance_table.append(tmp_path, rows_)
    said = run("explain", "--partition", str(b.tp(3)), "--tables", tmp_path).stdout.splitlines()
    assert [line.split("  ")[1][:9] for line in said] == ["planned: ", "cancelled"]


def test_a_partition_of_two_clusters_is_explained_by_cluster(tmp_path: Path) -> None:
    balanced(tmp_path, ("east", planned("e", T0, 3)), ("west", planned("w", T0 + 1, 4)))
    asked = ("explain", "--partition", str(b.tp(3)), "--tables", tmp_path)
    lines = run(*asked).stdout.splitlines()
    assert [lines[0], lines[3]] == ["cluster east:", "cluster west:"]
    assert [f"broker {n} leads" in line for n, line in ((3, lines[1]), (4, lines[4]))] == [True, True]
    assert (lines[2].endswith("moved to brokers 3, 1"), lines[5].endswith("moved to brokers 4, 1")) == (True, True)
    assert [r["cluster"] for r in json.loads(run(*asked, "--json").stdout)] == ["east"] * 2 + ["west"] * 2


def test_of_a_partition_that_was_not_moved_it_is_said_what_the_last_look_has_found(tmp_path: Path) -> None:
    full = Finding.of(What.BROKER_FULL, numbers={"broker": 3, "load_bytes": 9e9, "most_bytes": 8e9}, goal="storage")
    entries = [
        Entry(kind="look", plan="", at=T0 + n, findings=(f,)) for n, f in enumerate((Finding.of(What.BROKERS_BALANCED), full))
    ]
    rows_ = [balance_table.row(e, cluster="kafka", mode="act", detail=text_of(e.findings)) for e in entries]
    table = pa.Table.from_pylist(rows_, balance_table.BALANCE.schema)
    write_deltalake(balance_table.of_brokers(tmp_path).at("balance"), table, partition_by=["date"])
    asked = ("explain", "--partition", "orders-3", "--tables", tmp_path)
    done = run(*asked)
    assert done.returncode == 1
    nothing, why = done.stderr.splitlines()
    assert nothing.startswith("nothing was planned for the brokers of orders-3")
    assert "cluster kafka" in why
    assert why.endswith("broker 3 has no room for replicas: it stores 9 GB, and its disk (disk_ratio) or limits leave it 8 GB")
    assert {r["kind"] for r in DecisionTables(tmp_path).plans(AT)} == {"look"}
    assert run(*asked, "--at", iso(T0)).stderr.splitlines()[1].endswith("every broker is in its bands")
