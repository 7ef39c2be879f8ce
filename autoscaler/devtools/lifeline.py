"""Ties a child process to this one: however this process ends, SIGKILL included, the child is killed.

A small shell waits on a pipe that only this process holds open; when the pipe closes, it kills the child. Linux' parent-death
signal would do without the shell, but it follows the *thread* that started the child and does not exist on macOS.
"""

import contextlib
import subprocess
from typing import Self


class Lifeline:
    """Kills ``pid`` when this process is gone; ``cut`` it as soon as the child is reaped: its pid may then be another's."""

    def __init__(self, pid: int) -> None:
        """Start watching."""
        script = f"read -r _ || kill -KILL {pid} 2>/dev/null"  # a line means: let go; end of file means: the parent is gone
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C in the terminal must not end the watcher first
        )

    def cut(self) -> Self:
        """Stop watching; the child may outlive this process from now on."""
        with contextlib.suppress(OSError, ValueError):
            if self._watcher.stdin is not None:
                self._watcher.stdin.write(b"\n")
                self._watcher.stdin.close()
        self._watcher.wait()
        return self
