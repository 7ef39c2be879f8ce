"""What a checkpoint belongs to: written down when it is begun, compared before it is continued.

Also which cluster's state lies where in it: each has a range of ``measure.buckets`` buckets for itself, given once by its name
and never again to another, so that clusters may be added, reordered, taken out and put back without their states ever meeting.
A checkpoint holds what one window of measuring brings back: one that cannot be continued is set aside and begun anew, and the
log says why and where the old one is.
Knows no Spark, so that a wrong one on this machine is named before Spark is loaded; the job looks through Hadoop's file system.
"""

import fcntl
import json
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from autoscaler.errors import SettingsError, TransientError
from autoscaler.streaming.checkpoint_files import Files
from autoscaler.streaming.state import LAYOUT, readable

_FILE = "autoscaler.json"
_CLUSTERS, _ONE = "clusters", "cluster.name"  # the latter in checkpoints that were begun for one cluster: it has the first range
_BUCKETS, _FORMAT, _TABLES = "measure.buckets", "state format", "state tables"
_ENDED, _UNUSABLE = "ended at", "unusable"  # a query has ended by itself: at which batch, and why
_LEAVING = "being set aside"  # a start that was killed meanwhile is to move the rest only
_ASIDE = "set-aside"  # a directory in the checkpoint, to which Spark pays no attention

log = logging.getLogger(__name__)


def claim(files: Files, lock: Path, *, clusters: Iterable[str], buckets: int) -> Mapping[str, int]:
    """Return each cluster's place in a checkpoint: its range of buckets begins at so many times ``buckets``.

    What a new checkpoint belongs to is written down, and clusters that an existing one does not know are added. One that cannot
    be continued (another bucket count, a state format that this release cannot read, damaged) is set aside, in the place of what
    was set aside before, and a new one begun.

    Args:
        files: The checkpoint's.
        lock: A file of this machine that says which of its processes uses the checkpoint.
        clusters: By name.
        buckets: Of each cluster.

    Raises:
        SettingsError: It is none of this project's.
        TransientError: It is to be replaced, but another job of this machine uses it; or it cannot be reached.
    """
    if found := problems(files):
        raise SettingsError(found)
    alone = _locked(lock)
    said = _read(files)
    if why := _obstacle(said, buckets):
        if not alone:
            raise TransientError(f"checkpoint {files.where} is to be replaced ({why}), but another job uses it")
        _set_aside(files, said, why)
        anew = "rates start anew and are known again within one window"
        log.warning("checkpoint %s is replaced: %s; %s; the old one is in %s/%s", files.where, why, anew, files.where, _ASIDE)
        said = {}
    elif said and _head(said) != LAYOUT:
        log.info("checkpoint %s: the window's state of another release (format %s) is taken over", files.where, said[_FORMAT])
    places = _places(said)
    for name in clusters:
        places.setdefault(name, max(places.values(), default=-1) + 1)
    now = {**said, _CLUSTERS: places, _BUCKETS: buckets, _FORMAT: LAYOUT["format"], _TABLES: LAYOUT["tables"]}
    now.pop(_ONE, None)
    if now != said:
        _write(files, now)
    return places


def problems(files: Files) -> tuple[str, ...]:
    """Return what keeps the job from using or replacing what stands there, and what to do; empty if nothing does."""
    try:
        found = files.read(_FILE)
    except SettingsError as e:
        return e.problems
    if found is None and "offsets" in files.names():
        return (f"checkpoint: {files.where} is a checkpoint of something else; remove it or name another place",)
    return ()


def forsake(files: Files, why: str) -> None:
    """Note that a query has ended; if no batch was committed since it ended the last time, the next ``claim`` replaces it.

    Once may be a machine that is too busy to start what a query needs, or a store that is away for a moment.
    """
    said = _read(files)
    last = max((int(name) for name in files.names("commits") if name.isdigit()), default=-1)
    if said:
        _write(files, {_UNUSABLE: why} if said.get(_ENDED) == last else {**said, _ENDED: last})


def has_run(files: Files) -> bool:
    """Say whether a job has measured with this checkpoint."""
    return bool(files.names("commits"))


def _read(files: Files) -> dict[str, Any]:
    """Return what is written down; empty if the checkpoint is new."""
    found = files.read(_FILE)
    try:
        return {} if found is None else dict(json.loads(found))
    except (ValueError, TypeError):
        return {_UNUSABLE: f"{_FILE} is damaged"}


def _write(files: Files, said: Mapping[str, Any]) -> None:
    files.write(_FILE, json.dumps(said).encode())


def _obstacle(said: Mapping[str, Any], buckets: int) -> str:
    """Return why a checkpoint cannot be continued; empty if it can."""
    try:
        if not said or _UNUSABLE in said:
            return str(said.get(_UNUSABLE, ""))
        _places(said)
        if said[_BUCKETS] != buckets:
            return f"{_BUCKETS} was {said[_BUCKETS]} and is {buckets}"
        return "" if readable(_head(said)) else f"its state format {said[_FORMAT]} cannot be read by this release"
    except (ValueError, LookupError, TypeError, AttributeError):
        return f"{_FILE} is damaged"


def _head(said: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"format": said[_FORMAT]} | ({"tables": said[_TABLES]} if _TABLES in said else {})


def _places(said: Mapping[str, Any]) -> dict[str, int]:
    if _ONE in said:
        return {str(said[_ONE]): 0}
    clusters = said[_CLUSTERS] if said else {}
    if not isinstance(clusters, dict) or len(set(clusters.values())) < len(clusters):
        msg = "each cluster must have a place of its own"
        raise ValueError(msg)
    return {str(name): int(place) for name, place in clusters.items()}


def _locked(lock: Path) -> bool:
    """Take the checkpoint for this process, until it ends; False if another process has it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the file stays open: to close it would give the lock away
    except BlockingIOError:
        os.close(file)
        return False
    return True


def _set_aside(files: Files, said: Mapping[str, Any], why: str) -> None:
    """Move all of a checkpoint aside, but our file, which says so first: one that is killed within it goes on with it later."""
    if _LEAVING not in said:
        files.remove(_ASIDE)
        _write(files, {**said, _UNUSABLE: why, _LEAVING: True})
    for name in files.names():
        if name not in {_FILE, _ASIDE}:
            files.move(name, f"{_ASIDE}/{name}")
