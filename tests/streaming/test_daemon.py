"""The daemon of Spark's Python workers: a worker whose JVM has hung up ends without a stack."""

import socket
import subprocess
import sys

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


def test_workers_are_forked_from_a_process_without_threads() -> None:
    code = "import threading, autoscaler.streaming.daemon; print(threading.active_count())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "1"
