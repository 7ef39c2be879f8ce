"""What already stands in the state directory: can the configuration go on with it?

Used by ``autoscaler validate`` before anything is started, beside the checks of the settings themselves and also when some of
those fail. The job looks again when it starts. Composes what streaming and the audit know; loads neither Spark nor a client.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from autoscaler.config.settings import expanded
from autoscaler.errors import SettingsError


def problems(data: Mapping[str, object]) -> tuple[str, ...]:
    """Return everything in the state directory that does not fit a configuration, as it was read and not yet checked."""
    state = data.get("state_dir")
    if not isinstance(state, str) or not state or "$" in os.path.expandvars(state):
        return ()
    root = expanded(state)
    if found := _unwritable(root):
        return found
    return (*_checkpoint(root), *_tables(root))


def _unwritable(root: Path) -> tuple[str, ...]:
    """Look at the directory, or where it is not made yet, at the one that it would be made in."""
    there = next(p for p in (root, *root.parents) if p.exists())
    if not there.is_dir():
        return (f"state_dir: {root} cannot be made: {there} is a file; name another directory",)
    if not os.access(there, os.W_OK | os.X_OK):
        return (f"state_dir: {there} may not be written by this user; give it the permission, or name another directory",)
    return ()


def _checkpoint(root: Path) -> tuple[str, ...]:
    from autoscaler.streaming import checkpoint_guard  # noqa: PLC0415  with what is needed only here

    return checkpoint_guard.problems(root / "checkpoint")


def _tables(root: Path) -> tuple[str, ...]:
    if not (root / "tables").exists():
        return ()
    from autoscaler.adapters.audit.schema_check import check_tables  # noqa: PLC0415  loads Arrow

    try:
        check_tables(root / "tables")
    except SettingsError as e:
        return e.problems
    return ()
