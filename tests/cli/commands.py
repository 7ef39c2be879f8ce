"""Runs commands as a user does, each in a process of its own, which is forked from one that has imported their modules already.

Importing them is nearly all that most commands take. A test of how the command itself starts uses ``subprocess``.

``python -m tests.cli.commands`` is the process that forks: it runs a command for each line that it reads, and answers with
the exit code.
"""

import atexit
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from functools import cache
from importlib import import_module
from pathlib import Path

from autoscaler.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
_IMPORTED = (
    "autoscaler.cli.preflight", "autoscaler.cli.reading", "autoscaler.cli.explanation", "autoscaler.cli.reporting",
    "autoscaler.config.settings",
    "autoscaler.config.yaml_file", "autoscaler.console.group_view", "autoscaler.console.cycle_reader",
    "autoscaler.adapters.workers.process_pool", "deltalake", "pyarrow.compute", "pyarrow.dataset", "rich.table",
)  # fmt: skip


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``autoscaler`` with these arguments in the root of the clone, and return what it said and its exit code."""
    words = [*map(str, arguments)]
    with tempfile.TemporaryDirectory() as directory:
        said = [Path(directory, name) for name in ("out", "err")]
        asked = {"words": words, "env": os.environ | environment, "said": [*map(str, said)]}
        forks = _forks()
        assert forks.stdin is not None
        assert forks.stdout is not None
        forks.stdin.write(json.dumps(asked) + "\n")
        forks.stdin.flush()
        code = int(forks.stdout.readline())
        out, err = (path.read_text(encoding="utf-8") for path in said)
    return subprocess.CompletedProcess(words, code, out, err)


@cache
def _forks() -> subprocess.Popen[str]:
    """Start the process that forks; it ends with this one."""
    command = [sys.executable, "-m", "tests.cli.commands"]
    forks = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(forks.communicate)
    return forks


def _serve() -> None:
    for module in _IMPORTED:
        import_module(module)
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            os._exit(_command(**asked))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _command(words: list[str], env: dict[str, str], said: list[str]) -> int:
    """Become the command, and return its exit code."""
    for number, path in ((0, os.devnull), (1, said[0]), (2, said[1])):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), number)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    try:
        code = main(words)
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else 0 if e.code is None else 1
    except BaseException:  # noqa: BLE001  what Python does with it
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    _serve()
