"""``autoscaler tune``: a suggestion with what speaks for it, from real Delta tables, no Spark."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from tests.cli import commands
from tests.cli.test_replaying import put
from tests.controller.test_controller import World
from tests.fakes import AuditEntry
from tests.replay.recorded import remade
from tests.until import until


@pytest.fixture(scope="module")
def entries() -> list[AuditEntry]:
    """Return some minutes of a load that two consumers keep up with."""
    world = World()
    world.settle(30, 30, 30, 30, cycles=60)
    return world.audit.entries


def run(place: Path, entries: Sequence[AuditEntry], *more: str) -> subprocess.CompletedProcess[str]:
    at = datetime.fromtimestamp(entries[0].decision.at, UTC)
    times = ("--since", at.isoformat(), "--until", (at + timedelta(hours=1)).isoformat())
    return commands.run("tune", "g", "--tables", place, *times, "--start", "0", *more, TZ="UTC", COLUMNS="160")


def test_the_cheapest_settings_at_the_same_backlog_are_suggested_with_their_evidence(
    tmp_path: Path, entries: list[AuditEntry]
) -> None:
    place = put(tmp_path / "tables", remade(entries, target_utilisation=0.5))
    done = run(place, entries, "--price", "2", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["now"] == "PACE balanced, 0.5"
    now, best = told["simulated"][told["now"]], told["simulated"][told["best"]]
    assert best["consumer_hours"] < now["consumer_hours"]
    assert best["worse"] == []
    assert told["settings"]["capacity.target_utilisation"] == best["target_utilisation"] > 0.5
    assert all(x["worse"] or x["consumer_hours"] >= best["consumer_hours"] for x in told["simulated"].values())
    assert best["money"] == 2 * best["consumer_hours"]
    text = run(place, entries, "--price", "2").stdout
    settings = ", ".join(f"{name}: {value}" for name, value in told["settings"].items())
    assert f"suggestion: {settings}, which takes " in text
    assert "at the same backlog" in text
    assert "PACE balanced, 0.5 (now)" in text


def test_settings_that_are_the_cheapest_already_are_kept(tmp_path: Path, entries: list[AuditEntry]) -> None:
    place = put(tmp_path / "tables", remade(entries, target_utilisation=0.9, preset="lean"))
    told = json.loads(run(place, entries, "--json").stdout)
    assert (told["best"], told["settings"]) == (None, {})
    assert "suggestion: keep PACE lean, 0.9" in run(place, entries).stdout


def test_a_group_that_is_sized_by_another_rule_is_refused(tmp_path: Path, entries: list[AuditEntry]) -> None:
    place = put(tmp_path / "tables", remade(entries, sizing="LINEAR"))
    done = run(place, entries)
    assert (done.returncode, done.stdout) == (78, "")
    assert "group g is sized by LINEAR" in done.stderr


def test_a_group_that_is_not_there_is_told_with_those_that_are(tmp_path: Path, entries: list[AuditEntry]) -> None:
    done = commands.run("tune", "h", "--tables", put(tmp_path / "tables", entries))
    assert (done.returncode, done.stdout) == (1, "")
    assert "there are decisions of g" in done.stderr


def test_ctrl_c_ends_the_command_and_its_processes_without_a_stack(tmp_path: Path, entries: list[AuditEntry]) -> None:
    place = put(tmp_path / "tables", entries)
    command = [sys.executable, "-m", "autoscaler.cli", "tune", "g", "--tables", str(place), "--since", "2023-11-14"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as running:
        begun = psutil.Process(running.pid)
        started = until(
            "a process that simulates", lambda: [c for c in begun.children() if "spawn_main" in str(c.cmdline())], bool
        )
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to the command and to all that it has started
        said = running.communicate(timeout=60)
    assert (running.returncode, said) == (130, ("", ""))
    assert [c for c in started if c.is_running() and c.status() != psutil.STATUS_ZOMBIE] == []
