"""``autoscaler report``: one file from real Delta tables, as a whole or not at all."""

import json
import os
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from autoscaler.adapters.audit import rows
from autoscaler.adapters.audit.decision_reader import DecisionTables
from autoscaler.adapters.audit.rows import Cycle
from autoscaler.cli.recorded_views import Times, reported
from autoscaler.cli.reporting import bounds_of
from autoscaler.cli.whole_file import write_whole
from autoscaler.errors import PermanentError
from autoscaler.ports import Inputs
from tests import builders as b
from tests.adapters.audit import audit_cases as cases
from tests.adapters.audit.test_audit_advised import timeline
from tests.cli.recorded_groups import OLD, SPAN, T0, day_of_cycles, tables_of_groups
from tests.cli.test_reading import iso, recorded, run, write

DAY_MOST_BYTES = 1_000_000


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tables_of_groups(tmp_path_factory.mktemp("state") / "tables")


def told(file: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="report">(.*?)</script>', file.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    said: dict[str, Any] = json.loads(found[1])
    return said


def test_a_report_has_the_views_of_a_group_with_what_each_decision_cost(tables: Path, tmp_path: Path) -> None:
    file = tmp_path / "orders.html"
    done = run("report", "orders", "--tables", tables, *SPAN, "--output", file)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{file}: orders between 2023-11-14 22:13:00 UTC and")
    said = told(file)
    assert list(said["groups"]) == ["orders"]
    found = said["groups"]["orders"]
    assert [d["reason"] for d in found["one"]["decisions"]] == ["RATE_ABOVE_CAPACITY"] * 2
    moved, added = found["whys"]
    assert (moved["outcome"], moved["cost"]["moved"], moved["cost"]["handed_over"]) == ("done", 2, 2)
    assert (moved["cost"]["pause_median_s"], moved["cost"]["pause_max_s"]) == pytest.approx((0.05, 0.06))
    assert added["cost"]["moved"] == 0
    assert moved["fewer"].startswith("no placement on 1 consumer keeps each within 80 B/s")
    assert moved["held"] == [{"consumer": "consumer 0", "load": 135.0, "partitions": "0-2"}]
    assert [(h["name"], h["partitions"]) for h in found["one"]["holders"]] == [
        ("consumer 0", ["orders-0"]),
        ("consumer 1", ["orders-1"]),
    ]
    loads = [p["load"] for p in found["one"]["history"]]
    assert (len(loads), max(loads)) == (62, 135.0)


def test_all_groups_of_the_time_are_in_one_report_in_the_zone_that_is_asked_for(tables: Path, tmp_path: Path) -> None:
    file = tmp_path / "all.html"
    done = run("report", "--all", "--tables", tables, *SPAN, "--zone", "Europe/Berlin", "--output", file)
    assert (done.returncode, done.stderr) == (0, "")
    said = told(file)
    assert list(said["groups"]) == ["<script>alert(1)</script>", "it's", "orders"]
    assert (said["zone"], "23:13:00 CET" in said["notes"][0]) == ("Europe/Berlin", True)
    (note,) = said["groups"]["it's"]["notes"]
    assert note.startswith("The last decision of this time was made at 2023-11-14 23:13:25 CET; after it nothing is recorded up")


def holders_of(cycle: Cycle, root: Path) -> list[dict[str, Any]]:
    """Return the consumers of a report of one cycle, of which the table loads has what it was made from."""
    write(root, cycle)
    write_deltalake(str(root / "loads"), rows.loads([cycle], [0]), partition_by=["date"])
    group = cycle.decision.group
    done = run("report", group, "--tables", root, "--since", "2000-01-01", "--output", root / "r.html")
    assert (done.returncode, done.stderr) == (0, "")
    found: list[dict[str, Any]] = told(root / "r.html")["groups"][group]["one"]["holders"]
    return found


def test_consumers_have_their_names_and_hosts_where_the_cycle_was_recorded(tmp_path: Path) -> None:
    entry = timeline("native").audit.entries[10]
    values = {"decision": entry.decision, "snapshot": entry.snapshot, "owner": entry.owner, "inputs": entry.inputs}
    native = holders_of(Cycle(**values, outcomes=(), handovers=()), tmp_path / "native")  # type: ignore[arg-type]
    assert [(h["name"], h["client_id"], h["host"]) for h in native] == [(f"app-{n}",) * 2 + (f"/10.0.0.{n}",) for n in range(3)]
    decision, snapshot, state = cases.hot(T0)
    inputs = Inputs(number=0, observation=b.observation(snapshot, state), moment=b.moment(T0), start=None)
    cycle = Cycle(decision=decision, snapshot=snapshot, outcomes=(), handovers=(), owner=state.owner, inputs=inputs)
    managed = holders_of(cycle, tmp_path / "managed")
    assert [(h["slot"], h["name"]) for h in managed if h["partitions"]] == [(0, state.workers[0].name)]


def test_old_data_of_a_decision_that_was_just_made_is_not_the_end_of_what_is_recorded(tmp_path: Path) -> None:
    """While a cluster does not answer, its groups are decided by what was measured last."""
    cycle = recorded(cases.calm, T0)
    assert cycle.snapshot is not None
    write(tmp_path, replace(cycle, snapshot=replace(cycle.snapshot, sample_ts=T0 - 1_000)))
    since, until = (datetime.fromtimestamp(T0 + s, UTC) for s in (-10, 10))
    times = Times(since=since, until=until, old_s=180.0, shown=str)
    found = reported(DecisionTables(tmp_path), "orders", times, bounds_of(1), None)
    assert found is not None
    assert (found["one"]["group"]["old"], found["notes"]) == (True, [])


def test_what_is_not_there_is_said_in_the_zone_of_the_report(tables: Path, tmp_path: Path) -> None:
    """On a machine elsewhere: a report's times are UTC unless --zone says otherwise, whatever clocks are here."""
    done = run("report", "orders", "--tables", tables, "--since", iso(T0 + 90_000), "--output", tmp_path / "r", TZ="Asia/Tokyo")
    assert done.returncode == 1
    assert "UTC" in done.stderr
    assert "JST" not in done.stderr


def test_tables_of_an_older_release_are_reported_without_what_they_lack(tmp_path: Path) -> None:
    group = DeltaTable(OLD / "decisions").to_pyarrow_table()["group"][0].as_py()
    done = run("report", group, "--tables", OLD, "--since", "2000-01-01", "--output", tmp_path / "o.html")
    assert (done.returncode, done.stderr) == (0, "")
    found = told(tmp_path / "o.html")["groups"][group]
    assert len(found["whys"]) == len(found["one"]["decisions"]) > 0


def test_what_cannot_be_reported_is_said_and_leaves_nothing(tables: Path, tmp_path: Path) -> None:
    file = tmp_path / "r.html"
    to = ("--output", file)
    for arguments, code, said in [
        (("payments", "--tables", tables, *to), 1, "no decision of a group payments"),
        (("orders", "--tables", tables, "--since", iso(T0 + 90_000), *to), 1, "its latest is of"),
        (("--all", "--tables", tables, "--since", iso(T0 + 90_000), *to), 1, "no decision of any group"),
        (("orders", "--tables", tmp_path / "none", *to), 78, "no tables in"),
        (("orders", "--tables", tables, *SPAN, "--output", tmp_path / "no" / "r.html"), 1, "No such file or directory"),
        (("orders", "--tables", tables, *SPAN, "--output", tmp_path), 1, "cannot be written"),
        (("orders", "--all", "--tables", tables, *to), 2, "name a GROUP, or all of them by --all"),
        (("--tables", tables, *to), 2, "name a GROUP, or all of them by --all"),
        (("orders", "--tables", tables), 2, "--output"),
        (("orders", "--tables", tables, "--zone", "Mars/Olympus", *to), 2, "there is no time zone"),
    ]:
        done = run("report", *arguments)
        assert (done.returncode, said in done.stderr) == (code, True), (arguments, done.stderr)
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_the_report_that_was_there(tmp_path: Path) -> None:
    file = tmp_path / "r.html"
    write_whole(file, "before")
    with at_most(100_000), pytest.raises(PermanentError, match="cannot be written: File too large"):
        write_whole(file, "x" * 200_000)
    assert file.read_text(encoding="utf-8") == "before"
    assert list(tmp_path.iterdir()) == [file]
    write_whole(file, "after")
    assert file.read_text(encoding="utf-8") == "after"


def test_a_new_file_may_be_read_by_those_that_the_user_lets(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "new", "text")
    finally:
        os.umask(before)
    assert oct((tmp_path / "new").stat().st_mode & 0o777) == "0o640"


def test_what_is_no_regular_file_stays_what_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for place in (pipe, tmp_path):
        with pytest.raises(PermanentError, match="no regular file"):
            write_whole(place, "text")
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_file_that_this_user_may_only_read_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("before")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root, who runs tests, may write everything
    with pytest.raises(PermanentError, match="may only be read"):
        write_whole(file, "after")
    assert file.read_text() == "before"


def test_a_day_of_cycles_is_bounded_keeps_its_peak_and_says_what_is_left_out(tmp_path: Path) -> None:
    """A decision each 10 s, as a job at rest records them; every twelfth changed something, and one has a peak."""
    peak = day_of_cycles(tmp_path)
    times = Times(since=datetime.fromtimestamp(T0, UTC), until=datetime.fromtimestamp(T0 + 86_400, UTC), old_s=180.0, shown=str)
    found = reported(DecisionTables(tmp_path), "orders", times, bounds_of(1), None)
    assert found is not None
    assert len(json.dumps(found)) < DAY_MOST_BYTES
    history = found["one"]["history"]
    assert len(history) <= 2 * 720 + 2
    assert max(p["load"] or 0.0 for p in history) == peak
    assert (len(found["one"]["decisions"]), len(found["whys"])) == (300, 300)
    assert len(found["marks"]) == 720 - 300
    assert found["notes"][0].startswith(f"The chart draws {len(history):,} of 8,640 recorded decisions: of every 120 s")
    assert found["notes"][1].startswith("720 decisions changed something: the latest 300 are listed")


def test_a_time_without_a_measurement_stays_a_gap(tmp_path: Path) -> None:
    """What is not known is no low load."""
    decision, snapshot, state = cases.calm(T0)
    blank = replace(decision, total_bytes_per_s=None)
    made = [
        rows.Cycle(
            decision=replace(d, at=T0 + s, decision_id=f"g/{s}"), snapshot=snapshot, outcomes=(), handovers=(), owner=state.owner
        )
        for s, d in enumerate([decision, blank, decision])
    ]
    write_deltalake(str(tmp_path / "decisions"), rows.decisions(made), partition_by=["date"])
    times = Times(since=datetime.fromtimestamp(T0, UTC), until=datetime.fromtimestamp(T0 + 86_400, UTC), old_s=1.0, shown=str)
    found = reported(DecisionTables(tmp_path), decision.group, times, bounds_of(1), None)
    assert found is not None
    assert None in [p["load"] for p in found["one"]["history"]]
