"""What a checkpoint belongs to: written down when it is begun, compared before it is continued.

Also which cluster's state lies where in it: each has a range of ``measure.buckets`` buckets for itself, given once by its name
and never again to another, so that clusters may be added, reordered, taken out and put back without their states ever meeting.
Standard library only, so that a wrong one is named before Spark is loaded.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from autoscaler.errors import SettingsError

STATE_FORMAT = 3  # of what ``state.py`` writes
_FILE = "autoscaler.json"
_CLUSTERS, _ONE = "clusters", "cluster.name"  # the latter in checkpoints that were begun for one cluster: it has the first range


def claim(checkpoint: Path, *, clusters: Iterable[str], buckets: int) -> Mapping[str, int]:
    """Return each cluster's place in a checkpoint: its range of buckets begins at so many times ``buckets``.

    What a new checkpoint belongs to is written down, an existing one's is checked, and clusters that it does not know are added.

    Raises:
        SettingsError: It belongs to another bucket count or state format; says which and what to do.
    """
    if found := problems(checkpoint, buckets=buckets):
        raise SettingsError(found)
    file = checkpoint / _FILE
    known = _places(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}
    places = dict(known)
    for name in clusters:
        places.setdefault(name, max(places.values(), default=-1) + 1)
    if places != known:
        checkpoint.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        part.write_text(json.dumps({_CLUSTERS: places, **_mine(buckets)}), encoding="utf-8")
        part.replace(file)  # whole or not at all: the job may be killed at any time
    return places


def problems(checkpoint: Path, *, buckets: int) -> tuple[str, ...]:
    """Return what keeps a checkpoint from being continued and what to do; empty if nothing does, or there is none."""
    file, mine = checkpoint / _FILE, _mine(buckets)
    if not file.exists():
        foreign = (checkpoint / "offsets").is_dir()
        return (f"state_dir: {checkpoint} is a checkpoint of something else; remove it or name another state_dir",) * foreign
    try:
        theirs = json.loads(file.read_text(encoding="utf-8"))
        differing = [k for k in mine if theirs.get(k) != mine[k]]
        _places(theirs)
    except (OSError, ValueError, AttributeError, LookupError, TypeError) as e:
        return (f"state_dir: {file} cannot be read ({e}); remove {checkpoint}, or name another state_dir",)
    if not differing:
        return ()
    said = ", ".join(f"{k} was {theirs.get(k)!r} and is {mine[k]!r}" for k in differing)
    restore = [k for k in differing if "." in k]
    or_else = f", or restore {' and '.join(restore)}" if restore else ""
    return (f"state_dir: checkpoint {checkpoint} belongs to other settings ({said}): remove it{or_else}",)


def _places(said: Mapping[str, object]) -> dict[str, int]:
    if _ONE in said:
        return {str(said[_ONE]): 0}
    clusters = said[_CLUSTERS]
    if not isinstance(clusters, dict) or len(set(clusters.values())) < len(clusters):
        msg = "each cluster must have a place of its own"
        raise ValueError(msg)
    return {str(name): int(place) for name, place in clusters.items()}


def _mine(buckets: int) -> Mapping[str, str | int]:
    return {"measure.buckets": buckets, "state format": STATE_FORMAT}
