"""Spark's own Python daemon, which forks the workers, without the stack of a worker whose task was called off.

Started by ``jobs/worker_python.sh``. A worker whose JVM side has hung up cannot flush its output; Spark's daemon prints
a stack for each, at every stop and now and then in between. Here such a worker ends as quietly as any other, and what it prints
is a line of JSON where the job's log is. Nothing else may be imported: workers are forked from this process, which must not have
threads.
"""

import io
import json
import os
import runpy
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

from pyspark import daemon

_served = daemon.worker
_ENDS = 1  # the daemon does not use this worker again


class JsonLines(io.TextIOBase):
    """Writes each line as an object in the words of the job's log; empty ones are left out."""

    def __init__(self, out: TextIO) -> None:
        """Write to this stream."""
        self._out, self._begun = out, ""

    def write(self, text: str) -> int:
        """Write what is complete."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in filter(str.strip, lines):
            now = datetime.now(UTC).isoformat(timespec="milliseconds")  # noqa: TID251  a process of Spark's, which has no clock of ours
            said = {"time": now, "level": "INFO", "logger": "pyspark.worker"}
            self._out.write(json.dumps({**said, "message": line}, ensure_ascii=False) + "\n")
        return len(text)

    def flush(self) -> None:
        """Pass on what was written."""
        self._out.flush()


def print_json() -> None:
    """Let what this process prints from now on be JSON where the job's log is."""
    if os.environ.get("AUTOSCALER_LOG_FORMAT") == "json" and not isinstance(sys.stderr, JsonLines):
        sys.stdout, sys.stderr = JsonLines(sys.stdout), JsonLines(sys.stderr)


def worker(sock: Any, authenticated: bool) -> int:  # noqa: FBT001  called by Spark's daemon
    """Serve tasks until the JVM hangs up; return the exit code."""
    print_json()
    try:
        return int(_served(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        return _ENDS


if __name__ == "__main__":
    if sys.argv[1:2] == ["alone"]:  # a process that Spark starts without a daemon: its module, and what that is told
        print_json()
        del sys.argv[:2]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        daemon.worker = worker
        daemon.manager()
