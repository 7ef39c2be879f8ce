"""What a checkpoint belongs to: written down when it is begun, compared before it is continued.

Also which cluster's state lies where in it: each has a range of ``measure.buckets`` buckets for itself, given once by its name
and never again to another, so that clusters may be added, reordered, taken out and put back without their states ever meeting.
A checkpoint holds what one window of measuring brings back: one that cannot be continued is replaced, and the log says why.
Knows no Spark, so that a wrong one is named before Spark is loaded.
"""

import fcntl
import json
import logging
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from autoscaler.errors import SettingsError, TransientError
from autoscaler.streaming.state import LAYOUT, readable

_FILE = "autoscaler.json"
_CLUSTERS, _ONE = "clusters", "cluster.name"  # the latter in checkpoints that were begun for one cluster: it has the first range
_BUCKETS, _FORMAT, _TABLES = "measure.buckets", "state format", "state tables"
_ENDED, _UNUSABLE = "ended at", "unusable"  # a query has ended without a batch, for the first and for the second time

log = logging.getLogger(__name__)


def claim(checkpoint: Path, *, clusters: Iterable[str], buckets: int) -> Mapping[str, int]:
    """Return each cluster's place in a checkpoint: its range of buckets begins at so many times ``buckets``.

    What a new checkpoint belongs to is written down, and clusters that an existing one does not know are added. One that cannot
    be continued (another bucket count, a state format that this release cannot read, damaged) is replaced by a new one.

    Raises:
        SettingsError: It is none of this project's.
        TransientError: It is to be replaced, but another job uses it.
    """
    if found := problems(checkpoint):
        raise SettingsError(found)
    checkpoint.mkdir(parents=True, exist_ok=True)
    alone = _locked(checkpoint)
    file = checkpoint / _FILE
    said = _read(file)
    if why := _obstacle(said, buckets):
        if not alone:
            raise TransientError(f"checkpoint {checkpoint} is to be replaced ({why}), but another job uses it")
        log.warning("checkpoint %s is replaced: %s; rates start anew and are known again within one window", checkpoint, why)
        _replace(checkpoint)
        said = {}
    elif said and _head(said) != LAYOUT:
        log.info("checkpoint %s: the window's state of another release (format %s) is taken over", checkpoint, said[_FORMAT])
    places = _places(said)
    for name in clusters:
        places.setdefault(name, max(places.values(), default=-1) + 1)
    now = {**said, _CLUSTERS: places, _BUCKETS: buckets, _FORMAT: LAYOUT["format"], _TABLES: LAYOUT["tables"]}
    now.pop(_ONE, None)
    if now != said:
        _write(file, now)
    return places


def problems(checkpoint: Path) -> tuple[str, ...]:
    """Return what keeps the job from using or replacing what stands there, and what to do; empty if nothing does."""
    file = checkpoint / _FILE
    if not file.exists():
        foreign = (checkpoint / "offsets").is_dir()
        return (f"state_dir: {checkpoint} is a checkpoint of something else; remove it or name another state_dir",) * foreign
    if not os.access(file, os.R_OK):
        return (f"state_dir: {file} may not be read by this user; give it the permission, or name another state_dir",)
    return ()


def forsake(checkpoint: Path, why: str) -> None:
    """Note that a query has ended without a batch; if that is the second time in a row, the next ``claim`` replaces it.

    Once may be a machine that is too busy to start what a query needs.
    """
    file = checkpoint / _FILE
    said = _read(file)
    last = max((int(f.name) for f in (checkpoint / "commits").glob("[0-9]*")), default=-1)
    if said:
        _write(file, {_UNUSABLE: why} if said.get(_ENDED) == last else {**said, _ENDED: last})


def _read(file: Path) -> dict[str, Any]:
    """Return what is written down; empty if the checkpoint is new."""
    try:
        return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}
    except (ValueError, TypeError):
        return {_UNUSABLE: f"{_FILE} is damaged"}


def _write(file: Path, said: Mapping[str, Any]) -> None:
    part = file.with_suffix(".part")
    part.write_text(json.dumps(said), encoding="utf-8")
    part.replace(file)  # whole or not at all: the job may be killed at any time


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


def _locked(checkpoint: Path) -> bool:
    """Take the checkpoint for this process, until it ends; False if another process has it."""
    file = os.open(checkpoint.with_name(f"{checkpoint.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the file stays open: to close it would give the lock away
    except BlockingIOError:
        os.close(file)
        return False
    return True


def _replace(checkpoint: Path) -> None:
    """Put an empty directory in a checkpoint's place; one that is killed within it leaves the old one, or none."""
    old = checkpoint.with_name(f"{checkpoint.name}.old")
    shutil.rmtree(old, ignore_errors=True)  # of one that was killed
    checkpoint.rename(old)
    shutil.rmtree(old, ignore_errors=True)
    checkpoint.mkdir()
