"""Runs the check over a run that was kept: its broker is started again for as long as the check reads the topic."""

import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from autoscaler.devtools.broker import Broker

_CHECK = (sys.executable, "-m", "autoscaler.devtools.verify")


def main(args: Sequence[str]) -> int:
    """Run the check with these arguments and return its exit code."""
    kept = _kept(args)
    if kept is None:
        return subprocess.run([*_CHECK, *args], check=False).returncode
    with Broker(kept) as broker:
        return subprocess.run([*_CHECK, *args, "--bootstrap", broker.bootstrap], check=False).returncode


def _kept(args: Sequence[str]) -> Path | None:
    """Return the broker's directory if it was kept and no broker answers at the run's address."""
    if "--run-dir" not in args[:-1] or "--bootstrap" in args:
        return None
    run = Path(args[list(args).index("--run-dir") + 1])
    if not (run / "broker" / "cluster.id").exists() or not (run / "run.json").exists():
        return None
    with contextlib.suppress(OSError, ValueError, KeyError):
        host, _, port = json.loads((run / "run.json").read_text(encoding="utf-8"))["bootstrap"].partition(":")
        socket.create_connection((host, int(port)), timeout=2).close()
        return None
    return run / "broker"
