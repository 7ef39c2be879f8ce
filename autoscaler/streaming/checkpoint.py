"""What a checkpoint belongs to: written down when it is begun, compared before it is continued.

Standard library only, so that a wrong one is named before Spark is loaded.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from autoscaler.errors import SettingsError

STATE_FORMAT = 1  # of what ``state.py`` writes
_FILE = "autoscaler.json"


def claim(checkpoint: Path, *, cluster: str, buckets: int) -> None:
    """Write down what a new checkpoint belongs to, or check what an existing one says.

    Raises:
        SettingsError: It belongs to another cluster, bucket count or state format; says which and what to do.
    """
    if found := problems(checkpoint, cluster=cluster, buckets=buckets):
        raise SettingsError(found)
    file = checkpoint / _FILE
    if not file.exists():
        checkpoint.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        part.write_text(json.dumps(_mine(cluster, buckets)), encoding="utf-8")
        part.replace(file)  # whole or not at all: the job may be killed at any time


def problems(checkpoint: Path, *, cluster: str, buckets: int) -> tuple[str, ...]:
    """Return what keeps a checkpoint from being continued and what to do; empty if nothing does, or there is none."""
    file, mine = checkpoint / _FILE, _mine(cluster, buckets)
    if not file.exists():
        foreign = (checkpoint / "offsets").is_dir()
        return (f"state_dir: {checkpoint} is a checkpoint of something else; remove it or name another state_dir",) * foreign
    try:
        theirs = json.loads(file.read_text(encoding="utf-8"))
        differing = [k for k in mine if theirs.get(k) != mine[k]]
    except (OSError, ValueError, AttributeError) as e:
        return (f"state_dir: {file} cannot be read ({e}); remove {checkpoint}, or name another state_dir",)
    if not differing:
        return ()
    said = ", ".join(f"{k} was {theirs.get(k)!r} and is {mine[k]!r}" for k in differing)
    restore = [k for k in differing if "." in k]
    or_else = f", or restore {' and '.join(restore)}" if restore else ""
    return (f"state_dir: checkpoint {checkpoint} belongs to other settings ({said}): remove it{or_else}",)


def _mine(cluster: str, buckets: int) -> Mapping[str, str | int]:
    return {"cluster.name": cluster, "measure.buckets": buckets, "state format": STATE_FORMAT}
