"""Whose turn it is to write tables in a store where two commits of one version replace each other.

That is s3a: Delta's log store there excludes threads of one process only. Each driver leaves a file that names its turn, the
latest turn writes, and all others let their rows wait until it is given back. Elsewhere Delta serialises commits by itself.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from py4j.protocol import Py4JError

from autoscaler.adapters.audit.place import TablesPlace
from autoscaler.errors import TransientError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_DIRECTORY = "_writers"
_SETTLE_S = 10.0  # that a commit of the one before, which looked before this turn was taken, may still take


class WriterTurn:
    """One driver's turn; used by one thread at a time."""

    def __init__(self, spark: "SparkSession", place: TablesPlace, *, settle_s: float | None = None) -> None:
        """Take nothing yet."""
        self._jvm: Any = spark._jvm  # noqa: SLF001  no other way to Hadoop
        self._conf: Any = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        self._where = place.at(_DIRECTORY)
        self._settle_s = _SETTLE_S if settle_s is None else settle_s
        self._name = ""

    def take(self) -> None:
        """Take the next turn; the driver that had it writes no more.

        Raises:
            TransientError: The store cannot be reached.
        """
        with self._reached():
            before = self._names()
            last = max((int(name.partition("-")[0]) for name in before), default=0)
            self._name = f"{last + 1:010}-{uuid4()}"
            files, path = self._at(self._name)
            files.create(path, True).close()
        if before:
            log.info(
                "the tables' writer before was not ended in order: waiting %.0f s for what it may still write", self._settle_s
            )
            time.sleep(self._settle_s)
        with self._reached():
            for name in before:
                files.delete(self._at(name)[1], False)

    def check(self) -> None:
        """Look whether it is still this driver's turn; where it has been given back to none, take it again.

        Raises:
            TransientError: It is another driver's, or the store cannot be reached.
        """
        with self._reached():
            names = self._names()
        if not names:
            self.take()
        elif max(names) != self._name:
            raise TransientError(
                f"another driver has begun to write the tables ({self._where}/{max(names)}): one job may use them"
            )

    def give_back(self) -> None:
        """Let a driver that waits have it; what fails is said and left."""
        if not self._name:
            return
        try:
            with self._reached():
                files, path = self._at(self._name)
                files.delete(path, False)
        except TransientError as e:
            log.warning("the turn to write the tables is not given back: %s", e)

    def _names(self) -> list[str]:
        files, path = self._at("")
        return [s.getPath().getName() for s in files.listStatus(path)] if files.exists(path) else []

    def _at(self, name: str) -> tuple[Any, Any]:
        path = self._jvm.org.apache.hadoop.fs.Path(f"{self._where}/{name}" if name else self._where)
        return path.getFileSystem(self._conf), path

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except Py4JError as e:
            line = next((x.strip() for x in str(e).splitlines()[1:] if x.strip()), str(e))[:300].removeprefix(": ")
            raise TransientError(f"{self._where} cannot be reached: {line}") from e
