"""Spark's own Python daemon, which forks the workers, without the stack of a worker whose task was called off.

Named by ``spark.python.daemon.module``. A worker whose JVM side has hung up cannot flush its output; Spark's daemon prints
a stack for each, at every stop and now and then in between. Here such a worker ends as quietly as any other. Nothing else
may be imported: workers are forked from this process, which must not have threads.
"""

from typing import Any

from pyspark import daemon

_served = daemon.worker
_ENDS = 1  # the daemon does not use this worker again


def worker(sock: Any, authenticated: bool) -> int:  # noqa: FBT001  called by Spark's daemon
    """Serve tasks until the JVM hangs up; return the exit code."""
    try:
        return int(_served(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        return _ENDS


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
