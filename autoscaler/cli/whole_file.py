"""Writes files that are there as a whole or as they were before."""

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from autoscaler.errors import PermanentError

_MODE = 0o644  # of a file that was not there


def write_whole(path: Path, text: str, check: Callable[[Path], None] = lambda _: None) -> None:
    """Write a file beside its place, and put it there once ``check`` has nothing against it.

    Raises:
        PermanentError: It cannot be written: the disk is full, the file or its directory may only be read, the directory is not
            there, or what is there is a device, a pipe or a directory, in whose place no file may come.
    """
    beside = None
    place = path.resolve()
    if place.exists() and not place.is_file():
        raise PermanentError(f"{path} cannot be written: it is no regular file")
    if place.exists() and not os.access(place, os.W_OK):
        raise PermanentError(f"{path} cannot be written: it may only be read")
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", newline="", dir=place.parent, prefix=f".{place.name}.", suffix=".part", delete=False
        ) as file:
            beside = Path(file.name)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.chmod(place.stat().st_mode & 0o7777 if place.is_file() else _MODE)
        check(beside)
        beside.replace(place)
    except OSError as e:
        raise PermanentError(f"{path} cannot be written: {e.strerror or e}") from e
    finally:
        if beside is not None:
            with suppress(OSError):
                beside.unlink()
