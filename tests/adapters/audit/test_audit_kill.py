"""A real process with a real Spark, killed while it writes: no row of a decision that acted is missing, none is there twice."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from autoscaler.adapters.audit.tables import TABLES
from tests.adapters.audit.audit_victim import LIFE
from tests.until import let_pass, until

ROOT = Path(__file__).resolve().parents[3]
KILLS = 2


def start(place: Path, life: int, *count: str) -> "subprocess.Popen[bytes]":
    command = [
        sys.executable,
        "-m",
        "tests.adapters.audit.audit_victim",
        str(place / "tables"),
        str(place / "published"),
        str(life),
    ]
    log = (place / f"life-{life}.log").open("wb")
    with log:
        return subprocess.Popen([*command, *count], cwd=ROOT, stdout=log, stderr=log, start_new_session=True)


def commits(place: Path) -> int:
    return len(list((place / "tables").glob("*/_delta_log/*.json")))


def published(place: Path) -> int:
    file = place / "published"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def wait_for_new(process: "subprocess.Popen[bytes]", place: Path, before: tuple[int, int], log: Path) -> None:
    """Wait until the life has published plans and committed more than its tables."""

    def come() -> bool:
        assert process.poll() is None, log.read_text()
        return published(place) >= before[0] + 3 and commits(place) >= before[1] + 2 + len(TABLES)

    until("plans and commits", come, explain=log.read_text)


def end(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # its group: the JVM too
    process.wait(30)


@pytest.mark.spark
@pytest.mark.timeout(420)
def test_kills_lose_and_double_no_row_of_what_acted(tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    pauses = random.Random(seed)
    for life in range(KILLS):
        before = published(tmp_path), commits(tmp_path)
        process = start(tmp_path, life)
        try:
            wait_for_new(process, tmp_path, before, tmp_path / f"life-{life}.log")
            let_pass(pauses.uniform(0, 1.5))  # somewhere between two commits, or in one
            if life % 2:
                process.send_signal(signal.SIGKILL)  # the job alone: its JVM sees that it is gone
            else:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)
        finally:
            end(process)
    last = start(tmp_path, KILLS, "5")  # ends on the cycle that follows a plan
    try:
        assert last.wait(200) == 0, (tmp_path / f"life-{KILLS}.log").read_text()
    finally:
        end(last)
    assert not list((tmp_path / "tables" / "journal").glob("*.jsonl"))
    held = {name: DeltaTable(str(tmp_path / "tables" / name)).to_pyarrow_table().to_pylist() for name in TABLES}
    for name, table in TABLES.items():
        twice = [k for k, n in Counter(tuple(r[c] for c in table.key) for r in held[name]).items() if n > 1]
        assert not twice, name
    assert_complete(held, [json.loads(line) for line in (tmp_path / "published").read_text().splitlines()])


def assert_complete(held: dict[str, list[dict[str, Any]]], plans: list[dict[str, Any]]) -> None:
    ids = {p["decision_id"] for p in plans}
    assert len(ids) == len(plans) > 3 * KILLS
    acted = {r["decision_id"]: r for r in held["decisions"] if r["acted"]}
    assert set(acted) == ids
    assert {(r["decision_id"], r["phase"]) for r in held["actions"]} == {(i, p) for i in ids for p in ("intent", "outcome")}
    assert all(r["epoch"] == acted[r["decision_id"]]["epoch"] + 1 for r in held["actions"] if r["phase"] == "outcome")
    assert all(len(r["steps"]) == 2 and len(r["assignment_after"]) == 3 for r in acted.values())
    handed = {r["epoch"] for r in held["handovers"]}
    followed = [p["epoch"] + 1 for p in plans]  # the cycle after a plan tells two handovers, unless it was killed before
    killed_at = {f for f, then in pairwise(followed) if then // LIFE > f // LIFE}
    assert len(killed_at) == KILLS
    assert handed <= set(followed)
    assert set(followed) - handed <= killed_at
    assert len(held["handovers"]) == 2 * len(handed)
