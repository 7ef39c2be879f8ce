"""``autoscaler pause``, ``pin`` and ``resume``: a file that is followed, changed as a whole or not at all."""

import subprocess
import sys
from pathlib import Path

import pytest

from autoscaler.cli import whole_file
from autoscaler.cli.whole_file import alone
from autoscaler.config.settings import Group, load
from autoscaler.errors import PermanentError
from tests.cli import commands

CONFIG = """\
clusters: [{connection: {bootstrap.servers: "localhost:9092"}}]
state_dir: STATE
groups:
  # the shop
  - group: orders
    topics: [orders]
    max_consumers: 8
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "c.yaml"
    made.write_text(CONFIG.replace("STATE", str(tmp_path / "state")).replace("    max_consumers: 8\n", ""))
    made.chmod(0o640)
    return made


def group(file: Path) -> Group:
    return load(file, connects=False).groups[0]


def test_a_group_is_paused_pinned_and_resumed(file: Path) -> None:
    done = commands.run("pause", "orders", "--config", file)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"orders: holds.paused is all in {file}; a job that runs with this file")
    assert group(file).paused == "all"
    assert commands.run("pause", "orders", "--config", file, "--only", "scale_up").returncode == 0
    assert group(file).paused == "scale_up"
    assert commands.run("pin", "orders", 6, "--config", file).returncode == 0
    assert (group(file).paused, group(file).pinned) == ("scale_up", 6)
    assert "it is so already" in commands.run("pin", "orders", 6, "--config", file).stdout
    assert commands.run("resume", "orders", "--config", file).returncode == 0
    assert (group(file).paused, group(file).pinned) == (None, None)
    assert "  # the shop\n  - group: orders\n" in file.read_text()
    assert oct(file.stat().st_mode & 0o777) == "0o640"
    assert [p.name for p in file.parent.iterdir()] == ["c.yaml"]


def test_who_follows_the_advice_is_said_not_to_be_held(file: Path) -> None:
    """In mode advise, the default, nothing is changed from here: who sets the number is a scaler that asks for the advice."""
    done = commands.run("pause", "orders", "--config", file)
    assert "the group is in mode advise" in done.stdout
    assert "a scaler that follows /advice/orders or its metric goes on: pause that one" in done.stdout
    assert "mode advise" not in commands.run("resume", "orders", "--config", file).stdout
    acts = "assignment: native, mode: act, workers: {kind: scale, target: apps/v1/Deployment/bills}"
    file.write_text(file.read_text() + f"  - {{group: bills, topics: [orders], {acts}}}\n")
    assert "mode advise" not in commands.run("pause", "bills", "--config", file).stdout


def test_what_would_not_be_a_good_configuration_is_not_written(file: Path) -> None:
    text = file.read_text()
    for arguments, code, said in [
        (("pause", "bills", "--config", file), 78, "groups: no group 'bills'; there are orders"),
        (("pin", "orders", "0", "--config", file), 2, "must be a whole number from 1 on"),
        (("pin", "orders", "99999999", "--config", file), 78, "holds.pinned"),
        (("pause", "orders", "--config", file.parent / "none.yaml"), 78, "cannot be read"),
    ]:
        done = commands.run(*arguments)
        assert (done.returncode, said in done.stderr) == (code, True), (arguments, done.stderr)
    assert file.read_text() == text
    assert [p.name for p in file.parent.iterdir()] == ["c.yaml"]


def test_a_link_stays_one_and_its_file_is_changed(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.yaml"
    link.symlink_to(file)
    assert commands.run("pause", "orders", "--config", link).returncode == 0
    assert link.is_symlink()
    assert group(file).paused == "all"


def test_commands_at_the_same_time_each_find_what_the_other_wrote(file: Path) -> None:
    """Several groups are held by commands that all start at once: not one hold may be lost."""
    names = [f"g{n}" for n in range(8)]
    file.write_text(file.read_text() + "".join(f"  - {{group: {name}, topics: [orders]}}\n" for name in names))
    command = [sys.executable, "-m", "autoscaler.cli", "pause", "--config", str(file)]
    running = [subprocess.Popen([*command, name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for name in names]
    said = [one.communicate(timeout=60)[0] for one in running]
    assert [one.returncode for one in running] == [0] * len(names), said
    assert {g.group: g.paused for g in load(file, connects=False).groups} == {"orders": None} | dict.fromkeys(names, "all")


def test_a_file_that_another_command_keeps_is_left_after_a_while(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_file, "_WAIT_S", 0.2)
    with alone(file), pytest.raises(PermanentError, match="another command is changing it"), alone(file):
        pass
