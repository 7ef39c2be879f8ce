"""Machines that are not the driver's: a Python without the package, and a standalone cluster whose workers have own disks."""

import contextlib
import functools
import os
import signal
import socket
import subprocess
import sys
import venv
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from autoscaler import jars
from tests.until import until

_DAEMON = {"SPARK_DAEMON_MEMORY": "192m", "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"}
_CLASSES = "org.apache.spark.deploy"
# In a mount namespace of its own the directory that all share has the worker's own content.
_OWN_DISK = 'mount --bind "$1" "$2" && cd "$2" && shift 2 && exec "$@"'


def python_of_another_machine(place: Path, *, unset: str = "", belief: str = "") -> Path:
    """Return a Python that is this one for the driver; executors get its libraries and no package.

    Args:
        place: Where it is made.
        unset: A variable of the driver that executors lack.
        belief: What each Python process of an executor runs first.
    """
    venv.create(place, symlinks=True)
    (libraries,) = place.glob("lib/python3*/site-packages")
    (real,) = (Path(p) for p in sys.path if p.endswith("site-packages"))
    for library in real.iterdir():
        if not library.name.startswith(("__editable__", "kafka_group_autoscaler", "a1_coverage", "distutils-precedence")):
            (libraries / library.name).symlink_to(library)
    (place / "belief").mkdir()
    (place / "belief" / "sitecustomize.py").write_text(belief, encoding="utf-8")
    program = place / "python"
    own = f"export PYTHONPATH={place}/belief:$PYTHONPATH; exec {place}/bin/python"
    theirs = f'{f"unset {unset}; " if unset else ""}{own} "$@"'
    program.write_text(f'#!/bin/sh\ncase $PWD in */app-*/*) {theirs} ;; esac\nexec {sys.executable} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return program


@functools.cache
def private_mounts() -> tuple[str, ...]:
    """Return what runs a command with mounts of its own; empty where this user may not."""
    for command in (("unshare", "--mount"), ("unshare", "--map-root-user", "--mount")):
        try:
            tried = subprocess.run([*command, "mount", "--bind", "/tmp", "/tmp"], capture_output=True, check=False)  # noqa: S108
        except FileNotFoundError:
            return ()
        if tried.returncode == 0:
            return command
    return ()


class Standalone:
    """A master and workers of one core each, on loopback, as processes that can be killed.

    Each worker has a directory of its own, ``machine-N``. Where this user may have private mounts, it stands in the place of
    ``shared`` for that worker and its executors, so that nothing that the driver keeps below ``shared`` is there for them.
    """

    def __init__(self, shared: Path, place: Path) -> None:
        self.shared, self._place = shared, place
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = int(free.getsockname()[1])
        self.url = f"spark://127.0.0.1:{self._port}"
        self.workers: list[psutil.Process] = []
        self._children: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        options = "--host", "127.0.0.1", "--port", str(self._port), "--webui-port", "0"
        self._start("master", (), f"{_CLASSES}.master.Master", *options)
        until("the master listens", self._listens, within_s=60)
        for _ in range(2):
            self.add_worker()
        return self

    def add_worker(self) -> None:
        """Start one more, and wait until the master has it."""
        number = len(self._children)
        own = self._place / f"machine-{number}"
        own.mkdir()
        mounts = private_mounts()
        prefix = (*mounts, "sh", "-c", _OWN_DISK, "sh", str(own), str(self.shared)) if mounts else ()
        work = (self.shared if mounts else own) / "work"
        options = "--host", "127.0.0.1", "--webui-port", "0", "-c", "1", "-m", "1g", "-d", str(work)
        process = self._start(f"worker-{number}", prefix, f"{_CLASSES}.worker.Worker", *options, self.url, cwd=own)
        self.workers.append(psutil.Process(process.pid))
        log = self._place / f"worker-{number}.log"
        until("the worker is there", log.read_text, lambda said: "Successfully registered with master" in said, within_s=60)

    def kill_worker(self) -> None:
        """Kill one that runs an executor, and the executor with its Python processes, all at once."""
        worker = next(w for w in self.workers if executors_of(w))
        self.workers.remove(worker)
        for process in [worker, *worker.children(recursive=True)]:
            process.kill()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for child in reversed(self._children):
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def _start(self, name: str, prefix: tuple[str, ...], *command: str, cwd: Path | None = None) -> "subprocess.Popen[bytes]":
        home = jars.spark_home()
        with (self._place / f"{name}.log").open("wb") as log:
            child = subprocess.Popen(
                [*prefix, str(home / "bin" / "spark-class"), *command],
                cwd=cwd or self._place, stdout=log, stderr=log, env={**os.environ, **_DAEMON}, start_new_session=True,
            )  # fmt: skip
        self._children.append(child)
        return child

    def _listens(self) -> bool:
        with socket.socket() as asked:
            return asked.connect_ex(("127.0.0.1", self._port)) == 0


def executors_of(worker: psutil.Process) -> list[psutil.Process]:
    """Return the executors that a worker runs."""
    found = []
    for process in worker.children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            if "CoarseGrainedExecutorBackend" in " ".join(process.cmdline()):
                found.append(process)
    return found
