"""What a configuration finds on this machine: can it go on with the state directory, and is there what its workers need?

Used by ``autoscaler validate`` before anything is started, beside the checks of the settings themselves and also when some of
those fail. The job looks again when it starts. Composes what streaming and the audit know; loads neither Spark nor a client.
"""

import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from autoscaler.config import places
from autoscaler.config.clusters import blocks
from autoscaler.config.settings import is_address, place_of
from autoscaler.errors import SettingsError

_RUNS_SCRIPTS = re.compile(r"(python[\d.]*|sh|bash)$")
_NO_SCRIPT = re.compile(r"-\w*[cm]$")  # a module or a line of code is run, and what follows are its arguments


def problems(data: Mapping[str, object]) -> tuple[str, ...]:
    """Return everything on this machine that does not fit a configuration, as it was read and not yet checked."""
    return (*_state(data), *_commands(data), *_client(data))


def _state(data: Mapping[str, object]) -> tuple[str, ...]:
    state = data.get("state_dir")
    if not isinstance(state, str) or not state or places.lacking("state_dir", state) or is_address(state):
        return ()
    root = places.directory(state)
    if found := _unwritable("state_dir", root):
        return found
    checkpoint, tables = (_there(data, name, root) for name in ("checkpoint", "tables"))
    return (*_unwritable_place("checkpoint", checkpoint, root), *_unwritable_place("tables", tables, root)) or (
        *_checkpoint(checkpoint),
        *_tables(tables),
    )


def _there(data: Mapping[str, object], setting: str, root: Path) -> Path | None:
    """Return a place on this machine; ``None``: it is wrong, or elsewhere, where the job looks when it starts."""
    value = data.get(setting)
    if value is not None and (not isinstance(value, str) or not value or places.lacking(setting, value)):
        return None
    catalog = setting == "tables"
    return None if value and places.problem(value, catalog=catalog) else places.local(place_of(setting, value, root))


def _unwritable_place(setting: str, place: Path | None, root: Path) -> tuple[str, ...]:
    return () if place is None or place.parent == root else _unwritable(setting, place)


def _unwritable(setting: str, root: Path) -> tuple[str, ...]:
    """Try the directory, or where it is not made yet, the one that it would be made in."""
    there = next(p for p in (root, *root.parents) if p.exists())
    if not there.is_dir():
        return (f"{setting}: {root} cannot be made: {there} is a file; name another directory",)
    try:
        tempfile.TemporaryDirectory(dir=there).cleanup()  # permissions alone say nothing of /proc or of what is mounted to read
    except OSError as e:
        said = f"{setting}: {there} cannot be written by this user ({e.strerror})"
        return (f"{said}; give it the permission, or name another directory",)
    return ()


def _commands(data: Mapping[str, object]) -> tuple[str, ...]:
    """Return the workers' programs that are not there, of the groups that would start them."""
    found = []
    for number, group in enumerate(blocks(data, "groups")):
        workers = group.get("workers")
        for setting in ("command", "set_count", "read_count"):
            command = workers.get(setting) if isinstance(workers, Mapping) else None
            if group.get("mode") == "act" and isinstance(command, list) and all(isinstance(x, str) for x in command):
                found += [f"groups.{number}.workers.{setting}: {said}" for said in _absent(command)]
    return tuple(found)


def _client(data: Mapping[str, object]) -> tuple[str, ...]:
    """Return the groups whose workers need a client that is not installed."""
    kinds = [w.get("kind") if isinstance(w := g.get("workers"), Mapping) else None for g in blocks(data, "groups")]
    there = find_spec("kubernetes") is not None
    said = "needs the extra 'kubernetes' (pip install 'kafka-group-autoscaler[kubernetes]')"
    wanted = [(i, kind) for i, kind in enumerate(kinds) if kind in {"deployment", "scale"} and not there]
    missing = [f"groups.{i}.workers.kind: {kind} {said}" for i, kind in wanted]
    declared = data.get("kubernetes")
    used = [name for name in ("consumer_groups", "lease") if isinstance(declared, Mapping) and declared.get(name)]
    missing += [f"kubernetes.{name}: {said}" for name in used if not there]
    return (*missing, *_kubeconfigs(data))


def _kubeconfigs(data: Mapping[str, object]) -> tuple[str, ...]:
    named = [(f"groups.{i}.workers", g.get("workers")) for i, g in enumerate(blocks(data, "groups"))]
    named.append(("kubernetes", data.get("kubernetes")))
    files = [(path, block.get("kubeconfig")) for path, block in named if isinstance(block, Mapping)]
    absent = [(path, x) for path, x in files if isinstance(x, str) and x and not Path(x).expanduser().is_file()]
    return tuple(f"{path}.kubeconfig: there is no file {x!r}" for path, x in absent)


def _absent(command: Sequence[str]) -> list[str]:
    """Return what of a command is not there: the program, or the script that it is told to run."""
    if not command:
        return []
    program = sys.executable if command[0] == "{python}" else command[0]
    if shutil.which(program) is None:
        where = f"from {Path.cwd()}" if "/" in program else "on the PATH"
        return [f"there is no program {program!r} {where} that this user may run"]
    if program != sys.executable and not _RUNS_SCRIPTS.match(Path(program).name):
        return []  # what its arguments mean is not known: they may be of another machine
    script = next((x for x in command[1:2] if not x.startswith("-")), "")
    script = script or next((x for x in command[1:] if _NO_SCRIPT.match(x) or x.endswith((".py", ".sh"))), "")
    if not script or _NO_SCRIPT.match(script) or Path(script).is_file():
        return []
    return [f"there is no script {script!r} in {Path.cwd()}, where the job would be started"]


def _checkpoint(place: Path | None) -> tuple[str, ...]:
    if place is None:
        return ()
    from autoscaler.streaming import checkpoint_guard  # noqa: PLC0415  with what is needed only here
    from autoscaler.streaming.checkpoint_files import LocalFiles  # noqa: PLC0415

    return checkpoint_guard.problems(LocalFiles(place))


def _tables(place: Path | None) -> tuple[str, ...]:
    if place is None or not place.exists():
        return ()
    from autoscaler.adapters.audit.schema_check import check_tables  # noqa: PLC0415  loads Arrow

    try:
        check_tables(place)
    except SettingsError as e:
        return e.problems
    return ()
