"""The daemon of Spark's Python workers: a worker whose JVM has hung up ends without a stack."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from autoscaler.streaming import daemon


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_a_worker_that_nobody_listens_to_ends_quietly(monkeypatch: pytest.MonkeyPatch, error: type[OSError]) -> None:
    def hung_up(*_: object) -> int:
        raise error

    monkeypatch.setattr(daemon, "_served", hung_up)
    with socket.socket() as sock:
        assert daemon.worker(sock, authenticated=True) == 1


def test_other_failures_are_still_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> int:
        msg = "no such worker"
        raise ValueError(msg)

    monkeypatch.setattr(daemon, "_served", broken)
    with socket.socket() as sock, pytest.raises(ValueError, match="no such worker"):
        daemon.worker(sock, authenticated=True)


def test_what_a_worker_prints_is_lines_of_json_where_the_log_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def prints(*_: object) -> int:
        print("Starting worker.\n")
        print('of "two', "parts", end="", flush=True)
        print()
        print("Traceback\n  File x", file=sys.stderr)
        return 0

    monkeypatch.setattr(daemon, "_served", prints)
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, name))
    monkeypatch.setenv("AUTOSCALER_LOG_FORMAT", "json")
    with socket.socket() as sock:
        assert [daemon.worker(sock, authenticated=True) for _ in range(2)] == [0, 0]
    out, err = ([json.loads(line) for line in text.splitlines()] for text in capsys.readouterr())
    assert [x["message"] for x in out] == ["Starting worker.", 'of "two parts'] * 2
    assert [x["message"] for x in err] == ["Traceback", "  File x"] * 2
    assert out[0].keys() == {"time", "level", "logger", "message"}


def test_a_process_without_a_daemon_runs_its_module_and_prints_json(tmp_path: Path) -> None:
    (tmp_path / "printing.py").write_text("import sys\nprint(__name__, sys.argv[1:])\nraise ValueError('no')\n")
    command = [sys.executable, "-m", "autoscaler.streaming.daemon", "alone", "printing", "x"]
    environment = {**os.environ, "AUTOSCALER_LOG_FORMAT": "json", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert [json.loads(line)["message"] for line in done.stdout.splitlines()] == ["__main__ ['x']"]
    assert json.loads(done.stderr.splitlines()[-1])["message"] == "ValueError: no"


def test_workers_are_forked_from_a_process_without_threads() -> None:
    code = "import threading, autoscaler.streaming.daemon; print(threading.active_count())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "1"
