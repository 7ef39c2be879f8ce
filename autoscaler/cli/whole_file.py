"""Writes files that are there as a whole or as they were before, one command at a time."""

import fcntl
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from autoscaler.errors import PermanentError

_MODE = 0o666  # of a file that was not there, before the user's umask
_WAIT_S = 30.0  # for another command: one takes a second
_AGAIN_S = 0.02


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keep other commands from changing a file meanwhile, so that each reads what the one before it wrote.

    The lock is on the file itself, and so on one that another command may have put another in place of by the time it is had.

    Raises:
        PermanentError: The file cannot be written, or another command keeps it for long.
    """
    until = time.monotonic() + _WAIT_S
    while True:
        try:
            file = path.open("r+b")
        except OSError as e:
            raise PermanentError(f"{path} cannot be written: {e.strerror or e}") from e
        with file:
            if _locked(file.fileno(), path):
                yield
                return
        if time.monotonic() > until:
            raise PermanentError(f"{path} is not changed: another command is changing it, for {_WAIT_S:.0f} s; try again")
        time.sleep(_AGAIN_S)


def _locked(file: int, path: Path) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # goes with the process, however it ends
        return os.path.samestat(os.fstat(file), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False


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
    before = place.stat() if place.exists() else None
    mode = _MODE if before is None else before.st_mode & 0o777
    try:
        part = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8", newline="") as file:
            beside = part
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if before is not None:
            with suppress(PermissionError):  # another user's file in a directory that is ours
                os.chown(beside, before.st_uid, before.st_gid)
            beside.chmod(before.st_mode & 0o7777)
        check(beside)
        beside.replace(place)
    except OSError as e:
        raise PermanentError(f"{path} cannot be written: {e.strerror or e}") from e
    finally:
        if beside is not None:
            with suppress(OSError):
                beside.unlink()
