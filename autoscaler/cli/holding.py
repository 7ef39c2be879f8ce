"""``autoscaler pause``, ``pin`` and ``resume``: change a group's ``holds`` in the configuration file, which a job follows."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from autoscaler.cli.whole_file import alone, write_whole
from autoscaler.config.edit import with_holds
from autoscaler.config.settings import load
from autoscaler.errors import SettingsError


def hold(args: argparse.Namespace) -> int:
    """Change the file, if what comes out is a good configuration that says what was asked for.

    Raises:
        SettingsError: The configuration is wrong, or there is no such group, or it would be wrong afterwards.
        PermanentError: The file cannot be written.
    """
    path = Path(args.config)
    groups = load(path, connects=False).groups  # says what is wrong before anything is changed
    wanted = _wanted(args)
    with alone(path):
        changed = _changed(path, args.group, wanted)
    said = ", ".join(f"holds.{key} is {'not set' if value == 'null' else value}" for key, value in wanted.items())
    if not changed:
        sys.stdout.write(f"{args.group}: it is so already in {path}\n")
        return 0
    sys.stdout.write(f"{args.group}: {said} in {path}; a job that runs with this file goes by it from its next cycles on\n")
    if args.name != "resume" and any(g.group == args.group and g.mode == "advise" for g in groups):
        sys.stdout.write(
            f"{args.group}: the group is in mode advise, so that nothing is changed from here; a scaler that follows "
            f"/advice/{args.group} or its metric goes on: pause that one\n"
        )
    return 0


def _changed(path: Path, group: str, wanted: Mapping[str, str]) -> bool:
    """Change the file, and say whether there was anything to change."""
    text = path.read_bytes().decode("utf-8")
    changed = with_holds(text, group, wanted)
    if changed == text:
        return False

    def check(beside: Path) -> None:
        found = next(g for g in load(beside, connects=False).groups if g.group == group)
        said = {"paused": found.paused or "null", "pinned": "null" if found.pinned is None else str(found.pinned)}
        if any(said[key] != value for key, value in wanted.items()):
            raise SettingsError((f"groups: holds of group {group!r} is not changed here: change it in the file yourself",))

    write_whole(path, changed, check)
    return True


def _wanted(args: argparse.Namespace) -> Mapping[str, str]:
    if args.name == "pause":
        return {"paused": args.only or "all"}
    return {"pinned": str(args.consumers)} if args.name == "pin" else {"paused": "null", "pinned": "null"}
