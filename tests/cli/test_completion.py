"""Completion as a shell does it: a real bash reads the script and is asked for what may come next."""

import subprocess
import sys
from pathlib import Path

import pytest

from autoscaler.cli.completion import script
from autoscaler.cli.main import _parser

ASK = """
eval "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _autoscaler; printf '%s\\n' "${COMPREPLY[@]}"
"""


def offered(cwd: Path, *words: str) -> set[str]:
    command = ["bash", "-c", ASK, "bash", script(_parser()), "autoscaler", *words]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["st"], {"status"}),
        (["ex"], {"explain"}),
        (["--v"], {"--version"}),
        (["history", "--s"], {"--since"}),
        (["explain", "orders", "--"], {"--config", "--tables", "--partition", "--at", "--zone", "--json", "--help"}),
        (["workers", "st"], {"stop"}),
        (["workers", "stop", "--c"], {"--config"}),
        (["status", "--config", "c"], {"conf.yaml"}),
        (["explain", "--tables", "t"], {"tables"}),  # directories only
        (["replay", "orders", "--policy", "c"], {"conf.yaml"}),
        (["report", "--output", "c"], {"conf.yaml"}),
        (["import", "c"], {"conf.yaml"}),
        (["no-such", "--"], set()),
    ],
)
def test_commands_options_and_files_are_offered(tmp_path: Path, words: list[str], said: set[str]) -> None:
    (tmp_path / "conf.yaml").touch()
    (tmp_path / "tables.txt").touch()
    (tmp_path / "tables").mkdir()
    assert offered(tmp_path, *words) == said


def test_every_command_is_offered(tmp_path: Path) -> None:
    commands = {
        "validate",
        "schema",
        "status",
        "history",
        "explain",
        "release",
        "workers",
        "demo",
        "check",
        "recheck",
        "completion",
    }
    assert commands <= offered(tmp_path, "")


def test_the_script_is_printed() -> None:
    command = [sys.executable, "-m", "autoscaler.cli", "completion", "bash"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == script(_parser())
