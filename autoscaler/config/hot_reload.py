"""The configuration file, followed while the job runs: what can change without a restart does so between two cycles.

Beside the path, and called from the job before each cycle. A file that has changed is read once it rests, so that one which is
still being written is not taken for whole. A faulty one is named in the log, all of its problems at once, and the settings that
are in force stay; it is read again now and then, because what it refers to may be what was missing. What needs a restart is
named too, and the rest of the file holds all the same. Groups that come or go, and what a group's connections, workers and query
are made of, are for the job to make anew: ``anew`` has the settings for that.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from autoscaler.config.setting_paths import path_of
from autoscaler.config.settings import Group, Settings, load
from autoscaler.errors import SettingsError

log = logging.getLogger(__name__)

# What connections, workers and the query are made with; every other setting of a group is read in each cycle.
MADE_WITH = frozenset({"group", "cluster", "topics", "mode", "assignment", "reset_policy", "read_committed", "workers"})

_AGAIN_LOOKS = 10  # to read hundreds of groups takes a good part of a second, which a faulty file must not cost in every cycle

_Stamp = tuple[int, int, int]


class FollowedFile:
    """Tells what a configuration file says by now.

    Attributes:
        anew: What the job is to be made anew with; ``None`` while it need not be.
    """

    def __init__(self, path: str | Path, settings: Settings) -> None:
        """Follow ``path``, from which ``settings`` were read a moment ago."""
        self._path = Path(path)
        self._groups = {g.group: g for g in settings.groups}
        self._started = settings
        self.anew: Settings | None = None
        self._read = self._seen = self._stamp()
        self._faulty: tuple[str, ...] = ()  # what was said of the file as it is
        self._looks = 0  # since then

    def look(self) -> Mapping[str, Group]:
        """Return the groups whose settings have changed since the last look, by name; nothing while the file is as it was."""
        stamp = self._stamp()
        rests, self._seen = stamp == self._seen, stamp
        self._looks += 1
        again = bool(self._faulty) and self._looks >= _AGAIN_LOOKS
        if not rests or (stamp == self._read and not again):
            return {}
        self._read, self._looks = stamp, 0
        try:
            wanted = load(self._path)
        except SettingsError as e:
            for problem in e.problems if e.problems != self._faulty else ():
                log.error("%s: %s; the settings stay as they were", self._path, problem)  # noqa: TRY400  the stack says nothing
            self._faulty = e.problems
            return {}
        self._faulty = ()
        return self._taken(wanted)

    def _taken(self, wanted: Settings) -> Mapping[str, Group]:
        changed, outside = {}, [name for name in _differences(self._started, wanted) if name != "groups"]
        groups = {g.group: g for g in wanted.groups}
        anew = [f"groups: {name!r} is new" for name in groups.keys() - self._groups.keys()]
        anew += [f"groups: {name!r} is gone" for name in self._groups.keys() - groups.keys()]
        for name in sorted(groups.keys() & self._groups.keys()):
            now = self._groups[name]
            taken, kept = _merged(now, groups[name])
            anew += [f"groups.{name}.{path_of(setting)}" for setting in kept]
            if taken != now:
                log.info("%s: group %s goes on with %s", self._path, name, ", ".join(map(path_of, _differences(now, taken))))
                self._groups[name] = changed[name] = taken
        for what in sorted(outside):
            log.warning("%s: %s needs a restart of the job to hold", self._path, what)
        self._make_anew(wanted, sorted(anew))
        return changed

    def _make_anew(self, wanted: Settings, why: list[str]) -> None:
        """Ask for the job to be made anew with other groups, unless these need what is outside of them too."""
        if not why:
            self.anew = None  # what was wanted has been taken back meanwhile
            return
        try:
            fields = {name: getattr(self._started, name) for name in self._started.model_fields_set}
            self.anew = Settings.model_validate({**fields, "groups": wanted.groups})
        except ValidationError:
            for what in why:
                log.warning("%s: %s needs a restart of the job to hold", self._path, what)
            return
        for what in why:
            log.info("%s: %s: the job makes its query anew", self._path, what)

    def made_anew(self) -> Settings:
        """Return what the job is made anew with, and go on from there."""
        if self.anew is None:
            return self._started
        self._started, self.anew = self.anew, None
        self._groups = {g.group: g for g in self._started.groups}
        return self._started

    def _stamp(self) -> _Stamp | None:
        """Return what changes with the file; ``None`` while it is away, as between the two steps of being replaced."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_size, found.st_ino)


def _merged(now: Group, wanted: Group) -> tuple[Group, list[str]]:
    """Return a group's settings with everything new that needs no restart, and what does need one."""
    kept = [setting for setting in _differences(now, wanted) if setting in MADE_WITH]
    fields = {name: getattr(wanted, name) for name in wanted.model_fields_set - MADE_WITH}
    fields |= {name: getattr(now, name) for name in now.model_fields_set & MADE_WITH}
    try:
        return Group.model_validate(fields), kept
    except ValidationError:  # what is new makes sense only together with what needs a restart
        return now, _differences(now, wanted)


def _differences(now: Group | Settings, then: Group | Settings) -> list[str]:
    return [name for name in type(now).model_fields if getattr(now, name) != getattr(then, name)]
