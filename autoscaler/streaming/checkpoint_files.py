"""The files of a checkpoint, wherever it lies: through Hadoop's file system in the job, from the disk where there is no Spark.

``HadoopFiles`` is what the job uses, also on this machine's disks; ``LocalFiles`` what ``autoscaler validate`` looks through.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from autoscaler.config.places import scheme_of
from autoscaler.errors import SettingsError, TransientError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REFUSED = ("AccessControlException", "AccessDeniedException", "Permission denied")
_DAMAGED = "ChecksumException"  # on ``file`` and ``hdfs``: what is there is not what was written, however often it is read


class Files(Protocol):
    """The files below one place; names are relative to it.

    Methods raise ``TransientError`` when it cannot be reached, ``SettingsError`` when this user may not do that there.
    """

    @property
    def where(self) -> str:
        """Return the place, as a path or an address."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return what a file holds; ``None``: there is none. Empty where the file system finds it damaged."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Write a file, in the place of one that is there."""
        ...

    def names(self, name: str = "") -> list[str]:
        """Return what a directory holds; nothing if there is none."""
        ...

    def move(self, name: str, to: str) -> None:
        """Move a file, or a directory with all that it holds, to where nothing is."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, or a directory with all that it holds."""
        ...


class LocalFiles:
    """``Files`` of this machine, without Spark."""

    def __init__(self, root: Path) -> None:
        """Look at what is below ``root``."""
        self.where = str(root)
        self._root = root

    def read(self, name: str) -> bytes | None:
        """Return what a file holds, see ``Files``."""
        try:
            return (self._root / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError as e:
            raise _refused(self.where, f"{name}: {e.strerror}") from e

    def write(self, name: str, content: bytes) -> None:
        """Write a file, see ``Files``; whole or not at all."""
        part = self._root / f"{name}.part"
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        part.replace(self._root / name)

    def names(self, name: str = "") -> list[str]:
        """Return what a directory holds, see ``Files``."""
        place = self._root / name
        return [p.name for p in place.iterdir()] if place.is_dir() else []

    def move(self, name: str, to: str) -> None:
        """Move a file or a directory, see ``Files``."""
        place = self._root / to
        place.parent.mkdir(parents=True, exist_ok=True)
        (self._root / name).rename(place)

    def remove(self, name: str) -> None:
        """Remove a file or a directory, see ``Files``."""
        place = self._root / name
        if place.is_dir():
            shutil.rmtree(place, ignore_errors=True)
        else:
            place.unlink(missing_ok=True)


class HadoopFiles:
    """``Files`` through the file system of the driver's JVM."""

    def __init__(self, spark: "SparkSession", where: str, setting: str = "checkpoint") -> None:
        """Look at nothing yet; ``setting`` is what messages call the place."""
        self.where, self._setting = where, setting
        self._jvm: Any = spark._jvm  # noqa: SLF001  no other way to Hadoop
        self._conf: Any = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001

    def read(self, name: str) -> bytes | None:
        """Return what a file holds, see ``Files``."""
        with self._reached():
            files, path = self._at(name)
            if not files.exists(path):
                return None
            stream = files.open(path)
            try:
                return bytes(stream.readAllBytes())
            except Exception as e:  # Java's, see below
                if _DAMAGED in str(e):
                    return b""
                raise
            finally:
                stream.close()

    def write(self, name: str, content: bytes) -> None:
        """Write a file, see ``Files``; a kill within it leaves one that counts as damaged."""
        with self._reached():
            files, path = self._at(name)
            stream = files.create(path, True)
            try:
                stream.write(bytearray(content))
            finally:
                stream.close()

    def names(self, name: str = "") -> list[str]:
        """Return what a directory holds, see ``Files``."""
        with self._reached():
            files, path = self._at(name)
            found = files.listStatus(path) if files.exists(path) else ()
            return list({s.getPath().getName(): None for s in found})  # a store may list a directory and its mark

    def move(self, name: str, to: str) -> None:
        """Move a file or a directory, see ``Files``; in an object store a copy, which a later call goes on with."""
        with self._reached():
            (files, path), (_, place) = self._at(name), self._at(to)
            files.mkdirs(place.getParent())
            files.delete(place, True)  # what a call that was killed has copied: the rest is where it was
            if not files.rename(path, place):
                raise TransientError(f"{self._setting} {path} cannot be moved to {place}")

    def remove(self, name: str) -> None:
        """Remove a file or a directory, see ``Files``."""
        with self._reached():
            files, path = self._at(name)
            files.delete(path, True)

    def _at(self, name: str) -> tuple[Any, Any]:
        hadoop = self._jvm.org.apache.hadoop.fs
        path = hadoop.Path(f"{self.where}/{name}" if name else self.where)
        if scheme_of(self.where):
            return path.getFileSystem(self._conf), path
        return hadoop.FileSystem.getLocal(self._conf).getRawFileSystem(), path  # without sums beside the files, as they were

    @contextmanager
    def _reached(self) -> Iterator[None]:
        from py4j.protocol import Py4JError  # noqa: PLC0415  of the job only

        try:
            yield
        except Py4JError as e:
            said = str(e)
            line = next((x.strip() for x in said.splitlines()[1:] if x.strip()), said)[:300].removeprefix(": ")
            if any(x in said for x in _REFUSED):
                raise _refused(self.where, line, self._setting) from e
            raise TransientError(f"{self._setting} {self.where} cannot be reached: {line}") from e


def _refused(where: str, why: str, setting: str = "checkpoint") -> SettingsError:
    said = f"{setting}: {where} may not be used by this user ({why})"
    return SettingsError((f"{said}; give it the permission, or name another place",))
