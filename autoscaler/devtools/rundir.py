"""Where a demo run keeps its things, and the lock that lets one demo run at a time."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from autoscaler.errors import PermanentError


class RunDir:
    """One run's directory, absolute."""

    def __init__(self, root: Path) -> None:
        """Name what lies in it; nothing is made yet."""
        self.root = root
        self.state = root / "state"  # the job's: checkpoint, tables, workers, cycle log
        self.tables = self.state / "tables"
        self.cycles = self.state / "logs" / "cycles.jsonl"  # the job's line per cycle
        self.processed = root / "processed"  # where consumers log what they processed
        self.logs = root / "logs"  # of the programs
        self.broker = root / "broker"

    def make(self) -> None:
        """Create the directories."""
        for directory in (self.state, self.processed, self.logs, self.broker):
            directory.mkdir(parents=True, exist_ok=True)

    def describe(self, facts: Mapping[str, str | float | int]) -> None:
        """Write ``run.json``, which tells the check what the run was."""
        text = json.dumps(dict(facts), indent=2) + "\n"
        (self.root / "run.json").write_text(text, encoding="utf-8")


@contextlib.contextmanager
def lock(directory: Path) -> Iterator[None]:
    """Hold the lock of ``directory``; it goes with the process, however that ends, and its file with an orderly end.

    Raises:
        PermanentError: A demo runs already.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "demo.lock"
    while True:
        handle = path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            handle.seek(0)
            pid = handle.read().strip() or "unknown"
            handle.close()
            msg = f"a demo runs already (process {pid}, lock {path}); end it first, or give another directory with --dir"
            raise PermanentError(msg) from e
        if path.exists() and os.path.samestat(path.stat(), os.fstat(handle.fileno())):
            break
        handle.close()  # the one before removed the file between our open and our lock
    handle.seek(0)
    handle.truncate()
    handle.write(f"{os.getpid()}\n")
    handle.flush()
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        handle.close()
